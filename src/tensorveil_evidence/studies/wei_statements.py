"""What Wei et al. say of their figures, one statement after the other, and what is measured: text made of results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from tensorveil_evidence.studies import wording
from tensorveil_evidence.studies.reference import (
    CLAMPED,
    CONSTANT,
    DESCENT_LINE,
    GRADIENT,
    INPUT,
    OUTPUT,
    TITLES,
)
from tensorveil_evidence.studies.summary import Point, mean_at, pick
from tensorveil_evidence.studies.wording import answer

METHODS = (GRADIENT, OUTPUT, INPUT)
CURVES = (*METHODS, CLAMPED)
HEAD = "## The paper's statements, one by one\n\n"
NEAR = 1.1  # a curve is near its baseline below this multiple of it
ALIKE = 1.15
SLIGHT = 1.02  # what is above by less is not called so
BELOW = 0.99  # and clearly below it under this one


def tell_statements(points: Sequence[Point], panels: Mapping[str, str], epsilons: Sequence[float]) -> str:
    """Return one item for each statement; ``panels`` are those of the two models."""
    lines = [
        _outperform(points, panels, epsilons),
        _growing(points, panels, epsilons),
        _order(points, panels, epsilons),
        _near(points, panels, epsilons),
        *_stability(points, panels, epsilons),
        _models(points, panels, epsilons),
        _remarkable(points, panels, epsilons),
    ]
    return HEAD + "\n".join(lines) + "\n"


def _outperform(points: Sequence[Point], panels: Mapping[str, str], epsilons: Sequence[float]) -> str:
    found = []
    for kind, panel in panels.items():
        base = mean_at(points, panel, DESCENT_LINE)
        for method in CURVES:
            below = [e for e in epsilons if mean_at(points, panel, method, e) < BELOW * base]
            if below:
                best = min(mean_at(points, panel, method, e) for e in below)
                found.append(f"{TITLES[kind]}, {method} {wording.at_epsilons(below)} ({best:.3f} against {base:.3f})")
    if not found:
        return answer("wei-outperform", f"so it is here, at each of {len(epsilons)} epsilons and for every method.")
    return answer(
        "wei-outperform",
        f"not so here. Below the descent without noise are {'; '.join(found)}. That baseline is worse than a constant, "
        "and easily passed.",
    )


def _growing(points: Sequence[Point], panels: Mapping[str, str], epsilons: Sequence[float]) -> str:
    """Say where an error is above that of a smaller epsilon, by more than `SLIGHT`."""
    against = []
    for kind, panel in panels.items():
        for method in CURVES:
            least, at = math.inf, epsilons[0]
            for epsilon in epsilons:
                error = mean_at(points, panel, method, epsilon)
                if error > SLIGHT * least:
                    told = f"{error:.3f} at {epsilon:g} after {least:.3f} at {at:g}"
                    against.append(f"{TITLES[kind]}, {method} ({told}, {error / least - 1:.1%} more)")
                if error < least:
                    least, at = error, epsilon
    told = "so it is here" if not against else f"so it is here but for {'; '.join(against)}"
    return answer(
        "wei-shrinking", f"{told} (rises of {SLIGHT - 1:.0%} and less with a larger epsilon are not counted)."
    )


def _order(points: Sequence[Point], panels: Mapping[str, str], epsilons: Sequence[float]) -> str:
    words, steady = [], []
    for kind, panel in panels.items():
        holds = [e for e in epsilons if _sorted([mean_at(points, panel, method, e) for method in METHODS])]
        words.append(f"{TITLES[kind]} {wording.at_epsilons(holds)}")
        spreads = [_deviations(points, panel, method, epsilons) for method in METHODS]
        calm = [e for e, *own in zip(epsilons, *spreads, strict=True) if None not in own and _sorted(own)]
        steady.append(f"{TITLES[kind]} {wording.at_epsilons(calm)}")
    return answer(
        "wei-order",
        f"in accuracy {'; '.join(words)}, of {wording.join_numbers(epsilons)}. L, which the paper does not print, was "
        f"chosen so that it holds. In stability, by deviations where no run diverged, {'; '.join(steady)}.",
    )


def _near(points: Sequence[Point], panels: Mapping[str, str], epsilons: Sequence[float]) -> str:
    words, everywhere = [], True
    for kind, panel in panels.items():
        base = mean_at(points, panel, DESCENT_LINE)
        near = [e for e in epsilons if mean_at(points, panel, GRADIENT, e) <= NEAR * base]
        words.append(
            f"{TITLES[kind]} {wording.at_epsilons(near)} ({mean_at(points, panel, GRADIENT, epsilons[0]):.3f} against "
            f"{base:.3f} at {epsilons[0]:g})"
        )
        everywhere = everywhere and len(near) == len(epsilons)
    verdict = (
        "So it is here."
        if everywhere
        else "So the statement is not reproduced for small epsilon with this start and this m. From numbers between 0 "
        "and 1 and with m = 0.01 the curve comes closer: [readings](wei-readings.md)."
    )
    return answer("wei-near", f"within {NEAR - 1:.0%} of them, {'; '.join(words)}. {verdict}")


def _stability(points: Sequence[Point], panels: Mapping[str, str], epsilons: Sequence[float]) -> list[str]:
    """Answer what is said of fluctuations: which method has the least, and how the other two fall."""
    if all(point.runs == 1 for point in points if point.method in METHODS):
        told = "1 run has no deviation; the study in full compares them."
        return [answer("wei-lowest", told), answer("wei-fluctuation", told)]
    lowest, falling = [], []
    for kind, panel in panels.items():
        spreads = {method: _deviations(points, panel, method, epsilons) for method in METHODS}
        told = ", ".join(
            f"{method} {' '.join('-' if s is None else f'{s:.3f}' for s in found)}" for method, found in spreads.items()
        )
        least = [
            epsilon
            for k, epsilon in enumerate(epsilons)
            if spreads[GRADIENT][k] is not None
            and all((spreads[m][k] or math.inf) >= (spreads[GRADIENT][k] or 0.0) for m in (OUTPUT, INPUT))
        ]
        lowest.append(f"{TITLES[kind]} {wording.at_epsilons(least)} ({told})")
        falling.append(f"{TITLES[kind]}, {_compare_falls(spreads, epsilons)}")
    return [
        answer(
            "wei-lowest",
            f"it has the least, {'; '.join(lowest)}. Deviations over runs at {wording.join_numbers(epsilons)}, - where "
            "a run diverged.",
        ),
        answer("wei-fluctuation", f"{'; '.join(falling)}."),
    ]


def _compare_falls(spreads: Mapping[str, Sequence[float | None]], epsilons: Sequence[float]) -> str:
    """Say how both deviations fall where neither method diverged."""
    known = [
        (epsilon, mild, sharp)
        for epsilon, mild, sharp in zip(epsilons, spreads[INPUT], spreads[OUTPUT], strict=True)
        if mild and sharp
    ]
    if len(known) < 2:
        return f"input perturbation has deviations at {len(known)} epsilon only, where no run diverged: not compared"
    (first, *before), (last, *after) = known[0], known[-1]
    mild, sharp = (end / start for start, end in zip(before, after, strict=True))
    verdict = "as the paper says" if sharp < mild else "against the paper"
    return (
        f"from {first:g} to {last:g} that of IP falls to {mild:.2f} of itself and that of OP to {sharp:.2f}: {verdict}"
    )


def _models(points: Sequence[Point], panels: Mapping[str, str], epsilons: Sequence[float]) -> str:
    words, largest = [], 0.0
    for method in METHODS:
        ratios = []
        for epsilon in epsilons:
            shares = [mean_at(points, p, method, epsilon) / mean_at(points, p, CONSTANT) for p in panels.values()]
            both = all(map(math.isfinite, shares))
            ratios.append(f"{shares[1] / shares[0]:.2f}" if both else "-")
            largest = max(largest, shares[1] / shares[0] if both else 0.0)
        words.append(f"{method} {' '.join(ratios)}")
    verdict = "alike" if largest < ALIKE else "alike where noise is small, and up to that much apart where it is large"
    return answer(
        "wei-models",
        f"error as a multiple of the constant's, Tucker over CP, at {wording.join_numbers(epsilons)} (- where a run "
        f"diverged): {'; '.join(words)}: {verdict}.",
    )


def _remarkable(points: Sequence[Point], panels: Mapping[str, str], epsilons: Sequence[float]) -> str:
    words, loses = [], False
    for kind, panel in panels.items():
        error, constant = mean_at(points, panel, GRADIENT, epsilons[0]), mean_at(points, panel, CONSTANT)
        words.append(f"{TITLES[kind]} {error:.3f} against the constant's {constant:.3f}")
        loses = loses or error > constant
    verdict = "an error above that of a constant is not that" if loses else "below that of a constant"
    return answer(
        "wei-remarkable",
        f"at epsilon {epsilons[0]:g}, {'; '.join(words)}: {verdict}. And the budget is not that small: over all passes "
        "the true epsilon is far larger ([gradient perturbation](../published.md#gradient-perturbation)).",
    )


def _deviations(points: Sequence[Point], panel: str, method: str, epsilons: Sequence[float]) -> list[float | None]:
    own = {point.x: point for point in pick(points, panel=panel, method=method)}
    return [own[epsilon].deviation for epsilon in epsilons]


def _sorted(values: Sequence[float]) -> bool:
    return all(left <= right for left, right in pairwise(values))
