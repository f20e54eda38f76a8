"""Everything that tensorveil raises on purpose.

    TensorveilError
    ├── InputError (also ValueError)                  a tensor, file or parameter breaks a rule
    │   └── DataNotFoundError                         a named dataset's file is not in the data folder
    ├── MissingDependencyError (also ImportError)     an optional package is not installed
    ├── NotFittedError (also ValueError, AttributeError)   a result was asked for before `fit`
    └── MemoryLimitError (also MemoryError)           the answer would not fit the stated limit

Messages name the parameter, the rule and the remedy. They never quote the data: no value, index,
label or count, because error messages travel further than data should.

Whatever is raised after a ledger was charged carries the note `CHARGED`, whoever raised it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

__all__ = [
    "CHARGED",
    "DataNotFoundError",
    "InputError",
    "MemoryLimitError",
    "MissingDependencyError",
    "NotFittedError",
    "TensorveilError",
    "note_charges",
    "was_charged",
]

CHARGED: Final = "The ledger was charged for this run, and a charge is never taken back."


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


@contextlib.contextmanager
def note_charges(charged: Callable[[], bool]) -> Iterator[None]:
    """Note on any error that leaves the block, be it an interrupt, that the ledger was charged, if it was."""
    try:
        yield
    except BaseException as error:
        if charged() and not was_charged(error):
            error.add_note(CHARGED)
        raise


def was_charged(error: BaseException) -> bool:
    """Tell whether the ledger had been charged when an error, or the one that it was raised for, was raised."""
    cause: BaseException | None = error
    while cause is not None:
        if CHARGED in getattr(cause, "__notes__", ()):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
