"""Norm-shaped noise: integer vectors z with probability proportional to exp(-||z|| / scale), the norm being Euclidean.

There are two exact ways to propose vectors; the better one for the scale and dimension is used
(docs/explanation/noise.md#norm-shaped-noise):

- shell: round the continuous law of density exp(-||x|| / scale), and keep z = round(x) with probability
  exp(-(||z|| - ||x|| + sqrt(d)/2) / scale). What is kept has the same density everywhere in the cube around z. Nearly
  all proposals are kept when the scale is much larger than sqrt(d), whatever the dimension.
- product: independent discrete Laplace coordinates of scale t >= scale sqrt(d), kept with probability
  exp(-(||z|| / scale - ||z||_1 / t)). Good for small scales.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.noise.basic import Exponent, accept
from tensorveil.noise.gaussian import GaussianPair
from tensorveil.noise.interval import Arithmetic, Interval
from tensorveil.noise.laplace import discrete_laplace, draw_laplace
from tensorveil.noise.source import NoiseSource
from tensorveil.noise.theta import log_partition, second_moment
from tensorveil.noise.uniform import BLOCK, Number, Uniform, certain_floor, noise_scale, settle, total_size

LARGEST_DIMENSION: Final = 1024
SMALLEST_ACCEPTANCE: Final = 1e-5


def norm_laplace(scale: Number, dimension: int, size: int, source: NoiseSource) -> NDArray[np.int64]:
    """Draw integer vectors z with probability proportional to exp(-||z||_2 / scale), exactly.

    Parameters
    ----------
    scale
        In grid steps, at most 2**40; a Fraction is used exactly.
    dimension, size
        Of the vectors, and their number: the result has shape (size, dimension).
    source
        The random bits.

    Guarantee: added to an integer vector of L2 sensitivity s, scale = s / epsilon gives epsilon differential privacy
    (docs/explanation/noise.md#norm-shaped-noise).

    >>> from tensorveil.noise import SeededSource, norm_laplace
    >>> norm_laplace(1000, 8, 5, SeededSource(1)).shape
    (5, 8)
    """
    exact = _check_scale(scale, dimension)
    size = total_size(size)
    if dimension == 1:
        return discrete_laplace(exact, (size, 1), source)
    shell, product = acceptance(exact, dimension)
    best = max(shell, product)
    if best < SMALLEST_ACCEPTANCE:
        raise InputError(
            f"scale={float(exact):g} steps is too small for norm-shaped noise in dimension={dimension}: "
            "nearly every proposal would be rejected. Choose a finer grid."
        )
    propose = _propose_shells if shell >= product else _propose_products
    out = np.empty((size, dimension), dtype=np.int64)
    filled = 0
    most = max(1, BLOCK // dimension)
    while filled < size:
        wanted = min(most, int((size - filled) / best * 1.05) + 8)
        kept = propose(exact, dimension, wanted, source)[: size - filled]
        out[filled : filled + len(kept)] = kept
        filled += len(kept)
    return out


def norm_laplace_variance(scale: Number, dimension: int) -> float:
    """Return the variance of one coordinate; (dimension + 1) * scale**2 unless the scale is small."""
    exact = _check_scale(scale, dimension)
    return second_moment(float(exact), dimension)


@lru_cache(maxsize=256)
def acceptance(scale: Fraction, dimension: int) -> tuple[float, float]:
    """Return the shares of proposals that are kept, by shells and by products."""
    s, d = float(scale), dimension
    partition = log_partition(s, d)
    volume = d * math.log(s) + math.lgamma(d + 1) + d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1)
    shell = math.exp(min(0.0, partition - volume - math.sqrt(d) / (2 * s)))
    rate = 1 / (2 * s * math.sqrt(d))
    return shell, math.exp(min(0.0, partition + d * math.log(math.tanh(rate))))


def _check_scale(scale: Number, dimension: int) -> Fraction:
    if not 1 <= dimension <= LARGEST_DIMENSION:
        raise InputError(
            f"dimension must be between 1 and {LARGEST_DIMENSION}; got {dimension}. "
            "Use Laplace noise on the coordinates or Gaussian noise instead."
        )
    return noise_scale(scale, "scale")


@lru_cache(maxsize=64)
def _slack(dimension: int) -> Fraction:
    """Return a rational number just above sqrt(dimension) / 2, the largest distance from a cube's centre within it."""
    return Fraction(math.nextafter(math.sqrt(dimension) / 2, math.inf))


def _propose_shells(scale: Fraction, dimension: int, count: int, source: NoiseSource) -> NDArray[np.int64]:
    """Make proposals of the shell kind and return those that are kept."""
    from tensorveil.kernels import noise_norm

    width = dimension + 2 * ((dimension + 1) // 2) + 1
    words = source.uniform64(count * width).reshape(count, width)
    out = np.empty((count, dimension), dtype=np.int64)
    verdicts = np.empty(count, dtype=np.int8)
    noise_norm.shells(words, dimension, float(scale), float(_slack(dimension)), out, verdicts)
    for i in np.flatnonzero(verdicts == noise_norm.DOUBTFUL).tolist():
        out[i], verdicts[i] = settle_shell(words[i].tolist(), dimension, scale, source)
    kept: NDArray[np.int64] = out[verdicts == noise_norm.ACCEPTED]
    return kept


def settle_shell(words: list[int], dimension: int, scale: Fraction, source: NoiseSource) -> tuple[list[int], bool]:
    """Return the proposal that begins with these words and whether it is kept, drawing more bits as needed."""
    radii = [Uniform(word, 64, source) for word in words[:dimension]]
    rest = iter(words[dimension:-1])
    pairs = [GaussianPair(r, a, source) for r, a in zip(rest, rest, strict=True)]
    coin = Uniform(words[-1], 64, source)

    def attempt(numbers: Arithmetic) -> tuple[list[int], bool] | None:
        logs = [numbers.ln(u.interval(numbers)) for u in radii]
        radius = numbers.multiply(numbers.number(-scale), reduce(numbers.add, logs))
        point = _on_sphere(list(_gaussians(pairs, dimension, numbers)), radius, numbers)
        if point is None:
            return None
        half = numbers.number(Fraction(1, 2))
        floors = [certain_floor(numbers.add(x, half)) for x in point]
        if any(z is None for z in floors):
            return None
        ints = [z for z in floors if z is not None]
        length = numbers.sqrt(numbers.number(sum(z * z for z in ints)))
        excess = numbers.add(numbers.subtract(length, radius), numbers.number(_slack(dimension)))
        chance = numbers.exp(numbers.multiply(numbers.number(-1 / scale), excess))
        u = coin.interval(numbers)
        if u.hi <= chance.lo:
            return ints, True
        return (ints, False) if u.lo >= chance.hi else None

    return settle(attempt)


def _gaussians(pairs: list[GaussianPair], dimension: int, numbers: Arithmetic) -> Iterator[Interval]:
    both = (z for pair in pairs for z in pair.intervals(numbers))
    yield from (z for z, _ in zip(both, range(dimension), strict=False))


def _on_sphere(g: list[Interval], radius: Interval, numbers: Arithmetic) -> list[Interval] | None:
    """Enclose the point of the sphere in the direction of g, or return None if g is not known to differ from 0."""
    norm = numbers.sqrt(reduce(numbers.add, [numbers.multiply(z, z) for z in g]))
    if norm.lo <= Decimal(0):
        return None
    factor = numbers.divide(radius, norm)
    return [numbers.multiply(factor, z) for z in g]


def _propose_products(scale: Fraction, dimension: int, count: int, source: NoiseSource) -> NDArray[np.int64]:
    """Make proposals of independent coordinates and return those that are kept."""
    t = Fraction(math.nextafter(float(scale) * math.sqrt(dimension) * (1 + 2**-50), math.inf))
    z = draw_laplace(t, count * dimension, source).reshape(count, dimension)
    sizes = np.abs(z)
    total = sizes.sum(axis=1)  # below 2**46 * 1024
    squares = np.square(sizes.astype(np.float64)).sum(axis=1)
    length = np.sqrt(squares) / float(scale)
    reach = total / float(t)
    errors = (length + reach) * dimension * 2.0**-50

    def exact(i: int) -> Exponent:
        inside = sum(int(k) ** 2 for k in sizes[i])
        sum_ = Fraction(int(total[i])) / t

        def minus_exponent(numbers: Arithmetic) -> Interval:
            root = numbers.multiply(numbers.number(1 / scale), numbers.sqrt(numbers.number(inside)))
            return numbers.subtract(numbers.number(sum_), root)

        return minus_exponent

    # Rounding may leave an exponent just below 0, where the coin is certain: the error bound covers that.
    return z[accept(np.maximum(length - reach, 0.0), errors, exact, source)]
