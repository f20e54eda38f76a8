"""What Yuan et al. say of figure 3, of averaged parameters and of private gradients, and what is measured."""

from __future__ import annotations

from collections.abc import Sequence

from tensorveil_evidence.studies import wording
from tensorveil_evidence.studies.learning.compared import (
    best_of,
    tell_against,
    tell_better,
    tell_halfway,
    tell_levels,
    tell_low,
)
from tensorveil_evidence.studies.learning.names import AS_PRINTED, BASELINES
from tensorveil_evidence.studies.learning.scores import (
    CLEARLY,
    clean_of,
    find_clearly_above,
    guess_of,
    score,
)
from tensorveil_evidence.studies.summary import Point
from tensorveil_evidence.studies.wording import answer

LLAGP, DPHSGD = "LLAGP", "DPHSGD"
FLOWS = ("tor", "darknet")  # data sets of flows
IMAGES = ("mnist", "cifar10", "svhn", "digits")


def tell_of_gradients(points: Sequence[Point], epsilons: Sequence[float], data: str, passes: int) -> list[str]:
    """Return the statements that concern one data set, in about the paper's order."""
    own = {"cifar10": _cifar10, "svhn": _svhn, "imdb": _imdb, "tor": _flows, "darknet": _flows}
    lines = [_comparable(points, epsilons), answer("yuan-3-low", tell_low(points, epsilons))]
    if data != "cifar10":
        lines.append(_rivals(points, epsilons))
    lines.append(_better_than_rivals(points, epsilons))
    lines.append(_poor(points, epsilons, data in FLOWS))
    lines.append(answer("yuan-3-best", _highest(points, epsilons)))
    if data in IMAGES:
        lines.append(answer("yuan-3-outperforming", tell_better(points, epsilons, (*BASELINES, DPHSGD))))
    if data in own:
        lines += own[data](points, epsilons)
    return [*lines, _training(points, epsilons, passes)]


