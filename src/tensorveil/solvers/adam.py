"""Adam for any loss: stochastic gradients from listed cells and, where these are zeros, from some that are not listed.

The objective is the sum of the loss over all known cells + regularization * (sum of squared factor entries). A sweep
passes over the listed cells in random order; with every batch of them come as many random unlisted cells, which stand
for all others: stratified sampling as in Kolda and Hong (2020), whose steps are Adam's. After each sweep the objective
is compared on cells that stay the same. Where it rose the sweep is undone; where it hardly fell or rose the steps
become shorter, until they are too short to matter.

Time and memory go with the listed cells. Nothing depends on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from tensorveil.errors import InputError
from tensorveil.kernels import stochastic
from tensorveil.kernels.threads import ranges, thread_count, workers
from tensorveil.models.tucker_algebra import tucker_design
from tensorveil.solvers.start import random_start
from tensorveil.solvers.task import Array, Scaling, Solution, Task, known_scaling
from tensorveil.solvers.watch import Watch

Run = Callable[[Sequence[Callable[[], Any]]], list[Any]]

# Cells of a batch: enough to be worth the call, few enough for some hundred steps in a fit.
_LEAST_BATCH, _LARGEST_BATCH, _STEPS = 256, 1 << 16, 32
# Batches below this are not worth a second thread.
_WORTH_THREADS = 1 << 13
# The cells that objectives are compared on.
_JUDGED = 100_000
_SHORTER, _SHORTEST = 0.5, 0.01
# How much linear parts vary at the start: less, and more fits end in poor optima (planted counts).
_START_VARIANCE = 1.0


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Settings of the stochastic solver for any loss."""

    sweeps: int = 200
    tol: float = 1e-4
    learning_rate: float = 0.05
    regularization: float = 1.0  # as if factors were standard normal
    unlisted_weight: float = 1.0


@dataclass(kw_only=True)
class _Block:
    """Some parameters, and what Adam remembers of their gradients."""

    x: Array
    gradient: Array
    lowest: float
    ridge: float

    def __post_init__(self) -> None:
        self.mean, self.square = np.zeros_like(self.x), np.zeros_like(self.x)

    def penalty(self) -> float:
        return self.ridge * float(np.sum(self.x.astype(np.float64) ** 2)) if self.ridge else 0.0

    def move(self, rate: float, step: int, scale: float) -> None:
        flat = (self.x.reshape(-1), self.gradient.reshape(-1), self.mean.reshape(-1), self.square.reshape(-1))
        stochastic.adam_step(*flat, rate, 2 * self.ridge * scale, step, self.lowest)


class _Offset:
    """The constant part of linear parts, which moves too where values are not centred."""

    def __init__(self, start: float) -> None:
        self.block = _Block(x=np.array([start]), gradient=np.zeros(1), lowest=-math.inf, ridge=0.0)

    @property
    def value(self) -> float:
        return float(self.block.x[0])

    def descend(self, slopes: Array) -> None:
        self.block.gradient += slopes.sum()

    def add(self, scaling: Scaling) -> Scaling:
        """Return how to undo a scaling after which this offset was added."""
        return Scaling(offset=scaling.offset + scaling.scale * self.value, scale=scaling.scale)


class _Form(Protocol):
    """A model whose parameters are moved."""

    blocks: list[_Block]

    def linear(self, columns: Array, run: Run, pieces: int) -> Array:
        """Return the linear part at cells."""

    def descend(self, columns: Array, slopes: Array, run: Run) -> None:
        """Add to the gradients what these slopes of the loss at cells make of them."""

    def solution(self, scaling: Scaling) -> Solution:
        """Return the parts in the units of the data."""


