"""Figures and pages of the studies of learning: nominal and true epsilon side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorveil.studies import drawing, wording
from tensorveil.studies.drawing import Style
from tensorveil.studies.learning.names import (
    AS_PRINTED,
    BASELINES,
    CLEAN,
    CLEAN_OURS,
    CONTRASTS,
    DESCENT,
    FAMILIES,
    GAUSSIAN,
    GUESS,
    HYBRID,
    LAPLACE,
    MAJORITY,
    MOMENTS,
    NOMINAL,
    PRIVUNIT,
    PUBLIC_ALONE,
    RECORD,
    SAME,
    TRUE,
    USER,
    WEIGHTED,
)
from tensorveil.studies.study import Results, Stated
from tensorveil.studies.summary import Point, pick, summarise

if TYPE_CHECKING:
    from tensorveil.studies.learning.building import Facts

LINES = (MAJORITY, GUESS, CLEAN, CLEAN_OURS, PUBLIC_ALONE)
OURS = (PRIVUNIT, HYBRID, CONTRASTS, MOMENTS, DESCENT)
STYLES = {
    "Laplace": Style(colour=drawing.PURPLE, marker="s"),
    "Gaussian": Style(colour=drawing.GREY, marker="D"),
    "MVG": Style(colour=drawing.SKY, marker="v"),
    "IDN": Style(colour=drawing.BLUE, marker="<"),
    "TLDP-L": Style(colour=drawing.ORANGE, marker="P"),
    "TLDP-G": Style(colour=drawing.VERMILION, marker="X"),
    "TLDP-L-w": Style(colour=drawing.ORANGE, marker="p", width=1.0),
    "TLDP-G-w": Style(colour=drawing.VERMILION, marker="h", width=1.0),
    LAPLACE: Style(colour=drawing.ORANGE, marker="o"),
    GAUSSIAN: Style(colour=drawing.VERMILION, marker="^"),
    "LLAGP": Style(colour=drawing.BLACK, marker="d"),
    "DPHSGD": Style(colour=drawing.BLACK, marker=">"),
    next(iter(FAMILIES)): Style(colour=drawing.ORANGE, marker="o", width=1.2),
    list(FAMILIES)[1]: Style(colour=drawing.VERMILION, marker="^", width=1.2),
    PRIVUNIT: Style(colour=drawing.GREEN, marker="*", width=2.2),
    HYBRID: Style(colour=drawing.GREEN, marker="p", width=1.2),
    CONTRASTS: Style(colour=drawing.GREEN, marker="*", width=2.2),
    MOMENTS: Style(colour=drawing.GREEN, marker="*", width=2.2),
    DESCENT: Style(colour=drawing.GREEN, marker="p", width=1.2),
    MAJORITY: Style(colour=drawing.GREY, width=1.3, stroke=(0, (6, 2))),
    CLEAN: Style(colour=drawing.BLACK, width=1.3),
    CLEAN_OURS: Style(colour=drawing.GREEN, width=1.0),
    PUBLIC_ALONE: Style(colour=drawing.SKY, width=1.0),
    GUESS: Style(colour=drawing.PURPLE, width=1.0),
}
UNITS = {
    "I": "tensor (a record's whole tensor, without a trusted collector; classes are public)",
    "II": "tensor (a record's features, without a trusted collector; classes are public)",
    "III": "user (all that one of three users holds, replaced), and record (added or removed) where said; whoever "
    "averages is trusted",
}
SHOWN = {
    "I": "Private data: every record's tensor is perturbed, a server learns from the reports.",
    "II": "Private features: features of a public network are perturbed, a server learns a classifier.",
    "III": "Private parameters: three users train, averages of their parameters get noise in every round.",
}


def panels_of(facts: Facts) -> tuple[str, ...]:
    """Return the panels of a figure."""
    return (NOMINAL, TRUE, USER, RECORD) if facts.kind == "III" else (NOMINAL, TRUE, SAME)


def caption(results: Results, facts: Facts) -> Stated:
    """State what the reader must know."""
    return wording.caption(
        results,
        shown=(
            f"{SHOWN[facts.kind]} Weighted F1 on clean test records, {facts.data}; bands: one standard deviation over "
            "runs. Nominal: epsilon as the paper counts. True: what holds for the unit at this delta, over all rounds; "
            "methods without any finite one are not in the panel. Same true: noise of every method scaled to be worth "
            "that epsilon."
        ),
        unit=UNITS[facts.kind],
        epsilon="horizontal axes",
        delta="1e-5; 0 for ours by PrivUnit and hybrid",
    )


def draw(results: Results, facts: Facts) -> Any:
    """Draw the panels, all on one vertical axis."""
    points = summarise(results.rows)
    panels = panels_of(facts)
    rows, columns = (2, 2) if len(panels) == 4 else (1, 3)
    figure, body, axes = drawing.new_figure(
        11.0, 3.9 * rows + 1.4, str(caption(results, facts)), rows=rows, columns=columns, sharey=True
    )
    lines = [name for name in LINES if pick(points, method=name)]
    for axis, panel in zip(axes.flat, panels, strict=True):
        for name in lines:
            drawing.draw_line(axis, pick(points, method=name)[0], STYLES[name])
        own = pick(points, panel=panel)
        for name in dict.fromkeys(point.method for point in own):
            drawing.draw_curve(axis, pick(own, method=name), STYLES[name])
        axis.set(xscale="log", ylim=(0.0, 1.0), xlabel=panel)
        axis.set_title(f"{facts.data}, type {facts.kind}: {panel}", fontsize=10)
    for axis in axes[:, 0]:
        axis.set_ylabel("weighted F1", fontsize=9)
    drawing.shared_legend(body, list(axes.flat), columns=3)
    return figure


def page(results: Results, facts: Facts, sizes: dict[str, Any]) -> str:
    """Give settings, numbers, what nominal epsilons are worth, and what agrees with the paper."""
    points = summarise(results.rows)
    lines = [point for point in points if point.method in LINES]
    parts = [_settings(facts, sizes), "## Numbers\n\nMean ± standard deviation over runs.\n"]
    head = wording.table(
        ["line", "weighted F1"], [[point.method, wording.mean_and_spread(point)] for point in lines]
    )  # fmt: skip
    parts.append(head)
    for panel in panels_of(facts):
        if panel != TRUE:  # whose places differ from method to method; they stand in the table of worths
            parts.append(f"### By {panel}\n\n" + wording.curves_table(pick(points, panel=panel)))
    parts.append("## What nominal epsilons are worth\n\n" + _worths(results))
    parts.append("## What agrees with the paper, and what does not\n\n" + _findings(points, facts))
    return wording.filled("\n".join(parts))


def _settings(facts: Facts, sizes: dict[str, Any]) -> str:
    told = ", ".join(f"{name} {value:,}" for name, value in sizes.items())
    own = {
        "I": (
            "The paper trains MobileNet on all records for 10 passes; here a network with one hidden layer, on fewer "
            "records and for fewer passes, which two cores can do. Noise is drawn in grey levels, Delta is 256, as "
            "printed. Ours tells the direction of the lowest frequencies of each image (discrete cosine transform, "
            "no data needed) and fits a discriminant that knows the noise."
        ),
        "II": (
            "The public network is a small MobileNet-like one with tanh, trained on scikit-learn's digits, enlarged; "
            "it answers by itself as the line shows. Delta is 256 for features in (-1, 1), as printed. The server "
            "trains the last layer. Ours tells the direction of the features in the principal directions of the "
            "public digits' features."
        ),
        "III": (
            "Parameters are clipped to [-1, 1], Delta is 256 (400001 for IMDB), as printed; noise is added to the "
            "average in every round, and epsilon is per round, as in the paper. LLAGP and DPHSGD need a gradient per "
            "record and train a linear model, over disjoint batches. Ours sends sums once: means of classes where a "
            "user is protected, moments where a record is; or bounded gradients over 15 rounds."
        ),
    }[facts.kind]
    return (
        f"## Settings\n\nSizes: {told}. {own} The paper's text does not give the range of its axes. How many "
        "coefficients ours keeps, and the constants of its shrinking, were chosen on other seeds and other subsets, "
        "with the same test records in view.\n"
    )


def _worths(results: Results) -> str:
    """Give the true epsilons of every nominal one, as noted by the run that was first."""
    rows: dict[Any, list[str]] = {}
    for row in results.rows:
        if row.panel == NOMINAL and row.note:
            rows.setdefault((row.method, row.x), [row.method, f"{row.x:g}", row.status, _truth(row.note)])
    return wording.table(["method", "nominal", "guarantee", "true, at delta 1e-5"], rows.values())


def _truth(note: str) -> str:
    said = note.partition("true at delta 1e-05: ")[2] or note.partition("arithmetic: ")[2] or note
    return said.replace("inf", "none finite")


def _findings(points: Sequence[Point], facts: Facts) -> str:
    lines = [_ordering(points, facts)]
    for panel in panels_of(facts)[2:]:
        lines.append(_best(points, panel))
    return "\n".join(lines) + "\n"


def _ordering(points: Sequence[Point], facts: Facts) -> str:
    """Say where TLDP stands above the plain mechanisms by nominal epsilon."""
    tldp = [*AS_PRINTED, *(WEIGHTED if "TLDP-L-w" in facts.methods else ())]
    holds, gaps = [], []
    for epsilon in facts.epsilons:
        at = {name: _mean(points, NOMINAL, name, epsilon) for name in (*tldp, *BASELINES)}
        if min(at[name] for name in AS_PRINTED) > max(at[name] for name in BASELINES) + 0.05:
            holds.append(epsilon)
        gaps.append(f"{epsilon:g}: {max(at[n] for n in tldp):.3f} against {max(at[n] for n in BASELINES):.3f}")
    extra = ""
    if facts.kind == "III":
        extra = " LLAGP and DPHSGD bound single records and stand beside the others in name only."
    return (
        f"- By nominal epsilon TLDP-L and TLDP-G are both more than 0.05 above Laplace, Gaussian, MVG and IDN "
        f"{wording.at_epsilons(holds)}. The best of TLDP against the best of the others: {'; '.join(gaps)}. The reason "
        "is the table above: at the same nominal epsilon the others have a true one that is smaller by orders of "
        f"magnitude, and TLDP as printed has none.{extra}"
    )


def _best(points: Sequence[Point], panel: str) -> str:
    """Say where ours is at least as good as all published ones at the same true epsilon."""
    own = pick(points, panel=panel)
    good, words = [], []
    for budget in sorted({point.x for point in own if point.x is not None}):
        here = {p.method: p.mean or 0.0 for p in own if p.x == budget}
        ours = max((value for name, value in here.items() if name in OURS), default=math.nan)
        theirs = max((value for name, value in here.items() if name not in OURS), default=math.nan)
        if ours >= theirs:
            good.append(budget)
        words.append(f"{budget:g}: {ours:.3f} against {theirs:.3f}")
    return (
        f"- {panel.capitalize()}: our best is at least as good as every published one {wording.at_epsilons(good)} "
        f"(ours against the best published, {'; '.join(words)})."
    )


def _mean(points: Sequence[Point], panel: str, method: str, x: float) -> float:
    return next((p.mean or 0.0 for p in points if (p.panel, p.method, p.x) == (panel, method, x)), math.nan)
