"""The public case that errors are predicted for: all that a planner may know about data before it has seen them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tensorveil.mechanisms.tradeoffs import TYPICAL_SQUARE, clarity, input_gain, mean_share, parameters, row_gain
from tensorveil.noise.windows import window_noise

# The standard deviation of a typical tensor's values, as a share of the width of their bounds.
TYPICAL_SPREAD = 0.1


@dataclass(frozen=True, kw_only=True)
class Case:
    """Public quantities of a fit; the budget is a pure epsilon or a mu.

    Parameters
    ----------
    shape, n_entries
        Sizes of the modes, and how many entries are observed.
    ranks, core
        The form of the model: ranks of all modes, and whether it has a core.
    epsilon, mu
        What may be spent: one of the two, the other is None.
    spread
        The standard deviation of the values, as a share of the width of their bounds.
    """

    shape: tuple[int, ...]
    n_entries: int
    ranks: tuple[int, ...]
    core: bool
    epsilon: float | None
    mu: float | None
    spread: float = TYPICAL_SPREAD

    @property
    def parameters(self) -> float:
        """How many numbers the model has."""
        return parameters(self.shape, self.ranks, self.core)

    def part(self, share: float) -> Case:
        """Return the case with a share of the budget."""
        if self.epsilon is not None:
            return replace(self, epsilon=share * self.epsilon)
        assert self.mu is not None
        return replace(self, mu=math.sqrt(share) * self.mu)

    @property
    def noise(self) -> float:
        """Variance of the noise on one number of sensitivity 1."""
        if self.epsilon is not None:
            return 2.0 / self.epsilon**2
        assert self.mu is not None
        return 1.0 / self.mu**2

    @property
    def value_noise(self) -> float:
        """Variance of the noise on every value, where all are perturbed within a width of 1."""
        return self.noise if self.epsilon is None else window_noise(self.epsilon, TYPICAL_SQUARE)

    @property
    def mean_noise(self) -> float:
        """Variance of the noise on the mean if the whole budget is spent on it."""
        return self.noise / (self.spread * self.n_entries) ** 2

    @property
    def side_noise(self) -> float:
        """Variance of the noise on the mean if it gets the share that other steps leave to it."""
        return self.part(mean_share(self.noise, self.n_entries)).mean_noise

    @property
    def input_gain(self) -> float:
        """What noise on every value adds to predictions, for values within a width of 1."""
        return input_gain(self.value_noise, self.n_entries, self.parameters)

    @property
    def clarity(self) -> float:
        """How far components stand out when every value is perturbed."""
        return clarity(self.value_noise, self.n_entries, self.shape, self.ranks, self.input_gain)

    def row_gains(self, steps: float) -> float:
        """Return the gain of the noise on the row sums of all modes if the budget is split over ``steps``."""
        noise, shaped = self.part(1 / steps).noise, self.epsilon is not None
        return sum(row_gain(noise, self.n_entries, s, r, shaped) for s, r in zip(self.shape, self.ranks, strict=True))
