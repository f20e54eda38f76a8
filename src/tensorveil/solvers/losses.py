"""The losses by name: squared error, and the deviances of counts, of yes and no, and of positive values.

Every loss is a deviance: twice the log likelihood that a perfect prediction has more, so that 0 is the best for any
value and squared error is the one of Gaussian values. What is minimised is the same as in generalized CP (Hong, Kolda
and Duersch 2020). With non-negative factors the linear part is an expected count itself, or the odds of a yes;
otherwise it is their logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tensorveil.errors import InputError
from tensorveil.models.link import LOG, LOGIT, ODDS
from tensorveil.solvers.loss import GAUSSIAN, Array, Loss

# Non-negative linear parts are kept above this where the loss divides by them (Hong, Kolda and Duersch 2020).
_TINY = 1e-10


def _mean(total: float) -> float:
    return total


def _double(values: Array) -> Array:
    return np.asarray(values, dtype=np.float64)


def _rates(linear: Array) -> Array:
    """Return exp of the linear part, which solvers may try far outside of what values can be."""
    out: Array = np.exp(np.clip(_double(linear), -80.0, 80.0))
    return out


def _poisson(truth: Array, linear: Array) -> Array:
    x, m = _double(truth), np.clip(_double(linear), -80.0, 80.0)
    out: Array = 2 * (np.exp(m) - x * m + _log_terms(x))
    return out


def _log_terms(x: Array) -> Array:
    """Return x log x - x, which makes the deviance of a perfect prediction zero."""
    out: Array = x * np.log(np.where(x > 0, x, 1.0)) - x
    return out


def _poisson_gradient(truth: Array, linear: Array) -> Array:
    return 2 * (_rates(linear) - _double(truth))


def _count(truth: Array, linear: Array) -> Array:
    x, m = _double(truth), np.maximum(_double(linear), _TINY)
    out: Array = 2 * (m - x * np.log(m) + _log_terms(x))
    return out


def _count_gradient(truth: Array, linear: Array) -> Array:
    return 2 * (1 - _double(truth) / np.maximum(_double(linear), _TINY))


def _bernoulli(truth: Array, linear: Array) -> Array:
    m = _double(linear)
    out: Array = 2 * (np.logaddexp(0.0, m) - _double(truth) * m)
    return out


def _bernoulli_gradient(truth: Array, linear: Array) -> Array:
    return 2 * (LOGIT.mean(_double(linear)) - _double(truth))


def _odds(truth: Array, linear: Array) -> Array:
    m = np.maximum(_double(linear), _TINY)
    out: Array = 2 * (np.log1p(m) - _double(truth) * np.log(m))
    return out


def _odds_gradient(truth: Array, linear: Array) -> Array:
    m = np.maximum(_double(linear), _TINY)
    out: Array = 2 * (1 / (1 + m) - _double(truth) / m)
    return out


def _bernoulli_both(truth: Array, linear: Array, weights: Array, slopes: Array) -> float:
    from tensorveil.kernels import deviances  # compiles: only for those who fit

    return float(deviances.bernoulli(truth, linear, weights, slopes))


def _poisson_both(truth: Array, linear: Array, weights: Array, slopes: Array) -> float:
    from tensorveil.kernels import deviances

    return float(deviances.poisson(truth, linear, weights, slopes))


def _gamma(truth: Array, linear: Array) -> Array:
    x, m = _double(truth), np.clip(_double(linear), -80.0, 80.0)
    out: Array = 2 * (x * np.exp(-m) - 1 + m - np.log(x))
    return out


def _gamma_gradient(truth: Array, linear: Array) -> Array:
    return 2 * (1 - _double(truth) / _rates(linear))


def _positive(truth: Array, linear: Array) -> Array:
    x, m = _double(truth), np.maximum(_double(linear), _TINY)
    out: Array = 2 * (x / m - 1 + np.log(m / x))
    return out


def _positive_gradient(truth: Array, linear: Array) -> Array:
    x, m = _double(truth), np.maximum(_double(linear), _TINY)
    out: Array = 2 * (m - x) / (m * m)
    return out


def _are_counts(values: Array) -> bool:
    return bool(np.all((values >= 0) & (values == np.floor(values))))


def _are_flags(values: Array) -> bool:
    return bool(np.all((values == 0) | (values == 1)))


def _are_positive(values: Array) -> bool:
    return bool(np.all(values > 0))


DEVIANCE: Final = "mean deviance"

POISSON = Loss(
    name="poisson",
    value=_poisson,
    gradient=_poisson_gradient,
    link=LOG,
    measure=DEVIANCE,
    summary=_mean,
    domain="counts: whole numbers of at least 0",
    accepts=_are_counts,
    reach=(0.0, math.inf),
    both=_poisson_both,
    remedy='For other non-negative values try loss="gaussian"; for positive ones loss="gamma".',
)
BERNOULLI = Loss(
    name="bernoulli",
    value=_bernoulli,
    gradient=_bernoulli_gradient,
    link=LOGIT,
    measure=DEVIANCE,
    summary=_mean,
    domain="0 or 1",
    accepts=_are_flags,
    reach=(0.0, 1.0),
    both=_bernoulli_both,
    remedy='For counts try loss="poisson", or turn values into 0 and 1: tensor.with_values(tensor.values > 0).',
)
GAMMA = Loss(
    name="gamma",
    value=_gamma,
    gradient=_gamma_gradient,
    link=LOG,
    measure=DEVIANCE,
    summary=_mean,
    domain="above 0",
    accepts=_are_positive,
    reach=(0.0, math.inf),
    remedy='For counts try loss="poisson", for any number loss="gaussian".',
)

LOSSES: Final = {loss.name: loss for loss in (GAUSSIAN, POISSON, BERNOULLI, GAMMA)}
# With non-negative factors the linear part is on another scale.
_NONNEGATIVE: Final = {
    "gaussian": GAUSSIAN,
    "poisson": replace(POISSON, value=_count, gradient=_count_gradient, both=None, link=GAUSSIAN.link),
    "bernoulli": replace(BERNOULLI, value=_odds, gradient=_odds_gradient, both=None, link=ODDS),
    "gamma": replace(GAMMA, value=_positive, gradient=_positive_gradient, link=GAUSSIAN.link),
}


def find_loss(loss: str | Loss, *, nonnegative: bool = False) -> Loss:
    """Return a loss by its name, or the user's own."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        words = ", ".join(f'"{word}"' for word in LOSSES)
        raise InputError(f"loss must be one of {words}, or a tensorveil.Loss; got {loss!r}.")
    return (_NONNEGATIVE if nonnegative else LOSSES)[loss]


