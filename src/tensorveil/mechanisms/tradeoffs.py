"""What noise and clipping cost, from public numbers: used to choose limits and shares, and by the planner.

``noise`` is the variance of the noise on one number of sensitivity 1: 2 / epsilon^2, or 1 / mu^2. Variances are shares
of the residual's; half of it is taken to be signal. A gain is the variance that noise adds to predictions when
residuals lie within a width of 1. In spreads t of the residual, noise is scaled to 2t; clipping leaves a share
``slope(t)`` of the signal, by which results are divided; what it bends cannot be undone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# What clipping at t spreads bends, as a share of the residual's variance: fitted to planted CP tensors, whose values
# have heavier tails than a Gaussian.
_BENT, _DECAY = 0.042, 0.42
_CANDIDATES = [0.8 + 0.1 * k for k in range(33)]
# This share of a model's parameters is determined by the data; relevance priors switch the others off.
_SEARCH = 0.8
# If the start has this much noise, the steps that follow it get this share of the budget, within these limits. But the
# start must stay this clear, or it misses directions that no later step finds.
_NOISY_START, _SHARE, _LEAST_SHARE, _MOST_SHARE = 0.04, 0.2, 0.1, 0.5
_CLEAR_START = 4.0
# The shares of the variance that are signal; biases and interactions are parts of it.
SIGNAL = 0.6
BIASES = 0.25
INTERACTIONS = SIGNAL - BIASES
# Limits of sums of values, in spreads.
_SUM_CANDIDATES = [1.4 + 0.2 * k for k in range(14)]
# The mean square of clipped values around the middle of their interval, as a share of that at its ends, about.
TYPICAL_SQUARE = 0.25


def shrinkage_error(signal: float, noise: float) -> float:
    """Return the error left in numbers of total variance ``signal`` that are shrunk according to their noise."""
    return signal * noise / (signal + noise) if signal > 0 else 0.0


def slope(spreads: float) -> float:
    """Return the share of a Gaussian signal that clipping leaves (Bussgang 1952)."""
    return math.erf(spreads / math.sqrt(2.0))


def bending(spreads: float) -> float:
    """Return the error that clipping adds and that nothing undoes."""
    return _BENT * math.exp(-_DECAY * spreads**2)


def sum_bending(spreads: float) -> float:
    """Return the error that clipping adds to biases, which are a part of the signal."""
    return BIASES / SIGNAL * bending(spreads)


def clipped_noise(gain: float, spreads: float) -> float:
    """Return the variance that noise adds to predictions after clipping at ``spreads``."""
    return gain * (2 * spreads / slope(spreads)) ** 2


def best_spreads(gain: float) -> float:
    """Return the limit, in spreads, with the least error."""
    return min(_CANDIDATES, key=lambda t: bending(t) + clipped_noise(gain, t))


def input_spreads(noise: float, gain: float) -> float:
    """Return the limit for perturbing every value, no tighter than data with little noise of their own can bear.

    `best_spreads` assumes that half of the variance is noise. Pictures have almost none, and clipping harms them more.
    """
    return max(best_spreads(gain), min(0.8 + 0.08 * math.sqrt(2.0 / noise), 2.5))


def mean_share(noise: float, n: int) -> float:
    """Return the share that keeps the noise on the mean near 0.2 % of the bounds' width, from 1 to 30 %."""
    return min(max(500.0 * math.sqrt(noise) / n, 0.01), 0.3)


def side_share(noise: float, n: int, *, pure: bool, usual: float, few: float, most: float) -> float:
    """Return the share of a small statistic, such as a histogram: more where entries are few.

    Of a pure budget it then gets about ``few / n`` over epsilon, so that its noise stays below a share of the entries.
    """
    needed = few / n * math.sqrt(noise / 2.0)
    return min(max(usual, needed if pure else needed**2), most)


def input_gain(noise: float, n: int, parameters: float) -> float:
    """Return the gain of noise on each of n values, to which a model is fitted."""
    return _SEARCH * noise * parameters / n


