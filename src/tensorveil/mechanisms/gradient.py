"""Gradient perturbation: full-batch descent whose gradients get noise, for every factor and the core.

The gradient of a row is sum (prediction - x) h over its entries; given already private factors only sum x h depends on
the values, linearly, and one value touches one row of each mode. Every entry takes part once per pass (the batch is all
of them, so that one draw of noise serves as many entries as possible), and passes compose.
"""

from __future__ import annotations

import numpy as np

from tensorveil.mechanisms.data import Array, Form, Outcome, PrivateData
from tensorveil.mechanisms.design import core_design, predictions, public_start, row_design
from tensorveil.mechanisms.mean import private_mean, private_spread
from tensorveil.mechanisms.spend import Spend
from tensorveil.privacy import Part
from tensorveil.solvers.task import Solution

PROOFS = ("docs/guarantees.md#sums", "docs/guarantees.md#gradient", "docs/guarantees.md#post-processing")
PASSES = 12
_MEAN_SHARE, _SPREAD_SHARE, _RATE, _RIDGE = 0.02, 0.01, 0.7, 2.0


def run_gradient(data: PrivateData, form: Form, spend: Spend) -> Outcome:
    """Release factors (and core) after noisy gradient steps.

    Guarantee: ``spend``, unit value (docs/guarantees.md#gradient).
    """
    order = len(data.shape)
    steps = PASSES * (order + form.core)
    each = (1 - _MEAN_SHARE - _SPREAD_SHARE) / steps
    for_mean, for_spread, *rest = spend.split(_MEAN_SHARE, _SPREAD_SHARE, *[each] * steps)
    center = private_mean(data, for_mean)
    spread = private_spread(data, center, for_spread)
    parts: list[Part] = [
        for_mean.part("mean", "sum of the values"),
        for_spread.part("spread", "sum of squared deviations from the private mean"),
    ]
    core, factors = public_start(data, form)
    # Start with predictions of about half the data's spread.
    factors[0] = factors[0] * (0.5 * spread / np.sqrt(np.prod(form.ranks) if form.core else form.ranks[0]))
    turns = iter(rest)
    for sweep in range(PASSES):
        for mode in range(order):
            step = next(turns)
            factors[mode] = _row_step(data, core, factors, mode, center, step, form.threads)
            parts.append(step.part(f"gradient of factor {mode}, pass {sweep}", "sum of value times design per row"))
        if core is not None:
            step = next(turns)
            core = _core_step(data, core, factors, center, step, form.threads)
            parts.append(step.part(f"gradient of the core, pass {sweep}", "sum of value times design"))
    solution = Solution(factors=tuple(factors), core=core, offset=center, biases=None)
    return Outcome(solution=solution, parts=tuple(parts), proofs=PROOFS)


def _row_step(
    data: PrivateData,
    core: Array | None,
    factors: list[Array],
    mode: int,
    center: float,
    spend: Spend,
    threads: int | None,
) -> Array:
    """Move the rows of a mode against their noisy gradient, divided by an upper bound of the curvature."""
    column, size = data.columns[mode], data.shape[mode]
    design = row_design(data.columns, core, factors, mode)
    low, high = data.bounds[0] - center, data.bounds[1] - center
    noisy = spend.linear(design, data.values - center, low, high, column, size)
    fitted = predictions(data.columns, core, factors, threads)
    known = np.stack([np.bincount(column, fitted * h, minlength=size) for h in design.T], axis=1)
    curvature = np.bincount(column, np.sum(design**2, axis=1), minlength=size) + _RIDGE * np.mean(design**2)
    gradient = known - noisy.values
    moved: Array = factors[mode] - _RATE * gradient / curvature[:, None]
    return moved


def _core_step(
    data: PrivateData, core: Array, factors: list[Array], center: float, spend: Spend, threads: int | None
) -> Array:
    design = core_design(data.columns, factors)
    low, high = data.bounds[0] - center, data.bounds[1] - center
    everything = np.zeros(data.n_entries, dtype=np.int64)
    noisy = spend.linear(design, data.values - center, low, high, everything, 1)
    fitted = predictions(data.columns, core, factors, threads)
    gradient = design.T @ fitted - noisy.values[0]
    largest = float(np.linalg.eigvalsh(design.T @ design)[-1])
    moved: Array = core - _RATE * (gradient / max(largest, 1e-12)).reshape(core.shape)
    return moved
