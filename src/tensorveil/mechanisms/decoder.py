"""One decoder for everything that was measured: tables and perturbed values, all linear in the tensor.

The tensor is an offset, a bias per index of every mode, two-way effects of low rank, and the components of a CP or
Tucker model. Each measured sum has noise of a known variance, to which the entries of its cell add what no effect
explains. Effects are fitted in turn, each to what the others leave, as their posterior given the rest; variances of
biases and relevances of components are estimated, so that evidence switches on what is there. Perturbed values see all
effects: their sums over the cells of two modes are one more table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from tensorveil.mechanisms.allocation import Modes
from tensorveil.mechanisms.cells import Cells, Table
from tensorveil.mechanisms.data import Array, Form, Progress, make_constant
from tensorveil.mechanisms.design import predict_entries
from tensorveil.mechanisms.pairs import PairEffect, fit_pairs
from tensorveil.mechanisms.smooth import NOTHING_SMOOTH, OF_BIASES, OF_PAIRS, Smooth, fit_biases, start_walk
from tensorveil.solvers.task import Solution

_ROUNDS = 12
# Pairs start anew once biases have settled; in other rounds they go on from where they were.
_FRESH, _FRESH_SWEEPS, _SWEEPS = (0, 4), 15, 3
# Sums further away than this many standard deviations count as if they were here: Laplace noise has such, and a single
# one would look like a component.
_FAR = 3.0
# Variances of biases are estimated from the third round on; at first each has this share of the variance.
_SETTLED, _FIRST_PRIOR = 2, 0.1
_LEAST_REST = 0.15
# Biases that do not stand out have this share of the rest as prior variance.
_ABSENT = 1e-6
# A component of a two-way effect below this share of the rest is left out of the model.
_TRACE = 1e-4
# Two-way effects widen a Tucker model's core to at most so many elements; beyond, the weakest are left out.
_LARGEST_CORE = 1 << 15


@dataclass(kw_only=True)
class Effects:
    """Offset, biases, two-way effects and products, with the variances that biases were found to have.

    ``products`` are components over all modes, a factor for each mode, that tables alone suggest.
    """

    offset: float
    biases: list[Array]
    pairs: dict[Modes, PairEffect] = field(default_factory=dict)
    products: tuple[Array, ...] | None = None
    priors: list[float] | None = None
    rest: float = 0.0

    @classmethod
    def constant(cls, shape: Sequence[int], offset: float) -> Effects:
        """Return a constant."""
        return cls(offset=offset, biases=[np.zeros(size) for size in shape])

    def at(self, columns: Array) -> Array:
        """Return the sum of all effects at coordinates."""
        total = np.full(columns.shape[1], self.offset)
        for bias, column in zip(self.biases, columns, strict=True):
            total += bias[column]
        for (one, other), pair in self.pairs.items():
            total += pair.at(columns[one], columns[other])
        if self.products is not None:
            total += predict_entries(columns, None, self.products, None)
        return total

    def beside(self, products: tuple[Array, ...]) -> Effects:
        """Return the same effects with more products."""
        if self.products is None:
            return replace(self, products=products)
        pairs = zip(self.products, products, strict=True)
        return replace(self, products=tuple(np.concatenate(both, axis=1) for both in pairs))


def effects_within(effects: Effects, bounds: tuple[float, float], columns: Array) -> Array:
    """Return the sum of all effects at coordinates, within bounds."""
    within: Array = np.clip(effects.at(columns), *bounds)
    return within


def fit_effects(
    columns: Array,
    tables: Sequence[Table],
    start: Effects,
    variance: float,
    rank: int,
    center: Array | None = None,
    smooth: Smooth = NOTHING_SMOOTH,
    tell: Progress | None = None,
) -> Effects:
    """Return effects fitted to tables. Post-processing only.

    ``variance`` is that of the values around ``center``, if given; what effects explain of it is taken off. Otherwise
    it is what no effect explains.
    """
    effects = replace(start, biases=[bias.copy() for bias in start.biases], pairs=dict(start.pairs))
    fitted, rest = effects.at(columns), variance
    priors = list(start.priors or [_FIRST_PRIOR * variance] * len(start.biases))
    walks = [start_walk(smooth, mode, 1, OF_BIASES) for mode in range(len(start.biases))]
    twos = sorted({table.cells.modes for table in tables if len(table.cells.modes) == 2})
    for turn in range(_ROUNDS):
        if tell is not None:
            tell("rounds for effects", turn, _ROUNDS)
        for mode, bias in enumerate(effects.biases):
            pull, precision = _gather_mode(tables, mode, len(bias), fitted, rest)
            pull = pull + precision * bias  # as if there were no bias yet
            walk = walks[mode]
            fit = _fit_biases if walk is None else partial(fit_biases, walk)
            moved, priors[mode] = fit(pull, precision, priors[mode], rest, learn=turn >= _SETTLED)
            fitted += (moved - bias)[columns[mode]]
            effects.biases[mode] = moved
        if center is not None:
            rest = float(np.clip(variance - np.mean((fitted - center) ** 2), _LEAST_REST * variance, variance))
        move = _find_offset(tables, fitted, rest)
        effects.offset += move
        fitted += move
        for modes in twos:
            effects.pairs[modes] = _fit_pair(
                columns, tables, modes, effects.pairs.get(modes), fitted, rest, rank, turn, smooth
            )
    effects.priors, effects.rest = priors, rest
    return effects


def _fit_biases(pull: Array, precision: Array, prior: float, rest: float, *, learn: bool) -> tuple[Array, float]:
    """Return biases of a mode and their prior variance, as `fit_biases` does for indices that are no neighbours."""
    present = _stands_out(pull, precision)
    spread = 1.0 / (precision + 1.0 / (prior if present else _ABSENT * rest))
    moved = pull * spread
    if learn and present:  # MacKay's fixed point, as in the variational solver
        determined = max(float(np.sum(1.0 - spread / prior)), 1e-3)
        prior = float(np.clip(np.sum(moved**2) / determined, 1e-8 * rest, 2.0 * rest))
    return moved, prior


def _stands_out(pull: Array, precision: Array) -> bool:
    """Tell whether biases vary by three standard deviations more than noise and chance explain.

    Squares of Laplace noise vary more than a Gaussian's: by 5 instead of 2, in units of variance.
    """
    seen = precision > 0
    excess = float(np.sum(pull[seen] ** 2 / precision[seen])) - np.count_nonzero(seen)
    return bool(excess > 3.0 * np.sqrt(5.0 * np.count_nonzero(seen)))


def _weigh(table: Table, fitted: Array, rest: float) -> tuple[Array, Array]:
    """Return, by cell, the count times what is left of the sum, over its variance; and the precision of the mean."""
    counts = table.cells.counts
    variance = np.where(counts > 0, table.noise + counts * rest, np.inf)
    left = table.sums - table.cells.sum(fitted)
    return counts * left / variance, counts**2 / variance


def _gather_mode(tables: Sequence[Table], mode: int, size: int, fitted: Array, rest: float) -> tuple[Array, Array]:
    """Add up, by index of a mode, what tables that have this mode say."""
    pull, precision = np.zeros(size), np.zeros(size)
    for table in tables:
        modes = table.cells.modes
        if mode in modes:
            others = tuple(axis for axis, each in enumerate(modes) if each != mode)
            scores, precisions = _weigh(table, fitted, rest)
            pull += scores.reshape(table.cells.shape).sum(axis=others)
            precision += precisions.reshape(table.cells.shape).sum(axis=others)
    return pull, precision


def _find_offset(tables: Sequence[Table], fitted: Array, rest: float) -> float:
    weighed = [_weigh(table, fitted, rest) for table in tables]
    precision = sum(float(precisions.sum()) for _, precisions in weighed)
    return sum(float(scores.sum()) for scores, _ in weighed) / precision if precision > 0 else 0.0


def _fit_pair(
    columns: Array,
    tables: Sequence[Table],
    modes: Modes,
    before: PairEffect | None,
    fitted: Array,
    rest: float,
    rank: int,
    turn: int,
    smooth: Smooth,
) -> PairEffect:
    """Fit one two-way effect to what the others leave, and put it into ``fitted``."""
    same = [table for table in tables if table.cells.modes == modes]
    score, precision = np.zeros(same[0].cells.shape), np.zeros(same[0].cells.shape)
    for table in same:
        counts = table.cells.counts
        variance = np.where(counts > 0, table.noise + counts * rest, 1.0)
        far = _FAR * np.sqrt(variance)
        left = np.clip(table.sums - table.cells.sum(fitted), -far, far)
        score += (counts * left / variance).reshape(table.cells.shape)
        precision += (counts**2 / variance).reshape(table.cells.shape)
    if before is not None:
        score += precision * before.matrix
    fresh = turn in _FRESH or before is None
    left, right = (start_walk(smooth, mode, min(rank, *precision.shape), OF_PAIRS) for mode in modes)
    sweeps = _FRESH_SWEEPS if fresh else _SWEEPS
    after = fit_pairs(precision, score, rank, sweeps, None if fresh else before, (left, right))
    one, other = columns[modes[0]], columns[modes[1]]
    fitted += after.at(one, other)
    if before is not None:
        fitted -= before.at(one, other)
    return after


def gather_values(tables: Sequence[Cells], values: Array, noise: float) -> list[Table]:
    """Return tables of values that were perturbed one by one: noise adds up over the entries of a cell."""
    return [Table(cells=cells, sums=cells.sum(values), noise=cells.counts * noise) for cells in tables]


def level(raw: Array, center: float, bounds: tuple[float, float]) -> float:
    """Return what to add to predictions so that their mean, once they are clipped, is ``center``."""
    low, high = bounds[0] - bounds[1], bounds[1] - bounds[0]
    for _ in range(50):
        middle = 0.5 * (low + high)
        if float(np.mean(np.clip(raw + middle, *bounds))) < center:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def join(shape: tuple[int, ...], form: Form, effects: Effects, components: Solution | None) -> Solution:
    """Return one model of everything: effects become components, which are constant along modes they do not have."""
    solution = components if components is not None else make_constant(shape, form, 0.0)
    found = solution.biases or [0.0] * len(shape)
    biases = tuple(bias + more for bias, more in zip(effects.biases, found, strict=True))
    solution = replace(solution, offset=solution.offset + effects.offset, biases=biases)
    singles = _list_components(effects)
    if not singles:
        return solution
    if solution.core is None:
        return replace(solution, factors=_widen_factors(solution.factors, singles))
    return _widen_core(solution, singles)


def scale_solution(solution: Solution, center: float, stretch: float) -> Solution:
    """Multiply all that a model says beside ``center``."""
    biases = None if solution.biases is None else tuple(bias * stretch for bias in solution.biases)
    remainder = None if solution.remainder is None else solution.remainder * stretch
    solution = replace(solution, biases=biases, remainder=remainder)
    offset = center + stretch * (solution.offset - center)
    if solution.core is not None:
        return replace(solution, offset=offset, core=solution.core * stretch)
    first, *others = solution.factors
    return replace(solution, offset=offset, factors=(first * stretch, *others))


# Some modes, and a column for each.
_Single = tuple[Modes, tuple[Array, ...]]


def _list_components(effects: Effects) -> list[_Single]:
    """Return the components of all two-way effects and products that are there, the strongest first."""
    found: list[tuple[float, _Single]] = [
        (strength, (modes, (pair.left[:, k], pair.right[:, k])))
        for modes, pair in effects.pairs.items()
        for k, strength in enumerate(pair.strengths)
    ]
    if effects.products is not None:
        modes = tuple(range(len(effects.products)))
        strengths = np.prod([np.mean(factor**2, axis=0) for factor in effects.products], axis=0)
        found += [
            (float(strength), (modes, tuple(factor[:, k] for factor in effects.products)))
            for k, strength in enumerate(strengths)
        ]
    found = [each for each in found if each[0] > _TRACE * effects.rest]
    return [single for _, single in sorted(found, key=lambda each: -each[0])]


def _widen_factors(factors: Sequence[Array], singles: Sequence[_Single]) -> tuple[Array, ...]:
    """Append components to the factors of a CP model."""
    widened = []
    for mode, factor in enumerate(factors):
        columns = [own[modes.index(mode)] if mode in modes else np.ones(len(factor)) for modes, own in singles]
        widened.append(np.concatenate([factor, np.stack(columns, axis=1)], axis=1))
    return tuple(widened)


def _widen_core(solution: Solution, singles: Sequence[_Single]) -> Solution:
    """Append components to a Tucker model: one element of the core each, and a column of ones where it is constant."""
    assert solution.core is not None
    singles = list(singles)
    while singles and _core_size(solution.core.shape, singles) > max(_LARGEST_CORE, solution.core.size):
        singles.pop()
    if not singles:
        return solution
    order = solution.core.ndim
    columns: list[list[Array]] = [[np.ones(len(factor))] for factor in solution.factors]
    places = []
    for modes, own in singles:
        place = list(solution.core.shape)  # the column of ones stands first
        for mode, column in zip(modes, own, strict=True):
            place[mode] += len(columns[mode])
            columns[mode].append(column)
        places.append(tuple(place))
    core = np.zeros([rank + len(more) for rank, more in zip(solution.core.shape, columns, strict=True)])
    core[tuple(slice(rank) for rank in solution.core.shape)] = solution.core
    for element in places:
        core[element] = 1.0
    factors = tuple(
        np.concatenate([solution.factors[mode], np.stack(columns[mode], axis=1)], axis=1) for mode in range(order)
    )
    return replace(solution, factors=factors, core=core)


def _core_size(shape: tuple[int, ...], singles: Sequence[_Single]) -> int:
    ranks = [rank + 1 + sum(mode in modes for modes, _ in singles) for mode, rank in enumerate(shape)]
    return int(np.prod(ranks))
