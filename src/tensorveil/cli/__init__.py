"""The `tensorveil` command: one file per verb."""
