"""From scores to events: the cuts of scores that promise most, on draws that are set aside for choosing them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim, lower_rate, upper_rate
from tensorveil.audit.scores import Score

Array = NDArray[Any]

MOST_CUTS = 6
_PLACES = 48
_HINT = 1e-6
_DOUBT = 0.005  # rates are bounded at this error where cuts are compared, or the luckiest one would win


@dataclass(frozen=True, kw_only=True, eq=False)
class Cut:
    """The event that a score is at least a threshold, which seems likelier under neighbour ``favoured`` (0 or 1).

    ``promise`` is the level that it is expected to show. ``places`` are further thresholds of the same score, at which
    a trade-off curve is drawn; they decide nothing.
    """

    score: Score
    threshold: float
    favoured: int
    promise: float
    places: Array

    def count(self, outputs: Array) -> Array:
        """Count how many scores reach the threshold, and how many reach each of the places."""
        values = np.sort(self.score(outputs))
        thresholds = np.concatenate([[self.threshold], self.places])
        return len(values) - np.searchsorted(values, thresholds, "left")


def choose_cuts(scores: Iterable[Score], first: Array, second: Array, claim: Claim, draws: int) -> list[Cut]:
    """Return the best cut and the best single value of every kind, and more of the law; the most promising first.

    ``first`` and ``second`` are outputs that the scores were not learnt from; ``draws`` of each will confirm the cuts.
    """
    found = [cut for score in scores if (cut := _choose_cut(score, first, second, claim, draws)) is not None]
    found.sort(key=lambda cut: -round(cut.promise, 6))  # among equals, the simpler one comes first
    best: dict[tuple[str, bool], Cut] = {}
    for cut in found:
        best.setdefault((cut.score.kind, cut.score.indicator), cut)
    others = [cut for cut in found if cut.score.kind == "law" and cut not in best.values()]
    kept = [*best.values(), *others[: max(MOST_CUTS - len(best), 0)]]
    return sorted(kept, key=lambda cut: -round(cut.promise, 6))


def _choose_cut(score: Score, first: Array, second: Array, claim: Claim, draws: int) -> Cut | None:
    values = [np.sort(score(outputs)) for outputs in (first, second)]
    thresholds = _find_thresholds(values)
    if len(thresholds) == 0:
        return None
    # Rates are uncertain twice: from these draws, of which the luckiest threshold is picked, and from those to come.
    weight = [1.0 / (1.0 / len(v) + 1.0 / draws) for v in values]
    hits = [(len(v) - np.searchsorted(v, thresholds, "left")) / len(v) * w for v, w in zip(values, weight, strict=True)]
    best: tuple[float, int, float] | None = None
    for favoured in (0, 1):
        other = 1 - favoured
        promise = claim.least(
            lower_rate(hits[favoured], weight[favoured], _DOUBT), upper_rate(hits[other], weight[other], _DOUBT)
        )
        # Where nothing is sure yet, the larger difference of the rates decides; most of all, which way it points.
        promise += _HINT * (hits[favoured] / weight[favoured] - hits[other] / weight[other])
        at = int(np.argmax(promise))
        if best is None or promise[at] > best[0]:
            best = (float(promise[at]), favoured, float(thresholds[at]))
    assert best is not None
    promise_at, favoured, threshold = best
    places = thresholds[np.unique(np.linspace(0, len(thresholds) - 1, _PLACES).astype(int))]
    return Cut(score=score, threshold=threshold, favoured=favoured, promise=promise_at, places=places)


def _find_thresholds(values: list[Array]) -> Array:
    """Return quantiles of both samples, which come sorted; closer together in the tails."""
    n = min(len(v) for v in values)
    tails = np.geomspace(1.0 / n, 0.1, 24) if n > 10 else np.array([0.05])
    levels = np.concatenate([tails, np.linspace(0.1, 0.9, 41), 1.0 - tails])
    cuts = np.unique(np.concatenate([v[np.rint(levels * (len(v) - 1)).astype(np.int64)] for v in values]))
    return cuts[1:] if len(cuts) and cuts[0] <= min(v[0] for v in values) else cuts
