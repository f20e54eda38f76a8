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
    """Say where the paper's order holds, with input perturbation in both its forms: the paper allows clamping."""
    words, steady = [], []
    for kind, panel in panels.items():
        for last in (INPUT, CLAMPED):
            order = (GRADIENT, OUTPUT, last)
            holds = [e for e in epsilons if _sorted([mean_at(points, panel, method, e) for method in order])]
            words.append(f"{TITLES[kind]} with {last} {wording.at_epsilons(holds)}")
            spreads = [deviations(points, panel, method, epsilons) for method in order]
            calm = [e for e, *own in zip(epsilons, *spreads, strict=True) if None not in own and _sorted(own)]
            steady.append(f"{TITLES[kind]} with {last} {wording.at_epsilons(calm)}")
    return answer(
        "wei-order",
        f"in accuracy {'; '.join(words)}, of {wording.join_numbers(epsilons)}. L, which the paper does not print, was "
        f"chosen so that it holds with plain input on the synthetic tensors. In stability, by deviations where no run "
        f"diverged, {'; '.join(steady)}.",
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
        spreads = {method: deviations(points, panel, method, epsilons) for method in CURVES}
        told = ", ".join(
            f"{method} {' '.join('-' if s is None else f'{s:.3f}' for s in found)}" for method, found in spreads.items()
        )
        plain, both = (find_steadiest(points, panel, epsilons, rivals) for rivals in ((OUTPUT, INPUT), CURVES[1:]))
        lowest.append(
            f"{TITLES[kind]} {wording.at_epsilons(plain)} with plain input perturbation alone, "
            f"{wording.at_epsilons(both)} with the clamped one too ({told})"
        )
        falling.append(f"{TITLES[kind]}, {_compare_falls(spreads, epsilons)}")
    return [
        answer(
            "wei-lowest",
            f"it has the least, {'; '.join(lowest)}. Deviations over runs at {wording.join_numbers(epsilons)}, - where "
            "a run diverged.",
        ),
        answer("wei-fluctuation", f"{'; '.join(falling)}."),
    ]


def find_steadiest(
    points: Sequence[Point], panel: str, epsilons: Sequence[float], rivals: Sequence[str]
) -> list[float]:
    """Return where gradient perturbation has no larger deviation than any of its rivals; one that diverged has none."""
    out = []
    for k, epsilon in enumerate(epsilons):
        own = deviations(points, panel, GRADIENT, epsilons)[k]
        others = [deviations(points, panel, rival, epsilons)[k] for rival in rivals]
        if own is not None and all(other is None or own <= other for other in others):
            out.append(epsilon)
    return out


def _compare_falls(spreads: Mapping[str, Sequence[float | None]], epsilons: Sequence[float]) -> str:
    """Say how deviations fall: output's over all epsilons, and beside that of input, in both forms, where both are."""
    output = [(e, spread) for e, spread in zip(epsilons, spreads[OUTPUT], strict=True) if spread]
    if len(output) < 2:
        return f"output perturbation has deviations at {len(output)} epsilon only, where no run diverged: not compared"
    whole = ", ".join(f"{spread:.3f} at {e:g}" for e, spread in output)
    return "; ".join([f"that of OP is {whole}", *(_compare_fall(spreads, epsilons, name) for name in (INPUT, CLAMPED))])


def _compare_fall(spreads: Mapping[str, Sequence[float | None]], epsilons: Sequence[float], name: str) -> str:
    known = [
        (epsilon, mild, sharp)
        for epsilon, mild, sharp in zip(epsilons, spreads[name], spreads[OUTPUT], strict=True)
        if mild and sharp
    ]
    if len(known) < 2:
        return f"{name} has deviations at {len(known)} epsilon only, where no run diverged: not compared"
    (first, *before), (last, *after) = known[0], known[-1]
    mild, sharp = (end / start for start, end in zip(before, after, strict=True))
    drops = "IP drops" if mild < 1 else "IP does not drop"
    how = "does not drop" if sharp >= 1 else "drops more sharply" if sharp < mild else "drops less sharply"
    verdict = f"{drops} and OP {how}, {'as the paper says' if sharp < mild < 1 else 'against the paper'}"
    return (
        f"from {first:g} to {last:g} that of {name} comes to {mild:.2f} of itself and that of OP to {sharp:.2f}: "
        f"{verdict}"
    )


def _models(points: Sequence[Point], panels: Mapping[str, str], epsilons: Sequence[float]) -> str:
    words, apart, alone = [], [], []
    for method in CURVES:
        ratios, far = [], []
        for epsilon in epsilons:
            shares = [mean_at(points, p, method, epsilon) / mean_at(points, p, CONSTANT) for p in panels.values()]
            finite = [math.isfinite(share) for share in shares]
            ratio = shares[1] / shares[0] if all(finite) else math.nan
            ratios.append(f"{ratio:.2f}" if all(finite) else "-")
            if all(finite) and not 1 / ALIKE <= ratio <= ALIKE:
                far.append(epsilon)
            if any(finite) and not all(finite):
                title = next(TITLES[kind] for kind, ends in zip(panels, finite, strict=True) if not ends)
                alone.append(f"{title}, {method} at {epsilon:g}")
        words.append(f"{method} {' '.join(ratios)}")
        if far:
            apart.append(f"{method} {wording.at_epsilons(far)}")
    verdict = f"More than {ALIKE - 1:.0%} apart are {'; '.join(apart)}." if apart else f"None is {ALIKE - 1:.0%} apart."
    diverging = f" Of one model alone runs diverged: {'; '.join(alone)}." if alone else ""
    return answer(
        "wei-models",
        f"error as a multiple of the constant's, Tucker over CP, at {wording.join_numbers(epsilons)} (- where a run "
        f"diverged): {'; '.join(words)}. {verdict}{diverging}",
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


def deviations(points: Sequence[Point], panel: str, method: str, epsilons: Sequence[float]) -> list[float | None]:
    """Return a method's deviations over runs, None where one diverged."""
    own = {point.x: point for point in pick(points, panel=panel, method=method)}
    return [own[epsilon].deviation for epsilon in epsilons]


def _sorted(values: Sequence[float]) -> bool:
    return all(left <= right for left, right in pairwise(values))
