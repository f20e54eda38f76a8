"""Everything that tensorveil raises on purpose.

    TensorveilError
    ├── InputError (also ValueError)                  a tensor, file or parameter breaks a rule
    │   └── DataNotFoundError                         a named dataset's file is not in the data folder
    ├── MissingDependencyError (also ImportError)     an optional package is not installed
    ├── NotFittedError (also ValueError, AttributeError)   a result was asked for before `fit`
    └── MemoryLimitError (also MemoryError)           the answer would not fit the stated limit

Messages name the parameter, the rule and the remedy. They never quote the data: no value, index,
label or count, because error messages travel further than data should.
"""

from __future__ import annotations

__all__ = [
    "DataNotFoundError",
    "InputError",
    "MemoryLimitError",
    "MissingDependencyError",
    "NotFittedError",
    "TensorveilError",
]


class TensorveilError(Exception):
    """Root of every error that tensorveil raises on purpose."""


class InputError(TensorveilError, ValueError):
    """A tensor, a file or a parameter breaks a rule."""


class DataNotFoundError(InputError):
    """A named dataset's file is not where it is expected."""


class MissingDependencyError(TensorveilError, ImportError):
    """An optional package is needed; the message holds the command that installs it."""


class NotFittedError(TensorveilError, ValueError, AttributeError):
    """A result was asked for before the estimator was fitted."""


class MemoryLimitError(TensorveilError, MemoryError):
    """The answer would not fit the memory limit that was stated."""
