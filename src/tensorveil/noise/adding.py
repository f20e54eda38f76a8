"""Mechanisms: from an integer statistic, its sensitivity in grid steps and a privacy parameter to a noisy statistic.

Every mechanism adds integer noise to integers and multiplies by a public step. Any integer can come out for any input,
so the set of possible outputs does not depend on the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.noise.gaussian import rounded_gaussian, rounded_gaussian_variance
from tensorveil.noise.grid import FINENESS, Grid
from tensorveil.noise.keyed import answer_by_cell
from tensorveil.noise.laplace import discrete_laplace, discrete_laplace_variance
from tensorveil.noise.norm import norm_laplace, norm_laplace_variance
from tensorveil.noise.source import KeySource, NoiseSource
from tensorveil.noise.uniform import LARGEST, Number, fraction


@dataclass(frozen=True, kw_only=True, eq=False)
class Noisy:
    """A noisy statistic: its values, the variance of the noise on every number, and whether the noise was secure.

    The variance follows from public parameters alone. If ``source_secure`` is false, nothing here is private.
    """

    values: NDArray[np.float64]
    variance: float
    source_secure: bool


def laplace_mechanism(
    ints: ArrayLike, grid: Grid, l1_sensitivity_steps: Number, epsilon: Number, source: NoiseSource
) -> Noisy:
    """Add discrete Laplace noise of scale sensitivity / epsilon to every integer.

    Guarantee: epsilon differential privacy for neighbours whose integer statistics differ by at most
    l1_sensitivity_steps in L1 (docs/explanation/noise.md#discrete-laplace).

    >>> from tensorveil.noise import Grid, SecureSource, laplace_mechanism, snap
    >>> grid = Grid.for_scale(2.0)
    >>> noisy = laplace_mechanism(snap([1.5, 2.5], grid), grid, grid.steps(1), 0.5, SecureSource())
    >>> noisy.source_secure, round(noisy.variance, 3)
    (True, 8.0)
    """
    scale = fraction(l1_sensitivity_steps, "l1_sensitivity_steps") / fraction(epsilon, "epsilon")
    statistic = _integers(ints)
    noise = discrete_laplace(scale, statistic.shape, source)
    return _noisy(statistic, noise, grid, discrete_laplace_variance(scale), source)


def gaussian_mechanism(
    ints: ArrayLike, grid: Grid, l2_sensitivity_steps: Number, mu: Number, source: NoiseSource
) -> Noisy:
    """Add rounded Gaussian noise of standard deviation sensitivity / mu to every integer.

    Guarantee: mu-GDP, exactly as for continuous Gaussian noise, for neighbours whose integer statistics differ by at
    most l2_sensitivity_steps in L2 (docs/explanation/noise.md#rounding-keeps-gdp).
    """
    sigma = fraction(l2_sensitivity_steps, "l2_sensitivity_steps") / fraction(mu, "mu")
    statistic = _integers(ints)
    noise = rounded_gaussian(sigma, statistic.shape, source)
    return _noisy(statistic, noise, grid, rounded_gaussian_variance(sigma), source)


def norm_mechanism(
    rows: ArrayLike, grid: Grid, l2_sensitivity_steps: Number, epsilon: Number, source: NoiseSource
) -> Noisy:
    """Add norm-shaped noise, P(z) proportional to exp(-epsilon ||z|| / sensitivity), to every row of integers.

    Guarantee: epsilon differential privacy for neighbours whose statistics differ in one row only, by at most
    l2_sensitivity_steps in L2 (docs/explanation/noise.md#norm-shaped-noise).
    """
    scale = fraction(l2_sensitivity_steps, "l2_sensitivity_steps") / fraction(epsilon, "epsilon")
    statistic = _integers(rows)
    if statistic.ndim != 2 or statistic.shape[1] < 1:
        raise InputError(f"rows must be a matrix, one statistic per row; got {statistic.ndim} dimensions.")
    count, dimension = statistic.shape
    noise = norm_laplace(scale, dimension, count, source)
    return _noisy(statistic, noise, grid, norm_laplace_variance(scale, dimension), source)


def bounded_values_mechanism(
    values: ArrayLike,
    bounds: tuple[float, float],
    source: NoiseSource,
    *,
    epsilon: Number | None = None,
    mu: Number | None = None,
) -> Noisy:
    """Add independent noise to every value within declared bounds: Laplace for ``epsilon``, Gaussian for ``mu``.

    The range between the bounds is divided into 2**k equal steps, where k follows from the privacy parameter. Every
    value moves to the nearest of the 2**k + 1 points, so two values differ by at most 2**k steps, with no allowance for
    rounding.

    Guarantee: epsilon differential privacy, or mu-GDP, for neighbours that differ in one value within the bounds,
    even against the party that collects the values (docs/explanation/noise.md#bounded-values).

    >>> from tensorveil.noise import SecureSource, bounded_values_mechanism
    >>> bounded_values_mechanism([1.0, 4.5], (1.0, 5.0), SecureSource(), epsilon=1.0).values.shape
    (2,)
    """
    law = PlusNoise.choose(bounds, epsilon=epsilon, mu=mu)
    return law.read(answer_all(law, values, source), secure=source.secure)


class Answering(Protocol):
    """How every value gets noise of its own: a place on a grid, an answer of integers, and what that stands for."""

    @property
    def words(self) -> int:
        """How many random words a cell's answer begins with."""

    def count_words(self, n: int) -> int:
        """Return how many words so many answers begin with."""

    def place(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return where values lie on the grid."""

    def answer(self, places: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        """Return a randomised answer per place."""


def answer_all(law: Answering, values: ArrayLike, source: NoiseSource) -> NDArray[np.int64]:
    """Return an answer per value; with bits by cell where the source can give them, as for values elsewhere."""
    places = law.place(values)
    flat = places.reshape(-1)
    if not isinstance(source, KeySource):
        return law.answer(flat, source).reshape(places.shape)
    key = source.make_key(law.count_words(len(flat)))
    return answer_by_cell(law.answer, flat, key, law.words, 0, len(flat)).reshape(places.shape)


@dataclass(frozen=True, kw_only=True)
class PlusNoise:
    """Noise that is added to every value: the law of `bounded_values_mechanism`."""

    low: float
    high: float
    kind: Literal["laplace", "gaussian"]
    parameter: Fraction

    words = 1

    @classmethod
    def choose(
        cls, bounds: tuple[float, float], *, epsilon: Number | None = None, mu: Number | None = None
    ) -> PlusNoise:
        """Return the law for bounds, and an epsilon or a mu."""
        low, high = check_bounds(bounds)
        kind, parameter = _choose_law(epsilon, mu)
        return cls(low=low, high=high, kind=kind, parameter=parameter)

    @property
    def _steps(self) -> int:
        return bounded_steps(self.parameter)

    def count_words(self, n: int) -> int:
        """Return how many words so many answers begin with: Gaussian noise is drawn in pairs."""
        return n + n % 2 if self.kind == "gaussian" else n

    def place(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return where values lie between the bounds, in steps."""
        return place_values(values, self.low, self.high, self._steps)

    def answer(self, places: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        """Return places plus noise."""
        draw = discrete_laplace if self.kind == "laplace" else rounded_gaussian
        return _sum(places, draw(self._steps / self.parameter, places.shape, source))

    def read(self, answers: NDArray[np.int64], *, secure: bool) -> Noisy:
        """Return what answers stand for."""
        variance = discrete_laplace_variance if self.kind == "laplace" else rounded_gaussian_variance
        width = (self.high - self.low) / self._steps
        return Noisy(
            values=np.asarray(self.low + answers * width, dtype=np.float64),
            variance=variance(self._steps / self.parameter) * width**2,
            source_secure=secure,
        )


def bounded_steps(parameter: Number) -> int:
    """Return the number of steps between the bounds in `bounded_values_mechanism`: about 2**20 per noise scale."""
    exponent = math.frexp(float(fraction(parameter, "parameter")))[1] + FINENESS
    # At least 2**12, or the values themselves would be coarse; at most 2**40, or their integers would be huge.
    return 1 << min(max(exponent, 12), 40)


def _choose_law(epsilon: Number | None, mu: Number | None) -> tuple[Literal["laplace", "gaussian"], Fraction]:
    if epsilon is not None and mu is None:
        return "laplace", fraction(epsilon, "epsilon")
    if mu is not None and epsilon is None:
        return "gaussian", fraction(mu, "mu")
    raise InputError("give either epsilon (Laplace noise) or mu (Gaussian noise), not both. Try epsilon=1.0.")


def check_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Return bounds that leave room between them."""
    low, high = (float(bound) for bound in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)):
        raise InputError(f"bounds must be two finite numbers, lowest first; got {bounds}. Try bounds=(1.0, 5.0).")
    return low, high


def place_values(values: ArrayLike, low: float, high: float, steps: int) -> NDArray[np.int64]:
    """Return the positions of values between the bounds, 0 .. steps. Any map into that range would be as private."""
    numbers = np.asarray(values, dtype=np.float64)
    if not np.all((numbers >= low) & (numbers <= high)):  # also false for NaN
        raise InputError("values must lie within bounds. Clip them to the declared bounds first.")
    places = np.rint((numbers - low) / (high - low) * steps).astype(np.int64)
    return np.clip(places, 0, steps)


def _integers(ints: ArrayLike) -> NDArray[np.int64]:
    """Check that a statistic consists of integers that leave room for noise."""
    array = np.asarray(ints)
    if array.dtype.kind not in "iu" or (array.dtype.kind == "u" and array.dtype.itemsize == 8):
        raise InputError(f"ints must be signed integers; got {array.dtype}. Round to the grid with snap(values, grid).")
    array = array.astype(np.int64, copy=False)
    if array.size and (array.max() >= LARGEST or array.min() <= -LARGEST):
        raise InputError("ints must stay below 2**62 in magnitude. Choose a coarser grid or clip the contributions.")
    return array


def _sum(ints: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add statistic and noise; both are below 2**62, so 64 bits hold the sum."""
    total: NDArray[np.int64] = ints + noise
    return total


def _noisy(
    ints: NDArray[np.int64], noise: NDArray[np.int64], grid: Grid, variance: float, source: NoiseSource
) -> Noisy:
    return Noisy(values=grid.values(_sum(ints, noise)), variance=variance * grid.step**2, source_secure=source.secure)
