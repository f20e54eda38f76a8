"""Whole jobs, callable from Python, a notebook or a scheduler: a frozen request in, a frozen result out."""
