"""Claimed, proven, audited: every mechanism of the project and of the papers, with what an audit could show."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from tensorveil.audit.claim import Claim
from tensorveil.audit.subject import Subject, holds
from tensorveil_evidence.studies import drawing, wording
from tensorveil_evidence.studies.study import CLAIMED, PROVEN, REFUTED, Cell, Results, Row, Settings, Stated, Study
from tensorveil_evidence.studies.summary import Point, pick, summarise
from tensorveil_evidence.subjects.catalogue import list_subjects

SEED, CONFIDENCE = 2, 0.999
BOUND, LEVEL, CEILING, DRAWS = "at least", "claimed", "could show", "draws"
PUBLISHED = "published/"
FAMILIES = {
    "noise/": "noise",
    "statistic/": "noisy statistics",
    "completion/": "completion, whole runs",
    "selection/": "choices among settings",
    "users/": "rounds of user-level fits",
    "one run/": "completion, one run",
    "local/": "local mechanisms",
    "learning/": "learning",
    "federated/": "federated runs",
    PUBLISHED: "published algorithms",
    "attack/": "attack on factors",
}
LOOKS = {PROVEN: (drawing.GREEN, "o"), CLAIMED: (drawing.SKY, "s"), REFUTED: (drawing.VERMILION, "^")}


# Draws of what fits a tiny tensor for each, and a tensor of 8000 cells; quick ones, and the share of all others.
WHOLE_RUNS, ATTACKS = 500, 200
QUICK_WHOLE_RUNS, QUICK_ATTACKS, QUICK_SHARE = 100, 80, 5
# Attacks that fit a tensor for every draw: the full study has them.
SLOW = ("published/gradient perturbation, secret start", "attack/PrivateCP gradient", "attack/PrivateCP output")


def cells(runs: int, quick: bool) -> list[Cell]:
    """One cell per mechanism."""
    return [
        Cell(settings={"subject": name, "draws": draws_of(subject, quick)})
        for name, subject in list_subjects().items()
        if not quick or name not in SLOW
    ]


def draws_of(subject: Subject, quick: bool) -> int:
    """Return how often a mechanism is run on each neighbour: whole fits less often than single statistics."""
    if subject.about == "whole runs":
        return min(subject.samples, QUICK_WHOLE_RUNS if quick else WHOLE_RUNS)
    if subject.about.startswith("attacks"):
        return QUICK_ATTACKS if quick else ATTACKS
    return max(1, subject.samples // QUICK_SHARE) if quick else subject.samples


def compute(settings: Settings) -> Iterator[Row]:
    """Audit one mechanism."""
    subject = list_subjects()[settings["subject"]]
    verdict = subject.audit(samples=settings["draws"], confidence=CONFIDENCE, seed=SEED)
    yield from rows_of(subject, verdict.to_json())


def rows_of(subject: Subject, facts: dict[str, Any]) -> Iterator[Row]:
    """Yield what an audit found as rows; ``facts`` is a verdict as plain data."""
    family = next(prefix for prefix in FAMILIES if subject.name.startswith(prefix))
    note = facts["verdict"]
    if note == "violated":
        note += f" ({facts['witnesses'][0]['kind']})"
    values = {
        BOUND: facts["lower_bound"],
        LEVEL: subject.claim.level,
        CEILING: facts["power"]["ceiling"],
        DRAWS: float(facts["draws"]),
    }
    for metric, value in values.items():
        about: dict[str, Any] = {"panel": family, "method": subject.name, "status": status_of(subject), "note": note}
        yield Row(run=SEED, metric=metric, value=value, **about)


def status_of(subject: Subject) -> str:
    """Tell what is known about a subject's claim, apart from the audit."""
    if not holds(subject):
        return REFUTED
    return CLAIMED if subject.name.startswith(PUBLISHED) else PROVEN


def caption(results: Results) -> Stated:
    """State what the reader must know; methods are too many to be named here."""
    points = pick(summarise(results.rows), metric=BOUND)
    numbers = {status: sum(point.status == status for point in points) for status in LOOKS}
    draws = [row.value or 0.0 for row in results.rows if row.metric == DRAWS]
    return Stated(
        shown=(
            f"Audited lower bound over claimed level, {len(points)} mechanisms; right of the line the claim is refuted "
            f"by experiment, with confidence {CONFIDENCE}."
        ),
        unit="that of each mechanism, in the table",
        epsilon="(or mu) as claimed by each, in the table",
        delta="as claimed by each, in the table",
        runs=f"{min(draws):,.0f} to {max(draws):,.0f} draws per neighbour{', a quick run' if results.quick else ''}",
        guarantees=(
            f"Guarantees: {numbers[PROVEN]} proven (circles); {numbers[CLAIMED]} claimed by a paper and true in exact "
            f"arithmetic (squares); {numbers[REFUTED]} claimed by a paper and refuted (triangles)."
        ),
        small_print=wording.SEEDED,
    )


