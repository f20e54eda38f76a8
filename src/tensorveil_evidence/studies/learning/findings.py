"""Findings of the studies of learning: where the paper's order holds by nominal epsilon, what is best at a true one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorveil_evidence.studies import wording
from tensorveil_evidence.studies.learning.names import (
    AS_PRINTED,
    BASELINES,
    CLEAN,
    GAUSSIAN,
    GUESS,
    LAPLACE,
    NOMINAL,
    OURS,
    RECORD,
    SAME,
    TRUE,
    USER,
)
from tensorveil_evidence.studies.learning.scores import (
    CLEARLY,
    beats_guess,
    find_clearly_above,
    guess_of,
    is_above_guess,
    nominal_epsilons,
    score,
)
from tensorveil_evidence.studies.study import Results
from tensorveil_evidence.studies.summary import Point, pick

if TYPE_CHECKING:
    from tensorveil_evidence.studies.learning.template import Facts


def findings(results: Results, points: Sequence[Point], facts: Facts) -> str:
    """Say what agrees with the paper and what does not, in numbers of the results."""
    epsilons = nominal_epsilons(points)
    lines = [*_hardly_learnt(points), _ordering(points, epsilons), _reason(results, points, facts, max(epsilons))]
    for panel in (USER, RECORD) if facts.kind == "III" else (SAME,):
        lines.append(_best(points, panel))
    return "\n".join(lines) + "\n"


def _hardly_learnt(points: Sequence[Point]) -> list[str]:
    """Say so where the network is no better than a guess without any noise: nothing can be read off its scores then."""
    clean, guess = (
        next((point.mean or 0.0 for point in points if point.method == name), math.nan) for name in (CLEAN, GUESS)
    )
    if not clean - guess < CLEARLY:  # also where there is no guess
        return []
    return [
        f"- The network has hardly learnt at these sizes: without noise it scores {clean:.3f}, a guess {guess:.3f}. So "
        "this panel does not tell the published methods that train it apart, and says nothing against or for them."
    ]


def _ordering(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    """Say where TLDP stands above the plain mechanisms by nominal epsilon, and which of them it does not pass.

    Scores at the level of a guess are those of networks at random, and none of them is called better than another.
    """
    words = []
    guess = guess_of(points)
    for name in AS_PRINTED:
        above = find_clearly_above(points, (name,), BASELINES, epsilons)
        others: dict[str, list[str]] = {}
        for epsilon in epsilons:
            own = score(points, name, epsilon)
            for other in (other for other in BASELINES if beats_guess(points, other, epsilon)):
                if (value := score(points, other, epsilon)) > own + CLEARLY:
                    others.setdefault(other, []).append(f"{epsilon:g} ({value:.3f} against {own:.3f})")
        passed = "".join(f"; {other} is that far above it at {', '.join(where)}" for other, where in others.items())
        words.append(
            f"{name} is more than {CLEARLY:g} above Laplace, Gaussian, MVG and IDN {wording.at_epsilons(above)}{passed}"
        )
    below = f" Scores that are not clearly above a guess, {guess:.3f}, are not compared." if guess else ""
    gaps = []
    for epsilon in epsilons:
        best = [max(score(points, name, epsilon) for name in names) for names in (AS_PRINTED, BASELINES)]
        gaps.append(f"{epsilon:g}: {best[0]:.3f} against {best[1]:.3f}")
    found = "; ".join(gaps)
    return f"- By nominal epsilon, {'. '.join(words)}.{below} The better of both against the best of the four: {found}."


def _reason(results: Results, points: Sequence[Point], facts: Facts, last: float) -> str:
    """Say what the largest nominal epsilon is worth for each method, and how far the order is one of true epsilons."""
    found: dict[str, str] = {}
    for row in results.rows:
        if row.panel == NOMINAL and row.x == last and row.method in (*BASELINES, *AS_PRINTED):
            true = row.note.partition("tensor ")[2].partition(",")[0]
            found.setdefault(row.method, "none finite" if true == "inf" else true)
    unit = "one user, over all rounds" if facts.kind == "III" else "a tensor"
    told = ", ".join(f"{name} {true}" for name, true in found.items())
    extra = ""
    if facts.kind == "III":
        extra = " LLAGP and DPHSGD bound single records and stand beside the others in name only."
    if facts.kind != "I":
        extra += " MVG and IDN are not scaled to the printed Delta but to the range itself, and gain by that."
    return (
        f"- The same nominal epsilon is not the same privacy: a nominal {last:g} is truly worth, for {unit} and at "
        f"delta 1e-5: {told}.{extra} {tell_order_of_privacy(points)}"
    )


def tell_order_of_privacy(points: Sequence[Point]) -> str:
    """Say of how many pairs of methods the one with the larger true epsilon has the higher score, and name the others.

    Counted are pairs of points of two methods that have a finite true epsilon, whose scores are clearly apart.
    """
    own = [p for p in points if p.panel == TRUE and p.method in (*BASELINES, LAPLACE, GAUSSIAN)]
    pairs = [
        (low, high)
        for low in own
        for high in own
        if low.method != high.method
        and (high.mean or 0.0) > (low.mean or 0.0) + CLEARLY
        and is_above_guess(points, high)
    ]
    against = [(low, high) for low, high in pairs if (low.x or 0.0) > (high.x or 0.0)]
    if not pairs:
        return "No two of these methods with a finite true epsilon have scores that are clearly apart."
    start = (
        f"By true epsilon, where one is finite, {len(pairs) - len(against)} of {len(pairs)} pairs of two methods' "
        f"scores that are more than {CLEARLY:g} apart, the better one clearly above a guess, stand in its order"
    )
    if not against:
        return f"{start}: the order is one of privacy, not of methods."
    words = []
    for name in dict.fromkeys(low.method for low, _ in against):
        worst = max((low for low, _ in against if low.method == name), key=lambda each: each.x or 0.0)
        rivals: dict[str, Point] = {}
        for low, high in against:
            if low is worst and (high.mean or 0.0) > (
                rivals[high.method].mean or 0.0 if high.method in rivals else 0.0
            ):
                rivals[high.method] = high
        listed = ", ".join(f"{each.method} {each.mean:.3f} at {each.x:.4g}" for each in rivals.values())
        words.append(f"{name} has {worst.mean:.3f} at a true {worst.x:.4g}, {listed}")
    return f"{start}; against it, {'; '.join(words)}. So the order is not one of privacy alone."


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Our best against the best published method at the same true epsilon."""

    budget: float
    ours: Point
    theirs: Point

    @property
    def lead(self) -> float:
        """By how much ours is ahead, on the mean over runs."""
        return (self.ours.mean or 0.0) - (self.theirs.mean or 0.0)

    @property
    def band(self) -> float:
        """Two standard errors of the lead."""
        return 2 * math.hypot(self.ours.error or 0.0, self.theirs.error or 0.0)

    @property
    def better(self) -> Point:
        """The larger of the two scores."""
        return self.ours if self.lead >= 0 else self.theirs

    @property
    def shortfall(self) -> str:
        """A sentence on how far ours is behind; one run has no standard error."""
        behind = f"At {self.budget:g} it is behind by {-self.lead:.3f}"
        if self.ours.error is None or self.theirs.error is None:
            return f"{behind}, in one run."
        return f"{behind}, {'within' if -self.lead <= self.band else 'beyond'} two standard errors ({self.band:.3f})."


