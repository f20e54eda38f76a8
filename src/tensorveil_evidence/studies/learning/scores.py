"""Scores of the studies of learning, as findings and statements read them off the points."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorveil_evidence.studies.learning.names import GUESS, NOMINAL
from tensorveil_evidence.studies.summary import Point

CLEARLY = 0.05  # by which one score must be above another to be called so


def nominal_epsilons(points: Sequence[Point]) -> list[float]:
    """Return the nominal epsilons that these results have: a quick run has fewer than the full one."""
    return sorted({point.x for point in points if point.panel == NOMINAL and point.x is not None})


def score(points: Sequence[Point], method: str, epsilon: float | None, panel: str = NOMINAL) -> float:
    """Return a method's mean score, 0 where there is none."""
    for point in points:
        if (point.panel, point.method, point.x) == (panel, method, epsilon):
            return point.mean or 0.0
    return math.nan


def guess_of(points: Sequence[Point]) -> float:
    """Return the score of an even guess, 0 where there is none."""
    return max((point.mean or 0.0 for point in points if point.method == GUESS), default=0.0)
