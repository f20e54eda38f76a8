"""What Yuan et al. say of their figures, one statement after the other, and what is measured: text made of results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tensorveil_evidence.studies import wording
from tensorveil_evidence.studies.learning.compared import (
    tell_against,
    tell_better,
    tell_halfway,
    tell_levels,
    tell_low,
    tell_rises,
)
from tensorveil_evidence.studies.learning.gradient_statements import tell_of_gradients
from tensorveil_evidence.studies.learning.names import (
    AS_PRINTED,
    BASELINES,
    GAUSSIAN,
    LAPLACE,
    NOMINAL,
    WEIGHTED,
)
from tensorveil_evidence.studies.learning.scores import (
    CLEARLY,
    clean_of,
    find_clearly_above,
    find_point,
    nominal_epsilons,
    score,
)
from tensorveil_evidence.studies.learning.settings import tell_smaller
from tensorveil_evidence.studies.study import Results
from tensorveil_evidence.studies.summary import Point
from tensorveil_evidence.studies.wording import answer

if TYPE_CHECKING:
    from tensorveil_evidence.studies.learning.template import Facts

HEAD = "## The paper's statements, one by one\n\n"
MORE_NOISE = (
    "They have more noise, as the paper says; and more noise is more privacy, as the table of what epsilons are worth "
    "shows."
)


def tell_statements(results: Results, points: Sequence[Point], facts: Facts, sizes: Mapping[str, Any]) -> str:
    """Return one item for each statement."""
    epsilons = nominal_epsilons(points)
    data = facts.data.partition("-")[0]
    tell = {"I": _tell_of_data, "II": _tell_of_features}
    if facts.kind in tell:
        lines = tell[facts.kind](points, epsilons, data, tell_smaller(facts, dict(sizes)))
    else:
        passes = sizes.get("passes", sizes["epochs"])
        lines = [_converging(points, epsilons), *tell_of_gradients(points, epsilons, data, passes)]
    lines.append(_worth(results, epsilons))
    return HEAD + "\n".join(line for line in lines if line) + "\n"


def _tell_of_data(points: Sequence[Point], epsilons: Sequence[float], data: str, smaller: str) -> list[str]:
    """Answer what is said of figure 1."""
    clean = f"; the same network without noise {clean_of(points):.3f}.{smaller}"
    if data == "cifar10":
        level = answer("yuan-1-level-cifar10", f"at the largest epsilon {tell_levels(points, epsilons[-1:])}{clean}")
    else:
        places = {"below 1, at best,": [e for e in epsilons if e < 1], "at 1": [e for e in epsilons if e == 1]}
        told = "; ".join(f"{where} {tell_levels(points, found)}" for where, found in places.items() if found)
        level = answer("yuan-1-level", f"{told or 'no epsilon up to 1 was tried'}{clean}")
    lines = [
        answer("yuan-1-much-higher", f"{tell_better(points, epsilons)} {MORE_NOISE}"),
        answer("yuan-1-low", tell_low(points, epsilons)),
        answer("yuan-1-sharply", f"{tell_rises(points, epsilons)} {tell_halfway(points, epsilons, AS_PRINTED)}"),
        level,
        answer("yuan-1-noises", _compare(points, epsilons)),
        answer("yuan-1-caption", _advantage(points, epsilons)),
    ]
    if any(point.method in WEIGHTED for point in points):
        lines += _weights(points, epsilons)
    return lines


def _tell_of_features(points: Sequence[Point], epsilons: Sequence[float], data: str, smaller: str) -> list[str]:
    """Answer what is said of figure 2."""
    level = "yuan-2-level-mnist" if data in ("mnist", "digits") else "yuan-2-level"
    clean = f"; the same network without noise {clean_of(points):.3f}"
    return [
        answer("yuan-2-outperforms", tell_better(points, epsilons)),
        answer("yuan-2-caption", f"{_both(points, epsilons)} {tell_low(points, epsilons, start='Of the others:')}"),
        answer(level, f"at best, of all epsilons, {tell_levels(points, epsilons)}{clean}.{smaller}"),
        answer("yuan-2-fluctuations", _fluctuations(points, epsilons)),
        answer("yuan-2-noises", _compare(points, epsilons)),
        answer("yuan-idn", _directional(points, epsilons)),
        "- What is said of type II against type I is answered on the page that has [both](yuan-across.md).",
    ]


def _converging(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    """Answer what the paper says of the two noises in its figure 3, both halves."""
    above, below, told = _compare_noises(points, epsilons)
    last = epsilons[-1]
    first, second = (score(points, name, last) for name in AS_PRINTED)
    if below:
        verdict = f"TLDP-L is more than {CLEARLY:g} above TLDP-G {wording.at_epsilons(below)}, as the paper says"
    else:
        verdict = f"TLDP-L is more than {CLEARLY:g} above TLDP-G at no epsilon tried"
    end = "they have converged" if abs(first - second) <= CLEARLY else "they have not converged"
    return answer(
        "yuan-3-caption",
        f"{verdict}; TLDP-G is that far above TLDP-L {wording.at_epsilons(above)}. At {last:g} {end} "
        f"(TLDP-G against TLDP-L, {told}).",
    )


def _compare(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    above, below, told = _compare_noises(points, epsilons)
    return (
        f"TLDP-G is more than {CLEARLY:g} above TLDP-L {wording.at_epsilons(above)}, and that far below it "
        f"{wording.at_epsilons(below)} ({told})."
    )


def _compare_noises(points: Sequence[Point], epsilons: Sequence[float]) -> tuple[list[float], list[float], str]:
    """Return where TLDP-G is clearly above TLDP-L, where clearly below, and both scores in words.

    As elsewhere, a score is called above another only if it is above a guess too.
    """
    laplace, gaussian = AS_PRINTED
    above = find_clearly_above(points, (gaussian,), (laplace,), epsilons)
    below = find_clearly_above(points, (laplace,), (gaussian,), epsilons)
    return above, below, tell_against(points, gaussian, (laplace,), epsilons)


def _advantage(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    laplace, gaussian = AS_PRINTED
    leads = {e: score(points, gaussian, e) - score(points, laplace, e) for e in epsilons}
    most, least = (choose(leads, key=lambda e: leads[e]) for choose in (max, min))
    return (
        f"TLDP-G has {leads[most]:+.3f} on TLDP-L at most (at {most:g}) and {leads[least]:+.3f} at least (at "
        f"{least:g}); {_both(points, epsilons)}"
    )


def _both(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    """Say where each TLDP is clearly above the plain mechanisms, and where both are."""
    each = [find_clearly_above(points, (name,), BASELINES, epsilons) for name in AS_PRINTED]
    both = [e for e in each[0] if e in each[1]]
    return (
        f"both are more than {CLEARLY:g} above the best of Laplace, Gaussian, MVG and IDN {wording.at_epsilons(both)}, "
        f"of {wording.join_numbers(epsilons)} tried."
    )


def _fluctuations(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    """Give the range of every plain mechanism, and say whether a step down is beyond two standard errors."""
    words, falls = [], []
    for name in BASELINES:
        own = [point for e in epsilons if (point := find_point(points, name, e)) is not None]
        means = [point.mean or 0.0 for point in own]
        words.append(f"{name} {min(means):.3f} to {max(means):.3f}")
        for left, right in pairwise(own):
            band = 2 * math.hypot(left.error or 0.0, right.error or 0.0)
            if 0 < band < (left.mean or 0.0) - (right.mean or 0.0):
                falls.append(f"{name} from {left.x:g} to {right.x:g}")
    fallen = ", ".join(falls) or "none"
    return (
        f"over all epsilons {', '.join(words)}. Steps down by more than two standard errors: {fallen}. "
        f"{tell_low(points, epsilons, start='Extremely low levels:')}"
    )


def _directional(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    over_laplace = find_clearly_above(points, ("IDN",), ("Laplace",), epsilons)
    over_tldp = find_clearly_above(points, ("IDN",), (AS_PRINTED[1],), epsilons)
    return (
        f"the subspace is the identity here, too. By nominal epsilon IDN is more than {CLEARLY:g} above Laplace "
        f"{wording.at_epsilons(over_laplace)}, and above TLDP-G {wording.at_epsilons(over_tldp)} (against TLDP-G, "
        f"{tell_against(points, 'IDN', AS_PRINTED[1:], epsilons)}). It takes the range of the features, of width 2, "
        "where the others take 256; by true epsilon it is Gaussian noise."
    )


def _worth(results: Results, epsilons: Sequence[float]) -> str:
    """Say which of the two is more private at the same nominal epsilon, for the whole tensor and for one entry.

    Read as in the proof. The whole is what the panel declares as its unit: a tensor, or all parameters of a user.
    """
    words = []
    for unit, start in (("the whole that the panel protects", "tensor "), ("one entry", "local entry ")):
        known = []
        for e in epsilons:
            laplace, gaussian = (_true_epsilon(results, name, e, start) for name in (LAPLACE, GAUSSIAN))
            if laplace is not None and gaussian is not None:
                known.append((e, laplace, gaussian))
        if not known:
            continue
        less = [e for e, laplace, gaussian in known if gaussian > laplace]
        told = "; ".join(f"{e:g}: {gaussian:.4g} against {laplace:.4g}" for e, laplace, gaussian in known)
        if len(less) == len(known):
            verdict = "the less private of the two throughout"
        elif not less:
            verdict = "the more private of the two throughout"
        else:
            verdict = f"the less private of the two {wording.at_epsilons(less)}, and the more elsewhere"
        words.append(f"For {unit} TLDP-G is {verdict} (TLDP-G against TLDP-L, {told}).")
    if not words:
        return ""
    return (
        f"- The same nominal epsilon is not the same privacy for both noises, read as in the proof. {' '.join(words)}"
    )


def _true_epsilon(results: Results, method: str, x: float, start: str) -> float | None:
    """Return a true epsilon that the first run noted, None if there is none or it is not finite."""
    note = next((r.note for r in results.rows if (r.panel, r.method, r.x) == (NOMINAL, method, x) and r.note), "")
    word = note.partition(start)[2].replace(",", ";").partition(";")[0].strip()
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _weights(points: Sequence[Point], epsilons: Sequence[float]) -> list[str]:
    gaps = {
        weighted: [score(points, weighted, e) - score(points, plain, e) for e in epsilons]
        for plain, weighted in zip(AS_PRINTED, WEIGHTED, strict=True)
    }
    largest = ", ".join(f"{name} {max(found, key=abs):+.3f}" for name, found in gaps.items())
    means = ", ".join(f"{name} {sum(found) / len(found):+.4f}" for name, found in gaps.items())
    most = max(abs(gap) for found in gaps.values() for gap in found)
    told = "neither lower nor higher, where a difference of 0.05 is one" if most <= CLEARLY else "not alike"
    return [
        answer(
            "yuan-1-weights",
            f"the largest differences from the form without weights are {largest}. Alike, because so few entries are "
            "kept that weights hardly matter.",
        ),
        answer(
            "yuan-1-weights-privacy",
            f"not better privacy for weights read off the values, as these {len(gaps)} are: they void the proof, and "
            f"an audit refutes it ([TLDP](../published.md#tldp)). The accuracy is {told}: on the mean over epsilons "
            f"{means} to the form without.",
        ),
        answer("yuan-weights-higher", f"on the same means, {means}: {told}. Before, the paper says the opposite."),
    ]
