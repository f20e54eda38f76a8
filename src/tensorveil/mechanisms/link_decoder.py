"""Counts and yes and no in unit "value": a second decoder, whose predictions are where such values can be.

What stages release is decoded by squared error first, as for any other values: a sum of effects and components, which
may say that less than nothing is expected. That costs little in squared error, but the likelihood of counts does not
forgive a cell where nothing was expected and something came. So another model is made of the same noisy numbers:

- one-way tables are multiplied, as counts or as odds, and components with positive shares are fitted to tables of two
  modes and to perturbed values, as far as copies with more noise show that they say more (`count_model`). That is what
  is expected where the first model knows nothing.
- Each cell then has two sources, what is expected and what the first model says, give or take its error; the mean of
  both within the bounds is what the cell is worth (`within`).
- These means are fitted by a model of positive components, or of log odds, and that is what is released.

Post-processing only: nothing here sees what is private.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorveil.mechanisms.cells import Cells, Table
from tensorveil.mechanisms.count_model import CountModel, CountTable, fit_counts, lean_ones, multiply_ones, temper_ones
from tensorveil.mechanisms.data import Array, Form
from tensorveil.mechanisms.decoder import gather_values
from tensorveil.mechanisms.fitting import predict_solution
from tensorveil.mechanisms.leverage import find_leverages
from tensorveil.mechanisms.within import find_mean_within
from tensorveil.models.link import LOGIT
from tensorveil.solvers.als import ALS, solve_als
from tensorveil.solvers.lbfgs import LBFGS, solve_lbfgs
from tensorveil.solvers.loss import Loss
from tensorveil.solvers.losses import LOSSES, POISSON, find_loss
from tensorveil.solvers.task import Solution, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor.entries import MemoryEntries

# Tables alone tell of cells about so well, as a share of the spread of what they say. Chosen on trips, taggings, and
# planted counts.
_OFF = 0.4
# Components beyond a model of perturbed values have at least this share of the residuals' variance.
_LEAST_LEFT = 0.05
# A mean by a histogram is off by about this share of itself.
_ABOUT = 0.25
# Margins are met in so many rounds; expected values of an index are within these shares of the mean and of the width.
_ROUNDS, _RARE, _FULL, _MOST_STEP = 12, 1e-3, 0.98, 1.0
# Sums of cells without entries are taken to be about usual, give or take so many times that.
_UNKNOWN = 10.0
# Components are not fitted to perturbed values of larger tensors.
_MOST_CELLS = 1 << 22
# The released model has so many times the declared rank, since effects become components; a core has at most so many
# elements. It is fitted in so many sweeps, with these penalties.
_WIDER, _LARGEST_CORE = 2, 1 << 15
_SWEEPS, _TOL, _RIDGE, _RIDGE_OF_ODDS = 40, 1e-5, 1.0, 0.01
# Of expected counts so much is spread as one-way tables are.
_ROOM = 0.01
# Log odds are moved by at most so much.
_FARTHEST = 20.0


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a run has released, and where entries are: all that is decoded.

    ``center`` is the mean and ``doubt`` its variance, ``about`` the mean by a histogram of the values, ``square`` the
    mean square of the values, ``residual`` the variance that effects left of them.
    """

    columns: Array
    shape: tuple[int, ...]
    bounds: tuple[float, float]
    center: float
    doubt: float
    about: float
    square: float
    residual: float
    tables: Sequence[Table]
    perturbed: tuple[Array, float] | None

    @property
    def n(self) -> int:
        """Number of entries."""
        return int(self.columns.shape[1])

    @property
    def mean(self) -> float:
        """The mean; where noise hides it, what it may be above 0."""
        least = min(self.doubt**0.5, 0.5 * self.bounds[1])
        return float(np.clip(self.center, least, self.bounds[1] - least))

    def settled(self) -> Seen:
        """Return the same with a mean that the histogram has a say in, to which all that was measured is moved.

        The noise of the mean is that of the widest values that are declared, and tables tell of differences only.
        """
        about = max(self.about, 0.0)
        certain, apart = 1.0 / max(self.doubt, 1e-300), 1.0 / max((_ABOUT * about) ** 2, 1e-300)
        if about <= 0:
            return self
        found = replace(
            self, center=(certain * self.center + apart * about) / (certain + apart), doubt=1 / (certain + apart)
        )
        tables = [
            replace(table, sums=table.sums + (found.mean - float(table.sums.sum()) / self.n) * table.cells.counts)
            for table in self.tables
        ]
        if self.perturbed is None:
            return replace(found, tables=tables)
        values, noise = self.perturbed
        return replace(found, tables=tables, perturbed=(values + (found.mean - float(np.mean(values))), noise))


