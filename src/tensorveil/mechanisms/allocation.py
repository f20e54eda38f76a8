"""How to split a budget over tables and values: what each is expected to explain, from public and released numbers.

A table is a set of modes: sums over the cells of these modes. The tensor is taken to be a sum of effects, one per
table, and of components that only values show. Of an effect of variance t, seen with noise x per cell, an estimate
that is shrunk by its noise explains t^2 / (t + x). Two-way effects are of low rank: once they stand out of the noise of
their table (Baik, Ben Arous and Peche 2005), noise counts only along their few directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tensorveil.mechanisms.data import Array

Modes = tuple[int, ...]

# Components that make up a two-way effect, and what is left of the values.
_DIRECTIONS = 2
# Noise counts along so many directions of a two-way effect.
_ALONG = 4
# How far components must stand out to be found never, and always.
_PAIRS_FOUND, _COMPONENTS_FOUND = (0.8, 2.0), (0.8, 1.7)
# Without low rank, cells of a two-way table explain this share of what shrinking them alone promises.
_DENSE = 0.5
# Relevance priors switch off a fifth of a model's parameters.
_SEARCHED = 0.8
_STEPS, _NUDGE, _SMALL = 25, 0.05, 1e-4
# Entries are grouped by how many share their cell.
_GROUPS = 8


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """How entries crowd in the cells of a table: groups of entries that share theirs with as many others."""

    weights: Array
    counts: Array

    @classmethod
    def of(cls, counts: Array) -> Crowd:
        """Group the entries by the number of entries in their cell; every group has as many."""
        falling = np.sort(counts[counts > 0])
        reached = np.cumsum(falling) / falling.sum()
        cuts = np.searchsorted(reached, np.arange(1, _GROUPS) / _GROUPS)
        parts = [part for part in np.split(falling, np.unique(cuts)) if len(part)]
        weights = np.array([part.sum() for part in parts])
        return cls(
            weights=weights / falling.sum(), counts=np.array([float(part @ part / part.sum()) for part in parts])
        )

    @cached_property
    def typical(self) -> float:
        """How many entries the cell of an average entry has."""
        return float(self.weights @ self.counts)


@dataclass(frozen=True, kw_only=True)
class Belief:
    """Variances of effects by table, of components under all modes, and of what no effect explains.

    ``weight`` is how likely it is beside others. What one-way effects explain counts ``lifted`` times as much, because
    they multiply.
    """

    effects: Mapping[Modes, float]
    rest: float
    weight: float = 1.0
    lifted: float = 1.0

    @property
    def variance(self) -> float:
        """All variance."""
        return sum(effect * self.lift(modes) for modes, effect in self.effects.items()) + self.rest

    def lift(self, modes: Modes) -> float:
        """Return how much what is explained of an effect counts."""
        return self.lifted if len(modes) == 1 else 1.0


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """Of a table: those that are at least as fine, with entries per cell over its own; its crowd; rows of its modes.

    Rows are counted as if they were even.
    """

    finer: list[tuple[Modes, float]]
    groups: list[tuple[float, float]]
    typical: float
    rows: list[float]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The public facts: sizes, entries, how they crowd in tables that may be measured, parameters of a model.

    The table of all modes stands for the values: every one on its own.
    """

    shape: tuple[int, ...]
    n_entries: int
    crowds: Mapping[Modes, Crowd]
    parameters: float

    @cached_property
    def values(self) -> Modes:
        """All modes."""
        return tuple(range(len(self.shape)))

    def count(self, modes: Modes) -> float:
        """Return how many entries the cell of an average entry has."""
        return 1.0 if modes == self.values else self.crowds[modes].typical

    @cached_property
    def _facts(self) -> dict[Modes, _Facts]:
        return {modes: self._list_facts(modes, crowd) for modes, crowd in self.crowds.items()}

    def _list_facts(self, modes: Modes, crowd: Crowd) -> _Facts:
        finer = [table for table in (*self.crowds, self.values) if set(modes) <= set(table)]
        return _Facts(
            finer=[(table, self.count(table) / self.count(modes) if table != modes else 1.0) for table in finer],
            groups=list(zip(crowd.weights.tolist(), crowd.counts.tolist(), strict=True)),
            typical=crowd.typical,
            rows=[self.n_entries / self.crowds[(mode,)].typical for mode in modes],
        )

    def explain(
        self, precisions: Mapping[Modes, float], belief: Belief, kept: float = 1.0, *, certain: bool = False
    ) -> float:
        """Return the variance that measurements explain; ``precisions`` are one over the noise of a cell's sum.

        ``kept`` is the share of the signal that clipping leaves; ``certain`` takes it for granted that everything is
        found.
        """
        total = 0.0
        for modes in self.crowds:
            effect = belief.effects.get(modes, 0.0) * kept
            if effect > 0:
                total += belief.lift(modes) * self._explain_table(modes, precisions, effect, belief.rest, certain)
        seen, components = precisions.get(self.values, 0.0), belief.effects.get(self.values, 0.0) * kept
        if seen > 0 and components > 0:
            noise = 1.0 / seen + belief.rest
            roots = math.prod(math.sqrt(size) for size in self.shape)
            clear = self.n_entries * components / _DIRECTIONS / (noise * roots)
            found = 1.0 if certain else _find(clear, *_COMPONENTS_FOUND)
            total += found * _shrink(components, _SEARCHED * self.parameters / self.n_entries * noise)
        return total

    def _explain_table(
        self, modes: Modes, precisions: Mapping[Modes, float], effect: float, rest: float, certain: bool
    ) -> float:
        facts = self._facts[modes]
        # One over the noise of a cell's sum, by entry of the cell: cells of finer tables are added up.
        seen = 0.0
        for table, ratio in facts.finer:
            seen += precisions.get(table, 0.0) * ratio
        if seen == 0.0:
            return 0.0
        dense = 0.0
        for weight, count in facts.groups:
            dense += weight * effect * effect / (effect + 1.0 / (seen * count * count) + rest / count)
        if len(modes) == 1:
            return dense
        noise = 1.0 / (seen * facts.typical) + rest  # by entry
        one, other = facts.rows
        clear = self.n_entries * effect / _DIRECTIONS / (noise * math.sqrt(one * other))
        found = 1.0 if certain else _find(clear, *_PAIRS_FOUND)
        return max(_DENSE * dense, found * _shrink(effect, _ALONG * noise * (one + other) / self.n_entries))


