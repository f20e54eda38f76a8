"""Unit "entry", cells without an entry being zero: noisy sums over the cells of few modes, coarse to fine.

Which cells are listed is what is protected, so every cell of a table gets noise. Expected values of all cells follow
from the noisy tables alone (docs/guarantees.md#counts-of-cells). Which tables are measured, with which part of the
budget, follows from the declared shape and from the noisy total.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import combinations

import numpy as np

from tensorveil.mechanisms.allocation import Modes
from tensorveil.mechanisms.count_model import (
    CountModel,
    CountTable,
    fit_counts,
    lean_ones,
    multiply_ones,
    temper_ones,
)
from tensorveil.mechanisms.crosstab_plan import MOST_CELLS
from tensorveil.mechanisms.data import Array, Form, Outcome
from tensorveil.mechanisms.deferred import add_steps, each
from tensorveil.mechanisms.fitting import Perturbed, fit_values
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tallies import count_once, number_cells
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateEntries
from tensorveil.solvers.task import Solution

# Shares of the budget: a histogram of the values and their sum, unless all values are 0 or 1; and, of all modes
# together, at most so much for one-way tables if others are measured after them, and at least so much of each.
_SIZES, _TOTAL, _MOST_ONES, _LEAST_ONE = 0.05, 0.03, 0.5, 0.02
# One-way tables are precise enough if noise is this share of a usual sum.
_PRECISE = 0.1
# Values are told apart by halves of the largest possible one, so often; fewer than so many standard deviations of noise
# are none.
_HALVINGS, _SEEN = 30, 2.0
# All cells are perturbed, where they are at most so many, if each of so many equal components stands so far out.
_MOST_PERTURBED, _COMPONENTS, _FAR_OUT = 200_000, 8, 8.0
# The value of a cell is summed in so many steps.
_CELL_STEPS = 1 << 30
# A two-way table is taken to differ from the product of one-way tables by this share of its squares, before and after
# one-way tables tell how crowded cells are, and by this share of the entries.
_TWO_WAY, _CROWDED, _SPARSE = 0.3, 0.15, 0.1
# If one-way tables leave less than this share of the budget, two-way tables must stand out so clearly to get it.
_LITTLE, _CLEAR = 0.1, 3.0


def private_sizes(values: Array, high: float, spend: Spend) -> tuple[Array, float]:
    """Return how many values lie up to ``high``, half of it, ... and the variance of the noise on each count.

    One entry is in one bin, so adding or removing it moves one count by one.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#counts-of-cells).
    """
    edges = high * 0.5 ** np.arange(_HALVINGS, -1.0, -1.0)
    bins = each(partial(_find_sizes, edges), values)
    noisy = spend.bounded_rows(each(count_once, bins), bins, len(edges), longest=1.0)
    return noisy.values[:, 0], noisy.variance


def private_sums(
    columns: Array, shape: tuple[int, ...], modes: Modes, values: Array, limit: float, spend: Spend
) -> CountTable:
    """Return noisy sums of values over the cells of some modes of the declared shape, each cut to a limit and over it.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#counts-of-cells).
    """
    sizes, cells = tuple(shape[mode] for mode in modes), number_cells(columns, shape, modes)
    rows = each(partial(_make_rows, limit), values)
    noisy = spend.bounded_rows(rows, cells, math.prod(sizes), longest=1.0)
    return CountTable(modes=modes, sums=noisy.values[:, 0].reshape(sizes), noise=noisy.variance)


def private_cells(columns: Array, shape: tuple[int, ...], values: Array, spend: Spend) -> CountTable:
    """Return the perturbed value of every cell of the declared shape: the sum of its entries, cut to 0 and 1.

    With a pure epsilon that is randomised response, and sums are rounded to 0 or 1.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#counts-of-cells).
    """
    everything = tuple(range(len(shape)))
    cells = number_cells(columns, shape, everything)
    # In whole steps, which add up to the same whatever order entries come in.
    sums = add_steps(each(_to_steps, values), cells, math.prod(shape))
    noisy, _ = spend.values(np.minimum(sums, _CELL_STEPS) / _CELL_STEPS, (0.0, 1.0), flags=True)
    return CountTable(modes=everything, sums=noisy.values.reshape(shape), noise=noisy.variance)


def _cut(high: float, values: Array) -> Array:
    return np.asarray(np.clip(values, 0.0, high))


def _find_sizes(edges: Array, values: Array) -> Array:
    return np.asarray(np.minimum(np.searchsorted(edges, values), _HALVINGS))


def _make_rows(limit: float, values: Array) -> Array:
    return np.asarray(np.clip(values / limit, 0.0, 1.0)).reshape(-1, 1)


def _to_steps(values: Array) -> Array:
    return np.asarray(np.rint(np.clip(values, 0.0, 1.0) * _CELL_STEPS), dtype=np.int64)


def run_counts(data: PrivateEntries, form: Form, spend: Spend) -> Outcome:
    """Release expected values of all cells, as tables of one mode and of two show them.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#counts-of-cells).
    """
    return _Run(data, form, spend).run()


class _Run:
    """The state of one run: what is left of the budget, and what was measured."""

    def __init__(self, data: PrivateEntries, form: Form, spend: Spend) -> None:
        self.data, self.form, self.shape = data, form, data.shape
        self.high = data.bounds[1]
        self.whole, self.rest_of_budget, self.left = spend, spend, 1.0
        self.parts: list[Part] = []
        self.notes: list[str] = []
        self.limit, self.farthest, self.chance = self.high, self.high, 1.0
        self.trusts: tuple[float, ...] = ()

    @property
    def values(self) -> Array:
        """The private values, between 0 and the upper bound."""
        within: Array = each(partial(_cut, self.high), self.data.values.reveal())
        return within

    def take(self, share: float, name: str, statistic: str) -> Spend:
        """Take a share of the whole budget from what is left; all of it if less than a thousandth would stay."""
        left = max(self.left - share, 0.0)
        if left < 1e-3:
            part, self.left = self.rest_of_budget, 0.0
        else:
            part, self.rest_of_budget = self.rest_of_budget.split(share, left)
            self.left = left
        self.parts.append(part.part(name, statistic))
        return part

    def run(self) -> Outcome:
        """Measure total and one-way tables, then two-way tables as far as they pay, and fit components."""
        if self.high != 1.0:
            self.look()
        total = self.measure((), _TOTAL)
        n = max(float(total.sums), 1.0)
        if self.is_far_out(n):
            return self.perturb_cells()
        ones = self.share_ones(n)
        further = self.share_twos(n, self.left - sum(ones.values()))
        ones = self.share_ones(n, further)
        further = self.weigh_twos(further, self.left - sum(ones.values()))
        if further and sum(further.values()) < _LITTLE and max(self.find_clarity(n, further).values()) < _CLEAR:
            ones, further = self.share_ones(n, {}), {}
        whole = self.total_values() if self.farthest > self.limit else None
        given = self.left / (sum(ones.values()) + sum(further.values()))
        tables = [self.measure((mode,), share * given) for mode, share in ones.items()]
        self.notes.append(f"spent {sum(ones.values()) * given:.0%} on one-way tables")
        base = self.multiply([total, *tables])
        if further:
            # One-way tables tell where entries are, and so which others stand out.
            further = self.share_twos(n, self.left, base) or further
            given = self.left / sum(further.values())  # the sum of values may have cost something meanwhile
            tables += [self.measure(modes, share * given) for modes, share in further.items()]
            base = self.multiply([total, *tables])
        found = self.fit_twos(tables, base, further) if further else base
        scale = self.limit if whole is None else whole / float(base.weights[0])
        return Outcome(solution=self.describe(found, scale), parts=tuple(self.parts), notes=tuple(self.notes))

    def perturb_cells(self) -> Outcome:
        """Perturb every cell, and fit a model to that, whose numbers may be negative."""
        share = self.left
        part = self.take(share, "cells", "the value of every cell, perturbed")
        table = private_cells(self.data.columns.reveal(), self.shape, self.values, part)
        every = np.stack(np.unravel_index(np.arange(table.sums.size), self.shape)).astype(np.int32)
        perturbed = Perturbed(columns=every, shape=self.shape, noise=float(table.noise))
        found = fit_values(perturbed, table.sums.reshape(-1), self.form)
        self.notes.append(f"spent {share:.0%} on every cell")
        return Outcome(solution=found.solution, parts=tuple(self.parts), notes=tuple(self.notes))

    def fit_twos(self, tables: list[CountTable], base: CountModel, further: Mapping[Modes, float]) -> CountModel:
        """Fit components to all tables, and note what they are worth."""
        found = self.fit(tables, base)
        names = "; ".join(f"modes {one} and {other}" for one, other in further)
        told = "they say no more than one-way tables do" if found is None else "components say more"
        self.notes.append(f"spent {sum(further.values()):.0%} on two-way tables ({names}): {told}")
        return base if found is None else found

    def multiply(self, tables: list[CountTable]) -> CountModel:
        """Multiply one-way tables, each as far as it is to be believed."""
        base = multiply_ones(tables, len(self.shape), self.chance)
        self.trusts = temper_ones(base, tables, self.chance, self.form.seed)
        return lean_ones(base, self.trusts)

    def fit(self, tables: list[CountTable], base: CountModel) -> CountModel | None:
        """Fit components, if they say more than the base."""
        return fit_counts(tables, base, self.form, self.chance, self.trusts)

    def describe(self, found: CountModel, scale: float) -> Solution:
        """Return components as the factors of a model, of the declared rank."""
        factors = tuple(
            np.pad(factor, ((0, 0), (0, rank - factor.shape[1])))
            for factor, rank in zip(found.factors(scale), self.form.ranks, strict=True)
        )
        core = None
        if self.form.core:
            core = np.zeros(self.form.ranks)
            places = np.arange(len(found.weights))
            core[(places,) * len(self.shape)] = 1.0
        return Solution(factors=factors, core=core, offset=0.0, biases=None)

    # Statistics

    def measure(self, modes: Modes, share: float) -> CountTable:
        """Measure a table of some modes; of none, the total."""
        name = "total" if not modes else "table of modes " + ", ".join(map(str, modes))
        part = self.take(share, name, "sums of values, each cut to a limit")
        return private_sums(self.data.columns.reveal(), self.shape, modes, self.values, self.limit, part)

    def look(self) -> None:
        """Look at the sizes of values: up to which limit they count in tables, and how far they reach."""
        part = self.take(_SIZES, "sizes", "histogram of the values")
        counts, noise = private_sizes(self.values, self.high, part)
        counts = np.where(counts > _SEEN * math.sqrt(noise), counts, 0.0)
        if not counts.any():
            return
        edges = self.high * 0.5 ** np.arange(_HALVINGS, -1.0, -1.0)
        usual, unit = 0.75 * edges, math.sqrt(self.whole.noise)
        # The total is cut where its noise outweighs what is cut off.
        cut = np.array([counts @ np.maximum(usual - edge, 0.0) for edge in edges])
        self.farthest = float(edges[np.argmin(cut**2 + (edges * unit / _TOTAL) ** 2)])
        # In tables, the share that is cut is set against the noise on a usual cell of one mode, as a share of its sum.
        within = np.minimum(usual, edges[:, None])
        sums, squares = within @ counts, within**2 @ counts
        per_cell = sums / float(np.median(self.shape))
        apart = (1.0 - sums / sums[-1]) ** 2 + (edges * unit * len(self.shape) / _MOST_ONES / per_cell) ** 2
        apart[edges > self.farthest] = np.inf
        at = int(np.argmin(apart))
        self.limit = float(edges[at])
        self.chance = float(squares[at] / (sums[at] * self.limit))

    def total_values(self) -> float:
        """Measure the sum of all values, less cut than in tables: what is cut there is added to all cells alike."""
        part = self.take(_TOTAL, "sum of values", "sum of values, each cut to a limit")
        columns = self.data.columns.reveal()
        table = private_sums(columns, self.shape, (), self.values, self.farthest, part)
        return max(float(table.sums) * self.farthest, self.limit)

    # What to measure

    def share_ones(self, n: float, further: Iterable[Modes] | None = None) -> dict[int, float]:
        """Return the shares of one-way tables, the most precise of which is no more precise than it need be.

        Beside given tables of two modes a long mode gets what it needs. Noise on a cell costs the more the less the
        cell expects, so a table of s cells loses s^2 / share^2, and one of two modes so much for every direction in
        which it is described. Shares that leave the least loss in all go with the third root of that.
        """
        unit, most = math.sqrt(self.whole.noise), _MOST_ONES / len(self.shape)
        needed = {mode: unit * size / (_PRECISE * n) for mode, size in enumerate(self.shape)}
        if further is None:
            return {mode: float(np.clip(share, _LEAST_ONE, most)) for mode, share in needed.items()}
        ones = {mode: size ** (2 / 3) for mode, size in enumerate(self.shape)}
        twos = sum(
            (sum(self.shape[mode] for mode in modes) * math.prod(self.shape[mode] for mode in modes)) ** (1 / 3)
            for modes in further
        )
        within = self.left / (sum(ones.values()) + twos)
        shares = {
            mode: float(np.clip(share, _LEAST_ONE, max(most, ones[mode] * within))) for mode, share in needed.items()
        }
        room = (self.left - twos * within) / sum(shares.values())
        return {mode: min(room, 1.0) * share for mode, share in shares.items()}

    def is_far_out(self, n: float) -> bool:
        """Tell whether every cell should be perturbed: values are 0 or 1, and components far above the noise."""
        if self.high != 1.0 or math.prod(self.shape) > _MOST_PERTURBED:
            return False
        noise = self.whole.noise_of_flags * sum(self.shape)
        return n / _COMPONENTS >= _FAR_OUT * noise

    def share_twos(self, n: float, left: float, base: CountModel | None = None) -> dict[Modes, float]:
        """Return the shares of those two-way tables whose components may stand out of the noise.

        Without a base, entries are taken to be everywhere alike.
        """
        sizes: dict[Modes, int] = {
            modes: math.prod(self.shape[mode] for mode in modes)
            for modes in combinations(range(len(self.shape)), 2)
        }  # fmt: skip
        chosen = {modes: cells for modes, cells in sizes.items() if cells <= MOST_CELLS}
        while chosen:
            shares = self.weigh_twos(chosen, left)
            stands_out = self.find_clarity(n, shares, base)
            worst = min(stands_out, key=lambda modes: stands_out[modes])
            if stands_out[worst] >= 1.0:
                return shares
            del chosen[worst]
        return {}

    def find_clarity(
        self, n: float, shares: Mapping[Modes, float], base: CountModel | None = None
    ) -> dict[Modes, float]:
        """Return how far the components of two-way tables with these shares may stand out of the noise."""
        apart = _TWO_WAY if base is None else _CROWDED
        crowded = [
            1.0 / size if base is None else float(np.sum(base.shares[mode] ** 2))
            for mode, size in enumerate(self.shape)
        ]
        return {
            modes: (apart * n**2 * math.prod(crowded[mode] for mode in modes) + _SPARSE * n)
            * share**2
            / (self.whole.noise * sum(self.shape[mode] for mode in modes))
            for modes, share in shares.items()
        }

    def weigh_twos(self, chosen: Iterable[Modes], left: float) -> dict[Modes, float]:
        """Share what is left among two-way tables: more for those with more rows."""
        weights = {modes: sum(self.shape[mode] for mode in modes) ** (1 / 3) for modes in chosen}
        return {modes: left * weight / sum(weights.values()) for modes, weight in weights.items()}