def row_gain(noise: float, n: int, size: int, rank: int, shaped: bool) -> float:
    """Return the gain of noise on the row sums of one mode, norm-shaped or Gaussian.

    Rows have n / size entries, whose designs have squared length rank: their Gram matrix is about n / size times the
    unit matrix. Norm-shaped noise has (rank + 1) / 2 times the variance of Laplace noise.
    """
    return noise * ((rank + 1) / 2 if shaped else 1.0) * rank**2 / max(n / size, 1.0) ** 2


def clarity(noise: float, n: int, shape: tuple[int, ...], ranks: tuple[int, ...], gain: float) -> float:
    """Return how far components stand out when every value is perturbed: lost below 1, found from about 3 on.

    A component of strength s shows in the spectrum of an unfolding once n s / variance exceeds the square root of the
    number of cells (Richard and Montanari 2014; for matrices, Baik, Ben Arous and Peche 2005).
    """
    component = SIGNAL / (sum(ranks) / len(ranks))
    variance = clipped_noise(noise, input_spreads(noise, gain)) + (1 - SIGNAL)
    return n * component / (variance * math.prod(math.sqrt(size) for size in shape))


def refinement_share(gain: float, clear: float) -> float:
    """Return the share of the budget for the steps after a start.

    ``gain`` and ``clear`` are those of a start that had the whole budget.
    """
    start = clipped_noise(gain, best_spreads(gain))
    by_noise = _SHARE * math.sqrt(_NOISY_START / start)
    by_clarity = 1 - math.sqrt(_CLEAR_START / clear)
    return min(max(min(by_noise, by_clarity), _LEAST_SHARE), _MOST_SHARE)


def parameters(shape: tuple[int, ...], ranks: tuple[int, ...], core: bool) -> float:
    """Return the number of parameters of a model."""
    rows = sum(size * rank for size, rank in zip(shape, ranks, strict=True))
    return float(rows + (math.prod(ranks) if core else 0))


def bias_error(noise: float, counts: Array, order: int) -> float:
    """Return the error of the biases of one mode, decoded from noisy sums of ``counts`` values per index.

    ``noise`` is the variance of the noise on a sum. All indices weigh the same, because missing cells are everywhere.
    """
    prior = BIASES / order
    if len(counts) == 1:  # as planners have it, who ask thousands of times: the same arithmetic without arrays
        count = max(float(counts[0]), 1e-9)
        alone = float(noise) / (count * count) + (1 - BIASES) / count
        return prior * alone / (prior + alone)
    counts = np.maximum(counts, 1e-9)
    found = noise / counts**2 + (1 - BIASES) / counts
    return float(np.mean(prior * found / (prior + found)))


def sum_shares(noise: float, counts: Sequence[Array], *, power: int) -> tuple[tuple[float, ...], float]:
    """Return shares of the budget for the sums of every mode, and the limit in spreads, with the least error.

    ``counts`` are the public numbers of entries per index. A share s of a pure budget has noise / s^2, of a Gaussian
    one noise / s: ``power``. Modes with many entries per index need little.
    """
    order = len(counts)

    def error(shares: Array, spreads: float) -> float:
        scaled = noise * (2 * spreads) ** 2
        return sum_bending(spreads) + sum(
            bias_error(scaled / share**power, count, order) for share, count in zip(shares, counts, strict=True)
        )

    shares, spreads = np.full(order, 1.0 / order), 2.0
    for _ in range(12):  # until one more percent of any share would buy the same
        gains, before = [], error(shares, spreads)
        for m in range(order):
            more = shares.copy()
            more[m] *= 1.01
            gains.append(max(before - error(more, spreads), 0.0) / shares[m])
        if not any(gains):
            break
        shares = shares * np.sqrt(np.array(gains) / max(gains)) + 0.01 / order
        shares /= shares.sum()
        spreads = min(_SUM_CANDIDATES, key=lambda t, s=shares: error(s, t))  # type: ignore[misc]
    return tuple(float(share) for share in shares), spreads
