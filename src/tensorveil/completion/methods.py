"""Every method of private completion by name, whatever its unit: the mechanisms, and the recipes of rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tensorveil.completion.job import Described
from tensorveil.completion.records import RECORDS
from tensorveil.completion.slices import ROUNDS
from tensorveil.errors import InputError
from tensorveil.mechanisms import catalogue
from tensorveil.mechanisms.names import BY_UNIT

__all__ = ["METHODS", "check_method"]

METHODS: Final[Mapping[str, Described]] = {**catalogue.METHODS, **ROUNDS, RECORDS.name: RECORDS}

_LISTED = {name: unit for unit, names in BY_UNIT.items() for name in names}
if {name: method.unit for name, method in METHODS.items()} != _LISTED:
    raise TypeError("mechanisms/names.py and the methods that there are disagree. Add what is missing to either.")


def check_method(method: Any, unit: str) -> None:
    """Require "auto" or the name of a method that protects this unit."""
    names = ("auto", *BY_UNIT[unit])
    if method not in names:
        words = ", ".join(f'"{name}"' for name in names)
        other = f', which is for unit "{METHODS[method].unit}"' if method in _LISTED else ""
        raise InputError(f'method must be one of {words} for unit "{unit}"; got {method!r}{other}.')
