"""What output and gradient perturbation share: a private start, and noisy sums of residual times design by row.

Given a private model, the residual x - prediction is clipped to a few private spreads; the design h of every entry
follows from positions and private factors. The sums of w h (x - prediction) over a row's entries, with weights w that
limit |w h|, are all that later steps need from the data: linear in the values, one row of a mode per value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.data import Array, Form, Outcome
from tensorveil.mechanisms.deferred import Deferred, beside, each, put_together
from tensorveil.mechanisms.design import (
    drop_weak_components,
    make_core_design,
    make_entry_design,
    predict_entries,
    rebalance,
)
from tensorveil.mechanisms.errors import errors_share, private_errors
from tensorveil.mechanisms.input import allow_for_loss, gain_of_input, predict_start_error
from tensorveil.mechanisms.shape import Interval, private_shape
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.stage_plan import VALUES
from tensorveil.mechanisms.stages import run_stages
from tensorveil.mechanisms.tradeoffs import (
    SIGNAL,
    TYPICAL_SQUARE,
    bending,
    best_spreads,
    clarity,
    clipped_noise,
    refinement_share,
    row_gain,
    shrinkage_error,
)
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateValues
from tensorveil.privacy.private import Private
from tensorveil.solvers.task import Solution

_SHAPE_SHARE = 0.02
# The design of the core has at most this many numbers; if it had more, the core stays as the start found it.
_LARGEST_DESIGN = 200_000_000
# Designs have unit mean square, unless a solver has switched everything off; then they can be as short as floats allow.
_NOTHING = 1e-60
# The share of the residuals' variance that steps are taken to be after.
_MOVES = 0.5
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
# A start that had less than the whole budget finds its components above this clarity; no later step finds those missed.
_CLEAR = 3.0
# Each mode is moved once, along directions of the others that have not moved yet: this much over the square root of the
# entries per row is the share of a start's error that stays. Measured on planted tensors, 130 to 3000 entries per row.
_STAYS = 5.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the steps aim at: a private prediction plus the clipped residual, whose values stay private."""

    known: Array
    residual: Private[Array | Deferred]
    limit: float
    slope: float
    variance: float


@dataclass(frozen=True, kw_only=True)
class RowSums:
    """Noisy sums b = G a + error per row, error with covariance ``variance * second + noise * I``."""

    right: Array
    gram: Array
    second: Array
    noise: float
    variance: float


RowStep = Callable[[Array, RowSums], Array]
Make = Callable[[Array], Array]  # of columns


def refine(data: PrivateValues, form: Form, spend: Spend, *, sweeps: int, step: RowStep, name: str) -> Outcome:
    """Fit a start to perturbed values, then make steps over every mode and the core with the rest of the budget.

    Guarantee: ``spend``, unit value (docs/guarantees.md#input, docs/guarantees.md#linear, docs/guarantees.md#errors).
    """
    last = errors_share(spend, data.n_entries)
    gain = gain_of_input(spend, data, form)
    share = refinement_share(
        gain, clarity(spend.noise_of_values(TYPICAL_SQUARE), data.n_entries, data.shape, form.ranks, gain)
    )
    move_core = form.core and data.n_entries * int(np.prod(form.ranks)) <= _LARGEST_DESIGN
    steps = sweeps * (len(data.shape) + move_core)
    for_start, for_shape, for_errors, *rest = spend.split(
        1 - share - _SHAPE_SHARE - last, _SHAPE_SHARE, last, *[share / steps] * steps
    )
    start = run_stages(data, form, for_start, [VALUES], measure_errors=False)
    target = _target(data, form, start.solution, for_shape, rest[0])
    parts = [*start.parts, for_shape.part("second shape", "histogram of the residuals from the start")]
    model = _Model.of(start.solution)
    turns = iter(rest)
    for sweep in range(sweeps):
        label = f"{name}, sweep {sweep}"
        model = _move_rows(data, model, target, step, turns, parts, label)
        if move_core:
            model = _move_core(data, model, target, step, next(turns), parts, label)
    solution = replace(start.solution, factors=tuple(model.factors), core=model.core, biases=model.biases)
    errors, part = private_errors(data, solution, form.threads, for_errors)
    return Outcome(solution=solution, parts=(*parts, part), errors=errors)


