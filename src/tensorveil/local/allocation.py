"""How entries share a tensor's budget, exactly: the parts of the entries that can differ never exceed it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.privacy.exact import exactly

Array = NDArray[Any]
SMALLEST = 1e-9  # of an entry's epsilon: below it, chances of 64 bits no longer distinguish answers


def entry_epsilons(epsilon: float, most: int, shares: Array | None) -> tuple[Fraction, ...]:
    """Share epsilon: one part for all entries (no shares), or one each, so that any ``most`` of them sum to epsilon.

    Parts are rounded down to multiples of 2**-80 of epsilon, which keeps the fractions small.
    """
    whole = exactly(epsilon)
    if shares is None:
        return (whole / most,)
    exact = [Fraction(float(share)) for share in shares]
    largest = sum(sorted(exact, reverse=True)[:most])
    parts = tuple(whole * Fraction((share * (1 << 80)) // largest, 1 << 80) for share in exact)
    if any(0 < part < SMALLEST for part in parts):
        raise InputError("weights leave some entries next to nothing. Use weights of at most 0.999999, or of 1.")
    return parts


def shares_of_weights(weights: ArrayLike, shape: Sequence[int]) -> Array:
    """Turn public weights in [0, 1], 1 for the most sensitive entries, into shares 1 - weight.

    Weights have the tensor's shape, or that of its leading modes (one weight per pixel for all colours).
    """
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != tuple(shape)[: given.ndim]:
        raise InputError(f"weights must have the shape {tuple(shape)}, or that of its first modes; got {given.shape}.")
    if not np.all((given >= 0) & (given <= 1)):
        raise InputError("weights must lie in [0, 1]; 1 means that an entry is not reported at all. Rescale them.")
    if np.all(given == 1):
        raise InputError("weights must leave something to report: not all of them may be 1.")
    trailing = (1,) * (len(shape) - given.ndim)
    full = np.broadcast_to(given.reshape(given.shape + trailing), shape)
    return 1 - full.reshape(-1)


def weights_of_regions(
    shape: Sequence[int],
    regions: Sequence[Sequence[int]],
    *,
    inside: float = 0.75,
    outside: float = 0.0,
    axes: tuple[int, int] = (0, 1),
) -> Array:
    """Return weights of an image that protect rectangles more than the rest, such as where a face or a plate stands.

    Regions must be public: the frame that a portrait is aligned to, the part of a road that a camera looks at. What a
    detector finds in the image that is to be protected is private, and its weights void the guarantee.

    Parameters
    ----------
    shape
        Of the image, colours included; the weights have this shape.
    regions
        Rectangles (top, left, bottom, right), the last two not included; they may overlap.
    inside, outside
        Weights in [0, 1]: an entry's epsilon is proportional to 1 - weight, and with weight 1 it is not reported.
    axes
        Which modes are height and width: (0, 1) for grey images and for colours last, (1, 2) for colours first.

    >>> weights_of_regions((3, 4), [(0, 1, 2, 3)]).tolist()
    [[0.0, 0.75, 0.75, 0.0], [0.0, 0.75, 0.75, 0.0], [0.0, 0.0, 0.0, 0.0]]
    >>> weights_of_regions((3, 32, 32), [(8, 8, 24, 24)], axes=(1, 2)).shape
    (3, 32, 32)
    """
    modes = range(len(shape))
    if len(axes) != 2 or not all(axis in modes for axis in axes) or axes[0] == axes[1]:
        raise InputError(f"axes must be two different modes of an image of shape {tuple(shape)}; got {axes}.")
    height, width = (int(shape[axis]) for axis in axes)
    if not (0 <= inside <= 1 and 0 <= outside <= 1):
        raise InputError(f"inside and outside must lie in [0, 1]; got {inside} and {outside}. Try inside=0.75.")
    flat = np.full((height, width), float(outside))
    for region in regions:
        top, left, bottom, right = (int(place) for place in region)
        if not (0 <= top < bottom <= height and 0 <= left < right <= width):
            raise InputError(
                f"regions must be (top, left, bottom, right) within {height} x {width}, not empty; got {tuple(region)}."
            )
        flat[top:bottom, left:right] = inside
    placed = np.expand_dims(flat if axes[0] < axes[1] else flat.T, tuple(mode for mode in modes if mode not in axes))
    out: Array = np.broadcast_to(placed, tuple(shape)).copy()
    return out


def weights_of_importance(importance: ArrayLike) -> Array:
    """Turn public importance v > 0 of entries' errors into weights whose shares are proportional to v^(1/3).

    For noise whose variance is proportional to 1 / epsilon^2, sum v_i / eps_i^2 under sum eps_i = epsilon is least
    where eps_i is proportional to v_i^(1/3) (Lagrange).
    """
    given = np.asarray(importance, dtype=np.float64)
    if given.size == 0 or not np.all((given >= 0) & np.isfinite(given)) or not np.any(given > 0):
        raise InputError("importance must be finite, at least 0, and not all 0. Try importance=1 for every entry.")
    roots = np.cbrt(given)
    out: Array = 1 - roots / roots.max()
    return out
