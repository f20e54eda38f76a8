"""Priors of a mode's rows beyond one Gaussian for all: neighbours that are alike, rows that features speak of."""
