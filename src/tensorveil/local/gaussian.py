"""Gaussian noise with its exact calibration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tensorveil.errors import InputError
from tensorveil.local.ball import Array, BallMechanism
from tensorveil.local.contract import LocalMechanism
from tensorveil.local.requirements import Requirements
from tensorveil.noise import NoiseSource, rounded_gaussian, rounded_gaussian_variance, sqrt_up
from tensorveil.privacy import Event, Gaussian, Unit, gaussian_mu
from tensorveil.privacy.delta import check_delta
from tensorveil.privacy.exact import exactly, probability

STEPS = 1 << 20  # in the declared range of an entry


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactGaussian(BallMechanism):
    """Add Gaussian noise to every entry, as little as (epsilon, delta) allows (Balle and Wang 2018).

    For unit tensor its squared error is about ten times that of `PrivUnit`, and it needs a delta. It is here because it
    composes well, and for tensors of which only a few entries can differ.

    Parameters
    ----------
    delta
        Above 0: the probability beyond the reach of epsilon.
    bounds
        Declared range of the entries.
    radius
        Instead of bounds: the declared largest norm of the tensor.

    Guarantee: (epsilon, delta) for the unit (docs/guarantees.md#exact-gaussian).

    >>> from tensorveil.local import ExactGaussian
    >>> noise = ExactGaussian(shape=(28, 28), epsilon=1.0, delta=1e-5, unit="tensor", bounds=(-1, 1))
    >>> round((noise.worst_mse / noise.size) ** 0.5)
    209
    """

    delta: float = 0.0  # no default in effect: 0 is refused
    command: ClassVar[str] = "gaussian"
    label: ClassVar[str] = "Gaussian noise, exactly calibrated"
    proof: ClassVar[str] = "docs/guarantees.md#exact-gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", probability("delta", self.delta))
        super().__post_init__()
        check_delta(self.delta, Unit.parse(self.unit), among=None)
        if self.unit != Unit.tensor() and self.bounds is None:
            raise InputError(f"unit {str(self.unit)!r} needs bounds of the entries. Try bounds=(-1, 1).")
        _ = self.mu

    @classmethod
    def candidates(cls, required: Requirements) -> Iterable[LocalMechanism]:
        """Return the mechanism if there is a delta to spend."""
        if required.delta == 0:
            return []
        return [cls(**cls._choice_settings(required), delta=required.delta)]

    @classmethod
    def examples(cls, epsilon: float) -> Mapping[str, LocalMechanism]:
        """Return one for a cube, one for tensors of which one entry differs, and one for a ball."""
        settings: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-5}
        bounds, one = (-1.0, 1.0), Unit.tensor(differ=1)
        return {
            "exact Gaussian": cls(shape=(2,), unit="tensor", bounds=bounds, **settings),
            "exact Gaussian, one entry differs": cls(shape=(3,), unit=one, bounds=bounds, **settings),
            "exact Gaussian, ball": cls(shape=(3,), unit="tensor", radius=1.0, **settings),
        }

    @cached_property
    def mu(self) -> float:
        """The mu of the Gaussian mechanism."""
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def event(self) -> Event:
        """A mu-GDP event."""
        return Gaussian(self.mu)

    @property
    def step(self) -> float:
        """The step of the grid."""
        width = 2 * self.reach if self.bounds is None else self.bounds[1] - self.bounds[0]
        return width / STEPS

    @cached_property
    def sensitivity_steps(self) -> Fraction:
        """How far two neighbours' grid points can lie apart, in steps.

        Within bounds, an entry's places differ by at most STEPS. In a ball, every tensor's places are at most
        `_longest` from the middle.
        """
        if self.bounds is None:
            return Fraction(2 * self._longest)
        return STEPS * sqrt_up(self.most_entries)

    @property
    def _longest(self) -> int:
        """The length to which the places of a tensor in a ball are bounded, in steps about the middle.

        It leaves room for rounding at random, one step per entry, and for what the bound itself sets aside.
        """
        return STEPS // 2 + math.ceil(1.5 * math.sqrt(self.size)) + 2

    @property
    def _sigma(self) -> Fraction:
        return self.sensitivity_steps / exactly(self.mu)

    def _randomize_rows(self, rows: Array, source: NoiseSource) -> Array:
        from tensorveil.kernels import local_draws

        half = 0.5 * self.step * STEPS
        flat = (rows - self.center).reshape(-1)
        index = np.empty(len(flat), dtype=np.int64)
        local_draws.to_grid(flat, -half, half, STEPS, source.uniform64(len(flat)), index)
        places = index.reshape(rows.shape)
        if self.bounds is None:
            places = self._bound_rows(places)
        out: Array = places + rounded_gaussian(self._sigma, len(flat), source).reshape(rows.shape)
        return out

    def _bound_rows(self, places: Array) -> Array:
        """Bring the places of tensors in a ball within their length, in whole numbers; hardly ever is there a need."""
        from tensorveil.kernels import bounding

        out = np.zeros(places.shape, dtype=np.int64)
        about = places.astype(np.float64) - STEPS // 2
        count = len(places)
        bounding.add_bounded_rows(about, np.ones(count), np.arange(count), 1.0, self._longest, out)
        return out + STEPS // 2

    def _decode_rows(self, codes: Array) -> Array:
        out = (codes - 0.5 * STEPS) * self.step
        out += self.center
        return out

    def _mse_rows(self, rows: Array) -> Array:
        places = (rows - self.center) / self.step
        part = places - np.floor(places)
        noise = self.size * rounded_gaussian_variance(self._sigma)
        out: Array = (noise + (part * (1 - part)).sum(axis=1)) * self.step**2
        return out

    @property
    def worst_mse(self) -> float:
        """The largest expected squared error of a report."""
        return self.size * (rounded_gaussian_variance(self._sigma) + 0.25) * self.step**2

    def settings(self) -> dict[str, Any]:
        """Return the public parameters, as plain data."""
        return super().settings() | {"delta": self.delta}

    def _statistic(self) -> str:
        deviation = math.sqrt(self.worst_mse / self.size)
        return f"all {self.size} entries of one tensor, noise of deviation {deviation:.4g}"
