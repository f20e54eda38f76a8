"""Unit "entry": counts and sums over the cells of few modes, coarse to fine, each of what the last one left.

Positions are private, so every cell of a table gets noise, whether it has entries or not, and so does how many it has.
What is measured next, and with which share of the budget, follows from the declared shape and from what has been
released, the noisy number of entries among it (docs/guarantees.md#crosstabs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np

from tensorveil.mechanisms.allocation import Belief, Modes
from tensorveil.mechanisms.counts import run_counts
from tensorveil.mechanisms.crosstab_effects import DRIFT, CellValues, Known
from tensorveil.mechanisms.crosstab_plan import MOST_CELLS, Prospects
from tensorveil.mechanisms.data import Array, Form, Outcome
from tensorveil.mechanisms.decoder import join, scale_solution
from tensorveil.mechanisms.deferred import each
from tensorveil.mechanisms.entry_errors import private_entry_errors
from tensorveil.mechanisms.entry_predictions import components_at, predict_alone, predict_within
from tensorveil.mechanisms.errors import COUNTS, errors_share
from tensorveil.mechanisms.fitting import Fitted, Perturbed, fit_values
from tensorveil.mechanisms.method import NOT_COMPARED, Method
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tallies import (
    FARTHEST,
    number_cells,
    private_agreement,
    private_spread,
    private_tally,
    private_total,
)
from tensorveil.mechanisms.tradeoffs import parameters
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateEntries
from tensorveil.solvers.task import Solution

ONE_WAY, FURTHER, CELLS = "one-way tables", "two-way tables", "the table of all modes"

# Shares of the budget for the mean, a histogram, the number of every pair of modes (and at most for all), whether
# residuals agree with a guess, and the level of the predictions at the end.
_MEAN, _SHAPE, _PAIR, _MOST_PAIRS, _AGREE, _LEVEL = 0.03, 0.03, 0.015, 0.06, 0.015, 0.02
# Of what is left after the first histogram, one-way tables leave at least this for others, or take all.
_ENOUGH = 0.3
# Shares of the variance that effects of one mode and of two are taken to have until they are measured.
_ONE_WAY, _TWO_WAY = 0.4, 0.4
# Two-way effects of a tensor differ by about this share of the variance.
_PAIRS_DIFFER = 0.12
# The clipped residuals whose products tell about pairs lie within this many spreads.
_PRODUCT_REACH = 2.0
# Whether effects multiply is asked if the noise of the answer would be below the first number; before, it is taken to
# be about so far from 0; below the last, products are left out.
_PRODUCT_NOISE, _PRODUCTS_DIFFER, _LEAST_PRODUCT = 0.4, 0.7, 0.15
# Products are fitted at so many places, and not if they vary by less than this share of the residuals' variance.
_PLACES, _SMALL_PRODUCT = 40_000, 0.003
# Components are taken to be true up to so much, and are stretched by at most the second number. If they vary by less
# than the last, as a share of the bounds' width, there are none.
_COMPONENTS_DIFFER, _MOST_STRETCH, _FLAT = 0.5, 1.2, 1e-6


def run_crosstabs(data: PrivateEntries, form: Form, spend: Spend) -> Outcome:
    """Release a model of what tables of one mode, of two and of all modes show, as far as each pays, with its errors.

    Where cells without an entry are zero, tables are of sums alone, and the model is of expected values in all cells.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#crosstabs, docs/guarantees.md#counts-of-cells).
    """
    if data.zeros:
        return run_counts(data, form, spend)
    return _Run(data, form, spend).run()


class _Run:
    """The state of one run: what is left of the budget, what was measured, and what it says."""

    def __init__(self, data: PrivateEntries, form: Form, spend: Spend) -> None:
        self.data, self.form, self.shape = data, form, data.shape
        self.width = data.bounds[1] - data.bounds[0]
        self.whole, self.rest_of_budget = spend, spend
        # As a share of the whole, less what is kept for the end.
        self.left = 1.0 - _LEVEL
        self.parts: list[Part] = []
        self.notes: list[str] = []
        self.everything: Modes = tuple(range(len(self.shape)))
        self.twos: list[Modes] = [
            (one, other)
            for one, other in combinations(self.everything, 2)
            if self.shape[one] * self.shape[other] <= MOST_CELLS
        ]

    def take(self, share: float, name: str, statistic: str) -> Spend:
        """Take a share of the whole budget from what is left, to spend it on a statistic."""
        self.left = max(self.left - share, 0.0)
        part, self.rest_of_budget = self.rest_of_budget.split(share, self.left + _LEVEL)
        self.parts.append(part.part(name, statistic))
        return part

    # The run

    def run(self) -> Outcome:
        """Measure mean, one-way tables, and what pays after them; then level and errors of the predictions."""
        total = private_total(self.data, self.take(_MEAN, "mean", "sum and number of the entries"))
        self.n = max(total.count, 1.0)
        self.known = Known.constant(self.shape, self.data.bounds, self.n, total.mean, total.mean_noise)
        # What errors are measured with is put aside first, so that no stage spends it.
        share = COUNTS * errors_share(self.whole, int(self.n))
        for_errors = self.take(share, "errors", "histogram of the residuals of the released predictions")
        self.look()
        components = None
        if self.measure_ones():
            self.multiply_effects()
            self.look()
            components = self.measure_further()
        solution = self.settle(join(self.shape, self.form, self.known.effects(self.spread.variance), components))
        errors = private_entry_errors(self.data, solution, self.draw_places(), self.n, for_errors)
        return Outcome(solution=solution, parts=tuple(self.parts), notes=tuple(self.notes), errors=errors)

    def residual(self) -> Array:
        """Return what is left of the private values."""
        residual: Array = each(self.known.settled.leave, self.data.values.reveal(), self.data.columns.reveal())
        return residual

    def draw_places(self) -> Array:
        """Draw cells where entries may be, by what is released of counts."""
        return self.known.draw_positions(int(np.clip(self.n, 1, _PLACES)), self.form.seed)

    def prospects(self) -> Prospects:
        """Return all that decisions are made by."""
        return Prospects(
            known=self.known,
            spread=self.spread,
            parameters=parameters(self.shape, self.form.ranks, self.form.core),
            noise=self.whole.noise,
            pure=self.whole.epsilon is not None,
        )

    def look(self) -> None:
        """Look at the residuals: their shape, and their variance."""
        low, high = self.known.reach
        ends = self.data.bounds[0] - high, self.data.bounds[1] - low  # no residual is beyond
        part = self.take(_SHAPE, "shape", "histogram of the residuals")
        self.spread = private_spread(self.residual(), *ends, self.width, self.n, part)

    # Tables

    def measure_ones(self) -> bool:
        """Measure one-way tables, the smallest first; return whether to go on after them."""
        prospects = self.prospects()
        shares = {mode: prospects.share_for(mode) for mode in self.everything}
        needed = sum(shares.values())
        further = needed < (1 - _ENOUGH) * self.left
        scale = 1.0 if further else self.left / needed
        variance, before = self.spread.variance, self.known.copy()
        for done, mode in enumerate(sorted(shares, key=lambda mode: self.shape[mode])):
            self.form.tell("one-way tables", done, len(shares))
            belief = Belief(effects={(mode,): _ONE_WAY * variance / len(self.shape)}, rest=variance)
            self.measure((mode,), shares[mode] * scale, [belief])
        self.tell(ONE_WAY, needed * scale, before)
        return further

    def measure_further(self) -> Solution | None:
        """Measure one-way and two-way tables, those first that have the fewest cells; at last all cells, if it pays."""
        prospects = self.prospects()
        beliefs = prospects.believe(self.measure_pairs() if len(self.shape) > 2 else {})
        shares, on_cells = prospects.split(self.twos, self.left - _AGREE, _SHAPE, beliefs)
        before = self.known.copy()
        for done, modes in enumerate(sorted(shares, key=lambda modes: math.prod(self.shape[mode] for mode in modes))):
            self.form.tell("tables", done, len(shares))
            self.measure(modes, shares[modes], beliefs)
        if shares:
            self.tell(FURTHER if any(len(modes) > 1 for modes in shares) else ONE_WAY, sum(shares.values()), before)
        if any(len(modes) > 1 for modes in shares) and len(self.shape) > 2:
            self.multiply_effects()
        if on_cells <= 0:
            return None
        if shares:
            self.look()
        return self.measure_cells()

    def measure(self, modes: Modes, share: float, beliefs: Sequence[Belief]) -> None:
        """Measure a table of what is left, and take it in."""
        interval = self.prospects().choose_interval(modes, share, beliefs)
        part = self.take(share, _name(modes), "counts, and sums of clipped residuals")
        tally = private_tally(self.data.columns.reveal(), self.shape, modes, self.residual(), interval, part)
        self.known.take_in(tally, interval, self.spread.variance, max(self.form.ranks))

    def measure_pairs(self) -> dict[Modes, float]:
        """Measure how much variance each two-way table would explain, as far as noise lets it be seen."""
        variance = self.spread.variance
        limit = _PRODUCT_REACH * variance**0.5
        slope = max(self.spread.interval(-limit, limit).slope, 0.1)
        residual, effects = self.residual(), {}
        for modes in self.twos:
            usual = _TWO_WAY * variance / len(self.twos)
            share = min(_PAIR, _MOST_PAIRS / len(self.twos))
            part = self.take(share, f"pairs of modes {modes[0]} and {modes[1]}", "products of pairs of residuals")
            expected = self.known.expect(modes)
            cells = number_cells(self.data.columns.reveal(), self.shape, modes)
            noisy = part.entry_products(residual, limit, cells, expected.size)
            together = max(float(np.sum(expected * -np.expm1(-expected))), 1.0) * slope**2
            found, noise = float(noisy.values[0]) / together, noisy.variance / together**2
            apart = max(usual, _PAIRS_DIFFER * variance) ** 2
            effect = usual + (found - usual) * apart / (apart + noise)
            effects[modes] = float(np.clip(effect, 0.01 * usual, 0.9 * variance))
        return effects

    def measure_cells(self) -> Solution | None:
        """Measure the table of all modes, and fit components to what it says of the cells that have entries."""
        share, prospects, variance = self.left - _AGREE, self.prospects(), self.spread.variance
        interval = prospects.choose_interval(self.everything, share, [prospects.believe_components({})])
        part = self.take(share, "table of all modes", "counts, and sums of clipped residuals")
        columns = self.data.columns.reveal()
        tally = private_tally(columns, self.shape, self.everything, self.residual(), interval, part)
        moved = self.known.copy()
        found = moved.take_in_cells(tally, interval, variance, max(self.form.ranks))
        if found is None:
            return None
        # Components alone may describe everything better than what two-way effects leave.
        before, after = (self.fit_cells(values) for values in found)
        best = before if before.evidence > after.evidence else after
        if best is after:
            self.known = moved
        self.known.doubt += DRIFT * variance
        self.notes.append(f"spent {share:.0%} on {CELLS}")
        return self.weigh_components(best.solution)

    def fit_cells(self, cells: CellValues) -> Fitted:
        """Fit components to cells."""
        perturbed = Perturbed(columns=cells.columns, shape=self.shape, noise=cells.noise)
        return fit_values(perturbed, cells.values, self.form)

    # What entries say of guesses

    def weigh_components(self, solution: Solution) -> Solution:
        """Shrink or stretch components as the entries agree with them: two noisy numbers tell."""
        spread = float(np.sqrt(np.mean(predict_alone(self.draw_places(), solution) ** 2)))
        if spread < _FLAT * self.width:
            return solution
        part = self.take(_AGREE, "components", "sums of residuals times components, and of squared components")
        guess, differ = each(partial(_predict, solution), self.data.columns.reveal()), _COMPONENTS_DIFFER**2
        found = private_agreement(self.residual(), guess, self.spread.farthest, spread, self.n, part)
        true = 1.0 + (found.slope - 1.0) * differ / (differ + found.noise)
        return scale_solution(solution, 0.0, float(np.clip(true, 0.0, _MOST_STRETCH)))

    def multiply_effects(self) -> None:
        """Take in what effects say if modes multiply, as far as the entries agree: two noisy numbers tell."""
        limit, most = self.spread.farthest, self.spread.variance**0.5
        seen = self.prospects().noise_of(_AGREE) ** 0.5 * 2.0 * FARTHEST * limit / self.n  # over the products' spread
        if seen > _PRODUCT_NOISE * most:
            return
        places = self.draw_places()
        factors = self.known.find_moves(places, self.form)
        spread = float(np.sqrt(np.mean(components_at(places, factors) ** 2)))
        if spread**2 < _SMALL_PRODUCT * self.spread.variance or seen > _PRODUCT_NOISE * spread:
            return
        part = self.take(_AGREE, "products", "sums of residuals times products of effects, and of squared products")
        guess, differ = each(partial(_multiply, factors), self.data.columns.reveal()), _PRODUCTS_DIFFER**2
        found = private_agreement(self.residual(), guess, limit, spread, self.n, part)
        true = float(np.clip(found.slope * differ / (differ + found.noise), 0.0, 1.0))
        if true < _LEAST_PRODUCT:
            return
        self.known.add_products(factors, true)
        self.known.doubt += DRIFT * self.spread.variance
        self.notes.append(f"spent {_AGREE:.1%} on whether effects multiply: about {true:.0%} of what that says is true")

    def settle(self, solution: Solution) -> Solution:
        """Set the mean of the predictions by what is left of the entries, on average."""
        part, columns = self.rest_of_budget, self.data.columns.reveal()
        predicted = each(partial(predict_within, solution, self.data.bounds), columns)
        residual = each(np.subtract, self.data.values.reveal(), predicted)
        interval = self.spread.best_interval(lambda interval: interval.kept)
        everything = each(_put_in_one_cell, residual)
        tally = private_tally(everything, (1,), (0,), residual, interval, part)
        self.parts.append(part.part("level", "sum and number of the residuals"))
        before = self.known.offset
        self.known.settle_offset(tally, interval)
        return replace(solution, offset=solution.offset + self.known.offset - before)

    def tell(self, name: str, share: float, before: Known) -> None:
        """Note what a stage was for: how far it moved predictions at places where entries may be."""
        places = self.draw_places()
        moved = float(np.var(self.known.at(places) - before.at(places)))
        explained = min(moved / max(self.spread.variance, 1e-300), 1.0)
        of = "the variance" if name == ONE_WAY else "what was left"
        self.notes.append(f"spent {share:.0%} on {name}: they explain about {explained:.0%} of {of}")


def _predict(solution: Solution, columns: Array) -> Array:
    return predict_alone(columns, solution)


def _multiply(factors: tuple[Array, ...], columns: Array) -> Array:
    return components_at(columns, factors)


def _put_in_one_cell(residual: Array) -> Array:
    return np.zeros((1, len(residual)), dtype=np.int64)


def _name(modes: Modes) -> str:
    """Name a table."""
    return f"table of mode{'s' if len(modes) > 1 else ''} {' and '.join(map(str, modes))}"


METHOD = Method(
    name="crosstabs",
    title="private cross-tabulations",
    unit="entry",
    run=run_crosstabs,
    proofs=(
        "docs/guarantees.md#entry",
        "docs/guarantees.md#entry-products",
        "docs/guarantees.md#crosstabs",
        "docs/guarantees.md#counts-of-cells",
        "docs/guarantees.md#errors",
        "docs/guarantees.md#post-processing",
    ),
    expected=NOT_COMPARED,
    noise="laplace",
    zeros=True,
)
