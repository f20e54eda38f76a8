"""What a step may spend, and the noisy statistics it buys: sums of snapped contributions, so that they are integers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.noise import (
    Grid,
    NoiseSource,
    Noisy,
    bounded_values_mechanism,
    contribution_sensitivity,
    gaussian_mechanism,
    laplace_mechanism,
    norm_mechanism,
    snap,
    snap_and_sum,
    sqrt_up,
    sum_groups,
)
from tensorveil.privacy import Event, Gaussian, Part, Pure, split_gaussian, split_pure
from tensorveil.privacy.exact import exactly

Array = NDArray[Any]

_LARGEST_NORM_DIMENSION = 1024


@dataclass(frozen=True, kw_only=True)
class Spend:
    """A part of the budget: a pure epsilon (Laplace and norm-shaped noise) or a mu (Gaussian noise)."""

    source: NoiseSource
    epsilon: float | None = None
    mu: float | None = None

    @property
    def event(self) -> Event:
        """What the accounting sees when this is spent."""
        return Pure(self.epsilon) if self.epsilon is not None else Gaussian(self._parameter)

    @property
    def _parameter(self) -> float:
        parameter = self.epsilon if self.epsilon is not None else self.mu
        assert parameter is not None
        return parameter

    @property
    def _exact(self) -> Fraction:
        """The parameter as the accounting reads it: the decimal number that is printed, not its nearest double."""
        return exactly(self._parameter)

    @property
    def noise(self) -> float:
        """The variance of the noise on one number of sensitivity 1."""
        return (2.0 if self.epsilon is not None else 1.0) / self._parameter**2

    def split(self, *shares: float) -> tuple[Spend, ...]:
        """Cut into parts that compose to no more than the whole."""
        if self.epsilon is not None:
            return tuple(Spend(source=self.source, epsilon=e) for e in split_pure(self.epsilon, shares))
        return tuple(Spend(source=self.source, mu=m) for m in split_gaussian(self._parameter, shares))

    def part(self, name: str, statistic: str) -> Part:
        """Describe what this was spent on."""
        return Part(name=name, statistic=statistic, event=self.event)

    def values(self, values: Array, bounds: tuple[float, float]) -> Noisy:
        """Perturb every value within bounds.

        Guarantee: this spend, for neighbours that differ in one value (docs/guarantees.md#input).
        """
        if self.epsilon is not None:
            return bounded_values_mechanism(values, bounds, self.source, epsilon=self._exact)
        return bounded_values_mechanism(values, bounds, self.source, mu=self._exact)

    def sums(self, values: Array, low: float, high: float, groups: Array, n_groups: int) -> Noisy:
        """Sum numbers between low and high by groups.

        Guarantee: this spend, for neighbours that differ in one number (docs/guarantees.md#sums).
        """
        grid = Grid.for_scale((high - low) / self._parameter)
        sensitivity = contribution_sensitivity([[low]], [[high]], grid, "l1")
        # Differences of floats may leave the range by their last bit, and so by a step.
        kept = np.clip(values, low, high)
        return self._add(sum_groups(snap(kept, grid), groups, n_groups), grid, sensitivity, sensitivity)

    def linear(self, weights: Array, values: Array, low: float, high: float, groups: Array, n_groups: int) -> Noisy:
        """Sum weights (n, d) times values by groups; rows of weights must be public or already private.

        Guarantee: this spend, for neighbours that differ in one value between low and high, which moves one row of
        the result by at most the largest weight's length times (high - low), and a step per coordinate for rounding
        (docs/guarantees.md#linear).
        """
        width, dimension = (high - low), weights.shape[1]
        longest = float(np.sqrt(np.max(np.einsum("np,np->n", weights, weights)))) * width
        grid = Grid.for_scale(max(longest, 1e-12 * width) / self._parameter)
        sums = snap_and_sum(weights, grid, groups, n_groups, times=values)
        # Rounding moves every coordinate by at most half a step at either end; the allowance is for products in floats.
        allowance = 1 + Fraction(1, 10**9)
        l2 = grid.steps(longest) * allowance + sqrt_up(dimension) * allowance
        return self._add(sums, grid, l2 * sqrt_up(dimension), l2)

    def bounded_rows(self, rows: Array, groups: Array, n_groups: int, *, l1: float, l2: float) -> Noisy:
        """Sum rows of length at most l1 and l2 in these norms by groups.

        Guarantee: this spend, for neighbours that add or remove one such row: snapping adds at most half a step per
        coordinate to its length (docs/guarantees.md#entry).
        """
        dimension = rows.shape[1]
        grid = Grid.for_scale(l2 / self._parameter)
        sums = snap_and_sum(rows, grid, groups, n_groups)
        half = Fraction(1, 2)
        longest_l1 = grid.steps(l1) + half * dimension
        longest_l2 = grid.steps(l2) + half * sqrt_up(dimension)
        return self._add(sums, grid, longest_l1, longest_l2)

    def _add(self, ints: Array, grid: Grid, l1: Fraction, l2: Fraction) -> Noisy:
        l1, l2 = max(l1, Fraction(1)), max(l2, Fraction(1))
        if self.epsilon is None:
            return gaussian_mechanism(ints, grid, l2, self._exact, self.source)
        if ints.ndim == 2 and 1 < ints.shape[1] <= _LARGEST_NORM_DIMENSION:
            return norm_mechanism(ints, grid, l2, self._exact, self.source)
        return laplace_mechanism(ints, grid, l1, self._exact, self.source)
