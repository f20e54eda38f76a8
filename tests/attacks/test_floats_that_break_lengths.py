"""Lengths that underflow and bounds that floats cannot tell apart: printed epsilon 1, lost 3.7 million."""

from typing import Any

import numpy as np
import pytest

import tensorveil as tv


@pytest.mark.parametrize("bounds", [(0.0, 1e-296), (0.0, 1e-299), (1.0, float(np.nextafter(1.0, 2.0)))])
@pytest.mark.parametrize("unit", ["value", "entry"])
def test_bounds_without_room_are_refused(unit: str, bounds: Any) -> None:
    tensor = tv.ObservedTensor([[0, 0], [1, 1]], [bounds[0], bounds[1]], (2, 2))
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": unit, "bounds": bounds, "shape": (2, 2)}
    with pytest.raises(tv.InputError, match="bounds must be"):
        tv.PrivateCP(1, **promise).fit(tensor)


def test_a_refusal_does_not_depend_on_values() -> None:
    """Sums were checked for overflow by the largest value that there was."""
    cells = np.argwhere(np.ones((50, 100)))
    promise: dict[str, Any] = {"epsilon": 1e9, "delta": 0.0, "unit": "value", "bounds": (0, 1), "method": "mean"}
    for last in (0.5, 1.0):
        values = np.full(len(cells), 0.5)
        values[-1] = last
        tv.PrivateCP(1, **promise).fit(tv.ObservedTensor(cells, values, (50, 100)))
