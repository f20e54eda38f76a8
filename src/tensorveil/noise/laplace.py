"""Discrete Laplace noise: P(k) proportional to exp(-|k| / scale) on the integers."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tensorveil.noise.interval import Arithmetic, Interval, arithmetic
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


def discrete_laplace(scale: Number, size: Size, source: NoiseSource) -> NDArray[np.int64]:
    """Draw integers k with probability proportional to exp(-|k| / scale), exactly.

    Inversion: with a = exp(-1/scale), P(|k| >= m) = 2 a**m / (1 + a) for m >= 1, so |k| is the integer part of
    scale * (ln(2 / (1 + a)) - ln u) for a uniform u; the sign is a bit of its own.

    Parameters
    ----------
    scale
        In grid steps, at most 2**40; a Fraction is used exactly.
    size
        The number of draws, or a shape.
    source
        The random bits.

    Guarantee: added to an integer statistic of L1 sensitivity s, scale = s / epsilon gives epsilon differential
    privacy (docs/explanation/noise.md#discrete-laplace).

    >>> from tensorveil.noise import SeededSource, discrete_laplace
    >>> discrete_laplace(1000, 3, SeededSource(1)).dtype
    dtype('int64')
    """
    return draw_laplace(noise_scale(scale, "scale"), total_size(size), source).reshape(size)


def draw_laplace(scale: Fraction, total: int, source: NoiseSource) -> NDArray[np.int64]:
    """Draw as `discrete_laplace` does, for scales up to 2**46, which proposals for other laws need."""
    from tensorveil.kernels import noise_draws

    wide = float(scale)
    # -ln((1 + a) / 2), without cancellation when a is near 1.
    offset = -math.log1p(math.expm1(-1 / wide) / 2)
    out = np.empty(total, dtype=np.int64)
    doubtful = np.empty(min(len(out), BLOCK), dtype=np.int64)
    for part in blocks(len(out)):
        words = source.uniform64(part.stop - part.start)
        found = noise_draws.laplace(words, wide, offset, out[part], doubtful)
        for i in doubtful[:found].tolist():
            out[part.start + i] = settle_laplace(int(words[i]), scale, source)
    return out


def settle_laplace(word: int, scale: Fraction, source: NoiseSource) -> int:
    """Return the draw that begins with this word, drawing more bits of its uniform as needed."""
    uniform = Uniform(word >> 1, 63, source)

    def attempt(numbers: Arithmetic) -> int | None:
        logs = numbers.subtract(_offset(scale, numbers.digits), numbers.ln(uniform.interval(numbers)))
        return certain_floor(numbers.multiply(numbers.number(scale), logs))

    magnitude = settle(attempt)
    return -magnitude if word & 1 else magnitude


@lru_cache(maxsize=64)
def _offset(scale: Fraction, digits: int) -> Interval:
    """Enclose ln(2 / (1 + exp(-1/scale)))."""
    numbers = arithmetic(digits)
    one = numbers.number(1)
    a = numbers.exp(numbers.number(-1 / scale))
    return numbers.ln(numbers.divide(numbers.number(2), numbers.add(one, a)))


def discrete_laplace_variance(scale: Number) -> float:
    """Return the variance of discrete Laplace noise, 2 a / (1 - a)**2 with a = exp(-1/scale)."""
    rate = 1 / float(noise_scale(scale, "scale"))
    return 2 * math.exp(-rate) / math.expm1(-rate) ** 2
