"""The verbs that the evidence adds to the command `tensorveil`."""
