"""What leaves, and what must not: release folders, model cards, diagnostics, results of open runs."""