def draw(results: Results) -> Any:
    """Draw one strip per family, one mark per mechanism."""
    points = summarise(results.rows)
    families = _families(points)
    height = 1.4 + 0.44 * len(families)
    figure, body, axes = drawing.new_figure(9.6, height, str(caption(results)), rows=1, columns=1)
    axis = axes[0, 0]
    for place, prefix in enumerate(reversed(families)):
        for point in pick(points, panel=prefix, metric=BOUND):
            level = pick(points, method=point.method, metric=LEVEL)[0].mean
            colour, marker = LOOKS[point.status]
            # A mark's height within its strip comes from its name: the same in every run.
            height = place + 0.6 * (zlib.crc32(point.method.encode()) / 2**32 - 0.5)
            ratio = max((point.mean or 0.0) / (level or 1.0), 0.01)
            axis.plot(ratio, height, marker, color=colour, markersize=5.5, alpha=0.85, markeredgewidth=0)
    axis.axvline(1.0, color=drawing.BLACK, linewidth=1.2)
    for status, (colour, marker) in LOOKS.items():
        axis.plot([], [], marker, color=colour, markersize=5.5, label=status)
    axis.set(xscale="log", yticks=range(len(families)), yticklabels=list(reversed(families.values())))
    axis.set_xlabel("audited lower bound / claimed level (0.01: or less)", fontsize=9)
    axis.minorticks_off()
    drawing.shared_legend(body, [axis], columns=3)
    return figure


def _families(points: Sequence[Point]) -> dict[str, str]:
    """Return the families that these results hold: those of another time may lack some."""
    return {prefix: title for prefix, title in FAMILIES.items() if pick(points, panel=prefix)}


def page(results: Results) -> str:
    """Write the page: the whole table, and what it shows."""
    points, known = summarise(results.rows), list_subjects()
    notes = {row.method: row.note for row in results.rows}
    parts = [_findings(points, notes), "## Every mechanism\n", LEGEND]
    for prefix, title in _families(points).items():
        rows = [
            _row(point, points, notes[point.method], known.get(point.method))
            for point in pick(points, panel=prefix, metric=BOUND)
        ]
        head = ["mechanism", "unit", "claimed", "guarantee", "audited: at least", "could show", "draws", "verdict"]
        parts.append(f"### {title.capitalize()}\n\n" + wording.table(head, rows))
    return "\n".join(parts)


LEGEND = """*Claimed* is what the mechanism or its paper says; *guarantee* what is known of that claim; *audited* the
lower bound of the claimed parameter at the claimed delta; *could show* the largest bound that so many draws can show.
How an audit works, and the same table with up to ten times as many draws: [audit.md](../audit.md).
"""


def _row(point: Point, points: Sequence[Point], note: str, subject: Subject | None) -> list[str]:
    own = {found.metric: found.mean for found in pick(points, method=point.method)}
    unit, claim = ("", f"{own[LEVEL]:g}") if subject is None else (subject.unit, _describe(subject.claim))
    draws = f"{own[DRAWS] or 0:,.0f}"
    verdict = f"**{note}**" if note.startswith("violated") else note
    bound, ceiling = (f"{int((own[metric] or 0) * 1000) / 1000:g}" for metric in (BOUND, CEILING))
    return [point.method, unit, claim, point.status, bound, ceiling, draws, verdict]


def _describe(claim: Claim) -> str:
    return str(claim).replace("epsilon", "ε").replace("delta", "δ").replace("mu", "μ")


def _findings(points: Sequence[Point], notes: dict[str, str]) -> str:
    bounds = pick(points, metric=BOUND)
    found = {name for name, note in notes.items() if note.startswith("violated")}

    def share(status: str) -> str:
        own = [point.method for point in bounds if point.status == status]
        return f"{sum(name in found for name in own)} of {len(own)}"

    missed = [point.method for point in bounds if point.status == REFUTED and point.method not in found]
    return f"""## What it shows

- Of the claims that are refuted on paper, {share(REFUTED)} are refuted by experiment as well{
        "" if not missed else " (not: " + "; ".join(missed) + ")"
    }.
- Of the proven mechanisms, {share(PROVEN)} are; of published claims that are true in exact arithmetic, {
        share(CLAIMED)
    }.
- An audit that finds nothing proves nothing: what it could have found stands in the column *could show*.
"""


STUDY = Study(
    name="claims",
    title="Claimed, proven, audited",
    source="All papers, and all mechanisms of this project",
    runs=(1, 1),
    cells=cells,
    compute=compute,
    draw=draw,
    page=page,
    caption=caption,
    settings={"seed": SEED, "confidence": CONFIDENCE},
    minutes=(2, 8),
)
