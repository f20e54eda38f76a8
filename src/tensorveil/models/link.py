"""Links: how a prediction follows from the part of a model that is linear in its rows.

A model fitted by squared error predicts its linear part itself. A count is predicted as the exponential of it, a
probability as its logistic function; where the linear part is never negative it is a count itself, or the odds of a
probability. The loss that a model is fitted by names the link (solvers/losses.py), and everything that predicts asks
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]

# Expected values are kept this far from the ends of their range where the linear part would become infinite.
_SMALLEST, _LARGEST_LOG = 1e-12, 80.0


@dataclass(frozen=True, kw_only=True)
class Link:
    """A rising function between expected values and the linear part of a model.

    Parameters
    ----------
    name
        How files and messages call it.
    mean
        From the linear part to the expected value, elementwise; it may change its argument in place.
    linear
        The inverse, from expected values to the linear part.

    >>> from tensorveil.models.link import LOG
    >>> LOG.mean(LOG.linear(np.array([0.5, 2.0]))).round(6).tolist()
    [0.5, 2.0]
    """

    name: str
    mean: Callable[[Floats], Floats]
    linear: Callable[[Floats], Floats]


def _same(values: Floats) -> Floats:
    return values


def _ones(linear: Floats) -> Floats:
    return np.ones(np.shape(linear))


def _exp(linear: Floats) -> Floats:
    out: Floats = np.exp(np.minimum(linear, _LARGEST_LOG))
    return out


def _log(mean: Floats) -> Floats:
    out: Floats = np.log(np.maximum(mean, _SMALLEST))
    return out


def _logistic(linear: Floats) -> Floats:
    # tanh neither overflows nor warns, and needs no scipy.
    out: Floats = 0.5 + 0.5 * np.tanh(0.5 * linear)
    return out


def _logit(mean: Floats) -> Floats:
    inside = np.clip(np.asarray(mean, dtype=np.float64), _SMALLEST, 1 - _SMALLEST)
    out: Floats = np.log(inside) - np.log1p(-inside)
    return out


def _logistic_slope(linear: Floats) -> Floats:
    share = _logistic(np.asarray(linear, dtype=np.float64))
    out: Floats = share * (1 - share)
    return out


def _share(odds: Floats) -> Floats:
    out: Floats = odds / (1 + odds)
    return out


def _odds(mean: Floats) -> Floats:
    inside = np.clip(np.asarray(mean, dtype=np.float64), _SMALLEST, 1 - _SMALLEST)
    out: Floats = inside / (1 - inside)
    return out


def _share_slope(odds: Floats) -> Floats:
    out: Floats = 1 / (1 + np.asarray(odds, dtype=np.float64)) ** 2
    return out


IDENTITY = Link(name="identity", mean=_same, linear=_same)
LOG = Link(name="log", mean=_exp, linear=_log)
LOGIT = Link(name="logit", mean=_logistic, linear=_logit)
ODDS = Link(name="odds", mean=_share, linear=_odds)

# The links that can be saved with a model, by name.
LINKS: Final = {link.name: link for link in (IDENTITY, LOG, LOGIT, ODDS)}
# Their derivatives, in double precision; what rows are folded in by.
SLOPES: Final[dict[str, Callable[[Floats], Floats]]] = {
    "identity": _ones,
    "log": lambda linear: _exp(np.asarray(linear, dtype=np.float64)),
    "logit": _logistic_slope,
    "odds": _share_slope,
}
