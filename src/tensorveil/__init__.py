"""tensorveil."""