class _CP:
    """A CP model: the factors one under the other, modes that are the same thing once."""

    def __init__(self, task: Task, factors: list[Array], offset: float, settings: Adam, lowest: float) -> None:
        self.task, self.offset = task, _Offset(offset)
        kept = [factors[first] for first, *_ in task.tied]
        begin = np.cumsum([0, *(len(factor) for factor in kept)])
        self.starts = np.zeros(task.order, np.int64)
        for place, modes in zip(begin, task.tied, strict=False):
            self.starts[list(modes)] = place
        self.rows = np.ascontiguousarray(np.concatenate(kept), dtype=task.dtype)
        self.gradient = np.zeros_like(self.rows)
        biased = task.baseline == "biases"
        self.biases = np.zeros(len(self.rows) if biased else 0, task.dtype)
        self.bias_gradient = np.zeros_like(self.biases)
        self.groups = [np.array(modes, np.int64) for modes in task.tied]
        ends = list(pairwise(begin.tolist()))
        ridge = settings.regularization
        self.blocks = [
            _Block(x=self.rows[a:b], gradient=self.gradient[a:b], lowest=lowest, ridge=ridge) for a, b in ends
        ]
        if biased:
            self.blocks.append(_Block(x=self.biases, gradient=self.bias_gradient, lowest=-math.inf, ridge=ridge))
        if task.has_offset:
            self.blocks.append(self.offset.block)

    def linear(self, columns: Array, run: Run, pieces: int) -> Array:
        out = np.empty(columns.shape[1])
        data = (columns, self.rows, self.starts, self.biases, self.offset.value)
        run([partial(stochastic.linear_at, *data, a, b, out) for a, b in ranges(columns.shape[1], pieces)])
        return out

    def descend(self, columns: Array, slopes: Array, run: Run) -> None:
        data = (columns, self.rows, self.starts, slopes.astype(self.rows.dtype))
        gradients = (self.gradient, self.bias_gradient)
        self.offset.descend(slopes)
        run([partial(stochastic.add_gradients, *data, modes, *gradients) for modes in self.groups])

    def solution(self, scaling: Scaling) -> Solution:
        sizes = zip(self.starts, self.task.shape, strict=True)
        places = [slice(int(start), int(start) + size) for start, size in sizes]
        biases = tuple(self.biases[place].copy() for place in places) if len(self.biases) else None
        return self.offset.add(scaling).undo(tuple(self.rows[place].copy() for place in places), None, biases)


class _Tucker:
    """A Tucker model. Its products are matrix products, a batch at a time."""

    def __init__(
        self, task: Task, factors: list[Array], core: Array, offset: float, settings: Adam, lowest: float
    ) -> None:
        self.offset = _Offset(offset)
        kept = {mode: np.ascontiguousarray(factors[modes[0]], task.dtype) for modes in task.tied for mode in modes[:1]}
        self.first = {mode: modes[0] for modes in task.tied for mode in modes}
        self.kept = kept
        self.factors = [kept[self.first[mode]] for mode in range(task.order)]
        self.core = np.ascontiguousarray(core, task.dtype)
        self.biases: list[Array] = []
        ridge = settings.regularization
        self.slots = {mode: np.zeros_like(factor) for mode, factor in kept.items()}
        self.core_gradient = np.zeros_like(self.core)
        self.blocks = [
            _Block(x=factor, gradient=self.slots[mode], lowest=lowest, ridge=ridge) for mode, factor in kept.items()
        ]
        self.blocks.append(_Block(x=self.core, gradient=self.core_gradient, lowest=lowest, ridge=ridge))
        self.bias_gradients: list[Array] = []
        if task.has_offset:
            self.blocks.append(self.offset.block)
        if task.baseline == "biases":
            own = {mode: np.zeros(task.shape[mode], task.dtype) for mode in kept}
            slots = {mode: np.zeros_like(bias) for mode, bias in own.items()}
            self.biases = [own[self.first[mode]] for mode in range(task.order)]
            self.bias_gradients = [slots[self.first[mode]] for mode in range(task.order)]
            self.blocks += [_Block(x=own[mode], gradient=slots[mode], lowest=-math.inf, ridge=ridge) for mode in kept]

    def linear(self, columns: Array, run: Run, pieces: int) -> Array:
        out = np.empty(columns.shape[1])

        def part(low: int, high: int) -> None:
            cells = columns[:, low:high]
            design = tucker_design(cells, self.core, self.factors, 0)
            total = np.einsum("nr,nr->n", design, self.factors[0][cells[0]]).astype(np.float64) + self.offset.value
            for bias, column in zip(self.biases, cells, strict=False):
                total += bias[column]
            out[low:high] = total

        run([partial(part, a, b) for a, b in ranges(columns.shape[1], pieces)])
        return out

    def descend(self, columns: Array, slopes: Array, run: Run) -> None:
        self.offset.descend(slopes)
        slopes = slopes.astype(self.core.dtype)

        def spread(mode: int) -> None:
            design = tucker_design(columns, self.core, self.factors, mode) * slopes[:, None]
            slot = self.slots[self.first[mode]]
            for r in range(design.shape[1]):
                slot[:, r] += np.bincount(columns[mode], design[:, r], minlength=len(slot)).astype(slot.dtype)
            if self.biases:
                bias = self.bias_gradients[mode]
                bias += np.bincount(columns[mode], slopes, minlength=len(bias)).astype(bias.dtype)

        for mode in range(len(self.factors)):
            spread(mode)
        product = slopes[:, None]
        for factor, column in zip(self.factors[:-1], columns[:-1], strict=True):
            rows = factor[column]
            product = (product[:, :, None] * rows[:, None, :]).reshape(len(slopes), -1)
        last = self.factors[-1][columns[-1]]
        self.core_gradient += (product.T @ last).reshape(self.core.shape)

    def solution(self, scaling: Scaling) -> Solution:
        factors = tuple(factor.copy() for factor in self.factors)
        biases = tuple(bias.copy() for bias in self.biases) or None
        return self.offset.add(scaling).undo(factors, self.core.copy(), biases)


