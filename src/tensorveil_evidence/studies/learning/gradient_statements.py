"""What Yuan et al. say of private gradients (LLAGP, DPHSGD) in figure 3, and what is measured: text made of results."""

from __future__ import annotations

from collections.abc import Sequence

from tensorveil_evidence.studies import wording
from tensorveil_evidence.studies.learning.names import AS_PRINTED, BASELINES, CLEAN
from tensorveil_evidence.studies.learning.scores import CLEARLY, guess_of, score
from tensorveil_evidence.studies.summary import Point

LLAGP, DPHSGD = "LLAGP", "DPHSGD"


def tell_of_gradients(points: Sequence[Point], epsilons: Sequence[float], data: str, passes: int) -> list[str]:
    """Return the statements that concern one data set ("tor" for the flows), in the paper's order."""
    own = {"cifar10": _cifar10, "svhn": _svhn, "imdb": _imdb, "tor": _flows}
    lines = [] if data == "cifar10" else [_rivals(points, epsilons)]
    if data in own:
        lines += own[data](points, epsilons)
    if data != "tor":
        lines.append(_poor(points, epsilons))
    return [*lines, _training(points, epsilons, passes)]


def _rivals(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    others = (*BASELINES, DPHSGD)
    over_others = _above(points, (LLAGP,), others, epsilons)
    over_tldp = _above(points, (LLAGP,), AS_PRINTED, epsilons)
    return (
        '- "LLAGP outperforms all other comparative methods across most scenarios except on the CIFAR-10 dataset, but '
        f'still fails to surpass the method proposed": it is more than {CLEARLY:g} above Laplace, Gaussian, MVG, IDN '
        f"and DPHSGD {wording.at_epsilons(over_others)}, and {'against the paper ' if over_tldp else ''}that far above "
        f"the better TLDP {wording.at_epsilons(over_tldp)} ({_against(points, LLAGP, AS_PRINTED, epsilons)})."
    )


def _cifar10(points: Sequence[Point], epsilons: Sequence[float]) -> list[str]:
    above = _above(points, (LLAGP,), BASELINES, epsilons)
    over_tldp = _above(points, (LLAGP,), AS_PRINTED, epsilons)
    agrees = "as the paper says" if not above else "against the paper"
    return [
        '- "LLAGP performs worst on the CIFAR-10 dataset, with results that are not significantly different from those '
        f'of other comparative experiments": {agrees}, it is more than {CLEARLY:g} above Laplace, Gaussian, MVG and '
        f"IDN {wording.at_epsilons(above)}, and above the better TLDP {wording.at_epsilons(over_tldp)} "
        f"({_against(points, LLAGP, AS_PRINTED, epsilons)})."
    ]


def _svhn(points: Sequence[Point], epsilons: Sequence[float]) -> list[str]:
    return [
        '- "LLAGP performs best on the SVHN dataset, and can achieve accuracy close to that of TLDP when epsilon is '
        f'sufficiently large": {_close(points, LLAGP, epsilons)}.'
    ]


def _imdb(points: Sequence[Point], epsilons: Sequence[float]) -> list[str]:
    near = [e for e in epsilons if _gap(points, LLAGP, e) >= -CLEARLY]
    return [
        f'- "LLAGP keeps pace with TLDP methods": it is not more than {CLEARLY:g} below the better TLDP '
        f"{wording.at_epsilons(near)} ({_against(points, LLAGP, AS_PRINTED, epsilons)})."
    ]


def _flows(points: Sequence[Point], epsilons: Sequence[float]) -> list[str]:
    means = {name: sum(score(points, name, e) for e in epsilons) / len(epsilons) for name in BASELINES}
    told = ", ".join(f"{name} {mean:.3f}" for name, mean in sorted(means.items(), key=lambda each: each[1]))
    guess = guess_of(points)
    verdict = "" if max(means.values()) > guess + CLEARLY else f": all about a guess, {guess:.3f}, or below it"
    first, last = epsilons[0], epsilons[-1]
    rivals = (*BASELINES, LLAGP, DPHSGD, AS_PRINTED[0])
    gaussian = {e: score(points, AS_PRINTED[1], e) for e in (first, last)}
    lowest = gaussian[first] <= min(score(points, name, first) for name in rivals)
    highest = gaussian[last] >= max(score(points, name, last) for name in rivals)
    return [
        '- "The IDN and Laplace mechanisms show the poorest performance, followed by the Gaussian and MVG mechanisms": '
        f"means over all epsilons {told}{verdict}.",
        '- "The accuracy of LLAGP and DPHSGD has ultimately become sufficiently close to that of TLDP": '
        f"{_close(points, LLAGP, epsilons)}; {_close(points, DPHSGD, epsilons)}.",
        '- "TLDP-G initially exhibits the lowest accuracy when epsilon is set to 10 but eventually surpasses all other '
        f'methods": the study starts at {first:g}, where it is {"" if lowest else "not "}the lowest '
        f"({gaussian[first]:.3f}); at {last:g} it is {'' if highest else 'not '}the highest ({gaussian[last]:.3f}).",
    ]


def _poor(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    above = _above(points, (DPHSGD,), BASELINES, epsilons)
    best = max(score(points, DPHSGD, e) for e in epsilons)
    over_tldp = _above(points, (DPHSGD,), AS_PRINTED, epsilons)
    return (
        '- "DPHSGD only delivers good performance on the Darknet dataset and performs poorly in all other cases": '
        f"{'against the paper, ' if above else ''}it is more than {CLEARLY:g} above Laplace, Gaussian, MVG and IDN "
        f"{wording.at_epsilons(above)}, and above the better TLDP {wording.at_epsilons(over_tldp)} "
        f"({_against(points, DPHSGD, AS_PRINTED, epsilons)}); it reaches {best:.3f} at best."
    )


def _training(points: Sequence[Point], epsilons: Sequence[float], passes: int) -> str:
    last = epsilons[-1]
    clean = next((point.mean or 0.0 for point in points if point.method == CLEAN), 0.0)
    scores = {name: score(points, name, last) for name in (LLAGP, DPHSGD)}
    told = " and ".join(f"{name} {value:.3f}" for name, value in scores.items())
    short = [name for name, value in scores.items() if value < clean - CLEARLY]
    lack = "lacks" if len(short) == 1 else "lack"
    why = f" What {' and '.join(short)} {lack} is due to this training, not to privacy." if short else ""
    return (
        f"- LLAGP and DPHSGD add noise for one record to a mean over many, TLDP to all parameters of a user. "
        f"At {last:g} theirs is next to nothing, and {passes} passes of clipped gradients lead to {told}; the network "
        f"of the others scores {clean:.3f} without noise.{why}"
    )


def _above(
    points: Sequence[Point], ones: Sequence[str], others: Sequence[str], epsilons: Sequence[float]
) -> list[float]:
    """Return where the best of some is clearly above all others, and above a guess."""
    least = guess_of(points) + CLEARLY
    out = []
    for e in epsilons:
        best, rival = (max(score(points, name, e) for name in names) for names in (ones, others))
        if best > max(rival + CLEARLY, least):
            out.append(e)
    return out


def _gap(points: Sequence[Point], name: str, epsilon: float) -> float:
    return score(points, name, epsilon) - max(score(points, other, epsilon) for other in AS_PRINTED)


def _close(points: Sequence[Point], name: str, epsilons: Sequence[float]) -> str:
    gap = _gap(points, name, epsilons[-1])
    near = "close" if abs(gap) <= CLEARLY else "above it" if gap > 0 else "not close"
    return f"at {epsilons[-1]:g} {name} is {near}, {gap:+.3f} to the better TLDP"


def _against(points: Sequence[Point], name: str, others: Sequence[str], epsilons: Sequence[float]) -> str:
    pairs = [(e, score(points, name, e), max(score(points, other, e) for other in others)) for e in epsilons]
    return "; ".join(f"{e:g}: {mine:.3f} against {theirs:.3f}" for e, mine, theirs in pairs)
