"""Components that are never negative, from noisy joint counts of pairs of modes: post-processing.

A component has a weight and a share of every index of every mode, so what it adds to the table of two modes is its
weight times two shares. Tables are fitted together by multiplicative steps (Lee and Seung 2001), weighed by noise and
chance; noisy counts may be negative, and then pull expectations down. Steps find the nearest hollow only, and tables
are small: so there are many starts, half of them from rows that lie furthest apart (successive projections, Araujo et
al. 2001), and the likeliest end is kept. Components that noise could have made are dropped, and the others fitted anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["JointTable", "Patterns", "find_patterns", "refine_patterns", "share_out"]

Array = NDArray[Any]

# Every start takes a few steps, the best of them more.
_STARTS, _FIRST_STEPS, _BEST, _STEPS = 16, 40, 3, 240
# Beyond so many cells in all, fewer starts: time goes with both.
_LARGE = 400_000
_TINY = 1e-12
# Of a user: steps that share out its entries.
_OWN_STEPS = 15


@dataclass(frozen=True, kw_only=True)
class JointTable:
    """Noisy joint counts of two modes, the variance of the noise on each, and which cells were counted (1) or not (0).

    A mode's table with itself is symmetric, and its diagonal is not counted.
    """

    modes: tuple[int, int]
    counts: Array
    noise: float
    known: Array

    @classmethod
    def unpack(cls, numbers: Array, modes: tuple[int, int], sizes: tuple[int, int], noise: float) -> JointTable:
        """Return the table that a round's numbers stand for: rows one after the other, or a packed triangle."""
        known = np.ones(sizes)
        if modes[0] != modes[1]:
            return cls(modes=modes, counts=numbers.reshape(sizes), noise=noise, known=known)
        counts = np.zeros(sizes)
        counts[np.tril_indices(sizes[0])] = numbers
        known[np.diag_indices(sizes[0])] = 0.0
        # Every pair of different indices stands on both sides: half of what is known of it on each.
        return cls(modes=modes, counts=np.tril(counts, -1) + np.tril(counts, -1).T, noise=2.0 * noise, known=known)


@dataclass(frozen=True, kw_only=True)
class Patterns:
    """Weights of components, the largest first, and a matrix of shares per mode, whose columns add up to 1."""

    weights: Array
    factors: tuple[Array, ...]

    def table(self, modes: tuple[int, int]) -> Array:
        """Return the expected joint counts of two modes."""
        expected: Array = (self.factors[modes[0]] * self.weights) @ self.factors[modes[1]].T
        return expected


def find_patterns(tables: Sequence[JointTable], sizes: Sequence[int], rank: int, seed: int) -> Patterns:
    """Fit components to tables and return those that stand out of the noise, the strongest first; at least one."""
    rng = np.random.default_rng(seed)
    while True:
        found = _fit(tables, sizes, rank, rng)
        clear = np.flatnonzero(_stand_out(found, tables))
        if len(clear) == rank or rank == 1:
            break
        rank = max(len(clear), 1)
    order = np.argsort(-found.weights)
    return Patterns(weights=found.weights[order], factors=tuple(factor[:, order] for factor in found.factors))


def _stand_out(found: Patterns, tables: Sequence[JointTable]) -> Array:
    """Tell which components are larger than the largest that noise alone would show in a table."""
    clear = np.zeros(len(found.weights), dtype=bool)
    for table in tables:
        first, second = (found.factors[mode] for mode in table.modes)
        length = found.weights * np.linalg.norm(first, axis=0) * np.linalg.norm(second, axis=0)
        # The largest singular value of noise: its deviation times the sum of the roots of both sides.
        clear |= length > math.sqrt(table.noise) * (math.sqrt(len(first)) + math.sqrt(len(second)))
    return clear