def compare(points: Sequence[Point], panel: str) -> list[Comparison]:
    """Compare ours with what is published at every true epsilon of a panel where both are."""
    own = pick(points, panel=panel)
    out = []
    for budget in sorted({point.x for point in own if point.x is not None}):
        here = [point for point in own if point.x == budget]
        ours = [point for point in here if point.method in OURS]
        theirs = [point for point in here if point.method not in OURS]
        if ours and theirs:
            first, second = (max(group, key=lambda point: point.mean or 0.0) for group in (ours, theirs))
            out.append(Comparison(budget=budget, ours=first, theirs=second))
    return out


def _best(points: Sequence[Point], panel: str) -> str:
    """Say where ours is at least as good as all published ones at the same true epsilon, and by how much it is not.

    Where neither is clearly above a guess, ours is not better; where ours is clearly behind, that is said all the same.
    """
    found, guess = compare(points, panel), guess_of(points)
    guesses = [
        each.budget for each in found if guess and not is_above_guess(points, each.better) and each.lead >= -each.band
    ]
    told = [each for each in found if each.budget not in guesses]
    good = [each.budget for each in told if each.lead >= 0]
    words = [f"{each.budget:g}: {each.ours.mean or 0:.3f} against {each.theirs.mean or 0:.3f}" for each in found]
    sentences = [each.shortfall for each in told if each.lead < 0]
    if guesses:
        sentences.insert(0, f"Neither is clearly better than a guess, {guess:.3f}, {wording.at_epsilons(guesses)}.")
    verdict = f"our best is at least as good as every published one {wording.at_epsilons(good)}"
    if not told:
        verdict = "nothing can be told apart"
    return (
        f"- {panel.capitalize()}: {verdict} (ours against the best published, {'; '.join(words)}). "
        f"{' '.join(sentences)}".rstrip()
    )
