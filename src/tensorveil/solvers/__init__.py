"""Solvers, one file each: sgd, als and bayes for any CP or Tucker model, others for matrices; task, loss, watch."""
