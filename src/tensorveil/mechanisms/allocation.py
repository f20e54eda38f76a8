"""How to split a budget over tables and values: what each is expected to explain, from public and released numbers.

A table is a set of modes: sums over the cells of these modes. The tensor is taken to be a sum of effects, one per table,
and of components that only values show. Of an effect of variance t, seen with noise x per cell, an estimate that is
shrunk by its noise explains t^2 / (t + x). Two-way effects are of low rank: once they stand out of the noise of their
table (Baik, Ben Arous and Peche 2005), noise counts only along their few directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tensorveil.mechanisms.data import Array

Modes = tuple[int, ...]

# Components that make up a two-way effect, and what is left of the values.
_DIRECTIONS = 2
# How far components must stand out to be found never, and always.
_PAIRS_FOUND, _COMPONENTS_FOUND = (0.8, 2.0), (0.8, 1.7)
# Without low rank, cells of a two-way table explain this share of what shrinking them alone promises.
_DENSE = 0.5
# Relevance priors switch off a fifth of a model's parameters.
_SEARCHED = 0.8
_STEPS, _NUDGE, _SMALL = 25, 0.05, 1e-4


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The public facts: sizes, entries, the tables that may be measured, and the number of a model's parameters.

    ``values`` stands for the table of all modes: every value on its own.
    """

    shape: tuple[int, ...]
    n_entries: int
    tables: tuple[Modes, ...]
    parameters: float

    @property
    def values(self) -> Modes:
        """All modes."""
        return tuple(range(len(self.shape)))

    def cells(self, modes: Modes) -> float:
        """Return how many cells a table has; values have one per entry."""
        if modes == self.values:
            return float(self.n_entries)
        return float(math.prod(self.shape[mode] for mode in modes))

    def explain(
        self, precisions: Mapping[Modes, float], effects: Mapping[Modes, float], rest: float, kept: float = 1.0
    ) -> float:
        """Return the variance that measurements explain; ``precisions`` are one over the noise of a cell's sum.

        ``effects`` are variances by table, ``rest`` is what no effect explains, ``kept`` the share that clipping leaves.
        """
        total = 0.0
        for modes in self.tables:
            effect = effects.get(modes, 0.0)
            if effect > 0:
                total += self._explain_table(modes, precisions, effect * kept, rest)
        seen, components = precisions.get(self.values, 0.0), effects.get(self.values, 0.0) * kept
        if seen > 0 and components > 0:
            noise = 1.0 / seen + rest
            roots = math.prod(math.sqrt(size) for size in self.shape)
            found = _find(self.n_entries * components / _DIRECTIONS / (noise * roots), *_COMPONENTS_FOUND)
            total += found * _shrink(components, _SEARCHED * self.parameters / self.n_entries * noise)
        return total

    def _explain_table(self, modes: Modes, precisions: Mapping[Modes, float], effect: float, rest: float) -> float:
        count = self.n_entries / self.cells(modes)
        seen = 0.0
        for table, precision in precisions.items():
            if set(modes) <= set(table):  # whose cells can be added up
                seen += count**2 * precision / max(self.cells(table) / self.cells(modes), 1.0)
        if seen == 0:
            return 0.0
        noise = 1.0 / seen + rest / count
        if len(modes) == 1:
            return _shrink(effect, noise)
        one, other = (self.shape[mode] for mode in modes)
        found = _find(effect / _DIRECTIONS * math.sqrt(one * other) / noise, *_PAIRS_FOUND)
        along = _DIRECTIONS * noise * (one + other) / (one * other)
        return max(_DENSE * _shrink(effect, noise), found * _shrink(effect, along))


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
    return (gain(more) - value) / nudge


def _shrink(signal: float, noise: float) -> float:
    """Return how much of a signal's variance an estimate explains that is shrunk according to its noise."""
    return signal * signal / (signal + noise) if signal > 0 else 0.0


def _find(clear: float, never: float, always: float) -> float:
    """Return how likely it is that something is found that stands out by so much."""
    return min(max(math.log(max(clear, 1e-12) / never) / math.log(always / never), 0.0), 1.0)