@dataclass(kw_only=True, eq=False)
class _Sampler:
    """Batches of cells: the listed ones in random order, and unlisted ones by chance."""

    task: Task
    values: Array
    zero: float
    unlisted_weight: float
    seed: int

    def __post_init__(self) -> None:
        task = self.task
        self.columns = task.columns
        n, rows = task.n_entries, sum(task.shape)
        wanted = min(n, max(_LEAST_BATCH, n // _STEPS, rows // 2), max(_LARGEST_BATCH, rows))
        self.batch = n // max(1, n // wanted)  # so that batches leave next to nothing over
        self.drawn = self.batch if task.zeros else 0
        self.n_zeros = task.n_zeros
        self.table = stochastic.build_table(0)
        if self.drawn and self.n_zeros <= 0:
            self.drawn = 0
        if self.drawn:
            self.table = stochastic.build_table(n + task.excluded.shape[1])
            stochastic.insert_cells(self.table, self.columns)
            stochastic.insert_cells(self.table, task.excluded)
        self.sizes = np.array(task.shape, np.int64)
        self.cells = np.empty((task.order, self.batch + self.drawn), np.int32)
        self.truth = np.empty(self.batch + self.drawn)
        self.truth[self.batch :] = self.zero
        self.weights = np.empty(self.batch + self.drawn)
        self.found = np.ones(self.drawn, np.uint8)
        self.rng = np.random.default_rng([self.seed, 4])

    def sweep(self, run: Run, pieces: int) -> Any:
        """Yield batches (cells, values, weights); weights add up to the number of known cells."""
        n = self.task.n_entries
        order = self.rng.permutation(np.arange(n, dtype=np.int32 if n < 2**31 else np.int64))
        for low in range(0, n - self.batch + 1, self.batch):
            self._fill(order, low, run, pieces)
            yield self.cells, self.truth, self.weights

    def _fill(self, order: Array, low: int, run: Run, pieces: int) -> None:
        stochastic.pick_cells(self.columns, self.values, order, low, low + self.batch, self.cells, self.truth)
        self.weights[: self.batch] = self.task.n_entries / self.batch
        if self.drawn:
            seed = np.uint64(self.rng.integers(2**63))
            zeros = self.cells[:, self.batch :]
            data = (self.table, self.sizes, seed)
            run([partial(stochastic.draw_cells, *data, a, b, zeros, self.found) for a, b in ranges(self.drawn, pieces)])
            share = self.unlisted_weight * self.n_zeros / max(int(self.found.sum()), 1)
            self.weights[self.batch :] = share * self.found

    def judged(self, run: Run) -> tuple[Array, Array, Array]:
        """Return the cells that objectives are compared on, their values, and how many cells each stands for."""
        n = self.task.n_entries
        rng = np.random.default_rng([self.seed, 5])
        part = np.arange(n) if n <= _JUDGED else rng.choice(n, _JUDGED, replace=False)
        columns, values = self.columns[:, part], self.values[part].astype(np.float64)
        weights = np.full(len(part), n / len(part))
        if not self.drawn:
            return np.ascontiguousarray(columns), values, weights
        count = max(len(part), self.batch)
        zeros, found = np.empty((self.task.order, count), np.int32), np.ones(count, np.uint8)
        stochastic.draw_cells(self.table, self.sizes, np.uint64(rng.integers(2**63)), 0, count, zeros, found)
        share = self.unlisted_weight * self.n_zeros / max(int(found.sum()), 1)
        return (
            np.concatenate([columns, zeros], axis=1),
            np.concatenate([values, np.full(count, self.zero)]),
            np.concatenate([weights, share * found]),
        )


def solve_adam(task: Task, settings: Adam, watch: Watch) -> Solution:
    """Fit by stochastic gradients."""
    scaling = known_scaling(task)
    values = scaling.apply(task.values, task.dtype)
    zero = (0.0 - scaling.offset) / scaling.scale
    sampler = _Sampler(
        task=task, values=values, zero=zero, unlisted_weight=settings.unlisted_weight * task.zero_weight, seed=task.seed
    )
    form = _start(task, settings, scaling)
    pieces = thread_count(task.threads) if sampler.batch >= _WORTH_THREADS else 1
    with workers(pieces) as run:
        _descend(task, settings, watch, form, sampler, scaling, run, pieces)
    return watch.result(lambda: form.solution(scaling))


def _descend(
    task: Task, settings: Adam, watch: Watch, form: _Form, sampler: _Sampler, scaling: Scaling, run: Run, pieces: int
) -> None:
    judged, truth, weights = sampler.judged(run)
    n, known = task.n_entries, float(weights.sum())
    slopes, spare = np.empty(sampler.cells.shape[1]), np.empty(len(truth))

    def objective() -> tuple[float, float]:
        fit = task.loss.descend(truth, form.linear(judged, run, pieces), weights, spare)
        return fit, fit + sum(b.penalty() for b in form.blocks)

    rate, step = settings.learning_rate, 0
    fit, last = objective()
    kept = [block.x.copy() for block in form.blocks]
    for _ in range(settings.sweeps):
        for cells, values, share in sampler.sweep(run, pieces):
            task.loss.descend(values, form.linear(cells, run, pieces), share, slopes)
            form.descend(cells, slopes / n, run)
            step += 1
            run([partial(block.move, rate, step, 1.0 / n) for block in form.blocks])
        now, total = objective()
        if not (math.isfinite(total) and total < last):
            for block, before in zip(form.blocks, kept, strict=True):
                block.x[...] = before
                block.mean[...], block.square[...] = 0.0, 0.0
            rate, step = rate * _SHORTER, 0
        else:
            if last - total < settings.tol * max(abs(total), 1e-12):
                rate *= _SHORTER
            fit, last = now, total
            kept = [block.x.copy() for block in form.blocks]
        error = task.loss.summary(max(fit, 0.0) / known) * scaling.scale
        solution = partial(form.solution, scaling)
        if watch.step(train_error=error, criterion=math.nan, size=1.0, solution=solution):
            break
        if rate < _SHORTEST * settings.learning_rate:
            watch.converged = True  # steps of no length lower the objective any further
            break
    if not math.isfinite(last):
        raise InputError(
            f'solver="adam" diverged at learning_rate={settings.learning_rate:g}. Try learning_rate='
            f"{settings.learning_rate / 10:g}."
        )


def _start(task: Task, settings: Adam, scaling: Scaling) -> _Form:
    """Return a random model around the mean."""
    start = random_start(task, scaling, _START_VARIANCE)
    if start.core is not None:
        return _Tucker(task, start.factors, start.core, start.offset, settings, start.lowest)
    return _CP(task, start.factors, start.offset, settings, start.lowest)