def _comparable(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    told = tell_halfway(points, epsilons, (*AS_PRINTED, *BASELINES, LLAGP, DPHSGD))
    return answer("yuan-3-comparable", f"{told[0].lower()}{told[1:]} Such an epsilon promises next to nothing.")


def _rivals(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    over_others = find_clearly_above(points, (LLAGP,), (*BASELINES, DPHSGD), epsilons)
    over_tldp = find_clearly_above(points, (LLAGP,), AS_PRINTED, epsilons)
    return answer(
        "yuan-3-llagp",
        f"it is more than {CLEARLY:g} above Laplace, Gaussian, MVG, IDN and DPHSGD {wording.at_epsilons(over_others)}, "
        f"and {'against the paper ' if over_tldp else ''}that far above the better TLDP "
        f"{wording.at_epsilons(over_tldp)} ({tell_against(points, LLAGP, AS_PRINTED, epsilons)})."
        f"{_beyond_clean(points, LLAGP, epsilons)}",
    )


def _beyond_clean(points: Sequence[Point], name: str, epsilons: Sequence[float]) -> str:
    """Say where a method passes even the network that TLDP's noise falls on, without any: that is not noise."""
    beyond = [e for e in epsilons if score(points, name, e) > clean_of(points)]
    if not beyond:
        return ""
    return (
        f" A{wording.at_epsilons(beyond)[1:]} it is above {clean_of(points):.3f}, "
        "what the network of the others scores without any noise: what it has beyond that comes of its own way of "
        "training, and on texts of its own network, not of less noise."
    )


def _better_than_rivals(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    over_plain = find_clearly_above(points, (LLAGP,), BASELINES, epsilons)
    over_gradients = find_clearly_above(points, (LLAGP,), (DPHSGD,), epsilons)
    return answer(
        "yuan-3-llagp-better",
        f"it is more than {CLEARLY:g} above all of Laplace, Gaussian, MVG and IDN {wording.at_epsilons(over_plain)}, "
        f"and above DPHSGD {wording.at_epsilons(over_gradients)} (against DPHSGD, "
        f"{tell_against(points, LLAGP, (DPHSGD,), epsilons)}). The paper gives the shares of the layers as the reason; "
        "here both add noise for one record, and the others for a user.",
    )


def _cifar10(points: Sequence[Point], epsilons: Sequence[float]) -> list[str]:
    above = find_clearly_above(points, (LLAGP,), BASELINES, epsilons)
    over_tldp = find_clearly_above(points, (LLAGP,), AS_PRINTED, epsilons)
    told = (
        f"{'against the paper' if above else 'as the paper says'}, LLAGP is more than {CLEARLY:g} above Laplace, "
        f"Gaussian, MVG and IDN {wording.at_epsilons(above)}, and above the better TLDP "
        f"{wording.at_epsilons(over_tldp)} ({tell_against(points, LLAGP, AS_PRINTED, epsilons)})."
        f"{_beyond_clean(points, LLAGP, epsilons)} Whether it is worst "
        "here of all data sets: [all of them](yuan-across.md)."
    )
    return [answer("yuan-3-cifar10", told)]


def _svhn(points: Sequence[Point], epsilons: Sequence[float]) -> list[str]:
    ranked = _rank(points, epsilons[-1])
    told = (
        f"{_close(points, LLAGP, epsilons)}. Of all methods, {ranked[0]} has the highest score there, "
        f"{score(points, ranked[0], epsilons[-1]):.3f}; LLAGP is number {ranked.index(LLAGP) + 1} of {len(ranked)}."
        f"{_beyond_clean(points, LLAGP, epsilons[-1:])} Whether it is best here of all data sets: "
        "[all of them](yuan-across.md)."
    )
    return [answer("yuan-3-svhn", told)]


def _imdb(points: Sequence[Point], epsilons: Sequence[float]) -> list[str]:
    near = [e for e in epsilons if _gap(points, LLAGP, e) >= -CLEARLY]
    curves = [f"{name} {' '.join(f'{score(points, name, e):.3f}' for e in epsilons)}" for name in BASELINES]
    tldp = [f"{name} {' '.join(f'{score(points, name, e):.3f}' for e in epsilons)}" for name in AS_PRINTED]
    at = f"at {wording.join_numbers(epsilons)}"
    clean = f"the network without noise has {clean_of(points):.3f}"
    return [
        answer(
            "yuan-3-imdb-low",
            f"{', '.join(curves)}, {at}. A guess between the two classes has {guess_of(points):.3f} here, so that 40% "
            f"is no more than that. No further improvement: {tell_low(points, epsilons)}",
        ),
        answer(
            "yuan-3-imdb-level",
            f"{', '.join(tldp)}, {at}; {clean}. At best {tell_levels(points, epsilons)}.",
        ),
        answer(
            "yuan-3-imdb-llagp",
            f"it is not more than {CLEARLY:g} below the better TLDP {wording.at_epsilons(near)} "
            f"({tell_against(points, LLAGP, AS_PRINTED, epsilons)}).",
        ),
    ]


def _flows(points: Sequence[Point], epsilons: Sequence[float]) -> list[str]:
    means = {name: sum(score(points, name, e) for e in epsilons) / len(epsilons) for name in BASELINES}
    told = ", ".join(f"{name} {mean:.3f}" for name, mean in sorted(means.items(), key=lambda each: each[1]))
    guess = guess_of(points)
    verdict = "" if max(means.values()) > guess + CLEARLY else f": all about a guess, {guess:.3f}, or below it"
    first, last = epsilons[0], epsilons[-1]
    ranked = {e: _rank(points, e) for e in (first, last)}
    gaussian = AS_PRINTED[1]
    lowest, highest = ranked[first][-1] == gaussian, ranked[last][0] == gaussian
    apart = score(points, gaussian, last) - score(points, AS_PRINTED[0], last)
    return [
        answer("yuan-3-darknet-poorest", f"means over all epsilons {told}{verdict}."),
        answer(
            "yuan-3-darknet-gap",
            f"{tell_better(points, epsilons, (*BASELINES, LLAGP, DPHSGD))} On the other data sets: "
            "[all of them](yuan-across.md).",
        ),
        answer("yuan-3-darknet-close", f"{_close(points, LLAGP, epsilons)}; {_close(points, DPHSGD, epsilons)}."),
        answer(
            "yuan-3-darknet-gaussian",
            f"the study starts at {first:g}, where it is {'' if lowest else 'not '}the lowest "
            f"({score(points, gaussian, first):.3f}); at {last:g} it is {'' if highest else 'not '}the highest "
            f"({score(points, gaussian, last):.3f}), and {apart:+.3f} to TLDP-L.",
        ),
    ]


def _poor(points: Sequence[Point], epsilons: Sequence[float], on_flows: bool) -> str:
    above = find_clearly_above(points, (DPHSGD,), BASELINES, epsilons)
    best = max(score(points, DPHSGD, e) for e in epsilons)
    over_tldp = find_clearly_above(points, (DPHSGD,), AS_PRINTED, epsilons)
    if on_flows:
        start = "on the flows that stand for that data set "
    else:
        start = "against the paper, " if above else ""
    return answer(
        "yuan-3-dphsgd",
        f"{start}it is more than {CLEARLY:g} above Laplace, Gaussian, MVG and IDN {wording.at_epsilons(above)}, and "
        f"above the better TLDP {wording.at_epsilons(over_tldp)} "
        f"({tell_against(points, DPHSGD, AS_PRINTED, epsilons)}); it reaches {best:.3f} at best, a guess has "
        f"{guess_of(points):.3f} and the network of the others {clean_of(points):.3f} without noise."
        f"{_beyond_clean(points, DPHSGD, epsilons)}",
    )


def _highest(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    """Say which method has the highest score at each epsilon, and the highest mean over all of them."""
    first: dict[str, list[float]] = {}
    for epsilon in epsilons:
        first.setdefault(_rank(points, epsilon)[0], []).append(epsilon)
    told = "; ".join(f"{name} at {wording.join_numbers(where)}" for name, where in first.items())
    names = (*AS_PRINTED, LLAGP, DPHSGD)
    means = {name: sum(score(points, name, e) for e in epsilons) / len(epsilons) for name in names}
    listed = ", ".join(f"{name} {mean:.3f}" for name, mean in sorted(means.items(), key=lambda each: -each[1]))
    return f"by nominal epsilon the highest score is that of {told}. Means over all epsilons: {listed}."


def _training(points: Sequence[Point], epsilons: Sequence[float], passes: int) -> str:
    last, clean = epsilons[-1], clean_of(points)
    scores = {name: score(points, name, last) for name in (LLAGP, DPHSGD)}
    told = " and ".join(f"{name} {value:.3f}" for name, value in scores.items())
    short = [name for name, value in scores.items() if value < clean - CLEARLY]
    lack = "lacks" if len(short) == 1 else "lack"
    why = f" What {' and '.join(short)} {lack} is due to this training, not to privacy." if short else ""
    ahead = [name for name, value in scores.items() if value > clean]
    has = "has" if len(ahead) == 1 else "have"
    why += (
        f" What {' and '.join(ahead)} {has} beyond that is due to this training, and on texts to another network."
        if ahead
        else ""
    )
    return (
        f"- LLAGP and DPHSGD add noise for one record to a mean over many, TLDP to all parameters of a user. "
        f"At {last:g} theirs is next to nothing, and {passes} passes of clipped gradients lead to {told}; the network "
        f"of the others scores {clean:.3f} without noise.{why}"
    )


def _rank(points: Sequence[Point], epsilon: float) -> list[str]:
    """Return the published methods with the best score first."""
    names = (*AS_PRINTED, *BASELINES, LLAGP, DPHSGD)
    return sorted(names, key=lambda name: -score(points, name, epsilon))


def _gap(points: Sequence[Point], name: str, epsilon: float) -> float:
    return score(points, name, epsilon) - best_of(points, AS_PRINTED, epsilon)


def _close(points: Sequence[Point], name: str, epsilons: Sequence[float]) -> str:
    gap = _gap(points, name, epsilons[-1])
    near = "close to" if abs(gap) <= CLEARLY else "above" if gap > 0 else "not close to"
    return f"at {epsilons[-1]:g} {name} is {near} the better TLDP, {gap:+.3f} to it"