def predict_refined_error(case: Case, sweeps: int) -> float:
    """Predict the error after steps that follow a start from perturbed values."""
    share = refinement_share(case.input_gain, case.clarity)
    first = case.part(0.93 * (1 - share))
    start = predict_start_error(first)
    gain = case.part(share).row_gains(sweeps * (len(case.shape) + case.core))
    spreads = best_spreads(gain)
    left = 1 - SIGNAL + start  # variance of the residual from the start, to whose spread noise is scaled
    steps = left * clipped_noise(gain, spreads) + (1 - SIGNAL) * case.parameters / case.n_entries
    stays = _STAYS / math.sqrt(case.n_entries * len(case.shape) / sum(case.shape))
    error = shrinkage_error(start, steps) + min(stays, 1.0) * start + left * bending(spreads)
    return allow_for_loss(first, error, _CLEAR) + case.side_noise


@dataclass(frozen=True, kw_only=True)
class _Model:
    """What the steps move; the offset stays."""

    core: Array | None
    factors: list[Array]
    biases: tuple[Array, ...] | None

    @classmethod
    def of(cls, solution: Solution) -> _Model:
        factors = drop_weak_components(solution.core, solution.factors)
        return cls(core=solution.core, factors=factors, biases=solution.biases)

    def biases_at(self, columns: Array, but: int | None = None) -> Array | float:
        """Return the sum of the biases of all modes but one."""
        if self.biases is None:
            return 0.0
        pairs = zip(self.biases, columns, strict=True)
        total: Array | float = sum(bias[column] for mode, (bias, column) in enumerate(pairs) if mode != but)
        return total


def _target(data: PrivateValues, form: Form, start: Solution, for_shape: Spend, step: Spend) -> Target:
    values, know = data.values.reveal(), partial(_predict_start, start, 0.0)
    known = know(data.columns)
    settled = beside(values, known, know)
    raised = beside(values, start.offset + known, partial(_predict_start, start, start.offset))
    shape = private_shape(data, raised, for_shape)
    gain = sum(
        row_gain(step.noise, data.n_entries, size, rank, step.epsilon is not None)
        for size, rank in zip(data.shape, form.ranks, strict=True)
    )
    moves = _MOVES * shape.variance

    def explain(interval: Interval) -> float:
        moved = moves * interval.kept
        return moved**2 / (moved + gain * interval.reach**2)

    interval = shape.best_interval(explain)
    middle, limit = 0.5 * (interval.low + interval.high), 0.5 * (interval.high - interval.low)
    residual = each(partial(_clip_around, interval, start.offset, middle), values, settled)
    return Target(
        known=known + (middle - interval.shift) / interval.slope,
        residual=Private(residual),
        limit=limit,
        slope=interval.slope,
        variance=shape.variance,
    )


def _predict_start(start: Solution, offset: float, columns: Array) -> Array:
    """Return what the start predicts, over an offset."""
    known = predict_entries(columns, start.core, start.factors, 1) + _Model.of(start).biases_at(columns)
    total: Array = offset + known
    return total


def _clip_around(interval: Interval, offset: float, middle: float, values: Array, known: Array) -> Array:
    residual: Array = interval.clip(values - offset - known) - middle
    return residual


def _move_rows(
    data: PrivateValues,
    model: _Model,
    target: Target,
    step: RowStep,
    turns: Iterator[Spend],
    parts: list[Part],
    label: str,
) -> _Model:
    """Move the rows of every mode, and with them their biases, as coefficients of a design that is 1 everywhere."""
    for mode, size in enumerate(data.shape):
        turn = next(turns)
        core, factors = rebalance(model.core, model.factors, mode)
        make, rows = partial(_make_design, core, tuple(factors), mode, model.biases is not None), factors[mode]
        if model.biases is not None:
            rows = np.concatenate([model.biases[mode][:, None], rows], axis=1)
        aim = replace(target, known=target.known - model.biases_at(data.columns, mode))
        moved = step(rows, _row_sums(data, make, partial(_take_index, mode), size, aim, turn))
        biases = model.biases
        if biases is not None:
            biases = (*biases[:mode], moved[:, 0], *biases[mode + 1 :])
            moved = moved[:, 1:]
        factors[mode] = moved
        model = _Model(core=core, factors=factors, biases=biases)
        parts.append(turn.part(f"{label}: factor {mode}", "sum of residual times design per row"))
    return model


