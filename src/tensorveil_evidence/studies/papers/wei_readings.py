"""What Wei et al. leave open, each read in both ways: the start of the descent, where the budget goes, the noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from tensorveil_evidence.published import GradientPerturbation, OutputPerturbation
from tensorveil_evidence.quotations import quote
from tensorveil_evidence.studies import drawing, reference, wording
from tensorveil_evidence.studies.drawing import Style
from tensorveil_evidence.studies.reference import (
    CLAMPED,
    CONSTANT,
    DESCENT,
    DESCENT_LINE,
    FIT_LINE,
    GRADIENT,
    INPUT,
    KINDS,
    OUTPUT,
)
from tensorveil_evidence.studies.study import NOT_PRIVATE, Cell, Results, Row, Settings, Stated, Study, seeds_of
from tensorveil_evidence.studies.summary import Point, mean_at, pick, summarise

EPSILONS = (0.01, 0.1, 1.0, 10.0)
STARTS = ("normal", "uniform")
CLIPS = (0.1, 0.01, 0.001)
LOW = 0.1  # where the paper's figure 2 (a) and (b) may begin
SMALL = 0.01  # the m at which the start matters most
UNIFORM_LINE = "published descent, uniform start"
LINES = (CONSTANT, DESCENT_LINE, FIT_LINE)
NEAR = 1.1  # a curve is near its baseline below this multiple of it
STYLES = {
    CONSTANT: Style(colour=drawing.GREY, width=1.3, stroke=(0, (6, 2))),
    DESCENT_LINE: Style(colour=drawing.GREY, width=1.3),
    UNIFORM_LINE: Style(colour=drawing.SKY, width=1.3),
    FIT_LINE: Style(colour=drawing.BLACK, width=1.3),
    GRADIENT: Style(colour=drawing.VERMILION, marker="o"),
    OUTPUT: Style(colour=drawing.ORANGE, marker="s"),
    INPUT: Style(colour=drawing.PURPLE, marker="D"),
    CLAMPED: Style(colour=drawing.SKY, marker="v"),
}
COLOURS = {0.1: drawing.VERMILION, 0.01: drawing.PURPLE, 0.001: drawing.BLUE}


def from_start(law: str, clip: float) -> str:
    """Name gradient perturbation by its start and clipping constant."""
    return f"gradient, {law} start, m = {clip:g}"


def divided(method: str, spread: bool) -> str:
    """Name a method by where its budget goes."""
    return f"{method}, budget on {'all parts' if spread else 'one factor'}"


def panel(kind: str, what: str) -> str:
    """Name a panel."""
    return f"{kind}, {what}"


def cells(runs: int, quick: bool) -> list[Cell]:
    """One cell per model and run."""
    return [Cell(settings={"model": kind, "run": seed}) for seed in seeds_of(runs) for kind in KINDS]


def compute(settings: Settings) -> Iterator[Row]:
    """Run everything on one problem, and the published methods on the same one with the other noise."""
    kind, seed = settings["model"], settings["run"]
    case = reference.Reference(kind, seed, panel=panel(kind, "start"))
    yield from case.lines()
    plain = reference.plain_descent(kind, reference.RANK, seed, DESCENT[kind])
    fit = plain.set_params(start="uniform").fit(case.problem.train)
    error = reference.rmse(fit.predict(case.problem.held_out), case.truth)
    yield Row(panel=case.panel, method=UNIFORM_LINE, status=NOT_PRIVATE, run=seed, value=error)
    for law in STARTS:
        for clip in CLIPS:
            for epsilon in EPSILONS:
                yield case.fit_published(from_start(law, clip), epsilon, _gradient(clip, start=law))
    where = panel(kind, "parts")
    for spread in (False, True):
        for epsilon in EPSILONS:
            make = _gradient(SMALL, start="uniform", spread=spread)
            yield case.fit_published(divided(GRADIENT, spread), epsilon, make, panel=where)
            yield case.fit_published(divided(OUTPUT, spread), epsilon, _output(spread), panel=where)
    loud = reference.Reference(kind, seed, snr="norm", panel=panel(kind, "norm"))
    yield from loud.lines()
    yield from loud.run_published(list(reference.PUBLISHED), EPSILONS[1:])


def _gradient(clip: float, **fixed: Any) -> Any:
    return lambda kind, **o: GradientPerturbation(kind, reference.RANK, clip_constant=clip, **fixed, **o)


def _output(spread: bool) -> Any:
    return lambda kind, **o: OutputPerturbation(
        kind, reference.RANK, lipschitz=reference.LIPSCHITZ, spread=spread, **o
    )  # fmt: skip


def caption(results: Results) -> Stated:
    """State what the reader must know."""
    return wording.caption(
        results,
        shown=(
            "What the paper does not print, read in both ways: root mean squared error against clean held-out values, "
            "20 x 20 x 20, rank 3, half missing. Above: gradient perturbation from two starts. Middle: all budget on "
            "one factor, and in equal parts on all factors and the core. Below: a signal-to-noise ratio of 1 as one of "
            "norms, not of variances. Bands: one standard deviation over runs."
        ),
        unit="value (positions public, values within declared bounds)",
        epsilon="horizontal axis, nominal",
        delta="0",
    )


def draw(results: Results) -> Any:
    """Draw the three questions, CP left, Tucker right."""
    points = summarise(results.rows)
    figure, body, axes = drawing.new_figure(9.6, 10.6, str(caption(results)), rows=3, columns=2, sharey="row")
    for column, kind in enumerate(KINDS):
        title = reference.TITLES[kind]
        first, second, third = axes[:, column]
        own = pick(points, panel=panel(kind, "start"))
        for axis, lines in ((first, (*LINES, UNIFORM_LINE)), (second, LINES)):
            drawing.draw_panel(axis, own, STYLES, lines=lines, curves=())
        for law, marker, stroke in zip(STARTS, "os", ("-", ":"), strict=True):
            for clip in CLIPS:
                look = Style(colour=COLOURS[clip], marker=marker, stroke=stroke)
                drawing.draw_curve(first, pick(own, method=from_start(law, clip)), look)
        for method, colour in ((GRADIENT, drawing.VERMILION), (OUTPUT, drawing.ORANGE)):
            for spread, stroke in ((False, "-"), (True, ":")):
                look = Style(colour=colour, marker="s" if spread else "o", stroke=stroke)
                drawing.draw_curve(
                    second, pick(points, method=divided(method, spread), panel=panel(kind, "parts")), look
                )
        norm = pick(points, panel=panel(kind, "norm"))
        drawing.draw_panel(third, norm, STYLES, lines=LINES, curves=tuple(reference.PUBLISHED))
        for axis, told in zip(
            axes[:, column], ("start", "where the budget goes", "noise as long as the signal"), strict=True
        ):
            axis.set_title(f"{title}: {told}", fontsize=10)
            axis.set(yscale="log", ylim=(0.012, 4.0))
            drawing.mark_ticks(axis, EPSILONS)
            axis.set_xlabel("nominal epsilon", fontsize=9)
    for axis in axes[:, 0]:
        axis.set_ylabel("held-out RMSE", fontsize=9)
    drawing.shared_legend(body, list(axes.flat), columns=3)
    return figure


def page(results: Results) -> str:
    """Write the page: the numbers, and what they say of the paper's statements."""
    points = summarise(results.rows)
    parts = [SETTINGS_TEXT, "## Numbers\n\nMean ± standard deviation over runs.\n"]
    for kind in KINDS:
        title = reference.TITLES[kind]
        for what, told in (("start", "start"), ("parts", "where the budget goes"), ("norm", "SNR 1 as norms")):
            parts.append(f"### {title}: {told}\n\n" + wording.curves_table(pick(points, panel=panel(kind, what))))
    parts.append("## What this says of the paper\n\n" + _findings(points))
    return "\n".join(parts)


