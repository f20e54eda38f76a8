"""Solvers: sgd, als and bayes, one file each, for CP and Tucker of any order."""
