"""Measure in stages, coarse to fine: one-way tables, two-way tables, values; each of what the last one left.

Before every stage a noisy histogram shows how the residuals are spread, so that they are clipped as tightly as pays;
and once one-way effects are known, a noisy number per pair of modes tells how much variance a two-way table would
explain. What is measured next, and with which share of the budget, follows from what has been released so far: nothing
is assumed of a typical tensor but how variance tends to divide into effects that nobody has measured yet.

Whatever a stage decides is a function of public facts and released numbers, so the parts of the budget add up
(docs/guarantees.md#stages).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tensorveil.mechanisms.allocation import Belief, Crowd, Layout, Modes
from tensorveil.mechanisms.cells import Cells, Table
from tensorveil.mechanisms.data import Array, Form, Outcome
from tensorveil.mechanisms.decoder import (
    Effects,
    effects_within,
    fit_effects,
    gather_values,
    join,
    level,
    scale_solution,
)
from tensorveil.mechanisms.deferred import Beside, Deferred, beside, each, here, put_together
from tensorveil.mechanisms.errors import errors_share, private_errors
from tensorveil.mechanisms.fitting import (
    Perturbed,
    fit_values,
    predict_solution,
    solution_within,
    weigh,
    weigh_solution,
)
from tensorveil.mechanisms.leverage import find_leverages, inflate_at
from tensorveil.mechanisms.link_decoder import Seen, decode_constant, decode_on_link
from tensorveil.mechanisms.mean import private_mean, run_mean
from tensorveil.mechanisms.products import find_products, weigh_products
from tensorveil.mechanisms.remainders import Remainder, find_remainder
from tensorveil.mechanisms.shape import Interval, Shape, private_shape, shape_of_chances
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.stage_plan import (
    ONE_WAY,
    PRODUCT,
    SCALE,
    TWO_WAY,
    VALUES,
    WORTH_OF_COUNTS,
    StagePlan,
    list_tables,
)
from tensorveil.mechanisms.tradeoffs import parameters
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateValues
from tensorveil.solvers.bayes import Scatter
from tensorveil.solvers.loss import GAUSSIAN
from tensorveil.solvers.task import Solution

EVERYTHING = (ONE_WAY, TWO_WAY, VALUES)

# Shares of the budget for the mean, a histogram and the numbers by pair of modes. With few entries the first two get
# more, so that their noise stays below a share of the entries: about so many over their number, for a pure budget.
_MEAN, _SHAPE, _PAIR, _MOST_PAIRS = 0.02, 0.025, 0.01, 0.06
_FEW_MEAN, _FEW_SHAPE, _MOST_MEAN, _MOST_SHAPE = 200.0, 300.0, 0.06, 0.12
# With fewer entries than this, for a pure epsilon of 1, there is nothing to see but the mean.
_TOO_FEW = 2000.0
# At the end the model is scaled: by how much models have been seen to be off, and at the most.
_SCALES_DIFFER, _MOST_OFF = 0.15, 0.5
# Where this share of effects add up to less than the lower bound, about the second number of what products say is true,
# give or take the third; elsewhere it is about the fourth, on either side of nothing. On the real tensors that are not
# set aside it was 0.5 to 1.1 in the first case, and nothing in the second.
_IMPOSSIBLE, _LIKELY_PRODUCT, _LIKELY_DIFFER, _PRODUCTS_DIFFER = 0.05, 0.7, 0.3, 0.7
# One number tells, unless its doubt is above this share of what it is before. What clipping bends in it is the second
# share of what it takes off. Below the last, products are left out.
_PRODUCT_NOISE, _CLIPPED_PRODUCT, _LEAST_PRODUCT = 0.8, 0.5, 0.15
# Products that vary by less than this share of the residuals' variance are not worth asking for.
_SMALL_PRODUCT = 0.003
# A model that varies by less than this share of the bounds' width is a constant.
_FLAT = 1e-6
# A stage that would get less than this share of what is left is left out, and tables that would get less of a stage.
_LEAST_STAGE, _LEAST_TABLE = 0.02, 0.02
# Numbers by pair of modes tell, unless their noise is above this share of what is unknown.
_PAIR_NOISE = 1.0
# The clipped residuals whose products tell about pairs lie within this many spreads.
_PRODUCT_REACH = 2.0
# Residuals are looked at again if effects leave less than this share of what there was.
_LOOK_AGAIN = 0.85
# Effects that vary by less than this share of the variance are as good as none.
_SMALL_EFFECTS = 0.01
# Intervals around the mean must keep this share of the signal.
_HARDLY_CLIPPED = 0.97
# Perturbed values tell of one-way effects too, and components are found sooner without these, where the noise of a
# value is below this share of the residuals' variance.
_CLEAR = 0.7
# What components leave of the values is taken to be at least this share of what there was before.
_LEAST_LEFT = 0.05


def run_stages(
    data: PrivateValues, form: Form, spend: Spend, allowed: Sequence[str] = EVERYTHING, *, measure_errors: bool = True
) -> Outcome:
    """Measure what is allowed and seems worth it, and release one model of everything, with its errors.

    ``measure_errors`` is False for a model that is only a start: its errors would tell nothing of what becomes of it.

    Guarantee: ``spend``, unit value (docs/guarantees.md#stages).
    """
    if ONE_WAY in allowed and data.n_entries < _TOO_FEW * np.sqrt(spend.noise / 2.0):
        outcome = run_mean(data, form, spend)
        if form.loss != GAUSSIAN.name:
            outcome = replace(outcome, solution=decode_constant(outcome.solution, data.bounds, form.loss))
        return replace(outcome, notes=("spent all on the mean: entries are too few for more with this budget",))
    return _Run(data, form, spend, tuple(allowed), errors_share(spend, data.n_entries) * measure_errors).run()


class _Run(StagePlan):
    """The state of one run: what is left of the budget, what was measured, and what it says."""

    def __init__(
        self, data: PrivateValues, form: Form, spend: Spend, allowed: tuple[str, ...], for_errors: float
    ) -> None:
        self.data, self.form, self.allowed = data, form, allowed
        self.rank = max(form.ranks)  # of two-way effects
        self.columns, self.shape, self.n = data.columns, data.shape, data.n_entries
        self.everything = beside(self.values, put_together(self.columns), put_together)
        self.cells = {modes: Cells.of(self.columns, self.shape, modes) for modes in list_tables(self.shape, self.n)}
        self.layout = Layout(
            shape=self.shape,
            n_entries=self.n,
            crowds={modes: Crowd.of(cells.counts) for modes, cells in self.cells.items()},
            parameters=parameters(data.shape, form.ranks, form.core),
        )
        self.ones: list[Modes] = [modes for modes in self.cells if len(modes) == 1]
        self.twos: list[Modes] = [modes for modes in self.cells if len(modes) == 2] if TWO_WAY in allowed else []
        self.pairs_share = min(_PAIR * len(self.twos), _MOST_PAIRS)
        self.rest_of_budget = spend
        # As a share of the whole, less what is kept for the end.
        self.left = 1.0 - SCALE
        # What errors are measured with is put aside first, so that no stage spends it.
        self.for_errors = self.take(for_errors)[0] if for_errors > 0 else None
        self.noise, self.power = spend.noise, 2 if spend.epsilon is not None else 1
        self.pure = spend.epsilon is not None
        self.parts: list[Part] = []
        self.notes: list[str] = []
        # Margins say most of counts and of yes and no, so they are always measured first.
        self.counted = form.loss != GAUSSIAN.name
        if self.counted:
            self.worth = WORTH_OF_COUNTS
        self.tables: dict[Modes, Table] = {}
        self.effects = Effects.constant(data.shape, data.middle)
        self.lifted = 1.0
        self.shapes = []
        self.perturbed: tuple[Array, float] | None = None  # values and the variance of their noise
        self.remainder: Remainder | None = None

    @property
    def values(self) -> Array | Deferred:
        """The private values, or what stands for them."""
        return self.data.values.reveal()

    @property
    def unseen(self) -> Array | None:
        """What remainders would say of entries that they have not seen, by cell."""
        if self.remainder is None:
            return None
        by_cell = np.zeros(self.shape)
        by_cell[tuple(self.columns)] = self.remainder.unseen
        return by_cell

    # The run

    def run(self) -> Outcome:
        """Measure mean, one-way tables, and what pays after them; then decode."""
        shape_share = self.side_share(_SHAPE, _FEW_SHAPE, _MOST_SHAPE)
        (for_mean,) = self.take(self.side_share(_MEAN, _FEW_MEAN, _MOST_MEAN))
        self.center = private_mean(self.data, for_mean)
        self.doubt = for_mean.noise * (self.data.width / self.n) ** 2  # the variance of its noise
        self.parts.append(for_mean.part("mean", "sum of the values"))
        self.effects = Effects.constant(self.shape, self.center)
        components, before = None, self.center
        self.look(shape_share)
        self.about = before + float(self.residuals.masses @ self.residuals.middles)  # the mean by the histogram
        self.middle = self.settled
        if ONE_WAY not in self.allowed:
            components = self.measure_values(self.believe_at_first())
        elif self.measure_one_way(shape_share):
            if self.residuals.by_chance or self.effects.rest < _LOOK_AGAIN * self.residuals.variance:
                self.look(shape_share)
            else:
                self.know_effects()
            components = self.measure_further(shape_share)
        solution = linear = self.calibrate(join(self.shape, self.form, self.effects, components))
        if self.counted:
            solution = decode_on_link(self.gather_seen(), linear, self.form)
        errors = None
        if self.for_errors is not None:
            inflation = self.inflate_errors(linear)
            errors, measured = private_errors(
                self.data, solution, self.form.threads, self.for_errors, inflation, self.unseen
            )
            self.parts += measured
        return Outcome(solution=solution, parts=tuple(self.parts), notes=tuple(self.notes), errors=errors)

    def gather_seen(self) -> Seen:
        """Return what has been released, for the decoder of counts and of yes and no."""
        return Seen(
            columns=self.columns, shape=self.shape, bounds=self.data.bounds, center=self.center, doubt=self.doubt,
            about=self.about, square=self.shapes[0].variance + self.center**2, residual=self.residuals.variance,
            tables=tuple(self.tables.values()), perturbed=self.perturbed,
        )  # fmt: skip

    def calibrate(self, solution: Solution) -> Solution:
        """Stretch or shrink the model around the mean as the values suggest; then set its mean to the private one.

        What clipping takes off effects is put back by a slope that is known only about. A model that explains nothing
        would be shrunk to the constant. An entry's own perturbed value has no say in what it is compared with.
        """
        raw = predict_solution(solution, self.columns, self.form.threads)
        if self.remainder is not None:
            raw += self.remainder.unseen
        effect = raw - float(np.mean(raw))
        spread = float(np.sqrt(np.mean(effect**2)))
        if spread < _FLAT * self.data.width:
            return replace(solution, offset=solution.offset + level(raw, self.center, self.data.bounds))
        part = self.rest_of_budget
        unseen, middle = self.unseen, float(np.mean(raw))
        within = partial(solution_within, solution, unseen, self.data.bounds)
        known = beside(self.values, np.clip(raw, *self.data.bounds), within)
        weights_at = partial(weigh_solution, solution, unseen, middle, spread)
        found, doubt = self.measure_slope(part, part.noise, known, effect, weights_at)
        self.parts.append(part.part("scale", "sum of residuals times predictions"))
        stretch = 1.0 + float(np.clip(found * _SCALES_DIFFER**2 / (_SCALES_DIFFER**2 + doubt), -_MOST_OFF, _MOST_OFF))
        solution = scale_solution(solution, middle, stretch)
        if self.remainder is not None:
            self.remainder = self.remainder.times(stretch)
        moved = level(middle + stretch * effect, self.center, self.data.bounds)
        return replace(solution, offset=solution.offset + moved)

    def inflate_errors(self, solution: Solution) -> Array | Beside | None:
        """Return what residuals must be multiplied by, if the model was fitted to the values themselves."""
        if self.perturbed is None:
            return None
        values, noise = self.perturbed
        left = values - predict_solution(solution, self.columns, self.form.threads)
        if self.remainder is not None:
            left -= self.remainder.unseen
        least = max(_LEAST_LEFT * self.residuals.variance, (_FLAT * self.data.width) ** 2)
        rest = max(float(np.mean(left**2)) - noise, least)
        leverages = find_leverages(self.columns, solution, noise + rest)
        least = max(float(np.mean((left / (1.0 - leverages.at(self.columns))) ** 2)) - noise, rest)
        multiply = partial(inflate_at, leverages, noise, least)
        return beside(self.values, multiply(self.columns), multiply)

    def look(self, share: float) -> None:
        """Look at the residuals: their shape, and their variance."""
        self.know_effects()
        self.base = self.settled
        if self.shapes and self.residuals.by_chance:
            self.shapes.append(shape_of_chances(self.known, self.data.bounds))
            return
        (part,) = self.take(share)
        two_valued = bool(self.shapes) and self.residuals.two_valued
        self.shapes.append(private_shape(self.data, self.settled, part, two_valued=two_valued))
        self.parts.append(part.part("shape", "histogram of the residuals"))

    def know_effects(self) -> None:
        """Keep what effects say of the entries."""
        known = partial(effects_within, replace(self.effects), self.data.bounds)
        self.known = known(self.columns)
        self.settled = beside(self.values, self.known, known)

    def measure_one_way(self, shape_share: float) -> bool:
        """Measure one-way tables; return whether to go on after them."""
        variance, belief = self.residuals.variance, self.believe_first()
        shares, further = self.share_one_way(shape_share, belief)
        self.measure_tables(shares, [belief], ONE_WAY)
        self.tell(ONE_WAY, sum(shares.values()), variance)
        self.multiply_effects()
        return further

    def measure_further(self, shape_share: float) -> Solution | None:
        """Measure two-way tables, values, or first the one and then the other."""
        beliefs = self.believe_later(self.measure_pairs())
        shares, on_values = self.split_further(beliefs, shape_share)
        on_twos, whole = sum(shares.values()), sum(shares.values()) + on_values
        if on_twos > _LEAST_STAGE * whole:
            go_on = on_values > _LEAST_STAGE * whole
            shares = {modes: share for modes, share in shares.items() if share > _LEAST_TABLE * on_twos}
            budget = on_twos if go_on else self.left - PRODUCT
            shares = {modes: share * budget / sum(shares.values()) for modes, share in shares.items()}
            before, name = self.residuals.variance, _name_stage(shares)
            self.measure_tables(shares, beliefs, name)
            self.tell(name, budget, before)
            self.multiply_effects()
            if not go_on:
                return None
            self.look(shape_share)
            beliefs = [self.believe_components(self.residuals.variance, {})]
        return self.measure_values(beliefs)

    # Measuring

    def measure_pairs(self) -> dict[Modes, float]:
        """Measure how much variance each two-way table would explain, as far as noise lets it be seen."""
        usual, differ = self.expect_pair()
        variance = self.beyond_ones
        limit = _PRODUCT_REACH * variance**0.5
        slope = max(self.residuals.interval(-limit, limit).slope, 0.1)
        share = self.pairs_share / max(len(self.twos), 1)
        if self.noise_of(share) * (4.0 * (limit / slope) ** 2 / self.n) ** 2 > (_PAIR_NOISE * differ) ** 2:
            return dict.fromkeys(self.twos, usual)
        effects: dict[Modes, float] = {}
        residual = each(np.subtract, self.values, self.settled)
        for modes, part in zip(self.twos, self.take(*[share] * len(self.twos)), strict=True):
            cells = self.cells[modes]
            noisy = part.pair_products(residual, limit, cells.beside(self.values), cells.counts.astype(np.int64))
            self.parts.append(part.part(f"pairs of modes {modes[0]} and {modes[1]}", "products of pairs of residuals"))
            together = max(float(cells.counts[cells.counts > 1].sum()), 1.0) * slope**2
            found, noise = float(noisy.values[0]) / together, noisy.variance / together**2
            spread = differ**2
            weight = spread / (spread + noise)
            effects[modes] = float(np.clip(usual + weight * (found - usual), 0.01 * usual, 0.9 * variance))
        return effects

    def choose_interval(self, shares: dict[Modes, float], beliefs: Sequence[Belief], shape: Shape) -> Interval:
        """Choose where to clip residuals whose sums or values get these shares."""
        return shape.best_interval(partial(self.gain_of, shares=shares, beliefs=beliefs))

    def gain_of(self, interval: Interval, shares: dict[Modes, float], beliefs: Sequence[Belief]) -> float:
        """Return how far sums or values that are clipped to an interval bring down the error."""
        bought = self.precisions(shares, interval.reach, interval.square)
        return self.improve(bought, beliefs, interval.kept, certain=True)

    def measure_tables(self, shares: dict[Modes, float], beliefs: Sequence[Belief], name: str) -> None:
        """Measure tables of the clipped residuals, and fit all effects to all tables."""
        interval = self.choose_interval(shares, beliefs, self.residuals)
        clipped = each(interval.clip, each(np.subtract, self.values, self.settled))
        noisy = []
        for modes, part in zip(shares, self.take(*shares.values()), strict=True):
            cells = self.cells[modes]
            sums = part.sums(clipped, interval.low, interval.high, cells.beside(self.values), cells.size)
            self.parts.append(part.part(_name(modes), f"clipped residuals, {name}"))
            noisy.append((cells, sums))
        # The mean of clipped residuals is known from all sums.
        weights = np.array([1.0 / (cells.size * sums.variance) for cells, sums in noisy])
        mean = float(weights @ [sums.values.sum() / self.n for _, sums in noisy] / weights.sum())
        missing = self.settle_mean(mean, 1.0 / (float(weights.sum()) * self.n**2), interval, self.known)
        for cells, sums in noisy:
            whole = (sums.values - cells.counts * mean) / interval.slope + cells.counts * missing
            table = Table(cells=cells, sums=whole + cells.sum(self.known), noise=sums.variance / interval.slope**2)
            self.tables[cells.modes] = table.joined(self.tables.get(cells.modes))
        self.effects = self.fit_tables(list(self.tables.values()), self.residuals.variance, self.known + missing)
        self.effects.offset += level(self.effects.at(self.columns), self.center, self.data.bounds)

    def fit_tables(self, tables: Sequence[Table], rest: float, center: Array | None = None) -> Effects:
        """Fit effects to tables, from those that there are."""
        form = self.form
        return fit_effects(
            self.columns, tables, self.effects, rest, self.rank, center, smooth=form.smooth, tell=form.tell
        )

    def multiply_effects(self) -> None:
        """Take in what effects say if modes multiply, as far as the values agree: one noisy number tells."""
        tables, effects, bounds = list(self.tables.values()), self.effects, self.data.bounds
        factors, beyond = find_products(effects, self.columns, bounds, self.form)
        middle = float(np.mean(beyond))
        beyond = beyond - middle
        spread = float(np.sqrt(np.mean(beyond**2)))
        if spread**2 < _SMALL_PRODUCT * effects.rest:
            return
        true, spent = self.believe_products(effects, beyond, partial(weigh_products, factors, middle, spread))
        if true < _LEAST_PRODUCT:
            return
        multiplied = effects.at(self.columns) + true * beyond - bounds[0]
        self.lifted = 1.0 + float(np.var(multiplied)) / max(float(np.mean(multiplied)) ** 2, 1e-300)
        first, *others = factors
        self.effects = effects.beside((true * first, *others))
        rest = max(effects.rest - (true * spread) ** 2, _LEAST_LEFT * effects.rest)
        self.effects = self.fit_tables(tables, rest)
        self.effects.offset += level(self.effects.at(self.columns), self.center, bounds)
        told = f"spent {spent:.1%} on" if spent else "did not ask"
        self.notes.append(f"{told} whether effects multiply: about {true:.0%} of what that says is true")

    def believe_products(
        self, effects: Effects, beyond: Array, weights_at: Callable[[Array], Array]
    ) -> tuple[float, float]:
        """Return how much of what products say beyond effects is true, and what was spent on a number that tells.

        Effects that add up to less than the lower bound do not add up: then products are likely. Residuals are clipped
        as tightly as their noise and what clipping takes off make best.
        """
        bounds, raw = self.data.bounds, effects.at(self.columns)
        likely = min(float(np.mean(raw < bounds[0])) / _IMPOSSIBLE, 1.0)
        usual, differ = _LIKELY_PRODUCT * likely, _PRODUCTS_DIFFER + (_LIKELY_DIFFER - _PRODUCTS_DIFFER) * likely
        if self.choose_limit(self.noise_of(PRODUCT), beyond)[1] > (_PRODUCT_NOISE * differ) ** 2:
            return usual, 0.0
        (part,) = self.take(PRODUCT)
        known = beside(self.values, np.clip(raw, *bounds), partial(effects_within, effects, bounds))
        found, doubt = self.measure_slope(part, self.noise_of(PRODUCT), known, beyond, weights_at)
        self.parts.append(part.part("products", "sum of residuals times products of effects"))
        true = usual + (found - usual) * differ**2 / (differ**2 + doubt)
        return float(np.clip(true, 0.0, 1.0)), PRODUCT

    def choose_limit(self, noise: float, beyond: Array) -> tuple[Interval, float]:
        """Return the interval for residuals that tell best how much of ``beyond`` is true, and how far off they are.

        ``noise`` is that of one number of sensitivity 1. The answer is doubted for it, and for what clipping bends.
        """
        weights = _weigh(beyond)
        noise = noise * (2.0 * float(np.max(np.abs(weights))) / float(weights @ beyond)) ** 2

        def doubt(interval: Interval) -> float:
            return (
                noise * (interval.high / max(interval.slope, _FLAT)) ** 2
                + (_CLIPPED_PRODUCT * (1 - interval.slope)) ** 2
            )

        limits = np.unique(np.abs(self.residuals.edges[self.residuals.edges != 0]))
        interval = min((self.residuals.interval(-limit, limit) for limit in limits.tolist()), key=doubt)
        return interval, doubt(interval)

    def measure_slope(
        self, part: Spend, noise: float, known: Array | Beside, beyond: Array, weights_at: Callable[[Array], Array]
    ) -> tuple[float, float]:
        """Return how much of ``beyond`` is missing in what is known, and how far off that may be, as a variance."""
        interval, doubt = self.choose_limit(noise, beyond)
        weights = _weigh(beyond)
        residual = each(interval.clip, each(np.subtract, self.values, known))
        weighed = beside(self.values, weights[:, None], weights_at)
        noisy = part.linear(weighed, residual, interval.high, self.everything, 1)
        return float(noisy.values[0, 0]) / float(weights @ beyond) / max(interval.slope, _FLAT), doubt

    def settle_mean(self, clipped: float, noise: float, interval: Interval, known: Array) -> float:
        """Take in what the mean of clipped residuals says about the mean; return what residuals are on average.

        What clipping took off is known from the histogram, about.
        """
        base = float(np.mean(known))
        found = base + (clipped - interval.shift) / interval.slope
        doubt = noise / interval.slope**2 + interval.doubt**2 + 1e-300
        self.center += (found - self.center) * self.doubt / (self.doubt + doubt)
        self.center = float(np.clip(self.center, *self.data.bounds))
        self.doubt = self.doubt * doubt / (self.doubt + doubt)
        return self.center - base

    def choose_base(self, beliefs: Sequence[Belief]) -> tuple[Array | Beside, Shape, Interval]:
        """Choose what values are perturbed around, and where they are clipped: what effects say, or the mean.

        Around effects there is less to cover, unless values are many at a bound. Around the mean clipping would bend
        effects, so it must take next to nothing.
        """
        share = {self.layout.values: self.left}
        first, last = (self.choose_interval(share, beliefs, shape) for shape in (self.shapes[0], self.shapes[-1]))
        better = self.gain_of(first, share, beliefs) > self.gain_of(last, share, beliefs)
        if better and first.kept > _HARDLY_CLIPPED:
            return self.middle, self.shapes[0], first
        return self.base, self.residuals, last

    def measure_values(self, beliefs: Sequence[Belief]) -> Solution:
        """Perturb every clipped residual, and fit effects and components to everything."""
        share, before = self.left, self.residuals.variance
        around, shape, interval = self.choose_base(beliefs)
        base = here(around)
        (part,) = self.take(self.left)
        clipped = each(interval.clip, each(np.subtract, self.values, around))
        noisy, window = part.values(clipped, (interval.low, interval.high), interval.square)
        self.parts.append(part.part("values", "every residual, clipped and perturbed"))
        mean = float(np.mean(noisy.values))
        missing = self.settle_mean(mean, noisy.variance / self.n, interval, base)
        values = (noisy.values - mean) / interval.slope + missing + base
        noise = noisy.variance / interval.slope**2
        scatter = None
        if window is not None:
            undone = (window.middle + (noisy.values - window.middle) / window.gain - noisy.values) / interval.slope
            scatter = Scatter(
                inside=window.inside, near=(window.half / interval.slope) ** 2 / 3.0, span=window.span / interval.slope,
                shift=undone, places=shape.middles, masses=shape.masses,
            )  # fmt: skip
        self.perturbed = values, noise
        perturbed = Perturbed(columns=self.columns, shape=self.shape, noise=noise, scatter=scatter)
        if self.tables and noise < _CLEAR * before:
            self.learn_from_values(values, noise)
        fitted = fit_values(perturbed, values - self.known, self.form, once=bool(self.tables))
        base = self.known
        # Components alone may describe everything better than what effects leave, if these are any.
        if self.tables and float(np.var(self.known)) > _SMALL_EFFECTS * before:
            plain = Effects.constant(self.shape, self.center)
            alone = fit_values(perturbed, values - self.center, self.form, once=True)
            if alone.evidence > fitted.evidence:
                fitted, self.effects, base = alone, plain, np.full(self.n, self.center)
        solution = fitted.solution
        found = predict_solution(solution, self.columns, self.form.threads)
        # Effects are fitted to all that components leave, of tables and of values; then components again.
        rest = max(float(np.mean((values - base - found) ** 2)) - noise, _LEAST_LEFT * before)
        tables = [table.less(found) for table in self.tables.values()]
        tables += gather_values([self.cells[modes] for modes in self.twos or self.ones], values - found, noise)
        self.effects = self.fit_tables(tables, rest)
        solution = fit_values(perturbed, values - self.effects.at(self.columns), self.form, once=True).solution
        found = predict_solution(solution, self.columns, self.form.threads)
        left = values - self.effects.at(self.columns) - found
        self.remainder = find_remainder(perturbed, left, self.form.times)
        if self.remainder is not None:
            solution = replace(solution, remainder=self.remainder.table)
        explained = float(np.var(found)) / max(before, 1e-300)
        self.notes.append(
            f"spent {share:.0%} on perturbed values: components explain about {min(explained, 1.0):.0%} of the rest"
        )
        return solution

    def learn_from_values(self, values: Array, noise: float) -> None:
        """Fit one-way effects to perturbed values too."""
        ones = gather_values([self.cells[modes] for modes in self.ones], values, noise)
        self.effects = self.fit_tables([*self.tables.values(), *ones], self.residuals.variance)
        self.effects.offset += level(self.effects.at(self.columns), self.center, self.data.bounds)
        self.know_effects()

    def tell(self, name: str, share: float, before: float) -> None:
        """Note what a stage was for."""
        explained = 1.0 - self.effects.rest / max(before, 1e-300)
        of = "the variance" if name == ONE_WAY else "what was left"
        self.notes.append(f"spent {share:.0%} on {name}: they explain about {max(explained, 0.0):.0%} of {of}")


def _weigh(beyond: Array) -> Array:
    """Return what is believed beyond predictions in spreads, of which it has at most so many."""
    return weigh(beyond, float(np.sqrt(np.mean(beyond**2))))


def _name_stage(tables: Iterable[Modes]) -> str:
    """Name the stage after one-way tables by what it measures."""
    if not any(len(modes) == 1 for modes in tables):
        return TWO_WAY
    return f"one-way and {TWO_WAY}" if any(len(modes) == 2 for modes in tables) else f"{ONE_WAY} again"


def _name(modes: Modes) -> str:
    """Name the sums of a table."""
    return f"sums of mode{'s' if len(modes) > 1 else ''} {' and '.join(map(str, modes))}"
