"""The noisy statistics that private completion is made of: whatever a `Spend` buys.

Statistics are sums by groups with noise of their own, so a small data set repeated in n groups gives n independent
draws in one call; but for products of pairs, which are one number for all groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.mechanisms.counts import private_sums
from tensorveil.mechanisms.shape import Shape
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tallies import private_tally
from tensorveil_evidence.subjects.subject import BlackBox, noisy_statistic, source

Array = NDArray[Any]
Draw = Callable[[Array, int, Spend], Array]

_LOW, _HIGH = -1.0, 3.0
# Designs of three entries of one row; the first is the longest.
_WEIGHTS = np.array([[0.9, -0.4, 0.3], [0.2, 0.5, 0.1], [-0.3, 0.3, 0.6]])

# A shape of residuals, from which an interval follows.
_EDGES, _MASSES = np.array([-2.0, 0.0, 4.0]), np.array([0.5, 0.5])


def statistic_subjects() -> Iterator[BlackBox]:
    """Yield every statistic with Laplace (or norm-shaped) and with Gaussian noise."""
    values = np.array([_LOW, 0.5, 2.0])
    changed = np.array([_HIGH, 0.5, 2.0])
    entry = np.array([[0.6, 0.0, 0.8, 1.0]]), np.zeros((0, 4))  # a longest row, added or removed
    for claim in (Claim(epsilon=1.0), Claim(mu=1.0)):
        law = "laplace" if claim.mu is None else "gaussian"
        yield _subject(f"statistic/sums, {law}", "value", claim, (values, changed), _sums)
        yield _subject(f"statistic/linear, {law}", "value", claim, (values, changed), _linear)
        yield _subject(f"statistic/values, {law}", "value", claim, (values, changed), _values)
        yield _subject(f"statistic/flags, {law}", "value", claim, (values, changed), _flags)
        yield _subject(f"statistic/counts, {law}", "value", claim, (values, changed), _counts)
        yield _subject(f"statistic/pair products, {law}", "value", claim, (values, changed), _pair_products)
        yield _subject(f"statistic/bounded rows, {law}", "entry", claim, entry, _bounded_rows)
        yield _subject(f"statistic/entry products, {law}", "entry", claim, (values, values[1:]), _entry_products)
        yield _subject(f"statistic/tallies, {law}", "entry", claim, (values, values[1:]), _tallies)
        yield _subject(f"statistic/sums of cells, {law}", "entry", claim, (changed, changed[1:]), _cell_sums)


def _subject(name: str, unit: str, claim: Claim, pair: tuple[Array, Array], draw: Draw) -> BlackBox:
    def mechanism(data: Array, rng: np.random.Generator, n: int) -> Array:
        return draw(data, n, Spend(source=source(rng), epsilon=claim.epsilon, mu=claim.mu))

    return noisy_statistic(name, unit, claim, pair, mechanism)


def _groups(entries: int, n: int) -> Array:
    return np.repeat(np.arange(n), entries)


def _sums(values: Array, n: int, spend: Spend) -> Array:
    return spend.sums(np.tile(values, n), _LOW, _HIGH, _groups(len(values), n), n).values


def _linear(values: Array, n: int, spend: Spend) -> Array:
    weights, middle, half = np.tile(_WEIGHTS, (n, 1)), 0.5 * (_LOW + _HIGH), 0.5 * (_HIGH - _LOW)
    return spend.linear(weights, np.tile(values, n) - middle, half, _groups(len(values), n), n).values


def _values(values: Array, n: int, spend: Spend) -> Array:
    return spend.values(np.tile(values, n), (_LOW, _HIGH), 0.25)[0].values.reshape(n, -1)


def _flags(values: Array, n: int, spend: Spend) -> Array:
    return spend.values(np.tile(values, n), (_LOW, _HIGH), flags=True)[0].values.reshape(n, -1)


def _counts(values: Array, n: int, spend: Spend) -> Array:
    bins = (np.tile(values, n) > 0.0).astype(np.int64) + 2 * _groups(len(values), n)
    return spend.counts(bins, 2 * n).values.reshape(n, 2)


def _pair_products(values: Array, n: int, spend: Spend) -> Array:
    # The first value, at either bound, meets another at a bound; the third is alone in its group.
    residual, groups, counts = values[[0, 0, 2]] - 1.0, np.array([0, 0, 1]), np.array([2, 1])
    residual[1] = _HIGH - 1.0
    return np.array([replace(spend).pair_products(residual, 2.0, groups, counts).values for _ in range(n)])


def _entry_products(values: Array, n: int, spend: Spend) -> Array:
    # All entries are in one group and at the upper bound, but for the one that comes or goes, which is at the other.
    residual = np.where(values == _LOW, -2.0, 2.0)
    groups = np.zeros(len(residual), dtype=np.int64)
    return np.array([replace(spend).entry_products(residual, 2.0, groups, 1).values for _ in range(n)])


def _tallies(values: Array, n: int, spend: Spend) -> Array:
    # One table of n cells, each with the same entries: counts and sums of a cell are one draw.
    columns, interval = _groups(len(values), n)[None, :], Shape(edges=_EDGES, masses=_MASSES).interval(_LOW, _HIGH)
    tally = private_tally(columns, (n,), (0,), np.tile(values, n), interval, spend)
    return np.stack([tally.counts, tally.sums], axis=1)


def _cell_sums(values: Array, n: int, spend: Spend) -> Array:
    # One table of n cells, each with the same entries, one of them at the limit.
    columns = _groups(len(values), n)[None, :]
    return private_sums(columns, (n,), (0,), np.tile(values, n), _HIGH, spend).sums[:, None]


def _bounded_rows(rows: Array, n: int, spend: Spend) -> Array:
    # Rows of the mean and of Gram matrices have length at most sqrt(2).
    tiled = np.tile(rows, (n, 1))
    return spend.bounded_rows(tiled, _groups(len(rows), n), n, longest=float(np.sqrt(2.0))).values
