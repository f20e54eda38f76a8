"""Everything that tensorveil raises on purpose.

    TensorveilError
    ├── InputError (also ValueError)                  a tensor, file or parameter breaks a rule
    │   ├── DataNotFoundError                         a named dataset's file is not in the data folder
    │   └── FileTooLargeError (also MemoryLimitError)      a file's contents would not fit into memory
    ├── MissingDependencyError (also ImportError)     an optional package is not installed
    ├── NotFittedError (also ValueError, AttributeError)   a result was asked for before `fit`
    └── MemoryLimitError (also MemoryError)           the answer would not fit the stated limit

    NoLedgerWarning (a UserWarning)                   a private fit that nobody counts
    GuessWarning (a UserWarning)                      how a file is written was guessed
    ChangedWarning (a UserWarning)                    entries were held to bounds, or merged, before they counted
    LeftOutWarning (a UserWarning)                    entries that a model has no place for were left out
    LowerRankWarning (a UserWarning)                  less than the rank that was asked for will be released

Messages name the parameter, the rule and the remedy. They never quote the data: no value, index,
label or count, because error messages travel further than data should.

Whatever is raised after a ledger was charged carries a note that begins with `CHARGED` and says what was charged,
whoever raised it; whatever is raised after a release was written, a note that begins with `STANDS`.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

__all__ = [
    "CHARGED",
    "STANDS",
    "ChangedWarning",
    "DataNotFoundError",
    "FileTooLargeError",
    "GuessWarning",
    "InputError",
    "LeftOutWarning",
    "LowerRankWarning",
    "MemoryLimitError",
    "MissingDependencyError",
    "NoLedgerWarning",
    "NotFittedError",
    "TensorveilError",
    "list_notes",
    "note_charges",
    "note_errors",
    "warn",
    "was_charged",
]

CHARGED: Final = "The ledger was charged for this run, and a charge is never taken back."
STANDS: Final = "The release was written, and stands at"


class TensorveilError(Exception):
    """Root of every error that tensorveil raises on purpose."""


class InputError(TensorveilError, ValueError):
    """A tensor, a file or a parameter breaks a rule.

    ``flaw`` says of what kind, where single rows can be at fault, so that whoever read a file openly can tell the line.
    """

    flaw: str | None = None
    bounds: tuple[float, float] | None = None

    def of(self, flaw: str, bounds: tuple[float, float] | None = None) -> InputError:
        """Return this error, of a kind; ``bounds`` are those that rows break."""
        self.flaw, self.bounds = flaw, bounds
        return self


class DataNotFoundError(InputError):
    """A named dataset's file is not where it is expected."""


class MissingDependencyError(TensorveilError, ImportError):
    """An optional package is needed; the message holds the command that installs it."""


class NotFittedError(TensorveilError, ValueError, AttributeError):
    """A result was asked for before the estimator was fitted."""


class MemoryLimitError(TensorveilError, MemoryError):
    """The answer would not fit the memory limit that was stated."""


class NoLedgerWarning(UserWarning):
    """A private fit, or a copy for many fits, that no ledger counts.

    >>> import warnings
    >>> import tensorveil as tv
    >>> warnings.simplefilter("ignore", tv.NoLedgerWarning)  # for those who keep count themselves
    """


class GuessWarning(UserWarning):
    """How a file is written was guessed from what stands in it, and the guess may be wrong."""


class LeftOutWarning(UserWarning):
    """Some of the entries that somebody gave to a released or saved model have no place in it, and were left out."""


class ChangedWarning(UserWarning):
    """Some of the entries that somebody brought to a model count otherwise: beyond its bounds, or merged."""


class LowerRankWarning(UserWarning):
    """Less than the rank that was asked for will be released, since noise would drown it: said before the charge."""


class FileTooLargeError(InputError, MemoryLimitError):
    """A file declares contents that would not fit the memory limit."""


def warn(warning: str | Warning, category: type[Warning] | None = None) -> None:
    """Warn at the first line that is not ours."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tensorveil":
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, category, stacklevel=level)


@contextlib.contextmanager
def note_errors(tell: Callable[[], str | None]) -> Iterator[None]:
    """Add what ``tell`` says, if anything, to any error that leaves the block, be it an interrupt; once."""
    try:
        yield
    except BaseException as error:
        note = tell()
        if note is not None and note not in list_notes(error):
            error.add_note(note)
        raise


def note_charges(charged: Callable[[], str | None]) -> AbstractContextManager[None]:
    """Note on any error that leaves the block that the ledger was charged; ``charged`` says what for, or None."""

    def tell() -> str | None:
        what = charged()
        return None if what is None else f"{CHARGED} {what}".rstrip()

    return note_errors(tell)


def list_notes(error: BaseException) -> tuple[str, ...]:
    """Return the notes of an error and of those that it was raised for: what was charged, and what stands."""
    found: dict[str, None] = {}
    cause: BaseException | None = error
    while cause is not None:
        ours = [note for note in getattr(cause, "__notes__", ()) if note.startswith((CHARGED, STANDS))]
        found |= dict.fromkeys(ours)
        cause = cause.__cause__ or cause.__context__
    return tuple(found)


def was_charged(error: BaseException) -> bool:
    """Tell whether the ledger had been charged when an error, or the one that it was raised for, was raised."""
    return any(note.startswith(CHARGED) for note in list_notes(error))
