"""Outputs that reveal nothing one by one, but reveal the data by how they vary together.

The second moments of all pairs of outputs are compared, and those that differ most become scores. A thousand outputs
have half a million pairs, so they are compared in blocks, of which only the best pairs are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_REACH = 4.0  # outputs at unit scale are cut here, or the moments of heavy tails would be all chance
_PAIRS = 3  # pairs that are examined, for their products and for their sizes
_MOST_FOR_TRIPLES, _DRAWS_FOR_TRIPLES = 48, 4096
_ROWS = 256  # outputs whose pairs with all others are compared at a time


def choose_pairs(a: Array, b: Array) -> list[tuple[int, int]]:
    """Return pairs of outputs (i < j) whose products differ most in the mean, and pairs whose sizes do so.

    ``a`` and ``b`` are outputs of the neighbours at unit scale. Two outputs that have the same size and independent
    signs are not correlated; their sizes are.
    """
    found = _compare_products(a, b)
    return found + [pair for pair in _compare_products(np.abs(a), np.abs(b)) if pair not in found]


def _compare_products(a: Array, b: Array) -> list[tuple[int, int]]:
    a, b = _centre(a, b)
    power = np.sqrt((np.square(a).sum(axis=0) + np.square(b).sum(axis=0)) / (len(a) + len(b)))
    scale = 1.0 / np.maximum(power, 1e-6)
    # Single precision is enough to tell which pairs differ most.
    a, b = (a * scale).astype(np.float32), (b * scale).astype(np.float32)
    found: list[tuple[float, int, int]] = []
    for start in range(0, a.shape[1], _ROWS):
        rows = slice(start, start + _ROWS)
        gap = np.triu(np.abs(a[:, rows].T @ a[:, start:] / len(a) - b[:, rows].T @ b[:, start:] / len(b)), 1)
        best = np.argpartition(gap, max(gap.size - _PAIRS, 0), axis=None)[-_PAIRS:]
        for i, j in zip(*np.unravel_index(best, gap.shape), strict=True):
            found.append((float(gap[i, j]), start + int(i), start + int(j)))
    found.sort(key=lambda each: (-each[0], each[1:]))
    return [(i, j) for size, i, j in found[:_PAIRS] if size > 0]


def choose_triples(a: Array, b: Array) -> list[tuple[int, int, int]]:
    """Return triples of outputs whose products of signs differ most, which no two of them need to show.

    Of more than 48 outputs none: there would be too many triples.
    """
    width = a.shape[1]
    if not 3 <= width <= _MOST_FOR_TRIPLES:
        return []
    signs = [np.where(sample[:_DRAWS_FOR_TRIPLES] > 0, 1.0, -1.0).astype(np.float32) for sample in (a, b)]
    found: list[tuple[float, int, int, int]] = []
    for i in range(width - 2):
        one, other = ((s[:, i + 1 :].T * s[:, i]) @ s[:, i + 1 :] / len(s) for s in signs)
        gap = np.triu(np.abs(one - other), 1)
        j, k = np.unravel_index(int(np.argmax(gap)), gap.shape)
        found.append((float(gap[j, k]), i, i + 1 + int(j), i + 1 + int(k)))
    found.sort(key=lambda each: (-each[0], each[1:]))
    return [(i, j, k) for size, i, j, k in found[:_PAIRS] if size > 0]


def find_directions(a: Array, b: Array, steps: int = 12) -> Array:
    """Return two directions (d, 2) in which the spread of one sample differs most from that of the other.

    By power iteration on the difference of the second moments, which is never written out.
    """
    a, b = _centre(a, b)
    found = np.random.default_rng(0).normal(size=(a.shape[1], 2))
    for _ in range(steps):
        found = a.T @ (a @ found) / len(a) - b.T @ (b @ found) / len(b)
        size = float(np.abs(found).max())
        if size == 0.0:
            return found
        found, _ = np.linalg.qr(found / size)
    return found


def make_pair_columns(pairs: list[tuple[int, int]]) -> Callable[[Array], Array]:
    """Return what gives, for outputs at unit scale, the product, the difference and the sum of each pair."""
    one, other = (np.array(side) for side in zip(*pairs, strict=True))

    def columns(y: Array) -> Array:
        left, right = y[:, one], y[:, other]
        return np.concatenate([left * right, left - right, left + right], axis=1)

    return columns


def _centre(a: Array, b: Array) -> Iterator[Array]:
    """Yield both samples with their tails cut, around the mean of both."""
    a, b = np.clip(a, -_REACH, _REACH), np.clip(b, -_REACH, _REACH)
    middle = 0.5 * (a.mean(axis=0) + b.mean(axis=0))
    yield a - middle
    yield b - middle
