"""What leaves, and what must not: release folders, model cards and reports; diagnostics; results of open runs."""
