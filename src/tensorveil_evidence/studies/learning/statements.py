"""What Yuan et al. say of their figures, one statement after the other, and what is measured: text made of results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tensorveil_evidence.studies import wording
from tensorveil_evidence.studies.learning.gradient_statements import tell_of_gradients
from tensorveil_evidence.studies.learning.names import (
    AS_PRINTED,
    BASELINES,
    CLEAN,
    GAUSSIAN,
    LAPLACE,
    NOMINAL,
    WEIGHTED,
)
from tensorveil_evidence.studies.learning.scores import CLEARLY, guess_of, nominal_epsilons, score
from tensorveil_evidence.studies.study import Results
from tensorveil_evidence.studies.summary import Point

if TYPE_CHECKING:
    from tensorveil_evidence.studies.learning.template import Facts

HEAD = "## The paper's statements, one by one\n\n"
SLOWER = (
    '- "Compared to Type I, the rate of increase in F1-score slows down as epsilon increases": not compared. The pages '
    "of the two types have other learners and other numbers of records here, so that their slopes tell nothing of each "
    "other."
)
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


def tell_statements(results: Results, points: Sequence[Point], facts: Facts, sizes: Mapping[str, Any]) -> str:
    """Return one item for each statement."""
    epsilons = nominal_epsilons(points)
    lines = [
        _converging(points, epsilons) if facts.kind == "III" else _noises(points, epsilons, facts.kind),
        _worth(results, epsilons),
    ]
    if any(point.method in WEIGHTED for point in points):
        lines.append(_weights(points, epsilons))
    data = facts.data.partition("-")[0]
    if (facts.kind, data) in LEVELS:
        lines.append(_level(points, epsilons, *LEVELS[facts.kind, data]))
    if facts.kind == "II":
        lines.append(SLOWER)
    if facts.kind == "III":
        passes = sizes.get("passes", sizes["epochs"])
        lines += [
            *tell_of_gradients(points, epsilons, "tor" if data in ("tor", "darknet") else data, passes),
            _comparable(points, epsilons),
        ]
    return HEAD + "\n".join(line for line in lines if line) + "\n"


def _noises(points: Sequence[Point], epsilons: Sequence[float], kind: str) -> str:
    said = "outperforms" if kind == "I" else "generally outperforms"
    above, below, told = _compare_noises(points, epsilons)
    return (
        f'- "TLDP-G {said} TLDP-L": TLDP-G is more than {CLEARLY:g} above TLDP-L {wording.at_epsilons(above)}, '
        f"and that far below it {wording.at_epsilons(below)} ({told})."
    )


def _converging(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    """Answer what the paper says of the two in its figure 3, both halves."""
    above, below, told = _compare_noises(points, epsilons)
    last = epsilons[-1]
    first, second = (score(points, name, last) for name in AS_PRINTED)
    if below:
        verdict = f"TLDP-L is more than {CLEARLY:g} above TLDP-G {wording.at_epsilons(below)}, as the paper says"
    else:
        verdict = f"TLDP-L is more than {CLEARLY:g} above TLDP-G at no epsilon tried"
    end = "they have converged" if abs(first - second) <= CLEARLY else "they have not converged"
    return (
        '- "In certain datasets TLDP-L temporarily surpasses TLDP-G; ultimately both tend to converge": '
        f"{verdict}; TLDP-G is that far above TLDP-L {wording.at_epsilons(above)}. At {last:g} {end} "
        f"(TLDP-G against TLDP-L, {told})."
    )


def _compare_noises(points: Sequence[Point], epsilons: Sequence[float]) -> tuple[list[float], list[float], str]:
    """Return where TLDP-G is clearly above TLDP-L, where clearly below, and both scores in words.

    As elsewhere, a score is called above another only if it is above a guess too.
    """
    least = guess_of(points) + CLEARLY
    pairs = [(e, *(score(points, name, e) for name in AS_PRINTED)) for e in epsilons]
    above = [e for e, laplace, gaussian in pairs if gaussian > max(laplace + CLEARLY, least)]
    below = [e for e, laplace, gaussian in pairs if laplace > max(gaussian + CLEARLY, least)]
    told = "; ".join(f"{e:g}: {gaussian:.3f} against {laplace:.3f}" for e, laplace, gaussian in pairs)
    return above, below, told


def _worth(results: Results, epsilons: Sequence[float]) -> str:
    """Say which of the two is more private for one entry at the same nominal epsilon, in the reading of the proof."""
    known: list[tuple[float, float, float]] = []
    for e in epsilons:
        laplace, gaussian = (_entry_epsilon(results, name, e) for name in (LAPLACE, GAUSSIAN))
        if laplace is not None and gaussian is not None:
            known.append((e, laplace, gaussian))
    if not known:
        return ""
    gaussian_less = [e for e, laplace, gaussian in known if gaussian > laplace]
    told = "; ".join(f"{e:g}: {gaussian:.4g} against {laplace:.4g}" for e, laplace, gaussian in known)
    if len(gaussian_less) == len(known):
        verdict = "TLDP-G is the less private of the two throughout"
    elif not gaussian_less:
        verdict = "TLDP-G is the more private of the two throughout"
    else:
        verdict = f"TLDP-G is the less private of the two {wording.at_epsilons(gaussian_less)}, and the more elsewhere"
    return (
        "- The same nominal epsilon is not the same privacy. By what it is worth for one entry, read as in the proof, "
        f"{verdict} (TLDP-G against TLDP-L, {told})."
    )


def _entry_epsilon(results: Results, method: str, x: float) -> float | None:
    """Return the true epsilon of one entry that the first run noted, None if there is none or it is not finite."""
    note = next((r.note for r in results.rows if (r.panel, r.method, r.x) == (NOMINAL, method, x) and r.note), "")
    word = note.partition("local entry ")[2].partition(";")[0].strip()
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


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


def _comparable(points: Sequence[Point], epsilons: Sequence[float]) -> str:
    first = {}
    clean = next((point.mean or 0.0 for point in points if point.method == CLEAN), 0.0)
    guess = guess_of(points)
    for name in (*AS_PRINTED, *BASELINES):
        reached = [e for e in epsilons if score(points, name, e) >= 0.5 * (guess + clean)]
        first[name] = f"{min(reached):g}" if reached else "none tried"
    return (
        '- "Results only become comparable when epsilon exceeds 100": half of the way from a guess to the score '
        "without noise is reached from epsilon "
        f"{', '.join(f'{epsilon} by {name}' for name, epsilon in first.items())}. Such an epsilon promises nothing."
    )
