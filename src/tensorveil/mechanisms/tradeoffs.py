"""What noise and clipping cost, from public numbers: used to choose limits and shares, and by the planner.

``noise`` is the variance of the noise on one number of sensitivity 1: 2 / epsilon^2, or 1 / mu^2. Variances are shares
of the residual's; half of it is taken to be signal. A gain is the variance that noise adds to predictions when
residuals lie within a width of 1. In spreads t of the residual, noise is scaled to 2t; clipping leaves a share
``slope(t)`` of the signal, by which results are divided; what it bends cannot be undone.
"""

from __future__ import annotations

import math

# What clipping at t spreads bends, as a share of the residual's variance: fitted to planted CP tensors, whose values
# have heavier tails than a Gaussian.
_BENT, _DECAY = 0.042, 0.42
_CANDIDATES = [0.8 + 0.1 * k for k in range(33)]
# Of a model's parameters, so many are determined by the data; relevance priors switch the others off.
_SEARCH = 0.8
# With this much noise in a start, steps that follow it get this share of the budget, within these limits; but a start
# must stay this clear, or it misses directions that no step finds again.
_NOISY_START, _SHARE, _LEAST_SHARE, _MOST_SHARE = 0.04, 0.2, 0.1, 0.5
_CLEAR_START = 4.5
# The share of the variance that is signal.
SIGNAL = 0.6


def slope(spreads: float) -> float:
    """Return the share of a Gaussian signal that clipping leaves (Bussgang 1952)."""
    return math.erf(spreads / math.sqrt(2.0))


def bending(spreads: float) -> float:
    """Return the error that clipping adds for good."""
    return _BENT * math.exp(-_DECAY * spreads**2)


def clipped_noise(gain: float, spreads: float) -> float:
    """Return the variance that noise adds to predictions after clipping at so many spreads."""
    return gain * (2 * spreads / slope(spreads)) ** 2


def best_spreads(gain: float) -> float:
    """Return the limit, in spreads, with the least error."""
    return min(_CANDIDATES, key=lambda t: bending(t) + clipped_noise(gain, t))


def input_spreads(noise: float, gain: float) -> float:
    """Return the limit for perturbing every value: no tighter than data with little noise of their own can bear.

    The rule above takes half of the variance for noise. Pictures have next to none, and clipping bends them more.
    """
    return max(best_spreads(gain), min(0.8 + 0.08 * math.sqrt(2.0 / noise), 2.5))


def input_gain(noise: float, n: int, parameters: float) -> float:
    """Return the gain of noise on every one of n values, fitted by so many parameters."""
    return _SEARCH * noise * parameters / n


def row_gain(noise: float, n: int, size: int, rank: int, shaped: bool) -> float:
    """Return the gain of noise on the row sums of one mode, norm-shaped or Gaussian.

    Rows have n / size entries, whose designs have squared length rank: their Gram matrix is about n / size times the
    unit matrix. Norm-shaped noise has (rank + 1) / 2 times the variance of Laplace noise.
    """
    return noise * ((rank + 1) / 2 if shaped else 1.0) * rank**2 / max(n / size, 1.0) ** 2


def clarity(noise: float, n: int, shape: tuple[int, ...], ranks: tuple[int, ...], gain: float) -> float:
    """Return how far components stand out when every value is perturbed: below 1 they are lost, from about 3 on found.

    A component of strength s shows in the spectrum of an unfolding once n s / variance exceeds the square root of the
    number of cells (Richard and Montanari 2014; for matrices, Baik, Ben Arous and Peche 2005). From four modes on it
    was measured to take more, because directions of every mode must be found at once.
    """
    component = SIGNAL / (sum(ranks) / len(ranks))
    variance = clipped_noise(noise, input_spreads(noise, gain)) + (1 - SIGNAL)
    modes = max(1.0, (len(shape) - 1) / 2)
    return n * component / (modes * variance * math.prod(math.sqrt(size) for size in shape))


def refinement_share(gain: float, clear: float) -> float:
    """Return the share of the budget for steps that follow a start with this gain and clarity, had it all of it."""
    start = clipped_noise(gain, best_spreads(gain))
    by_noise = _SHARE * math.sqrt(_NOISY_START / start)
    by_clarity = 1 - math.sqrt(_CLEAR_START / clear)
    return min(max(min(by_noise, by_clarity), _LEAST_SHARE), _MOST_SHARE)


def parameters(shape: tuple[int, ...], ranks: tuple[int, ...], core: bool) -> float:
    """Return how many numbers a model has."""
    rows = sum(size * rank for size, rank in zip(shape, ranks, strict=True))
    return float(rows + (math.prod(ranks) if core else 0))
