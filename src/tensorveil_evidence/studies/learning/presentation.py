"""Figures and pages of the studies of learning: nominal and true epsilon side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorveil_evidence.studies import drawing, wording
from tensorveil_evidence.studies.drawing import Style
from tensorveil_evidence.studies.learning.findings import findings
from tensorveil_evidence.studies.learning.names import (
    CLEAN,
    CLEAN_OURS,
    CONTRASTS,
    DESCENT,
    FAMILIES,
    FAMILIES_OF_ROUNDS,
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
    RELEASED,
    SAME,
    TRUE,
    USER,
)
from tensorveil_evidence.studies.learning.settings import settings_text
from tensorveil_evidence.studies.learning.statements import tell_statements
from tensorveil_evidence.studies.study import PAPER_SIZE, Results, Stated
from tensorveil_evidence.studies.summary import Point, pick, summarise

if TYPE_CHECKING:
    from tensorveil_evidence.studies.learning.template import Facts

LINES = (MAJORITY, GUESS, CLEAN, CLEAN_OURS, PUBLIC_ALONE)
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
    RELEASED: Style(colour=drawing.BLACK, marker=">", width=1.0),
    next(iter(FAMILIES)): Style(colour=drawing.ORANGE, marker="o", width=1.2),
    list(FAMILIES)[1]: Style(colour=drawing.VERMILION, marker="^", width=1.2),
    list(FAMILIES_OF_ROUNDS)[1]: Style(colour=drawing.VERMILION, marker="^", width=1.2),
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
DATA = {
    "mnist": "MNIST",
    "cifar10-subset": "CIFAR-10 subset",
    "cifar10-12k": "CIFAR-10",
    "svhn-11k": "SVHN",
    "cifar10": "CIFAR-10",
    "svhn": "SVHN",
    "tor-vpn": "Tor, VPN and other flows",
    "darknet": "DarkNet",
    "imdb": "IMDB",
    "digits": "digits",
}
SHOWN = {
    "I": "Private data: every record's tensor is perturbed, a server learns from the reports.",
    "II": "Private features: features of a public network are perturbed, a server learns a classifier.",
    "III": "Private parameters: three users train, averages of their parameters get noise in every round.",
}


SAME_TRUE = {
    "": "noise of every method scaled to be worth that epsilon.",
    "III": "Laplace and Gaussian noise scaled to be worth that epsilon; MVG, which takes layers one by one, is "
    "neither.",
}
LAST_ONLY = (
    "Private parameters: three users train together, and the last average of their parameters gets the noise that the "
    "paper adds in every round."
)


def shown_of(facts: Facts) -> str:
    """Say what a panel's numbers are."""
    one_training = facts.data in ("imdb", "tor-vpn") and not facts.name.endswith(PAPER_SIZE)
    return LAST_ONLY if one_training else SHOWN[facts.kind]


def panels_of(facts: Facts) -> tuple[str, ...]:
    """Return the panels of a figure."""
    return (NOMINAL, TRUE, USER, RECORD) if facts.kind == "III" else (NOMINAL, TRUE, SAME)


def caption(results: Results, facts: Facts) -> Stated:
    """State what the reader must know."""
    return wording.caption(
        results,
        shown=(
            f"{shown_of(facts)} Weighted F1 on clean test records, {DATA[facts.data]}; bands: one standard deviation "
            "over runs. Nominal: epsilon as the paper counts. True: what holds for the unit at this delta, over all "
            "rounds; methods without any finite one are not in the panel. Same true: "
            f"{SAME_TRUE['III' if facts.kind == 'III' else '']}"
        ),
        unit=UNITS[facts.kind],
        epsilon="horizontal axes",
        delta="1e-5" if facts.kind == "III" else "1e-5; 0 for ours by PrivUnit and hybrid",
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
        axis.tick_params(which="minor", labelbottom=False)
        if panel in (SAME, USER, RECORD):
            drawing.mark_ticks(axis, sorted({point.x for point in own if point.x is not None}))
        axis.set_title(f"{DATA[facts.data]}, type {facts.kind}: {panel}", fontsize=10)
    for axis in axes[:, 0]:
        axis.set_ylabel("weighted F1", fontsize=9)
    drawing.shared_legend(body, list(axes.flat), columns=3)
    return figure


def page(results: Results, facts: Facts, sizes: dict[str, Any]) -> str:
    """Write the page: settings, numbers, what nominal epsilons are worth, and what agrees with the paper."""
    points = summarise(results.rows)
    lines = [point for point in points if point.method in LINES]
    parts = [settings_text(facts, sizes), "## Numbers\n\nMean ± standard deviation over runs.\n"]
    head = wording.table(
        ["line", "weighted F1"], [[point.method, wording.mean_and_spread(point)] for point in lines]
    )  # fmt: skip
    parts.append(head)
    for panel in panels_of(facts):
        if panel != TRUE:  # whose places differ from method to method; they are in the table of worths
            parts.append(
                f"### By {panel}\n\n" + wording.curves_table(pick(points, panel=panel)) + _left_out(points, panel)
            )
    parts.append("## What nominal epsilons are worth\n\n" + _worths(results))
    parts.append("## What agrees with the paper, and what does not\n\n" + findings(results, points, facts))
    parts.append(tell_statements(results, points, facts, sizes))
    return wording.fill("\n".join(parts))


def _left_out(points: Sequence[Point], panel: str) -> str:
    """Say why a method of ours stands at some epsilons of a panel only; nothing where it stands at all."""
    places = {point.x for point in points if point.panel == panel}
    own = {point.x for point in points if (point.panel, point.method) == (panel, DESCENT)}
    if not own or own == places:
        return ""
    at = wording.at_epsilons(sorted(x for x in own if x is not None))
    return (
        f"\n*{DESCENT}* bounds the gradient of one record at a time, which takes longer than all else on this page; it "
        f"was run {at}, to show what it comes to, and nowhere else.\n"
    )


def _worths(results: Results) -> str:
    """Return the true epsilons of every nominal one, as noted by the run that was first."""
    rows: dict[Any, list[str]] = {}
    for row in results.rows:
        if row.panel == NOMINAL and row.note:
            rows.setdefault((row.method, row.x), [row.method, f"{row.x:g}", row.status, _truth(row.note)])
    return wording.table(["method", "nominal", "guarantee", "true, at delta 1e-5"], rows.values())


def _truth(note: str) -> str:
    said = note.partition("true at delta 1e-05: ")[2] or note.partition("arithmetic: ")[2] or note
    return said.replace("inf", "none finite")
