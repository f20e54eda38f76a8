"""Which cells were observed, as features of rows: that somebody watched a film tells of both, whatever the rating.

For a mode, every index has a line of ones and zeros for each other mode: with which of its indices it was observed at
all. A line is divided by the square root of how many ones it has (Koren, 2008, SVD++), and the leading directions of
all lines are features like any others (solvers/priors/side.py). So a row's prior mean is a linear map of what was
observed in its slice; SVD++ has the same map without the cut to leading directions. An index that was never observed
counts as the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.checks import is_text

Array = NDArray[Any]

# How many directions are features, at most, and how many indices each needs. Those that say nothing are switched off.
DIRECTIONS: Final = 30
_INDICES: Final = 20
_LEAST = 1e-6  # of the strongest direction: the rest is rounding


def read_implicit(implicit: Any, tensor: ObservedTensor) -> tuple[int, ...]:
    """Return the modes whose rows know which cells were observed."""
    if implicit is None or implicit is False:
        return ()
    if implicit is True:
        return tuple(range(tensor.order))
    if is_text(implicit) or not isinstance(implicit, Sequence) or not implicit:
        raise InputError('implicit must be True, for all modes, or a list of modes. Try implicit=["user", "film"].')
    modes = tuple(tensor.axis(mode) for mode in implicit)
    if len(set(modes)) < len(modes):
        raise InputError("implicit names a mode twice. Name it once.")
    return modes


def find_patterns(columns: Array, shape: tuple[int, ...], mode: int) -> Array:
    """Return features (size, directions) of a mode's indices, from where entries are."""
    from scipy.sparse import csr_matrix, diags, hstack
    from scipy.sparse.linalg import svds

    parts = []
    for other, size in enumerate(shape):
        if other != mode:
            pairs = np.unique(columns[mode].astype(np.int64) * size + columns[other])
            ones = np.ones(len(pairs))
            parts.append(csr_matrix((ones, (pairs // size, pairs % size)), shape=(shape[mode], size)))
    lines = hstack(parts, format="csr")
    counts = np.asarray(lines.sum(axis=1)).ravel()
    seen = counts > 0
    lines = diags(1.0 / np.sqrt(np.maximum(counts, 1.0))) @ lines
    wanted = min(DIRECTIONS, shape[mode] // _INDICES, min(lines.shape) - 1)
    if wanted < 1:
        return np.empty((shape[mode], 0))
    start = np.random.default_rng(0).standard_normal(min(lines.shape))
    left, strengths, _ = svds(lines, wanted, v0=start)
    features = (left * strengths)[:, ::-1]
    features = np.where(seen[:, None], features - features[seen].mean(axis=0), 0.0)
    # The sign of a direction is nothing but the eigensolver's choice.
    features *= np.sign(features[np.argmax(np.abs(features), axis=0), np.arange(wanted)] + 1e-300)
    spread = np.sqrt(np.mean(features**2, axis=0))
    told = spread > _LEAST * max(float(spread.max()), 1e-300)
    out: Array = np.ascontiguousarray(features[:, told] / spread[told])
    return out
