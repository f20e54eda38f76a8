"""What went wrong, and at which field of the page it is shown."""

from __future__ import annotations

import re
from typing import Any, Final

from tensorveil.desk.words import in_page_words
from tensorveil.errors import InputError, TensorveilError, list_notes
from tensorveil.privacy import BudgetExceededError, LedgerError

__all__ = ["FieldError", "describe_error"]

# A message names the parameter that it is about; here, by which field of the page that is asked for.
FIELDS: Final = {
    "accept_delta": "delta",
    "among": "delta",
    "bins": "lists",
    "bounds": "bounds",
    "delta": "delta",
    "duplicates": "duplicates",
    "entries": "entries",
    "epsilon": "epsilon",
    "folder": "output",
    "format": "file",
    "frame": "modes",
    "indices": "lists",
    "labels": "lists",
    "ledger": "ledger",
    "max_cells": "fill",
    "modes": "modes",
    "name": "ledger-name",
    "output": "output",
    "protect": "protect",
    "purpose": "purpose",
    "rank": "rank",
    "shape": "lists",
    "unit": "unit",
    "value": "modes",
}
# Or a message is about what it does not begin with.
PHRASES: Final = {"budget is for unit": "ledger", "needs public labels": "lists", "listed more than once": "duplicates"}
_FIRST = re.compile(r"^(?:the |this |column )?(\w+)\b")
_ANY = re.compile(r"\b(" + "|".join(FIELDS) + r")(?:=|: | must\b|,)")


class FieldError(InputError):
    """What was typed into a field breaks a rule."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def describe_error(error: BaseException) -> dict[str, Any]:
    """Return the message of an error, its field if there is one, and what was charged.

    The text of an error that is not ours may quote the data, so only its kind is told.
    """
    notes = list(list_notes(error))
    if isinstance(error, FieldError):
        return {"message": str(error), "field": error.field, "notes": notes}
    if isinstance(error, TensorveilError):
        return {"message": in_page_words(str(error)), "field": _find_field(error), "notes": notes}
    if isinstance(error, OSError) and error.strerror:
        return {"message": f"{error.strerror}.", "field": None, "notes": notes}
    kind = type(error).__name__
    return {"message": f"Unexpected {kind}. Try the same in the shell with --debug.", "field": None, "notes": notes}


def _find_field(error: TensorveilError) -> str | None:
    if isinstance(error, BudgetExceededError):
        return "epsilon"
    if isinstance(error, LedgerError):
        return "ledger"
    text = str(error)
    for phrase, field in PHRASES.items():
        if phrase in text:
            return field
    found = (_FIRST.match(text), _ANY.search(text))
    return next((FIELDS[match[1]] for match in found if match is not None and match[1] in FIELDS), None)