def decode_constant(solution: Solution, bounds: tuple[float, float], loss: str) -> Solution:
    """Return a model that expects the same of every cell, which is neither nothing nor all. Post-processing only."""
    link, least = _find_released(loss).link, _RARE * bounds[1]
    level = link.linear(np.array([np.clip(solution.offset, least, bounds[1] - least)]))
    return replace(solution, offset=float(level[0]), link=link)


def decode_on_link(seen: Seen, solution: Solution, form: Form) -> Solution:
    """Return a model for counts or for yes and no, by the link of its loss. Post-processing only."""
    width, loss, before = seen.bounds[1], form.loss, seen.center
    seen = seen.settled()
    base, worth = expect_values(seen, form, loss)
    solution = replace(solution, offset=solution.offset + seen.mean - before)
    said = predict_solution(solution, seen.columns, form.threads)
    if seen.perturbed is not None:
        worth = find_mean_within(said, _find_errors(seen, solution, said), worth, width)
    elif any(len(table.cells.modes) > 1 for table in seen.tables) and float(np.std(said)) > 0:
        worth = find_mean_within(said, _OFF * float(np.std(said)), worth, width)
    return _fit(seen, worth, base, form)


def expect_values(seen: Seen, form: Form, loss: str) -> tuple[CountModel, Array]:
    """Return one-way tables as a model, and what all tables, and perturbed values as such, say of every entry."""
    scale = math.prod(seen.shape) / seen.n
    total = CountTable(modes=(), sums=np.array(seen.mean * seen.n * scale), noise=seen.doubt * (seen.n * scale) ** 2)
    tables, chance = _gather_tables(seen), max(seen.square / seen.mean, seen.mean) * scale
    base = multiply_ones([total, *tables], len(seen.shape), chance)
    trusts = temper_ones(base, [total, *tables], chance, form.seed)
    base = lean_ones(base, trusts)
    linear = _meet_margins(seen, base, loss)
    further = any(len(table.modes) > 1 for table in tables)
    found = fit_counts(tables, base, form, chance, trusts) if further else None
    if found is not None:  # what components say beyond independence
        linear += np.log(_at(found, seen.columns) / _at(base, seen.columns))
    means = LOSSES[loss].link.mean(linear)
    return base, np.asarray(np.clip(means, 1e-6 * seen.bounds[1], (1 - 1e-9) * seen.bounds[1]))


def _at(model: CountModel, columns: Array) -> Array:
    """Return the expected values of cells."""
    rows = np.broadcast_to(model.weights, (columns.shape[1], len(model.weights)))
    for share, column in zip(model.shares, columns, strict=True):
        rows = rows * share[column]
    return np.asarray(np.maximum(rows.sum(axis=1), 1e-300))


def _gather_tables(seen: Seen) -> list[CountTable]:
    """Return all tables as if all cells of the tensor had entries, as many as listed ones suggest."""
    found = [_fill(seen, table) for table in seen.tables]
    if seen.perturbed is None:
        return found
    everything, whole = tuple(range(len(seen.shape))), math.prod(seen.shape) <= _MOST_CELLS
    cells = [Cells.of(seen.columns, seen.shape, everything)] if whole else []
    if not (whole and np.all(cells[0].counts == 1)):
        cells += [Cells.of(seen.columns, seen.shape, (mode,)) for mode in everything]
    return found + [_fill(seen, table) for table in gather_values(cells, *seen.perturbed)]


def _fill(seen: Seen, table: Table) -> CountTable:
    """Return a table for all cells of the tensor, of sums over the listed ones."""
    modes, counts, sizes = table.cells.modes, table.cells.counts, table.cells.shape
    every = math.prod(seen.shape) / counts.size  # cells of the tensor in one of the table
    if np.all(counts == every):
        return CountTable(modes=modes, sums=table.sums.reshape(sizes), noise=float(np.mean(table.noise)))
    usual, more = seen.mean * every, every / np.maximum(counts, 1.0)
    sums = np.where(counts > 0, table.sums * more, usual)
    noise = np.where(counts > 0, table.noise * more**2, (_UNKNOWN * usual) ** 2)
    return CountTable(modes=modes, sums=sums.reshape(sizes), noise=noise.reshape(sizes))


