"""What models predict at private entries: each prediction computed from its own indices alone, bit by bit.

Library routines for matrices round differently for different numbers of rows, so that one entry more could move the
last bits of all others (docs/guarantees.md#entry).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.design import make_entry_design
from tensorveil.solvers.task import Solution


def predict_alone(columns: Array, solution: Solution) -> Array:
    """Return what a model predicts at entries, without bounds."""
    factors = [np.asarray(factor, dtype=np.float64) for factor in solution.factors]
    total = solution.offset + _multiply_rows(columns, solution.core, factors)
    for bias, column in zip(solution.biases or (), columns, strict=False):
        total += bias[column]
    return total


def predict_within(solution: Solution, bounds: tuple[float, float], columns: Array) -> Array:
    """Return what a model predicts at entries, within bounds."""
    return np.asarray(np.clip(predict_alone(columns, solution), *bounds))


def components_at(columns: Array, factors: Sequence[Array]) -> Array:
    """Return the sum of components at entries."""
    return _multiply_rows(columns, None, list(factors))


def _multiply_rows(columns: Array, core: Array | None, factors: list[Array]) -> Array:
    design, rows = make_entry_design(columns, core, factors, 0), factors[0]
    total: Array = np.zeros(columns.shape[1])
    for component in range(design.shape[1]):
        total += design[:, component] * rows[columns[0], component]
    return total
