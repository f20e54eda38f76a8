"""Output perturbation: alternating least squares whose solutions get noise, row by row.

With the other factors already private, a ridge solution is linear in its row's values, so its sensitivity is known
exactly: (high - low) * max |(H'H + lambda)^-1 h| over the row's entries. Rows are disjoint: one value touches one row
of a mode. Every factor (and the core) is perturbed; the budget is split over all steps. Noisy rows are then shrunk by
their known noise, which is post-processing. Values are clipped to a few private spreads around a private mean,
which is much narrower than the declared bounds. The start is a fit to perturbed values, for half of the budget: from a
random start, alternating solutions find the directions only after many sweeps, each of which would cost.
"""

from __future__ import annotations

import numpy as np

from tensorveil.mechanisms.data import Array, Form, Outcome, PrivateData
from tensorveil.mechanisms.design import core_design, rebalanced, row_design, without_weak_components
from tensorveil.mechanisms.input import fit_input
from tensorveil.mechanisms.spend import Spend
from tensorveil.solvers.task import Solution

PROOFS = (
    "docs/guarantees.md#sums",
    "docs/guarantees.md#input",
    "docs/guarantees.md#output",
    "docs/guarantees.md#post-processing",
)
SWEEPS, START_SHARE = 2, 0.5
_CLIP, _RIDGE = 2.5, 2.0


def run_output(data: PrivateData, form: Form, spend: Spend) -> Outcome:
    """Release factors (and core) from noisy row solutions.

    Guarantee: ``spend``, unit value (docs/guarantees.md#output).
    """
    order = len(data.shape)
    steps = SWEEPS * (order + form.core)
    for_start, *rest = spend.split(START_SHARE, *[(1 - START_SHARE) / steps] * steps)
    start = fit_input(data, form, for_start)
    residual, limit = start.residuals(data, _CLIP)
    core, parts = start.solution.core, list(start.parts)
    factors = without_weak_components(core, start.solution.factors)
    turns = iter(rest)
    for sweep in range(SWEEPS):
        for mode in range(order):
            step = next(turns)
            core, factors = rebalanced(core, factors, mode)
            design = row_design(data.columns, core, factors, mode)
            factors[mode] = _rows(data, design, mode, residual, limit, step)
            parts.append(step.part(f"factor {mode}, sweep {sweep}", "ridge solution of every row"))
        if core is not None:
            step = next(turns)
            core, factors = rebalanced(core, factors, None)
            core = _core(data, factors, residual, limit, step).reshape(form.ranks)
            parts.append(step.part(f"core, sweep {sweep}", "ridge solution of the core"))
    solution = Solution(factors=tuple(factors), core=core, offset=start.center, biases=None)
    return Outcome(solution=solution, parts=tuple(parts), proofs=PROOFS)


def _rows(data: PrivateData, design: Array, mode: int, residual: Array, limit: float, spend: Spend) -> Array:
    """Return noisy ridge solutions of all rows of a mode, shrunk by their noise."""
    column, size, rank = data.columns[mode], data.shape[mode], design.shape[1]
    weights = np.empty_like(design)
    gram = _grams(design, column, size)
    # A tenth of the mean curvature on top keeps nearly parallel components from blowing up the sensitivity.
    ridge = _RIDGE + 0.1 * np.trace(gram, axis1=1, axis2=2) / rank
    gram += ridge[:, None, None] * np.eye(rank)
    inverse = np.linalg.inv(gram)
    for start in range(0, len(column), 1 << 18):
        part = slice(start, start + (1 << 18))
        weights[part] = np.matmul(inverse[column[part]], design[part][:, :, None])[:, :, 0]
    # Rows are scaled to the same sensitivity: the scale follows from positions and private factors alone.
    scale = np.zeros(size)
    np.maximum.at(scale, column, np.sqrt(np.sum(weights**2, axis=1)))
    scale[scale == 0] = 1.0
    noisy = spend.linear(weights / scale[column, None], residual, -limit, limit, column, size)
    return shrink(noisy.values * scale[:, None], noisy.variance * scale**2)


def _core(data: PrivateData, factors: list[Array], residual: Array, limit: float, spend: Spend) -> Array:
    """Return the noisy ridge solution of the whole core."""
    design = core_design(data.columns, factors)
    gram = design.T @ design + _RIDGE * np.eye(design.shape[1])
    weights = np.linalg.solve(gram, design.T).T
    everything = np.zeros(data.n_entries, dtype=np.int64)
    solved: Array = spend.linear(weights, residual, -limit, limit, everything, 1).values[0]
    return solved


def _grams(design: Array, column: Array, size: int) -> Array:
    """Return sum h h' per row."""
    rank = design.shape[1]
    gram = np.empty((size, rank, rank))
    for p in range(rank):
        for q in range(p + 1):
            gram[:, p, q] = gram[:, q, p] = np.bincount(column, design[:, p] * design[:, q], minlength=size)
    return gram


def shrink(rows: Array, variance: Array) -> Array:
    """Pull noisy rows towards their common distribution N(0, T), T estimated as second moment less noise."""
    rank = rows.shape[1]
    variance = np.maximum(variance, 1e-200)  # components that are off have hardly any
    weight = 1.0 / (variance + np.median(variance))
    second = (rows * weight[:, None]).T @ rows / weight.sum() - np.sum(weight * variance) / weight.sum() * np.eye(rank)
    values, vectors = np.linalg.eigh(second)
    values = np.maximum(values, 0.0)
    turned = rows @ vectors
    kept: Array = (turned * (values / (values + variance[:, None]))) @ vectors.T
    return kept