def _meet_margins(seen: Seen, base: CountModel, loss: str) -> Array:
    """Return linear parts, an offset and biases, whose means add up to what one-way tables say of every index.

    Of counts this is proportional fitting; of yes and no, Newton's steps to the same end.
    """
    link, width, mean = LOSSES[loss].link, seen.bounds[1], seen.mean
    counted = loss == POISSON.name
    linear = np.full(seen.n, float(link.linear(np.array([mean]))[0]))
    counts = [np.bincount(column, minlength=size) for column, size in zip(seen.columns, seen.shape, strict=True)]
    for _ in range(_ROUNDS):
        for mode, (column, size) in enumerate(zip(seen.columns, seen.shape, strict=True)):
            share = base.shares[mode] @ base.weights / base.weights.sum()
            rate = np.clip(share * size * mean, _RARE * mean, _FULL * width)
            means = link.mean(linear.copy())
            sums = np.bincount(column, means, size)
            wanted = rate * counts[mode]
            if counted:
                step = np.log(np.maximum(wanted, 1e-300) / np.maximum(sums, 1e-300))
            else:
                steep = np.bincount(column, means * (1.0 - means), size)
                step = np.clip((wanted - sums) / np.maximum(steep, 1e-12), -_MOST_STEP, _MOST_STEP)
            linear += np.where(counts[mode] > 0, step, 0.0)[column]
    return linear


def _find_errors(seen: Seen, solution: Solution, said: Array) -> Array:
    """Return how far off the first model is at every entry, as a standard deviation."""
    assert seen.perturbed is not None
    values, noise = seen.perturbed
    rest = max(float(np.mean((values - said) ** 2)) - noise, _LEAST_LEFT * seen.residual)
    leverages = find_leverages(seen.columns, solution, noise + rest).at(seen.columns)
    return np.asarray(np.sqrt(leverages * noise) + 1e-6 * seen.bounds[1])


def _find_released(loss: str) -> Loss:
    """Return the loss of the released model, which is a sum of positive parts if it is for counts."""
    return find_loss(loss, nonnegative=loss == POISSON.name)


def _fit(seen: Seen, worth: Array, base: CountModel, form: Form) -> Solution:
    """Fit the model that is released to what cells are worth, and set its mean."""
    counts, order = form.loss == POISSON.name, len(seen.shape)
    rank = min(_WIDER * max(form.ranks), math.prod(seen.shape) // max(seen.shape))
    if form.core:
        rank = min(rank, math.floor(_LARGEST_CORE ** (1 / order) + 1e-9) - 1)
    loss = _find_released(form.loss)
    task = Task(
        entries=MemoryEntries(columns=seen.columns, values=worth, shape=seen.shape), ranks=(rank,) * order, core=False,
        baseline="none" if counts else "mean", dtype=np.dtype(np.float64), threads=form.threads, seed=form.seed,
        loss=loss, nonnegative=counts,
    )  # fmt: skip
    watch = Watch(iterations=_SWEEPS, tol=_TOL, patience=1)
    if counts:
        solution = solve_als(task, ALS(sweeps=_SWEEPS, tol=_TOL, regularization=_RIDGE), watch)
        solution = _leave_room(solution, base)
    else:
        solution = solve_lbfgs(task, LBFGS(sweeps=_SWEEPS, tol=_TOL, regularization=_RIDGE_OF_ODDS), watch)
    solution = replace(_set_mean(seen, solution, form.threads, counts=counts), link=loss.link)
    if not form.core:
        return solution
    rank = solution.factors[0].shape[1]
    core = np.zeros((rank,) * order)
    core[(np.arange(rank),) * order] = 1.0
    return replace(solution, core=core)


def _leave_room(solution: Solution, base: CountModel) -> Solution:
    """Return components that rule nothing out: beside them stands a small part of what one-way tables say."""
    room = base.factors(_ROOM)
    factors = (np.concatenate([own, one], axis=1) for own, one in zip(solution.factors, room, strict=True))
    return replace(solution, factors=tuple(factors))


def _set_mean(seen: Seen, solution: Solution, threads: int | None, *, counts: bool) -> Solution:
    """Set the mean of the predictions to the private one: counts are multiplied, log odds moved."""
    linear = predict_solution(solution, seen.columns, threads)
    if counts:
        first, *others = solution.factors
        return replace(solution, factors=(first * (seen.mean / max(float(np.mean(linear)), 1e-300)), *others))
    low, high = -_FARTHEST, _FARTHEST
    for _ in range(40):
        middle = 0.5 * (low + high)
        if float(np.mean(LOGIT.mean(linear + middle))) < seen.mean:
            low = middle
        else:
            high = middle
    return replace(solution, offset=solution.offset + 0.5 * (low + high))
