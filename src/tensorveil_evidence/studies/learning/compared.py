"""Comparisons that answers to several statements share: text made of results."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorveil_evidence.studies import wording
from tensorveil_evidence.studies.learning.names import AS_PRINTED, BASELINES
from tensorveil_evidence.studies.learning.scores import (
    CLEARLY,
    beats_guess,
    clean_of,
    find_clearly_above,
    find_point,
    guess_of,
    guess_point,
    score,
)
from tensorveil_evidence.studies.summary import Point


def best_of(points: Sequence[Point], names: Sequence[str], epsilon: float) -> float:
    """Return the largest of some methods' scores at one nominal epsilon."""
    return max(score(points, name, epsilon) for name in names)


def tell_against(points: Sequence[Point], name: str, others: Sequence[str], epsilons: Sequence[float]) -> str:
    """Give a method's scores against the best of others, at every epsilon."""
    return "; ".join(
        f"{e:g}: {score(points, name, e):.3f} against {best_of(points, others, e):.3f}" for e in epsilons
    )  # fmt: skip


def tell_better(points: Sequence[Point], epsilons: Sequence[float], others: Sequence[str] = BASELINES) -> str:
    """Say where the better TLDP is clearly above all of others, and where it is clearly below."""
    above = find_clearly_above(points, AS_PRINTED, others, epsilons)
    below = find_clearly_above(points, others, AS_PRINTED, epsilons)
    named = f"{', '.join(others[:-1])} and {others[-1]}"
    gaps = [round(best_of(points, AS_PRINTED, e) - best_of(points, others, e), 3) + 0.0 for e in epsilons]
    return (
        f"by nominal epsilon the better of the two TLDP is more than {CLEARLY:g} above all of {named} "
        f"{wording.at_epsilons(above)}, of {wording.join_numbers(epsilons)} tried, and that far below one of them "
        f"{wording.at_epsilons(below)}; the difference to the best of them is {min(gaps):+.3f} to {max(gaps):+.3f}."
    )


def tell_low(points: Sequence[Point], epsilons: Sequence[float], start: str = "") -> str:
    """Say which of the plain mechanisms are clearly above a guess, and where."""
    guess, high = guess_of(points), []
    for name in BASELINES:
        found = [f"{score(points, name, e):.3f} at {e:g}" for e in epsilons if beats_guess(points, name, e)]
        if found:
            high.append(f"{name} has {', '.join(found)}")
    top = max(((best_of(points, BASELINES, e), e) for e in epsilons), default=(0.0, 0.0))
    if high:
        told = f"not so for all: clearly above a guess, {guess:.3f}, {'; '.join(high)}."
    else:
        told = f"so it is here: none is clearly above a guess, {guess:.3f}; the highest is {top[0]:.3f}, at {top[1]:g}."
    return f"{start} {told}{_tell_slight(points, epsilons)}".strip()


def _tell_slight(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    """Name scores above a guess by more than two standard errors that `CLEARLY` leaves out; nothing where none are."""
    guess = guess_point(points)
    words = []
    for name in BASELINES:
        first = find_point(points, name, epsilons[0])
        for e in epsilons:
            own = find_point(points, name, e)
            if guess is None or first is None or own is None or own.error is None or beats_guess(points, name, e):
                continue
            lead, band = (own.mean or 0.0) - (guess.mean or 0.0), 2 * math.hypot(own.error, guess.error or 0.0)
            if lead > band:
                words.append(f"{name} at {e:g}, {own.mean:.3f}, after {first.mean:.3f} at {epsilons[0]:g}")
    if not words:
        return ""
    return f" Above it by two standard errors, though by no more than {CLEARLY:g}: {'; '.join(words)}."


def tell_levels(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    """Give the best score of both TLDP and of the plain mechanisms at some epsilons."""
    best = {name: max(score(points, name, e) for e in epsilons) for name in (*AS_PRINTED, *BASELINES)}
    return ", ".join(f"{name} {value:.3f}" for name, value in best.items())


def tell_rises(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    """Say how far both TLDP rise from the smallest epsilon to the largest."""
    first, last = epsilons[0], epsilons[-1]
    words = [f"{name} from {score(points, name, first):.3f} to {score(points, name, last):.3f}" for name in AS_PRINTED]
    return f"from {first:g} to {last:g}, {' and '.join(words)}."


def find_halfway(points: Sequence[Point], name: str, epsilons: Sequence[float]) -> float | None:
    """Return the smallest epsilon with half of the way from a guess to the score without noise; None if there is none.

    Where that half is not clearly above a guess, it says nothing, and there is none either.
    """
    half = 0.5 * (guess_of(points) + clean_of(points))
    reached = [e for e in epsilons if score(points, name, e) >= half and beats_guess(points, name, e)]
    return min(reached, default=None)


def tell_halfway(points: Sequence[Point], epsilons: Sequence[float], names: Sequence[str]) -> str:
    """Say from which epsilon on methods have half of the way from a guess to the score without noise."""
    reached = {name: find_halfway(points, name, epsilons) for name in names}
    told = ", ".join(f"{'none tried' if e is None else f'{e:g}'} by {name}" for name, e in reached.items())
    return f"Half of the way from a guess to the score without noise is reached from epsilon {told}."
