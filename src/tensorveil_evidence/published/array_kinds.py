"""Arrays in, arrays of the same kind out: numpy's, and torch's without importing torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError

Array = NDArray[Any]


def as_floats(x: Any) -> tuple[Array, Callable[[Array], Any]]:
    """Return the numbers as doubles, and what brings a result back to the kind, device and float type of x."""
    if type(x).__module__.partition(".")[0] == "torch":
        floating = x if x.is_floating_point() else x.double()
        values = np.asarray(x.detach().cpu().numpy(), dtype=np.float64)
        return _check_values(values), lambda result: floating.detach().new_tensor(result)
    given = np.asarray(x)
    if given.dtype.kind not in "biuf":
        raise InputError(f"x must hold numbers; got {given.dtype}.")
    kind = given.dtype if given.dtype.kind == "f" else np.dtype(np.float64)
    return _check_values(np.asarray(given, dtype=np.float64)), lambda result: result.astype(kind, copy=False)


def _check_values(values: Array) -> Array:
    if values.size == 0:
        raise InputError("x must hold at least one number; it is empty.")
    if not np.all(np.isfinite(values)):
        raise InputError("x must hold finite numbers. Replace NaN and infinities first.")
    return values


def mirror(noise: Array) -> Array:
    """Return noise that is the same at all orders of an index, so that a symmetric tensor stays symmetric."""
    if noise.ndim < 2 or len(set(noise.shape)) != 1:
        raise InputError(f"symmetric needs a tensor whose modes have one size; got shape {noise.shape}.")
    places = np.sort(np.indices(noise.shape).reshape(noise.ndim, -1), axis=0)
    out: Array = noise[tuple(places)].reshape(noise.shape)
    return out


def free_entries(shape: tuple[int, ...], symmetric: bool) -> int:
    """Return how many entries of a tensor can be chosen freely: all, or the sorted indices of a symmetric one."""
    import math

    return math.comb(shape[0] + len(shape) - 1, len(shape)) if symmetric else math.prod(shape)
