"""What to measure next in unit "entry", and with which share of the budget: from declared and released numbers alone.

Errors are predicted as in unit value (`mechanisms/allocation.py`), with counts as they are expected instead of those
that are there: of a table that was not measured yet, as if modes were independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tensorveil.mechanisms.allocation import Belief, Crowd, Layout, Modes, split_best
from tensorveil.mechanisms.crosstab_effects import Known
from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.shape import Interval, Shape
from tensorveil.mechanisms.tallies import WEIGHT, sum_noise

# Tables have at most so many cells.
MOST_CELLS = 4_000_000
# Until residuals have been looked at, they are taken to be clipped to this many spreads.
_REACH = 4.0
# One-way tables get a budget with which their noise is this share of the variance, each at least the second share.
_NOISE_OF_ONE_WAY, _LEAST_ONE_WAY = 0.02, 0.01
# Shares of the variance that components are taken to have of what effects leave: usually; if half of what looks like
# two-way effects are components; of a matrix.
_COMPONENTS, _MORE_COMPONENTS, _OF_MATRIX = 0.35, 0.6, 0.3
# All two-way effects together have at most this share of the variance.
_MOST_EFFECTS = 0.85
# Tables that would get less than this share of a stage are left out.
_LEAST_TABLE = 0.02
# Parts of a budget that are tried for tables if the table of all modes comes after them.
_PARTS = (0.0, 0.03, 0.1, 0.2, 0.35, 0.6)
# The table of all modes must promise so many times the gain of others, and so much more. Of the real tensors that are
# not set aside, those gain from it at epsilon 10 for which it promises 1.5 to 3 times as much; with 1.3 and less, at
# epsilon 3, it costs 0 to 5 %.
_WORTH, _MORE = 1.4, 0.1


@dataclass(frozen=True, kw_only=True)
class Prospects:
    """What is known before a decision: effects, residuals, the number of the model's parameters, noise of the budget.

    ``noise`` is the variance of the noise on one number of sensitivity 1 if it gets the whole budget.
    """

    known: Known
    spread: Shape
    parameters: float
    noise: float
    pure: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The declared shape."""
        return self.known.shape

    @property
    def everything(self) -> Modes:
        """All modes."""
        return tuple(range(len(self.shape)))

    def noise_of(self, share: float) -> float:
        """Return the variance of the noise on sums that a share of the budget buys, for residuals of width 1."""
        power = 2 if self.pure else 1
        return sum_noise(self.noise / max(share, 1e-12) ** power, pure=self.pure)

    def share_for(self, mode: int) -> float:
        """Return the share with which the means of a one-way table have little noise."""
        count = self.known.n / self.shape[mode]
        wanted = self.noise_of(1.0) * _REACH**2 / (_NOISE_OF_ONE_WAY * count**2)
        return float(max(wanted ** (0.5 if self.pure else 1.0), _LEAST_ONE_WAY))

    def lay_out(self, tables: Sequence[Modes]) -> Layout:
        """Return how entries are expected to crowd in one-way tables and some others."""
        chosen = dict.fromkeys([*((mode,) for mode in self.everything), *tables])
        return Layout(
            shape=self.shape,
            n_entries=max(int(self.known.n), 1),
            crowds={modes: Crowd.of(self.known.expect(modes).ravel()) for modes in chosen if modes != self.everything},
            parameters=self.parameters,
        )

    def precisions(self, shares: Mapping[Modes, float], reach: float, filled: float) -> dict[Modes, float]:
        """Return one over the noise that shares of the budget leave on the sum of a cell.

        Of cells of all modes it is not known which have entries, unless counts stand out of their noise; ``filled`` is
        the count to expect in the cell of an average entry.
        """
        found = {}
        for modes, share in shares.items():
            noise = self.noise_of(share)
            found[modes] = 1.0 / (noise * reach**2)
            if modes == self.everything:
                varies = filled * (1.0 - filled)
                found[modes] *= filled + (1.0 - filled) * varies / (varies + 4.0 * noise / WEIGHT**2)
        return found

    def choose_interval(self, modes: Modes, share: float, beliefs: Sequence[Belief]) -> Interval:
        """Choose where to clip residuals whose sums get a share."""
        layout, filled = self.lay_out([modes]), self.filled(modes)

        def gain(interval: Interval) -> float:
            bought = self.precisions({modes: share}, interval.reach, filled)
            return sum(layout.explain(bought, belief, interval.kept, certain=True) for belief in beliefs)

        return self.spread.best_interval(gain)

    def filled(self, modes: Modes) -> float:
        """Return the count to expect in the cell of all modes of an average entry; 1 for other tables."""
        if modes != self.everything or math.prod(self.shape) > MOST_CELLS:
            return 1.0
        return min(float(np.sum(self.known.expect(modes) ** 2)) / self.known.n, 1.0)

    def believe(self, effects: Mapping[Modes, float]) -> list[Belief]:
        """Return what may be expected once one-way effects are known, and numbers for two-way effects.

        These numbers also rise with components, so a second belief takes half of them for that.
        """
        ones, variance = self.known.doubtful(), self.spread.variance
        if len(self.shape) < 3:
            return [self.believe_components(ones, _OF_MATRIX)]
        scale = min(1.0, _MOST_EFFECTS * variance / max(sum(effects.values()), 1e-300))
        whole = {modes: effect * scale for modes, effect in effects.items()}
        halves = {modes: 0.5 * effect for modes, effect in whole.items()}
        return [
            self.believe_components(ones | whole, _COMPONENTS),
            self.believe_components(ones | halves, _MORE_COMPONENTS),
        ]

    def believe_components(self, effects: Mapping[Modes, float], share: float = _COMPONENTS) -> Belief:
        """Return a belief in effects, with a share of what they leave for components."""
        variance = self.spread.variance
        left = max(variance - sum(effects.values()), 0.01 * variance)
        return Belief(effects={**effects, self.everything: share * left}, rest=(1 - share) * left)

    def split(
        self, twos: Sequence[Modes], budget: float, for_look: float, beliefs: Sequence[Belief]
    ) -> tuple[dict[Modes, float], float]:
        """Split a budget over tables of one mode and of two, and the table of all modes that comes after them.

        What tables explain need not be covered by the noise on cells, so even a small share for them may pay; but then
        residuals are looked at in between.
        """
        layout, reach = self.lay_out(twos), _REACH * self.spread.variance**0.5
        filled = self.filled(self.everything)

        def gain(tables: Mapping[Modes, float], on_cells: float) -> float:
            total = 0.0
            for belief in beliefs:
                bought = self.precisions(tables, reach, filled)
                left = max(1.0 - layout.explain(bought, belief) / belief.variance, 0.0)
                if on_cells > 0:
                    bought |= self.precisions({self.everything: on_cells}, reach * left**0.5, filled)
                total -= math.log(1.0 - min(layout.explain(bought, belief) / belief.variance, 0.999))
            return total

        alone = self.split_tables(twos, budget, beliefs, layout, reach, None)
        best, highest = (alone, 0.0), _WORTH * gain(alone, 0.0) + _MORE
        if len(self.shape) < 3 or math.prod(self.shape) > MOST_CELLS:
            return best
        for part in _PARTS:
            rest = budget - for_look * (part > 0)
            tables = self.split_tables(twos, part * rest, beliefs, layout, reach, alone) if part else {}
            found = gain(tables, (1.0 - part) * rest)
            if found > highest:
                highest, best = found, (tables, (1.0 - part) * rest)
        return best

    def split_tables(
        self,
        twos: Sequence[Modes],
        budget: float,
        beliefs: Sequence[Belief],
        layout: Layout,
        reach: float,
        like: Mapping[Modes, float] | None,
    ) -> dict[Modes, float]:
        """Split a budget over tables of one mode and of two; ``like`` is what was good for another budget."""
        options: list[Modes] = [*((mode,) for mode in self.everything), *twos]
        filled = self.filled(self.everything) if len(self.shape) == 2 else 1.0

        def gain(shares: Array) -> float:
            bought = self.precisions(dict(zip(options, budget * shares, strict=True)), reach, filled)
            return sum(layout.explain(bought, belief) for belief in beliefs)

        sizes = np.sqrt([math.prod(self.shape[mode] for mode in modes) for modes in options])
        each = np.arange(len(sizes))
        starts = [sizes]
        if like is not None:
            starts.append(np.array([like.get(modes, 0.0) + 1e-3 for modes in options]))
        else:
            starts += [np.where(each < len(self.shape), sizes, 1e-3)]
            starts += [np.where(each == k, 1.0, 0.02) for k in each[len(self.shape) :]]
        _, shares = split_best(gain, starts)
        kept = {modes: float(share) for modes, share in zip(options, shares, strict=True) if share > _LEAST_TABLE}
        return {modes: budget * share / sum(kept.values()) for modes, share in kept.items()}
