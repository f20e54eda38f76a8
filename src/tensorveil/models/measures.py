"""Measures of predictions: of yes and no, of rankings, of calibration. Arrays in, numbers out.

Weights say how many cells each one stands for, where zeros are a sample. Equal scores count as half right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Predictions in groups of about equal weight, lowest first: means predicted and found, and how far apart."""

    predicted: tuple[float, ...]
    found: tuple[float, ...]
    weights: tuple[float, ...]

    @property
    def error(self) -> float:
        """Mean distance of the two, by weight."""
        gaps = np.abs(np.array(self.predicted) - np.array(self.found))
        return float(np.average(gaps, weights=self.weights))


def auc(truth: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Return the chance that a yes has a higher score than a no (area under the ROC curve).

    >>> auc([1, 0, 1, 0], [0.9, 0.1, 0.4, 0.6])
    0.75
    """
    yes, no = _steps(truth, scores, weights)
    # From the lowest score upwards: a yes beats every no below it, and half of those beside it.
    below = np.cumsum(no) - no
    return float(np.sum(yes * (below + 0.5 * no)) / (yes.sum() * no.sum()))


def average_precision(truth: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Return the mean precision over the recalls (area under the precision-recall curve, without interpolation).

    >>> average_precision([1, 0, 1, 0], [0.9, 0.1, 0.4, 0.6]).__round__(4)
    0.8333
    """
    yes, no = (part[::-1] for part in _steps(truth, scores, weights))
    found, all_found = np.cumsum(yes), np.cumsum(yes + no)
    return float(np.sum(yes * found / all_found) / yes.sum())


def calibration(
    truth: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None = None, bins: int = 10
) -> Calibration:
    """Compare mean predictions with mean values in groups of about equal weight.

    >>> calibration([0, 1, 1, 1], [0.4, 0.4, 1.0, 1.0], bins=2).found
    (0.5, 1.0)
    """
    x, p, w = _arrays(truth, predicted, weights)
    order = np.argsort(p, kind="stable")
    x, p, w = x[order], p[order], w[order]
    middle = (np.cumsum(w) - 0.5 * w) / w.sum()
    group = np.minimum((middle * bins).astype(int), bins - 1)
    total = np.bincount(group, w, minlength=bins)
    used = total > 0
    means = [np.bincount(group, w * each, minlength=bins)[used] / total[used] for each in (p, x)]
    return Calibration(
        predicted=tuple(means[0].tolist()), found=tuple(means[1].tolist()), weights=tuple(total[used].tolist())
    )


def rank_of(scores: Floats, positives: NDArray[Any]) -> Floats:
    """Return the rank of each positive among all candidates that are not positive, 1 being the best; ties count half.

    A candidate with a score of minus infinity is none.

    >>> rank_of(np.array([3.0, 2.0, 5.0, 1.0]), np.array([0, 1])).tolist()
    [2.0, 2.0]
    """
    rest = np.ones(len(scores), bool)
    rest[positives] = False
    others = np.sort(scores[rest & (scores > -np.inf)])
    own = scores[positives]
    above = len(others) - np.searchsorted(others, own, side="right")
    ties = len(others) - above - np.searchsorted(others, own, side="left")
    ranks: Floats = 1.0 + above + 0.5 * ties
    return ranks


def recall_at(scores: Floats, positives: NDArray[Any], k: int) -> float:
    """Return how many of the positives are among the k best, of as many as can be.

    >>> recall_at(np.array([3.0, 2.0, 5.0, 1.0]), np.array([0, 3]), 2)
    0.5
    """
    return float(np.isin(best(scores, k), positives).sum() / min(k, len(positives)))


def ndcg_at(scores: Floats, positives: NDArray[Any], k: int) -> float:
    """Return the discounted gain of the k best, 1 / log2(1 + place) for each positive, of the largest possible.

    >>> ndcg_at(np.array([3.0, 2.0, 5.0, 1.0]), np.array([2]), 2)
    1.0
    """
    gains = 1.0 / np.log2(np.arange(2, k + 2))
    hits = np.isin(best(scores, k), positives)
    return float(gains[: len(hits)][hits].sum() / gains[: min(k, len(positives))].sum())


def best(scores: Floats, k: int) -> NDArray[np.intp]:
    """Return the k best candidates, best first; equal scores in the order of their indices."""
    k = min(k, len(scores))
    some = np.argpartition(-scores, k - 1)[:k]
    edge = scores[some].min()
    near = np.flatnonzero(scores >= edge)
    order: NDArray[np.intp] = near[np.argsort(-scores[near], kind="stable")][:k]
    return order[scores[order] > -np.inf]


def _arrays(truth: ArrayLike, scores: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats, Floats]:
    x, s = np.asarray(truth, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    return x, s, np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)


def _steps(truth: ArrayLike, scores: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    """Return the weights of yes and no at every different score, lowest first."""
    x, s, w = _arrays(truth, scores, weights)
    kinds, place = np.unique(s, return_inverse=True)
    yes = np.bincount(place, w * x, minlength=len(kinds))
    return yes, np.bincount(place, w * (1 - x), minlength=len(kinds))
