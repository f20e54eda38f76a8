"""Plain data that notice a change: a digest of all other facts among them. It finds accidents, not a forger."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tensorveil.errors import InputError

__all__ = ["check_seal", "seal"]

DIGEST = "digest"


def seal(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts with a digest of them, which replaces an earlier one.

    >>> sealed = seal({"epsilon": 1.0})
    >>> check_seal(sealed)
    >>> check_seal(sealed | {"epsilon": 0.1})
    Traceback (most recent call last):
        ...
    tensorveil.errors.InputError: the text was changed after it was written. Get the original again.
    """
    bare = {name: fact for name, fact in facts.items() if name != DIGEST}
    return {**bare, DIGEST: _digest(bare)}


def check_seal(facts: Mapping[str, Any]) -> None:
    """Refuse facts that no longer have their digest; facts without one are let through, for the caller to judge."""
    if DIGEST in facts and seal(facts)[DIGEST] != facts[DIGEST]:
        raise InputError("the text was changed after it was written. Get the original again.")


def _digest(facts: Mapping[str, Any]) -> str:
    # Sorted and without spaces, so that the layout of a file does not matter.
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
