"""Every mechanism by name: what users may ask for and what the planner chooses from.

The modules that `names.py` lists are imported, and each must describe the mechanism that the list promises.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from tensorveil.mechanisms.method import Expected, Method
from tensorveil.mechanisms.names import BY_UNIT

__all__ = ["COMPARED", "METHODS", "load_method"]

# Unit "slice" runs in rounds, which stand after this folder.
UNITS: Final = ("value", "entry")


def load_method(name: str, unit: str) -> Method:
    """Import the module of a mechanism and return its METHOD, which must agree with the list of names."""
    module = f"{__package__}.{name.replace('+', '_')}"
    found = getattr(import_module(module), "METHOD", None)
    if not isinstance(found, Method):
        raise TypeError(f"{module} must end with METHOD = Method(...): names.py lists it as the mechanism {name!r}.")
    if (found.name, found.unit) != (name, unit):
        raise TypeError(
            f"{module} describes {found.name!r} for unit {found.unit!r}, but names.py lists {name!r} for unit "
            f"{unit!r}. Change one of them."
        )
    return found


METHODS: Final[Mapping[str, Method]] = {name: load_method(name, unit) for unit in UNITS for name in BY_UNIT[unit]}
# What the planner compares: the predictions of all mechanisms that make one.
COMPARED: Final[Mapping[str, Expected]] = {
    name: method.expected for name, method in METHODS.items() if callable(method.expected)
}
