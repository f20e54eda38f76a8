"""Gradient perturbation: full-batch descent whose gradients get noise, for every factor and the core.

The gradient of a row is sum (prediction - x) h over its entries; given already private factors only sum x h depends on
the values, linearly, and one value touches one row of each mode. Every entry takes part once per pass (the batch is all
of them, so that one draw of noise serves as many entries as possible), and passes compose.
"""

from __future__ import annotations

import numpy as np

from tensorveil.mechanisms.data import Array, Form, Outcome, PrivateData
from tensorveil.mechanisms.design import core_design, predictions, rebalanced, row_design, without_weak_components
from tensorveil.mechanisms.input import fit_input
from tensorveil.mechanisms.spend import Spend
from tensorveil.solvers.task import Solution

PROOFS = (
    "docs/guarantees.md#sums",
    "docs/guarantees.md#input",
    "docs/guarantees.md#gradient",
    "docs/guarantees.md#post-processing",
)
PASSES, START_SHARE = 8, 0.5
_CLIP, _RATE, _RIDGE = 2.5, 0.7, 2.0
# Designs have unit mean square, unless a solver has switched a core off: then its square may be the smallest of floats.
_NOTHING = 1e-100


def run_gradient(data: PrivateData, form: Form, spend: Spend) -> Outcome:
    """Release factors (and core) after noisy gradient steps.

    Guarantee: ``spend``, unit value (docs/guarantees.md#gradient).
    """
    order = len(data.shape)
    steps = PASSES * (order + form.core)
    for_start, *rest = spend.split(START_SHARE, *[(1 - START_SHARE) / steps] * steps)
    start = fit_input(data, form, for_start)
    residual, limit = start.residuals(data, _CLIP)
    core, parts = start.solution.core, list(start.parts)
    factors = without_weak_components(core, start.solution.factors)
    turns = iter(rest)
    for sweep in range(PASSES):
        for mode in range(order):
            step = next(turns)
            core, factors = rebalanced(core, factors, mode)
            factors[mode] = _row_step(data, core, factors, mode, residual, limit, step, form.threads)
            parts.append(step.part(f"gradient of factor {mode}, pass {sweep}", "sum of value times design per row"))
        if core is not None:
            step = next(turns)
            core, factors = rebalanced(core, factors, None)
            assert core is not None
            core = _core_step(data, core, factors, residual, limit, step, form.threads)
            parts.append(step.part(f"gradient of the core, pass {sweep}", "sum of value times design"))
    solution = Solution(factors=tuple(factors), core=core, offset=start.center, biases=None)
    return Outcome(solution=solution, parts=tuple(parts), proofs=PROOFS)


def _row_step(
    data: PrivateData,
    core: Array | None,
    factors: list[Array],
    mode: int,
    residual: Array,
    limit: float,
    spend: Spend,
    threads: int | None,
) -> Array:
    """Move the rows of a mode against their noisy gradient, divided by an upper bound of the curvature."""
    column, size = data.columns[mode], data.shape[mode]
    design = row_design(data.columns, core, factors, mode)
    noisy = spend.linear(design, residual, -limit, limit, column, size)
    fitted = predictions(data.columns, core, factors, threads)
    known = np.stack([np.bincount(column, fitted * h, minlength=size) for h in design.T], axis=1)
    curvature = np.bincount(column, np.sum(design**2, axis=1), minlength=size) + _RIDGE * np.mean(design**2)
    gradient = known - noisy.values
    # Without any design (all components switched off) there is nothing to move along.
    moved: Array = factors[mode] - _RATE * gradient / np.where(curvature > _NOTHING, curvature, np.inf)[:, None]
    # Rows that would predict more than twice the limit are noise; cut back, they cannot run away.
    reach = np.sqrt(np.sum(moved**2, axis=1) * np.mean(np.sum(design**2, axis=1)))
    cut: Array = moved / np.maximum(reach / (2 * limit), 1.0)[:, None]
    return cut


def _core_step(
    data: PrivateData,
    core: Array,
    factors: list[Array],
    residual: Array,
    limit: float,
    spend: Spend,
    threads: int | None,
) -> Array:
    design = core_design(data.columns, factors)
    everything = np.zeros(data.n_entries, dtype=np.int64)
    noisy = spend.linear(design, residual, -limit, limit, everything, 1)
    fitted = predictions(data.columns, core, factors, threads)
    gradient = design.T @ fitted - noisy.values[0]
    largest = float(np.linalg.eigvalsh(design.T @ design)[-1])
    moved: Array = core - _RATE * (gradient / (largest if largest > _NOTHING else np.inf)).reshape(core.shape)
    reach = float(np.sqrt(np.sum(moved**2) * np.mean(np.sum(design**2, axis=1))))
    return moved / max(reach / (2 * limit), 1.0)
