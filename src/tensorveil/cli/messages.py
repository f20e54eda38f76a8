"""Remedies in the words of the shell: the library says rank=8, the command's user types --rank 8."""

from __future__ import annotations

import re

OPTIONS = {
    "basis": "--basis",
    "bounds": "--bounds",
    "baseline": "--baseline",
    "delta": "--delta",
    "duplicates": "--duplicates",
    "differ": "--differ",
    "epsilon": "--epsilon",
    "format": "--format",
    "ledger": "--ledger",
    "mechanism": "--mechanism",
    "method": "--method",
    "missing": "--missing",
    "modes": "--modes",
    "out_of_bounds": "--out-of-bounds",
    "outside": "--outside",
    "points": "--points",
    "radius": "--radius",
    "random_state": "--seed",
    "rank": "--rank",
    "regularization": "--regularization",
    "restarts": "--restarts",
    "solver": "--solver",
    "sweeps": "--sweeps",
    "threads": "--threads",
    "unit": "--unit",
    "validation_fraction": "--validation",
    "value": "--value",
    "variable": "--variable",
    "weights": "--weights",
}
SETTING = re.compile(
    rf"\b({'|'.join(OPTIONS)})=(\([^()]*\)|\[[^\[\]]*\]|'[^']*'|\"[^\"]*\"|-?\d+(?:\.\d+)?(?:e-?\d+)?)"
)


def in_shell_words(message: str) -> str:
    """Rewrite settings such as rank=8 or duplicates='mean' as options of the command."""
    message = message.replace("labels=False", "--indices")
    return SETTING.sub(lambda found: f"{OPTIONS[found[1]]} {_argument(found[1], found[2])}", message)


def _argument(name: str, setting: str) -> str:
    items = [item.strip().strip("'\"") for item in setting.strip("()[]").split(",")]
    return (" " if name == "bounds" else ",").join(items)
