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
LARGEST = 1e100  # of bounds and norms: squares and steps must neither overflow nor underflow


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
        "tensor", "tensor:differ=M" (at most M entries of an owner's tensor can differ) or "local-entry".
    bounds
        Declared range of the entries.
    radius
        Instead of bounds: the declared largest norm of a tensor (unit tensor only).
    delta
        0 admits pure mechanisms only.
    """

    shape: tuple[int, ...]
    epsilon: float
    unit: Unit
    bounds: tuple[float, float] | None = None
    radius: float | None = None
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", check_shape(self.shape))
        object.__setattr__(self, "unit", check_unit(self.unit, self.shape))
        if (self.bounds is None) == (self.radius is None):
            raise InputError("give either bounds of the entries or the radius of the tensors. Try bounds=(-1, 1).")
        if self.radius is not None and self.unit != Unit.tensor():
            raise InputError("radius goes with unit 'tensor' and without differ. Try bounds=(-1, 1).")
        probability("delta", self.delta)
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if self.radius is not None:
            object.__setattr__(self, "radius", check_radius(self.radius))


def check_shape(shape: Any) -> tuple[int, ...]:
    """Return the shape of one owner's tensor as integers; a whole number stands for a vector."""
    sizes = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if not sizes or any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1 for n in sizes):
        raise InputError(f"shape must hold sizes of at least 1; got {shape}. Try shape=(28, 28).")
    return tuple(int(n) for n in sizes)


def check_unit(unit: Unit | str, shape: tuple[int, ...]) -> Unit:
    """Return the unit, which must be a local one."""
    found = Unit.parse(unit)
    if found.kind not in UNITS:
        raise InputError(f"unit must be one of {', '.join(UNITS)}; got {str(found)!r}. Try unit='tensor'.")
    size = math.prod(shape)
    if found.differ is not None and found.differ > size:
        raise InputError(f"differ must be between 1 and the {size} entries of a tensor; got {found.differ}.")
    return found


def check_bounds(bounds: Any) -> tuple[float, float]:
    """Return a declared range as two floats."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise InputError("bounds must be two finite numbers, the lower one first. Try bounds=(0, 255).") from None
    if not (max(abs(low), abs(high)) <= LARGEST and high - low >= 1 / LARGEST):  # false for NaN
        raise InputError(f"bounds must be two finite numbers, the lower one first; got {bounds}. Try bounds=(0, 255).")
    return low, high


def check_radius(radius: Any) -> float:
    """Return a declared norm as a float."""
    found = positive("radius", radius)
    if not 1 / LARGEST <= found <= LARGEST:
        raise InputError(f"radius must be between {1 / LARGEST:g} and {LARGEST:g}; got {found:g}. Try radius=1.0.")
    return found
