"""Unit "entry": counts and sums over the cells of few modes, coarse to fine, each of what the last one left."""

from __future__ import annotations

from itertools import combinations
from collections.abc import Sequence

import numpy as np

from tensorveil.mechanisms.allocation import Belief, Crowd, Layout, Modes, split_best
from tensorveil.mechanisms.crosstab_effects import Known
from tensorveil.mechanisms.data import Array, Form, Outcome, make_constant
from tensorveil.mechanisms.decoder import join
from tensorveil.mechanisms.method import NOT_COMPARED, Method
from tensorveil.mechanisms.shape import Interval, Shape
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tallies import private_spread, private_tally, private_total, sum_noise
from tensorveil.mechanisms.tradeoffs import parameters
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateEntries

_MEAN, _SHAPE, _LEVEL = 0.03, 0.03, 0.02
# One-way tables get a budget with which their noise is this share of the variance, each at least the second share.
_NOISE_OF_ONE_WAY, _LEAST_ONE_WAY = 0.02, 0.01
_ENOUGH = 0.3
_TOO_FEW = 1000.0
_REACH = 4.0
_ONE_WAY, _TWO_WAY = 0.4, 0.3
_MOST_CELLS = 4_000_000
_LEAST_TABLE = 0.02


def run_crosstabs(data: PrivateEntries, form: Form, spend: Spend) -> Outcome:
    """Release an offset, biases and two-way effects."""
    return _Run(data, form, spend).run()


class _Run:
    def __init__(self, data: PrivateEntries, form: Form, spend: Spend) -> None:
        self.data, self.form, self.shape = data, form, data.shape
        self.width = data.bounds[1] - data.bounds[0]
        self.pure = spend.epsilon is not None
        self.noise, self.power = spend.noise, 2 if self.pure else 1
        self.rest_of_budget, self.left = spend, 1.0 - _LEVEL
        self.parts: list[Part] = []
        self.notes: list[str] = []

    def take(self, share: float) -> Spend:
        share = min(share, self.left)
        self.left = max(self.left - share, 0.0)
        part, self.rest_of_budget = self.rest_of_budget.split(share, self.left + _LEVEL)
        return part

    def run(self) -> Outcome:
        part = self.take(_MEAN)
        total = private_total(self.data, part)
        self.parts.append(part.part("mean", "sum and number of the entries"))
        self.known = Known.constant(self.shape, self.data.bounds, total.count, total.mean, total.mean_noise)
        self.n = max(total.count, 1.0)
        if self.n < _TOO_FEW * np.sqrt(self.noise / 2):
            pass
        self.look()
        self.measure_ones()
        if self.left > 0.1 and len(self.shape) > 2:
            self.look()
            self.measure_twos()
        self.settle()
        solution = join(self.shape, self.form, self.known.effects(self.spread.variance), None)
        return Outcome(solution=solution, parts=tuple(self.parts), notes=tuple(self.notes))

    def settle(self) -> None:
        """Set the mean of the predictions: what is left of the entries, on average."""
        part = self.rest_of_budget
        residual = self.residual()
        everything = np.zeros((1, len(residual)), dtype=np.int64)
        interval = self.spread.best_interval(lambda reach, kept: kept)
        tally = private_tally(everything, (1,), (0,), residual, interval, part)
        self.parts.append(part.part("level", "sum and number of clipped residuals"))
        self.known.settle_offset(tally, interval)

    def residual(self) -> Array:
        return self.data.values.reveal() - self.known.at(self.data.columns.reveal())

    def look(self) -> None:
        part = self.take(_SHAPE)
        low, high = self.known.reach
        low, high = self.data.bounds[0] - high, self.data.bounds[1] - low
        self.spread, _ = private_spread(self.residual(), low, high, self.width, self.n, part)
        self.parts.append(part.part("shape", "histogram of the residuals"))

    def noise_of(self, share: float) -> float:
        return sum_noise(self.noise / max(share, 1e-12) ** self.power, pure=self.pure)

    def measure_ones(self) -> None:
        variance = self.spread.variance
        reach2 = _REACH**2 * variance
        needed = {}
        for mode, size in enumerate(self.shape):
            count = self.n / size
            target = _NOISE_OF_ONE_WAY * variance * count**2 / (self.noise_of(1.0) * reach2)
            needed[mode] = max(target ** (-1.0 / self.power), _LEAST_ONE_WAY)
        total = sum(needed.values())
        budget = self.left
        more = len(self.shape) > 2 and total < (1 - _ENOUGH) * budget
        scale = 1.0 if more else budget / total
        for mode in sorted(needed, key=lambda mode: self.shape[mode]):
            self.measure((mode,), needed[mode] * scale, _ONE_WAY / len(self.shape))
        self.notes.append(f"one-way: {[(m, round(s*scale,3)) for m,s in needed.items()]}")

    def measure_twos(self) -> None:
        pairs = [p for p in combinations(range(len(self.shape)), 2) if self.shape[p[0]] * self.shape[p[1]] <= _MOST_CELLS]
        variance = self.spread.variance
        crowds = {(m,): Crowd.of(self.known.expect((m,))) for m in range(len(self.shape))}
        crowds |= {p: Crowd.of(self.known.expect(p).ravel()) for p in pairs}
        layout = Layout(shape=self.shape, n_entries=int(self.n), crowds=crowds, parameters=parameters(self.shape, self.form.ranks, self.form.core))
        effects = {p: _TWO_WAY * variance / len(pairs) for p in pairs}
        belief = Belief(effects=effects, rest=variance * (1 - _TWO_WAY))
        budget = self.left
        reach2 = _REACH**2 * variance

        def gain(shares: Array) -> float:
            prec = {p: 1.0 / (self.noise_of(budget * s) * reach2) for p, s in zip(pairs, shares)}
            return layout.explain(prec, belief)

        sizes = np.sqrt([self.shape[a] * self.shape[b] for a, b in pairs])
        starts = [sizes, *[np.where(np.arange(len(pairs)) == k, 1.0, 0.02) for k in range(len(pairs))]]
        _, shares = split_best(gain, starts)
        kept = [(p, s) for p, s in zip(pairs, shares) if s > _LEAST_TABLE]
        total = sum(s for _, s in kept)
        self.notes.append(f"two-way: {[(p, round(budget*s/total,3)) for p,s in kept]}")
        for p, s in sorted(kept, key=lambda each: self.shape[each[0][0]] * self.shape[each[0][1]]):
            self.measure(p, budget * s / total, _TWO_WAY / len(pairs))

    def measure(self, modes: Modes, share: float, prior: float) -> None:
        variance = self.spread.variance
        effect = prior * variance
        count = float(np.sum(self.known.expect(modes) ** 2) / self.n)
        along = 1.0
        if len(modes) == 2:
            one, other = (self.shape[m] for m in modes)
            along = 4 * (one + other) / (one * other)

        def gain(reach: float, kept: float) -> float:
            noise = along * (self.noise_of(share) * reach**2 / count**2 + variance / count)
            return (effect * kept) ** 2 / (effect * kept + noise)

        interval = self.spread.best_interval(gain)
        part = self.take(share)
        tally = private_tally(self.data.columns.reveal(), self.shape, modes, self.residual(), interval, part)
        self.parts.append(part.part(f"tally of modes {modes}", "counts and clipped residuals"))
        self.known.take_in(tally, interval, variance, max(self.form.ranks))


METHOD = Method(
    name="crosstabs",
    title="private cross-tabulations",
    unit="entry",
    run=run_crosstabs,
    proofs=("docs/guarantees.md#entry", "docs/guarantees.md#post-processing"),
    expected=NOT_COMPARED,
)
