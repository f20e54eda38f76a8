"""What is asked of a local mechanism, in public numbers alone, and the checks that all mechanisms share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.privacy import Unit
from tensorveil.privacy.exact import positive, probability

UNITS = ("tensor", "local entry")


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """What an owner declares before a mechanism is chosen; nothing here is read off the data.

    Parameters
    ----------
    shape
        Shape of one owner's tensor.
    epsilon
        The budget, for the unit.
    unit
        "tensor" or "local entry".
    bounds
        Declared range of the entries.
    radius
        Instead of bounds: the declared largest norm of a tensor (unit tensor only).
    delta
        0 admits pure mechanisms only.
    differ
        Unit tensor with bounds: at most this many entries of an owner's tensor can differ.
    outside
        "error" or "clip": what becomes of values outside of what was declared.
    """

    shape: tuple[int, ...]
    epsilon: float
    unit: Unit
    bounds: tuple[float, float] | None = None
    radius: float | None = None
    delta: float = 0.0
    differ: int | None = None
    outside: str = "error"

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", check_unit(self.unit))
        if (self.bounds is None) == (self.radius is None):
            raise InputError("give either bounds of the entries or the radius of the tensors. Try bounds=(-1, 1).")
        if self.radius is not None and (self.unit.kind != "tensor" or self.differ is not None):
            raise InputError("radius goes with unit 'tensor' and without differ. Try bounds=(-1, 1).")
        probability("delta", self.delta)
        object.__setattr__(self, "shape", check_shape(self.shape))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if self.radius is not None:
            object.__setattr__(self, "radius", positive("radius", self.radius))


def check_shape(shape: Any) -> tuple[int, ...]:
    """Return the shape of one owner's tensor as integers; a whole number stands for a vector."""
    sizes = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if not sizes or any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1 for n in sizes):
        raise InputError(f"shape must hold sizes of at least 1; got {shape}. Try shape=(28, 28).")
    return tuple(int(n) for n in sizes)


def check_unit(unit: Unit | str) -> Unit:
    """Return the unit, which must be a local one."""
    found = Unit.parse(unit)
    if found.kind not in UNITS:
        raise InputError(f"unit must be one of {', '.join(UNITS)}; got {str(found)!r}. Try unit='tensor'.")
    return found


def check_bounds(bounds: Any) -> tuple[float, float]:
    """Return a declared range as two floats."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise InputError("bounds must be two finite numbers, the lower one first. Try bounds=(0, 255).") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)):
        raise InputError(f"bounds must be two finite numbers, the lower one first; got {bounds}. Try bounds=(0, 255).")
    return low, high


def check_outside(outside: str) -> None:
    """Refuse an unknown policy for values outside of what was declared."""
    if outside not in ("error", "clip"):
        raise InputError(f"outside must be 'error' or 'clip'; got {outside!r}. Try outside='clip'.")
