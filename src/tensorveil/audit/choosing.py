"""From scores to events: the thresholds that promise most on draws kept apart for choosing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.audit.intervals import lower_rate, upper_rate
from tensorveil.audit.scores import Score

Array = NDArray[Any]

MOST_EVENTS = 6
_PLACES = 48
_DOUBT = 0.02  # rates are taken this far on the safe side where events are compared, or the luckiest one would win


@dataclass(frozen=True, kw_only=True, eq=False)
class Event:
    """The score is at least a threshold: thought likelier under neighbour ``favoured`` (0 or 1).

    ``places`` are further thresholds of the same score, at which a trade-off curve is drawn; they decide nothing.
    """

    score: Score
    threshold: float
    favoured: int
    promise: float
    places: Array

    def counts(self, outputs: Array) -> Array:
        """Count how many scores reach the threshold, and how many each of the places."""
        values = np.sort(self.score(outputs))
        cuts = np.concatenate([[self.threshold], self.places])
        return len(values) - np.searchsorted(values, cuts, "left")


def choose_events(scores: Iterable[Score], first: Array, second: Array, claim: Claim, draws: int) -> list[Event]:
    """Return the best event of every kind of score, and more of the smooth ones; the most promising first.

    ``first`` and ``second`` are outputs that the scores were not learnt from; ``draws`` of each will confirm.
    """
    found = [event for score in scores if (event := _best(score, first, second, claim, draws)) is not None]
    found.sort(key=lambda event: -round(event.promise, 6))  # of equals, the plainer one stands first
    best: dict[str, Event] = {}
    for event in found:
        best.setdefault(event.score.kind, event)
    others = [event for event in found if event.score.kind == "law" and event is not best["law"]]
    kept = [*best.values(), *others[: max(MOST_EVENTS - len(best), 0)]]
    return sorted(kept, key=lambda event: -round(event.promise, 6))


def _best(score: Score, first: Array, second: Array, claim: Claim, draws: int) -> Event | None:
    values = [np.sort(score(outputs)) for outputs in (first, second)]
    cuts = _thresholds(values)
    if len(cuts) == 0:
        return None
    # Rates are uncertain twice: by these draws, of which the luckiest threshold is picked, and by those to come.
    weight = [1.0 / (1.0 / len(v) + 1.0 / draws) for v in values]
    hits = [(len(v) - np.searchsorted(v, cuts, "left")) / len(v) * w for v, w in zip(values, weight, strict=True)]
    best: tuple[float, int, float] | None = None
    for favoured in (0, 1):
        other = 1 - favoured
        promise = claim.least(
            lower_rate(hits[favoured], weight[favoured], _DOUBT), upper_rate(hits[other], weight[other], _DOUBT)
        )
        at = int(np.argmax(promise))
        if best is None or promise[at] > best[0]:
            best = (float(promise[at]), favoured, float(cuts[at]))
    assert best is not None
    promise_at, favoured, threshold = best
    places = cuts[np.unique(np.linspace(0, len(cuts) - 1, _PLACES).astype(int))]
    return Event(score=score, threshold=threshold, favoured=favoured, promise=promise_at, places=places)


def _thresholds(values: list[Array]) -> Array:
    """Return quantiles of both samples, which are sorted; closer together in the tails."""
    n = min(len(v) for v in values)
    tails = np.geomspace(1.0 / n, 0.1, 24) if n > 10 else np.array([0.05])
    levels = np.concatenate([tails, np.linspace(0.1, 0.9, 41), 1.0 - tails])
    cuts = np.unique(np.concatenate([v[np.rint(levels * (len(v) - 1)).astype(np.int64)] for v in values]))
    return cuts[1:] if len(cuts) and cuts[0] <= min(v[0] for v in values) else cuts