def _move_core(
    data: PrivateValues, model: _Model, target: Target, step: RowStep, turn: Spend, parts: list[Part], label: str
) -> _Model:
    """Move the core as if it were one long row to which every entry belongs."""
    core, factors = rebalance(model.core, model.factors, None)
    assert core is not None
    aim = replace(target, known=target.known - model.biases_at(data.columns))
    make = partial(_make_core_design, tuple(factors))
    moved = step(core.reshape(1, -1), _row_sums(data, make, put_together, 1, aim, turn))
    parts.append(turn.part(f"{label}: core", "sum of residual times design"))
    return _Model(core=moved.reshape(core.shape), factors=factors, biases=model.biases)


def _make_design(core: Array | None, factors: tuple[Array, ...], mode: int, biased: bool, columns: Array) -> Array:
    """Return the designs of a mode's rows, each computed from its own indices alone, bit by bit."""
    design = make_entry_design(columns, core, factors, mode)
    return np.concatenate([np.ones((len(design), 1)), design], axis=1) if biased else design


def _make_core_design(factors: tuple[Array, ...], columns: Array) -> Array:
    return make_core_design(columns, factors)


def _take_index(mode: int, columns: Array) -> Array:
    index: Array = columns[mode]
    return index


def _row_sums(data: PrivateValues, make: Make, place: Make, size: int, target: Target, spend: Spend) -> RowSums:
    """Return the noisy sums of weight * design * residual, and what they would be for a given row.

    Designs and rows of entries are functions of columns.
    """
    design, column, values = make(data.columns), place(data.columns), data.values.reveal()
    most = _choose_longest(design, target, spend, len(column) / size)
    weighted = _weigh(design, most)
    weighed = beside(values, weighted, partial(_make_weighed, make, most))
    noisy = spend.linear(weighed, target.residual.reveal(), target.limit, beside(values, column, place), size)
    known = sum_rows(weighted * target.known[:, None], column, size)
    return RowSums(
        right=known + noisy.values / target.slope,
        gram=sum_products(design, weighted, column, size),
        second=sum_products(weighted, weighted, column, size),
        noise=noisy.variance / target.slope**2,
        variance=target.variance,
    )


def _make_weighed(make: Make, most: float | None, columns: Array) -> Array:
    return _weigh(make(columns), most)


def _weigh(design: Array, most: float | None) -> Array:
    """Return designs of which those that are longer than C are as long as that."""
    if most is None:
        return design
    weighted: Array = design * (most / np.maximum(_measure(design), most))[:, None]
    return weighted


def _measure(design: Array) -> Array:
    """Return the length of every design, added up number by number: the same bits whatever stands beside it."""
    square = np.zeros(len(design))
    for each_number in design.T:
        square += each_number**2
    return np.sqrt(square)


def _choose_longest(design: Array, target: Target, spend: Spend, entries: float) -> float | None:
    """Return the C of weights min(1, C / |h|) for which sampling error and noise together are smallest.

    Without weights the longest design of all would determine the noise of every row. None, if all are nothing.
    """
    length = _measure(design)
    felt = length[length > _NOTHING]
    if not len(felt):
        return None
    noise = spend.noise * (2 * target.limit) ** 2

    def badness(most: float) -> float:
        weight = most / np.maximum(length, most)
        reach = float(np.mean(weight * length**2)) * entries
        sampling = target.variance * float(np.mean((weight * length) ** 2)) * entries
        return (sampling + noise * most**2) / reach**2

    lengths = [float(q) for q in np.quantile(felt, _QUANTILES)]
    return min(lengths, key=badness)


def sum_rows(rows: Array, column: Array, size: int) -> Array:
    """Sum rows by group."""
    return np.stack([np.bincount(column, each, minlength=size) for each in rows.T], axis=1)


def sum_products(left: Array, right: Array, column: Array, size: int) -> Array:
    """Sum the products l r' by group, for l and r that are multiples of each other."""
    rank = left.shape[1]
    if size == 1:
        whole: Array = left.T @ right
        return whole[None]
    gram = np.empty((size, rank, rank))
    for p in range(rank):
        for q in range(p + 1):
            gram[:, p, q] = gram[:, q, p] = np.bincount(column, left[:, p] * right[:, q], minlength=size)
    return gram