SETTINGS_TEXT = f"""## Settings

As in [figure 2](wei-figure-2.md), which has the first reading of each: a normal start (factors such that predictions
have variance 1, a standard normal core), all budget on the last factor
({quote("wei-simplicity")}), and noise of the clean values' variance. The second
readings: all numbers of the start from (0, 1); equal parts of the budget on all factors and the core, in *where the
budget goes* for gradients from the uniform start at m = {SMALL:g}; and noise whose norm is that of the clean tensor,
which scaling to (0, 1) makes many times as strong as its variance. Which start and which ratio the authors used is not
known.
"""


def _findings(points: Sequence[Point]) -> str:
    lines = []
    for kind in KINDS:
        title = reference.TITLES[kind]
        base = mean_at(points, panel(kind, "start"), DESCENT_LINE)
        other = mean_at(points, panel(kind, "start"), UNIFORM_LINE)
        words, nearest, reached = [], [], []
        for law, line in zip(STARTS, (base, other), strict=True):
            for clip in CLIPS:
                found = pick(points, panel=panel(kind, "start"), method=from_start(law, clip))
                near = [p.x for p in found if p.x and p.mean is not None and p.mean <= NEAR * line]
                words.append(f"{law}, m = {clip:g}: {wording.at_epsilons(near)}")
                reached += near
                nearest += [(p.mean, f"{law}, m = {clip:g}") for p in found if p.x == LOW and p.mean is not None]
        first = min(reached, default=math.inf)
        lines.append(
            f"- {title}, {quote('wei-near')}: within {NEAR - 1:.0%} of the descent without noise from the "
            f"same start ({base:.3f} normal, {other:.3f} uniform) - {'; '.join(words)}. At epsilon {LOW:g} the nearest "
            f"is {min(nearest)[1]}, at {min(nearest)[0]:.3f}. So the statement depends on the start and on m together, "
            f"and holds from epsilon {first:g} on at the earliest."
        )
        parts = []
        for method in (GRADIENT, OUTPUT):
            pairs = [
                f"{e:g}: {_told(points, kind, divided(method, True), e)} against "
                f"{_told(points, kind, divided(method, False), e)}"
                for e in EPSILONS
            ]
            parts.append(f"{method} ({'; '.join(pairs)})")
        lines.append(
            f"- {title}, noise on all factors and the core against noise on one: {', '.join(parts)}. Only the first is "
            "what a release of all factors would need."
        )
        norm = panel(kind, "norm")
        best = min(mean_at(points, norm, name, 10.0) for name in reference.PUBLISHED)
        lines.append(
            f"- {title}, SNR 1 as norms: the constant {mean_at(points, norm, CONSTANT):.3f}, the descent "
            f"{mean_at(points, norm, DESCENT_LINE):.3f}, a well-solved fit {mean_at(points, norm, FIT_LINE):.3f}, the "
            f"best published method at epsilon 10 {best:.3f}."
        )
    lines.append(
        "- No reading repairs a guarantee: with noise on one factor the others give values away, and with noise on all "
        "of them passes still add up ([published mechanisms](../published.md#gradient-perturbation))."
    )
    return "\n".join(lines) + "\n"


def _told(points: Sequence[Point], kind: str, method: str, epsilon: float) -> str:
    (found,) = [p for p in pick(points, panel=panel(kind, "parts"), method=method) if p.x == epsilon]
    return "diverges" if found.mean is None else f"{found.mean:.3f}"


STUDY = Study(
    name="wei-readings",
    title="What the paper leaves open: start, budget, noise",
    source="Wei, Li, Mao and Wang, Applying Differential Privacy to Tensor Completion, sections 4 and 5",
    cells=cells,
    compute=compute,
    draw=draw,
    page=page,
    caption=caption,
    settings={**reference.SETTINGS, "epsilons": EPSILONS, "clips": CLIPS, "starts": STARTS, "small": SMALL},
    runs=(1, 10),
    minutes=(0.5, 5),
)
