"""What Yuan et al. say of their figures, one statement after the other, and what is measured: text made of results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorveil_evidence.studies import wording
from tensorveil_evidence.studies.learning.names import AS_PRINTED, BASELINES, CLEAN, GRADIENTS, NOMINAL, WEIGHTED
from tensorveil_evidence.studies.summary import Point

if TYPE_CHECKING:
    from tensorveil_evidence.studies.learning.template import Facts

HEAD = "## The paper's statements, one by one\n\n"
CLEARLY = 0.05  # by which one score must be above another to be called so
# What the text says of the level that TLDP reaches, by type and data set, and at which epsilon if it says so.
LEVELS = {
    ("I", "mnist"): ("about 90 % when epsilon is below 1", 1.0),
    ("I", "svhn"): ("about 90 % when epsilon is below 1", 1.0),
    ("I", "cifar10"): ("about 70 % in the end", None),
    ("II", "mnist"): ("at most about 80 %", None),
    ("II", "svhn"): ("about 40 % in the end", None),
    ("II", "cifar10"): ("about 40 % in the end", None),
    ("III", "imdb"): ("around 80 % for TLDP, and 40 % for Laplace, Gaussian, MVG and IDN", None),
}


def tell_statements(points: Sequence[Point], facts: Facts) -> str:
    """Return one item for each statement."""
    epsilons = nominal_epsilons(points)
    lines = [_noises(points, epsilons)]
    if any(point.method in WEIGHTED for point in points):
        lines.append(_weights(points, epsilons))
    data = facts.data.partition("-")[0]
    if (facts.kind, data) in LEVELS:
        lines.append(_level(points, epsilons, *LEVELS[facts.kind, data]))
    if facts.kind == "III":
        lines += [_gradients(points, epsilons), _comparable(points, epsilons)]
    return HEAD + "\n".join(lines) + "\n"


def nominal_epsilons(points: Sequence[Point]) -> list[float]:
    """Return the nominal epsilons that these results have: a quick run has fewer than the full one."""
    return sorted({point.x for point in points if point.panel == NOMINAL and point.x is not None})


def score(points: Sequence[Point], method: str, epsilon: float | None, panel: str = NOMINAL) -> float:
    """Return a method's mean score, 0 where there is none."""
    for point in points:
        if (point.panel, point.method, point.x) == (panel, method, epsilon):
            return point.mean or 0.0
    return math.nan


def _noises(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    first, second = ([score(points, name, e) for e in epsilons] for name in AS_PRINTED)
    pairs = list(zip(epsilons, first, second, strict=True))
    above = [e for e, laplace, gaussian in pairs if gaussian > laplace + CLEARLY]
    below = [e for e, laplace, gaussian in pairs if laplace > gaussian + CLEARLY]
    told = "; ".join(f"{e:g}: {gaussian:.3f} against {laplace:.3f}" for e, laplace, gaussian in pairs)
    return (
        f'- "TLDP-G outperforms TLDP-L": TLDP-G is more than {CLEARLY:g} above TLDP-L {wording.at_epsilons(above)}, '
        f"and that far below it {wording.at_epsilons(below)} ({told}). At the same nominal epsilon TLDP-G is the less "
        "private of the two for small epsilon and the more private one for large: its noise falls with the root."
    )


def _weights(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    gaps = {
        weighted: max((score(points, weighted, e) - score(points, plain, e) for e in epsilons), key=abs)
        for plain, weighted in zip(AS_PRINTED, WEIGHTED, strict=True)
    }
    told = ", ".join(f"{name} {gap:+.3f}" for name, gap in gaps.items())
    return (
        '- "TLDP-L-w is nearly identical to TLDP-L, TLDP-G-w slightly below TLDP-G, at better privacy": largest '
        f"differences {told}. Alike, because so few entries are kept that weights hardly matter; and not more private: "
        "weights read off the values void the proof ([TLDP](../published.md#tldp))."
    )


def _level(points: Sequence[Point], epsilons: Sequence[float], said: str, at: float | None) -> str:
    here = [e for e in epsilons if at is None or e <= at]
    words = []
    for name in (*AS_PRINTED, *BASELINES):
        best = max(score(points, name, e) for e in here)
        words.append(f"{name} {best:.3f}")
    clean = next((point.mean or 0.0 for point in points if point.method == CLEAN), math.nan)
    where = f"up to epsilon {at:g}" if at is not None else f"up to epsilon {max(epsilons):g}"
    return (
        f'- Level: "{said}". Here, {where}, at best: {", ".join(words)}; the same network without noise {clean:.3f}. '
        "Networks, records and passes are smaller here, see the settings."
    )


def _gradients(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    words, ever = [], False
    for name in GRADIENTS:
        own = [score(points, name, e) for e in epsilons]
        best = [max(score(points, other, e) for other in AS_PRINTED) for e in epsilons]
        above = [e for e, mine, theirs in zip(epsilons, own, best, strict=True) if mine > theirs + CLEARLY]
        ever = ever or bool(above)
        told = "; ".join(f"{e:g}: {m:.3f} against {t:.3f}" for e, m, t in zip(epsilons, own, best, strict=True))
        words.append(f"{name} is above the better TLDP {wording.at_epsilons(above)} ({told})")
    return (
        '- "LLAGP outperforms all other rivals but not TLDP; DPHSGD performs poorly but on DarkNet": '
        f"{'against the paper, ' if ever else ''}{'; '.join(words)}. Their noise is for one record in a mean over "
        "many, and at such a nominal epsilon there is next to none; that of TLDP is for all parameters of a user."
    )


def _comparable(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    first = {}
    clean = next((point.mean or 0.0 for point in points if point.method == CLEAN), 0.0)
    for name in (*AS_PRINTED, *BASELINES):
        reached = [e for e in epsilons if score(points, name, e) >= 0.5 * clean]
        first[name] = f"{min(reached):g}" if reached else "none tried"
    return (
        '- "Results only become comparable when epsilon exceeds 100": half of the score without noise is reached from '
        f"epsilon {', '.join(f'{epsilon} by {name}' for name, epsilon in first.items())}. Such an epsilon promises "
        "nothing."
    )
