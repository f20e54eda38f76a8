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


def choose_events(
    scores: Iterable[Score], first: Array, second: Array, claim: Claim, draws: int, error: float
) -> list[Event]:
    """Return the best event of each of the most promising scores, best first.

    ``first`` and ``second`` are outputs that the scores were not learnt from; ``draws`` and ``error`` are those of the
    confirmation to come.
    """
    found = [event for score in scores if (event := _best(score, first, second, claim, draws, error)) is not None]
    found.sort(key=lambda event: -round(event.promise, 6))  # of equals, the plainer one stands first
    kept: list[Event] = []
    for event in found:
        # Of remainders and low bits one of a kind is enough; the smooth scores are few, and differ.
        if event.score.kind == "law" or all(event.score.kind != other.score.kind for other in kept):
            kept.append(event)
    return kept[:MOST_EVENTS]


def _best(score: Score, first: Array, second: Array, claim: Claim, draws: int, error: float) -> Event | None:
    values = [np.sort(score(outputs)) for outputs in (first, second)]
    cuts = _thresholds(values)
    if len(cuts) == 0:
        return None
    # Half a hit more: what was never seen among few draws may be seen among many.
    rates = [(len(v) - np.searchsorted(v, cuts, "left") + 0.5) / (len(v) + 1.0) for v in values]
    best: tuple[float, int, float] | None = None
    for favoured in (0, 1):
        likely, unlikely = rates[favoured] * draws, rates[1 - favoured] * draws
        promise = claim.least(lower_rate(likely, draws, error / 2), upper_rate(unlikely, draws, error / 2))
        at = int(np.argmax(promise))
        if best is None or promise[at] > best[0]:
            best = (float(promise[at]), favoured, float(cuts[at]))
    assert best is not None
    promise_at, favoured, threshold = best
    places = cuts[np.unique(np.linspace(0, len(cuts) - 1, _PLACES).astype(int))]
    return Event(score=score, threshold=threshold, favoured=favoured, promise=promise_at, places=places)


def _thresholds(values: list[Array]) -> Array:
    """Return quantiles of both samples, closer together in the tails."""
    n = min(len(v) for v in values)
    tails = np.geomspace(1.0 / n, 0.1, 24) if n > 10 else np.array([0.05])
    levels = np.concatenate([tails, np.linspace(0.1, 0.9, 41), 1.0 - tails])
    cuts = np.unique(np.concatenate([np.quantile(v, levels, method="nearest") for v in values]))
    return cuts[1:] if len(cuts) and cuts[0] <= min(v[0] for v in values) else cuts