def check_bounds(loss: Loss, bounds: Sequence[float] | None) -> None:
    """Refuse declared bounds that reach beyond what the loss can predict."""
    low, high = loss.reach
    if bounds is not None and not (low <= bounds[0] and bounds[1] <= high):
        ends = "at least 0" if math.isinf(high) else f"between {low:g} and {high:g}"
        raise InputError(
            f'bounds must be {ends} for loss="{loss.name}", whose predictions are. Declare other bounds, or try '
            'loss="gaussian".'
        )


def check_unlisted(loss: Loss, *, zeros: bool) -> None:
    """Refuse unlisted zeros for a loss that is not for zeros."""
    if zeros and loss.accepts is not None and not loss.accepts(np.zeros(1)):
        raise InputError(
            f'unlisted="zero" cannot be fitted with loss="{loss.name}", whose values must be {loss.domain}. '
            'Try loss="poisson", or tensor.with_unlisted("unknown").'
        )


def deviance_explained(loss: Loss, linear: Any, truth: Any, weights: Any) -> float:
    """Return the share of the deviance of the best constant that linear parts take away, over weighted cells."""
    truth, weights = _double(truth), _double(weights)
    mean = float(np.sum(truth * weights) / np.sum(weights))
    constant = loss.link.linear(np.full(len(truth), mean))
    total = float(np.sum(weights * loss.value(truth, constant)))
    left = float(np.sum(weights * loss.value(truth, linear)))
    if total == 0.0:
        return 1.0 if left == 0.0 else 0.0
    return 1.0 - left / total
