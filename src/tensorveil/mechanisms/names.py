"""The names of the mechanisms of private completion, by unit: data only, so that the command knows them at no cost."""

from __future__ import annotations

from typing import Final

BY_UNIT: Final[dict[str, tuple[str, ...]]] = {
    "value": ("mean", "margins", "input", "margins+input", "output", "gradient"),
    "entry": ("gram",),
    "slice": ("biases", "factors"),
}
