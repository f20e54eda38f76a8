"""What a number is worth that lies within bounds, given an estimate of it and its expectation. Post-processing only."""

from __future__ import annotations

import math

import numpy as np

from tensorveil.mechanisms.data import Array

# Rates of truncated exponential laws are looked up up to this size; further out their mean is one over the rate.
_MOST_RATE, _PLACES = 60.0, 4000
# Further below the lower end than so many errors, the Gaussian law is its tail.
_FAR = 1e3
# No posterior mean is nearer to an end than this share of the width.
_LEAST = 1e-9


def find_mean_within(estimate: Array, error: Array | float, expected: Array, width: float) -> Array:
    """Return posterior means of numbers between 0 and ``width``.

    Estimates have Gaussian errors of these standard deviations. The prior is the law with the expected mean that
    assumes least, a truncated exponential one (Jaynes 1957), so the posterior is a truncated Gaussian one.
    """
    from scipy.special import log_ndtr

    centre = estimate - _find_rates(expected / width) / width * error**2
    flipped = centre > 0.5 * width  # then seen from the upper end, where nothing cancels
    centre = np.where(flipped, width - centre, centre)
    below = -centre / error
    low, high = np.minimum(below, _FAR), (width - centre) / error
    tail, beyond = log_ndtr(-low), log_ndtr(-high)
    mass = tail + np.log1p(-np.exp(np.minimum(beyond - tail, -1e-12)))
    slopes = np.exp(-0.5 * low**2 - mass) - np.exp(-0.5 * high**2 - mass)
    means = centre + error * slopes / math.sqrt(2.0 * math.pi)
    means = np.where(below > _FAR, error / np.maximum(below, _FAR), means)  # of the tail of a Gaussian law
    means = np.clip(means, _LEAST * width, (1.0 - _LEAST) * width)
    return np.asarray(np.where(flipped, width - means, means))


def _find_rates(means: Array) -> Array:
    """Return the rates of exponential laws on [0, 1] with these means: negative for means above one half."""
    means = np.clip(means, _LEAST, 1.0 - _LEAST)
    rates = np.linspace(1e-3, _MOST_RATE, _PLACES)
    below = np.minimum(means, 1.0 - means)
    found = np.interp(-below, -(1.0 / rates - 1.0 / np.expm1(rates)), rates)
    found = np.where(below < 1.0 / _MOST_RATE, 1.0 / below, found)
    return np.asarray(np.where(means > 0.5, -found, found))
