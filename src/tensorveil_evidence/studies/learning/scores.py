"""Scores of the studies of learning, as findings and statements read them off the points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorveil_evidence.studies.learning.names import CLEAN, GUESS, MAJORITY, NOMINAL
from tensorveil_evidence.studies.summary import Point

if TYPE_CHECKING:
    from tensorveil.learning import Samples

CLEARLY = 0.05  # by which one score must be above another to be called so


def guess_classes(test: Samples, run: int) -> Any:
    """Guess a class for every test record, each as likely as the others: what nothing learnt would score."""
    return np.random.default_rng([run, 1]).integers(test.classes, size=len(test))


def nominal_epsilons(points: Sequence[Point]) -> list[float]:
    """Return the nominal epsilons that these results have: a quick run has fewer than the full one."""
    return sorted({point.x for point in points if point.panel == NOMINAL and point.x is not None})


def score(points: Sequence[Point], method: str, epsilon: float | None, panel: str = NOMINAL) -> float:
    """Return a method's mean score, 0 where there is none."""
    found = find_point(points, method, epsilon, panel)
    return math.nan if found is None else found.mean or 0.0


def find_point(points: Sequence[Point], method: str, epsilon: float | None, panel: str = NOMINAL) -> Point | None:
    """Return a method's point at one place of a panel."""
    return next((each for each in points if (each.panel, each.method, each.x) == (panel, method, epsilon)), None)


def clean_of(points: Sequence[Point]) -> float:
    """Return the score of the network without noise, 0 where there is none."""
    return next((point.mean or 0.0 for point in points if point.method == CLEAN), 0.0)


def guess_of(points: Sequence[Point]) -> float:
    """Return what is scored without having learnt anything, 0 where it is not known.

    That is an even guess, or the most frequent class where this scores more.
    """
    found = guess_point(points)
    return 0.0 if found is None else found.mean or 0.0


def is_above_guess(points: Sequence[Point], point: Point) -> bool:
    """Tell whether a score is more than a guess: by more than `CLEARLY`, and than two standard errors of both."""
    guess = guess_point(points)
    if guess is None:
        return (point.mean or 0.0) > CLEARLY
    band = 2 * math.hypot(point.error or 0.0, guess.error or 0.0)
    return (point.mean or 0.0) - (guess.mean or 0.0) > max(CLEARLY, band)


def beats_guess(points: Sequence[Point], method: str, epsilon: float, panel: str = NOMINAL) -> bool:
    """Tell whether a method's score at one place is more than a guess."""
    found = find_point(points, method, epsilon, panel)
    return found is not None and is_above_guess(points, found)


def find_clearly_above(
    points: Sequence[Point], ones: Sequence[str], others: Sequence[str], epsilons: Sequence[float]
) -> list[float]:
    """Return where the best of some is clearly above all others, and above a guess."""
    out = []
    for epsilon in epsilons:
        best = max(ones, key=lambda name: score(points, name, epsilon))
        rival = max(score(points, name, epsilon) for name in others)
        if score(points, best, epsilon) > rival + CLEARLY and beats_guess(points, best, epsilon):
            out.append(epsilon)
    return out


def guess_point(points: Sequence[Point]) -> Point | None:
    """Return the guess that scores most: an even one, or the most frequent class."""
    found = [point for point in points if point.method in (GUESS, MAJORITY)]
    return max(found, key=lambda point: point.mean or 0.0, default=None)