def _fit(tables: Sequence[JointTable], sizes: Sequence[int], rank: int, rng: np.random.Generator) -> Patterns:
    """Return the likeliest components of many starts."""
    cells = sum(table.counts.size for table in tables)
    starts = max(_STARTS * _LARGE // max(cells, _LARGE), 4)
    low = [_approximate(table, rank) for table in tables]
    begun = [_start(tables, low, sizes, rank, start, rng) for start in range(starts)]
    tried = [_step(each, tables, _FIRST_STEPS) for each in begun]
    tried.sort(key=lambda each: -_judge(each, tables))
    return max((_step(each, tables, _STEPS) for each in tried[:_BEST]), key=lambda each: _judge(each, tables))


def _approximate(table: JointTable, rank: int) -> Array:
    """Return the nearest matrix of a rank: most of the noise is gone from it."""
    counts, wide = table.counts, table.counts.shape[0] <= table.counts.shape[1]
    gram = counts @ counts.T if wide else counts.T @ counts
    top = np.linalg.eigh(gram)[1][:, -rank:]
    return np.asarray(top @ (top.T @ counts) if wide else (counts @ top) @ top.T)


def _start(
    tables: Sequence[JointTable], low: Sequence[Array], sizes: Sequence[int], rank: int, start: int,
    rng: np.random.Generator,
) -> Patterns:  # fmt: skip
    """Return a start: random, or from the rows of a table that lie furthest apart."""
    factors = [rng.gamma(1.0, 1.0, (size, rank)) + 0.1 for size in sizes]
    total = max(max(float(table.counts.sum()) for table in tables), 1.0)
    if start % 2 == 0:
        at = start // 2 % len(tables)
        (one, other), rows = tables[at].modes, low[at]
        chosen = rows[_far_apart(rows, rank, rng if start else None)]
        chosen = np.maximum(chosen, 0.0) + 1e-3 * max(float(np.abs(rows).max()), _TINY)
        chosen = np.pad(chosen, ((0, rank - len(chosen)), (0, 0)), constant_values=1.0)
        factors[other] = chosen.T
        if one != other:
            weights = np.maximum(rows @ np.linalg.pinv(chosen), 0.0)
            factors[one] = weights + 1e-3 * max(float(weights.max()), _TINY)
    shares = tuple(factor / factor.sum(axis=0) for factor in factors)
    return Patterns(weights=np.full(rank, total / rank), factors=shares)


def _far_apart(rows: Array, rank: int, rng: np.random.Generator | None) -> Array:
    """Return rows each of which is far from the space of those before; with a little chance, if there is a source."""
    left, found = rows.copy(), []
    for _ in range(min(rank, len(rows))):
        lengths = np.einsum("ij,ij->i", left, left)
        lengths = lengths if rng is None else lengths * rng.uniform(0.3, 1.0, len(lengths))
        found.append(int(np.argmax(lengths)))
        axis = left[found[-1]] / max(float(np.linalg.norm(left[found[-1]])), _TINY)
        left -= np.outer(left @ axis, axis)
    return np.array(found)


def _step(start: Patterns, tables: Sequence[JointTable], steps: int) -> Patterns:
    """Take multiplicative steps, which never leave what is not negative."""
    weights, factors = start.weights, list(start.factors)
    for _ in range(steps):
        for mode in range(len(factors)):
            up, down = np.full(factors[mode].shape, _TINY), np.full(factors[mode].shape, _TINY)
            for table in tables:
                for side in (0, 1):
                    if table.modes[side] != mode:
                        continue
                    other = factors[table.modes[1 - side]] * weights
                    rise, fall = _pulls(Patterns(weights=weights, factors=tuple(factors)), table)
                    up += (rise if side == 0 else rise.T) @ other
                    down += (fall if side == 0 else fall.T) @ other
                    if table.modes[0] == table.modes[1]:  # symmetric: the other side is the same
                        break
            moved = np.maximum(factors[mode] * np.sqrt(up / down), _TINY)
            sums = moved.sum(axis=0)
            twice = any(table.modes == (mode, mode) for table in tables)
            factors[mode], weights = moved / sums, weights * (sums**2 if twice else sums)
    return Patterns(weights=weights, factors=tuple(factors))


def _pulls(found: Patterns, table: JointTable) -> tuple[Array, Array]:
    """Return what pulls expectations of a table up and down, weighed by noise and chance."""
    expected = found.table(table.modes)
    certain = table.known / (table.noise + expected)
    return np.maximum(table.counts, 0.0) * certain, (expected + np.maximum(-table.counts, 0.0)) * certain


def _judge(found: Patterns, tables: Sequence[JointTable]) -> float:
    """Return the logarithm of the likelihood of all tables."""
    total = 0.0
    for table in tables:
        expected = found.table(table.modes)
        spread = table.noise + expected
        total -= 0.5 * float(np.sum(table.known * ((table.counts - expected) ** 2 / spread + np.log(spread))))
    return total


def share_out(found: Patterns, columns: Array, values: Array, owners: Array, n_users: int) -> Array:
    """Return the values of entries, shared out among components (n, rank), by each owner's own mixture of these.

    A user's mixture is found by expectation maximisation (Poisson counts). Everything is computed entry by entry, and
    added in the order of the user's own entries: no other user makes a difference, to the last bit.
    """
    rank = len(found.weights)
    design = [found.factors[0][columns[0], k] for k in range(rank)]
    for factor, column in zip(found.factors[1:], columns[1:], strict=True):
        design = [each * factor[column, k] for k, each in enumerate(design)]
    design = [each + _TINY for each in design]  # an index that no component has is of all alike
    shares: list[Array] = []
    mixture = [np.full(n_users, weight) for weight in found.weights]
    for _ in range(_OWN_STEPS):
        shares = [each * own[owners] for each, own in zip(design, mixture, strict=True)]
        total = shares[0].copy()
        for share in shares[1:]:
            total += share
        shares = [share / total * values for share in shares]
        mixture = [np.bincount(owners, share, minlength=n_users) for share in shares]
    return np.stack(shares, axis=1)


def refine_patterns(found: Patterns, sums: Sequence[Array], deviation: float) -> Patterns:
    """Return components from noisy sums of what users have shared out, by mode; those without weight stay so."""
    alive = found.weights > 0
    certain = np.array([1.0 / len(each) for each in sums])
    weights = sum(each.sum(axis=0) * sure for each, sure in zip(sums, certain, strict=True)) / certain.sum()
    weights = np.where(alive, np.maximum(weights, deviation), 0.0)
    factors = []
    for each in sums:
        expected = _expect(each, deviation, np.maximum(weights, deviation) / len(each))
        factors.append(np.where(alive, expected / expected.sum(axis=0), 0.0))
    return Patterns(weights=weights, factors=tuple(factors))


def _expect(noisy: Array, deviation: float, usual: Array) -> Array:
    """Return positive numbers: means given noisy ones, if true ones are spread as an exponential law."""
    from scipy.special import erfcx

    centre = (noisy - deviation**2 / usual) / deviation
    hazard = math.sqrt(2 / math.pi) / erfcx(np.clip(-centre, -25.0, None) / math.sqrt(2))
    return np.asarray(np.maximum(deviation * (centre + hazard), _TINY))
