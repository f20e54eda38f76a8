"""What users call: estimators that choose a solver, fit a model and keep its history."""

from tensorveil.completion.cp import CP
from tensorveil.completion.tucker import Tucker

__all__ = ["CP", "Tucker"]
