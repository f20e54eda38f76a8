"""Gaussian noise on the integers: the continuous Gaussian rounded, and the discrete Gaussian."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tensorveil.noise.basic import Exponent, accept
from tensorveil.noise.interval import Arithmetic, Interval, negate
from tensorveil.noise.laplace import draw_laplace
from tensorveil.noise.source import NoiseSource
from tensorveil.noise.uniform import (
    BLOCK,
    Number,
    Size,
    Uniform,
    blocks,
    certain_floor,
    noise_scale,
    settle,
    total_size,
)


def rounded_gaussian(sigma: Number, size: Size, source: NoiseSource) -> NDArray[np.int64]:
    """Draw round(sigma * Z) for a standard Gaussian Z, exactly: P(k) = Phi((k+1/2)/sigma) - Phi((k-1/2)/sigma).

    Box and Muller's transformation of two uniforms whose bits are drawn until the rounding is certain.

    Parameters
    ----------
    sigma
        In grid steps, at most 2**40; a Fraction is used exactly.
    size
        The number of draws, or a shape.
    source
        The random bits.

    Guarantee: added to an integer statistic of L2 sensitivity s, sigma = s / mu gives exactly mu-GDP, because
    rounding the continuous Gaussian mechanism is post-processing (docs/explanation/noise.md#rounding-keeps-gdp).

    >>> from tensorveil.noise import SeededSource, rounded_gaussian
    >>> rounded_gaussian(1000, (2, 3), SeededSource(1)).shape
    (2, 3)
    """
    from tensorveil.kernels import noise_draws

    exact = noise_scale(sigma, "sigma")
    wide = float(exact)
    total = total_size(size)
    out = np.empty(total + total % 2, dtype=np.int64)  # draws come in pairs
    doubtful = np.empty(min(len(out), BLOCK), dtype=np.int64)
    for part in blocks(len(out)):
        words = source.uniform64(part.stop - part.start)
        found = noise_draws.rounded_gaussian(words, wide, out[part], doubtful)
        for i in doubtful[:found].tolist():
            at = part.start + 2 * i
            out[at : at + 2] = settle_pair(int(words[2 * i]), int(words[2 * i + 1]), exact, source)
    return out[:total].reshape(size)


def settle_pair(word_r: int, word_a: int, sigma: Fraction, source: NoiseSource) -> tuple[int, int]:
    """Return the two draws that begin with these words, drawing more bits of their uniforms as needed."""
    pair = GaussianPair(word_r, word_a, source)
    half = Fraction(1, 2)

    def attempt(numbers: Arithmetic) -> tuple[int, int] | None:
        scale, add = numbers.number(sigma), numbers.number(half)
        found = [certain_floor(numbers.add(numbers.multiply(scale, z), add)) for z in pair.intervals(numbers)]
        return None if found[0] is None or found[1] is None else (found[0], found[1])

    return settle(attempt)


class GaussianPair:
    """Two independent standard Gaussians as real numbers, known to any requested precision."""

    def __init__(self, word_r: int, word_a: int, source: NoiseSource) -> None:
        self._radius = Uniform(word_r >> 1, 63, source)
        self._angle = Uniform(word_a >> 2, 62, source)
        self._negative = (word_a & 1, word_a & 2)

    def intervals(self, numbers: Arithmetic) -> list[Interval]:
        """Enclose both numbers."""
        log = numbers.ln(self._radius.interval(numbers))
        radius = numbers.sqrt(numbers.multiply(numbers.number(-2), log))
        both = numbers.cos_sin_quarter(self._angle.interval(numbers))
        sizes = (numbers.multiply(radius, part) for part in both)
        return [negate(z) if flip else z for z, flip in zip(sizes, self._negative, strict=True)]


def rounded_gaussian_variance(sigma: Number) -> float:
    """Return the variance of the rounded Gaussian: sigma**2 + 1/12, up to a term that matters only for small sigma."""
    wide = float(noise_scale(sigma, "sigma"))
    if wide > 3:  # the missing term is below exp(-2 pi**2 sigma**2)
        return wide**2 + 1 / 12
    # E k**2 = sum over m >= 0 of (2m + 1) P(|k| > m)
    return math.fsum((2 * m + 1) * math.erfc((m + 0.5) / (wide * math.sqrt(2))) for m in range(40 * math.ceil(wide)))


def discrete_gaussian(sigma: Number, size: Size, source: NoiseSource) -> NDArray[np.int64]:
    """Draw integers k with probability proportional to exp(-k**2 / (2 sigma**2)), exactly.

    Rejection from discrete Laplace noise (Canonne, Kamath and Steinke 2020, algorithm 3): with t = floor(sigma) + 1, a
    draw y of scale t is kept with probability exp(-(|y| - sigma**2/t)**2 / (2 sigma**2)).

    Guarantee: added to an integer statistic of L2 sensitivity s, it gives (s / sigma)**2 / 2 zCDP
    (the same paper; docs/explanation/noise.md#discrete-gaussian).

    >>> from tensorveil.noise import SeededSource, discrete_gaussian
    >>> discrete_gaussian(2.5, 4, SeededSource(1)).shape
    (4,)
    """
    exact = noise_scale(sigma, "sigma")
    out = np.empty(total_size(size), dtype=np.int64)
    filled = 0
    while filled < len(out):
        wanted = min(BLOCK, int((len(out) - filled) * 1.4) + 16)
        kept = _propose_gaussian(exact, wanted, source)[: len(out) - filled]
        out[filled : filled + len(kept)] = kept
        filled += len(kept)
    return out.reshape(size)


def _propose_gaussian(sigma: Fraction, count: int, source: NoiseSource) -> NDArray[np.int64]:
    """Propose discrete Laplace numbers and return those that the rejection step keeps."""
    t = math.floor(sigma) + 1
    centre, spread = sigma**2 / t, 2 * sigma**2
    proposals = draw_laplace(Fraction(t), count, source)
    sizes = np.abs(proposals).astype(np.float64)
    gaps = np.abs(sizes - float(centre))
    error = (sizes + float(centre)) * 2.0**-51
    exponents = gaps**2 / float(spread)
    errors = (2 * gaps + error) * error / float(spread) + exponents * 2.0**-50

    def exact(i: int) -> Exponent:
        return lambda numbers: numbers.number(-((abs(int(proposals[i])) - centre) ** 2) / spread)

    return proposals[accept(exponents, errors, exact, source)]


def discrete_gaussian_variance(sigma: Number) -> float:
    """Return the variance of the discrete Gaussian: sigma**2, up to a term that matters only for small sigma."""
    wide = float(noise_scale(sigma, "sigma"))
    if wide > 3:  # the relative difference is below exp(-2 pi**2 sigma**2) * 8 pi**2 sigma**2
        return wide**2
    weights = [math.exp(-(k**2) / (2 * wide**2)) for k in range(1, 40 * math.ceil(wide))]
    return 2 * math.fsum(k**2 * w for k, w in enumerate(weights, 1)) / (1 + 2 * math.fsum(weights))
