"""Mixtures and Poisson sampling through the privacy loss distributions of dp-accounting, imported when needed."""

from __future__ import annotations

import math
from typing import Any

from tensorveil.errors import MissingDependencyError
from tensorveil.privacy.exact import root_at_least
from tensorveil.privacy.profile import Profile

__all__ = ["loss_delta", "loss_epsilon"]

# The library's convolutions by FFT are exact to about this probability; it is taken off delta, and added to it.
SLACK = 1e-12
INTERVAL = 1e-4
# A pure epsilon is rounded up to the interval, so the interval must be small beside it; below this it costs too much.
FINEST = 1e-5


def loss_epsilon(profile: Profile, delta: float) -> float:
    """Return epsilon of the pure, Gaussian and sampled parts at this delta; infinite if delta is too small for it."""
    if delta <= 2 * SLACK:
        return math.inf
    found = float(_distribution(profile).get_epsilon_for_delta(delta - SLACK))
    return max(0.0, found * (1 + 1e-12))


def loss_delta(profile: Profile, epsilon: float) -> float:
    """Return delta of the pure, Gaussian and sampled parts at this epsilon."""
    return min(1.0, float(_distribution(profile).get_delta_for_epsilon(epsilon)) + SLACK)


def _distribution(profile: Profile) -> Any:
    try:
        from dp_accounting.pld import common
        from dp_accounting.pld import privacy_loss_distribution as library
    except ImportError as error:
        raise MissingDependencyError(
            'dp-accounting is needed to account for Poisson sampling: pip install "tensorveil[accounting]".'
        ) from error
    interval = _interval(profile)
    # Counts are composed here, kind by kind, and not left to the library's event ladder, which forgets some.
    parts = []
    if profile.mu_squared:
        deviation = 1 / root_at_least(profile.mu_squared) * (1 - 1e-15)
        parts.append(library.from_gaussian_mechanism(deviation, value_discretization_interval=interval))
    for epsilon, count in profile.pure.items():
        pure = library.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, 0.0), value_discretization_interval=interval
        )
        parts.append(pure if count == 1 else pure.self_compose(count))
    for (mu, chance), count in profile.sampled.items():
        # The default relation of neighbours is to add or remove one, the one that SampledGaussian states.
        sampled = library.from_gaussian_mechanism(
            1 / mu * (1 - 1e-15), sampling_prob=chance, value_discretization_interval=interval
        )
        parts.append(sampled if count == 1 else sampled.self_compose(count))
    whole = library.identity(value_discretization_interval=interval)
    for part in parts:
        whole = whole.compose(part)
    return whole


def _interval(profile: Profile) -> float:
    smallest = min(profile.pure, default=1.0)
    return max(FINEST, min(INTERVAL, smallest / 100))