def split_best(gain: Callable[[Array], float], starts: Sequence[Array], *, least: float = 0.0) -> tuple[float, Array]:
    """Return the largest gain that is found from several starts, and its shares, which add up to 1.

    Gains are not concave, for nothing is found below some noise; hence the starts. ``least`` is a share that all parts
    together have at least, split evenly.
    """
    best: tuple[float, Array] | None = None
    for start in starts:
        shares = np.maximum(start / start.sum(), least / len(start))
        shares = shares / shares.sum()
        value, step = gain(shares), 0.5
        for _ in range(_STEPS):
            slopes = np.array([_slope(gain, shares, part, value) for part in range(len(shares))])
            if slopes.max() <= 0:
                break
            pull = (np.maximum(slopes, 0.0) + 1e-3 * slopes.max()) / slopes.max()
            moved = np.maximum(shares * pull**step, least / len(shares))
            moved = moved / moved.sum()
            reached = gain(moved)
            if reached > value:
                shares, value = moved, reached
            else:
                step *= 0.5
                if step < _NUDGE:
                    break
        if best is None or value > best[0]:
            best = (value, shares)
    assert best is not None
    return best


def _slope(gain: Callable[[Array], float], shares: Array, part: int, value: float) -> float:
    more = shares.copy()
    nudge = _NUDGE * more[part] + _SMALL
    more[part] += nudge
    return float((gain(more) - value) / nudge)


def _shrink(signal: float, noise: float) -> float:
    """Return how much of a signal's variance an estimate explains that is shrunk according to its noise."""
    return signal * signal / (signal + noise) if signal > 0 else 0.0


def _find(clear: float, never: float, always: float) -> float:
    """Return how likely it is that something is found that stands out by so much."""
    return min(max(math.log(max(clear, 1e-12) / never) / math.log(always / never), 0.0), 1.0)
