"""Exact coins and dice: Bernoulli(exp(-x)), integers below a bound, rounding up with the right probability."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.noise.interval import Arithmetic, Interval
from tensorveil.noise.source import NoiseSource
from tensorveil.noise.uniform import Size, Uniform, total_size

Exponent = Callable[[Arithmetic], Interval]


def accept(
    exponents: NDArray[np.float64], errors: NDArray[np.float64], exact: Callable[[int], Exponent], source: NoiseSource
) -> NDArray[np.bool_]:
    """Flip one coin of probability exp(-x) per exponent x.

    ``exponents`` are known up to absolute ``errors``; ``exact(i)`` encloses MINUS the i-th exponent at any precision,
    and is called only where double precision leaves a doubt.
    """
    from tensorveil.kernels import noise_draws

    words = source.uniform64(len(exponents))
    out = np.empty(len(words), dtype=np.bool_)
    doubtful = np.empty(len(words), dtype=np.int64)
    found = noise_draws.below_exp(words, exponents, errors, out, doubtful)
    for i in doubtful[:found].tolist():
        out[i] = Uniform(int(words[i]), 64, source).below_exp(exact(i))
    return out


def bernoulli_exp(exponents: ArrayLike, source: NoiseSource) -> NDArray[np.bool_]:
    """Flip one coin per exponent x >= 0, true with probability exp(-x) exactly (for exactly this float x)."""
    x = np.asarray(exponents, dtype=np.float64)
    if not np.all(x >= 0) or not np.all(np.isfinite(x)):
        raise InputError("exponents must be finite and at least 0. Clip them before drawing.")
    flat = np.ascontiguousarray(x.reshape(-1))

    def exact(i: int) -> Exponent:
        return lambda numbers: numbers.number(-Fraction(float(flat[i])))

    return accept(flat, np.zeros(len(flat)), exact, source).reshape(x.shape)


def uniform_below(bound: int, size: Size, source: NoiseSource) -> NDArray[np.int64]:
    """Draw integers uniform on 0 .. bound - 1, exactly, by truncating words to the bound's length and rejecting."""
    if not 1 <= bound <= 1 << 63:
        raise InputError(f"bound must be between 1 and 2**63; got {bound}. Try bound=2.")
    shift = np.uint64(64 - max(1, (bound - 1).bit_length()))
    total = total_size(size)
    kept, have = [np.empty(0, dtype=np.int64)], 0
    while have < total:
        words = source.uniform64(total - have) >> shift
        good = words[words < np.uint64(bound)].astype(np.int64)
        kept.append(good)
        have += len(good)
    return np.concatenate(kept).reshape(size)


def flip_fractions(parts: NDArray[Any], source: NoiseSource) -> NDArray[np.bool_]:
    """Flip one coin per fraction f in [0, 1), true with probability f exactly."""
    words = source.uniform64(len(parts))
    scaled = np.ldexp(parts, 64)  # exact; below 2**64
    whole = np.floor(scaled)
    threshold = whole.astype(np.uint64)
    out: NDArray[np.bool_] = words < threshold
    for i in np.flatnonzero((words == threshold) & (scaled > whole)).tolist():
        out[i] = Uniform(int(words[i]), 64, source).below(Fraction(float(parts[i])))
    return out
