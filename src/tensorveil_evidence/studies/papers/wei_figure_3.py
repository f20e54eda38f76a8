"""Figure 3 of Wei et al.: error by epsilon at several missing ratios, one panel per method, for CP and Tucker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorveil_evidence.studies import drawing, reference, wording
from tensorveil_evidence.studies.drawing import Style
from tensorveil_evidence.studies.reference import CLAMPED, CONSTANT, DESCENT_LINE, FIT_LINE, GRADIENT, KINDS, OUTPUT
from tensorveil_evidence.studies.study import Cell, Results, Row, Settings, Stated, Study, seeds_of
from tensorveil_evidence.studies.summary import Point, mean_at, pick, summarise
from tensorveil_evidence.studies.wording import answer

EPSILONS = (0.3, 1.0, 3.0, 10.0)
MISSING = (0.1, 0.3, 0.5, 0.7, 0.9)
METHODS = (GRADIENT, OUTPUT, CLAMPED, "ours, auto")
SIGNIFICANT = 1.25  # an error that grows to more than that multiple has grown significantly
SLIGHT = 0.98  # an error that falls to no less than that with more missing is not called a fall
# From light to dark by how much is missing; light enough apart to be told in grey.
COLOURS = ("#fdb863", "#e08214", "#b2568c", "#542788", "#1b0a3a")
MARKERS = "osDv^"


def panel(kind: str, missing: float) -> str:
    """Name what belongs to one model and missing ratio."""
    return f"{kind}, {missing:g} missing"


def cells(runs: int, quick: bool) -> list[Cell]:
    """One cell per model, missing ratio and run."""
    return [
        Cell(settings={"model": kind, "missing": missing, "run": seed})
        for seed in seeds_of(runs)
        for kind in KINDS
        for missing in MISSING
    ]


def compute(settings: Settings) -> Iterator[Row]:
    """Run everything on one problem."""
    kind, missing = settings["model"], settings["missing"]
    case = reference.Reference(kind, settings["run"], missing=missing, panel=panel(kind, missing))
    yield from case.lines()
    yield from case.run_published(METHODS[:3], EPSILONS)
    yield from case.run_proven(METHODS[3:], EPSILONS)


def caption(results: Results) -> Stated:
    """State what the reader must know."""
    return wording.caption(
        results,
        shown=(
            "Root mean squared error against clean held-out values by missing ratio, 20 x 20 x 20, rank 3, "
            "signal-to-noise ratio 1; bands: one standard deviation over runs. Thin lines across: a well-solved fit "
            "that "
            "is not private, in the colour of its missing ratio; dashed: the constant."
        ),
        unit="value (positions public, values within declared bounds)",
        epsilon="horizontal axis; for published methods nominal",
        delta="0",
    )


def draw(results: Results) -> Any:
    """Draw one panel per model and method, a curve per missing ratio."""
    points = summarise(results.rows)
    figure, body, axes = drawing.new_figure(
        11.6, 6.2, str(caption(results)), rows=2, columns=len(METHODS), sharex=True, sharey=True
    )
    for row, kind in zip(axes, KINDS, strict=True):
        for axis, method in zip(row, METHODS, strict=True):
            _panel(axis, points, kind, method)
        row[0].set_ylabel(f"{reference.TITLES[kind]}: held-out RMSE", fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel("epsilon", fontsize=9)
    drawing.shared_legend(body, [axes[0, 0]], columns=6)
    return figure


def _panel(axis: Any, points: Sequence[Point], kind: str, method: str) -> None:
    constants = [mean_at(points, panel(kind, missing), CONSTANT) for missing in MISSING]
    axis.axhline(
        sum(constants) / len(constants), color=drawing.GREY, linewidth=1.3, linestyle=(0, (6, 2)), label="constant"
    )
    for missing, colour, marker in zip(MISSING, COLOURS, MARKERS, strict=True):
        own = pick(points, panel=panel(kind, missing))
        axis.axhline(pick(own, method=FIT_LINE)[0].mean, color=colour, linewidth=0.8)
        style = Style(colour=colour, marker=marker, width=1.4, stroke="-")
        drawing.draw_curve(axis, pick(own, method=method), style)
        axis.get_lines()[-1].set_label(f"{missing:.0%} missing")
    drawing.mark_ticks(axis, EPSILONS)
    axis.set(yscale="log", ylim=(0.009, 1.0))
    axis.set_title(drawing.label_method(method, pick(points, method=method)[0].status), fontsize=10)


def page(results: Results) -> str:
    """Write the page: the numbers, and what agrees with the paper."""
    points = summarise(results.rows)
    parts = [SETTINGS_TEXT, "## Numbers\n\nMean ± standard deviation over runs.\n"]
    for kind in KINDS:
        rows = []
        for method in (*METHODS, DESCENT_LINE, CONSTANT, FIT_LINE):
            for missing in MISSING:
                own = {point.x: point for point in pick(points, panel=panel(kind, missing), method=method)}
                cells = [wording.mean_and_spread(own.get(e) or own[None]) for e in EPSILONS]
                rows.append([method, next(iter(own.values())).status, f"{missing:g}", *cells])
        head = ["method", "guarantee", "missing", *(f"epsilon {e:g}" for e in EPSILONS)]
        parts.append(f"### {reference.TITLES[kind]}\n\n" + wording.table(head, rows))
    parts.append("## What agrees with the paper, and what does not\n\n" + _findings(points))
    parts.append("## The paper's statements, one by one\n\n" + _statements(points))
    return "\n".join(parts)


SETTINGS_TEXT = """## Settings

As in [figure 2](wei-figure-2.md), with 10 to 90 % of the cells missing. Input perturbation is the one that clamps to
the
declared range, which the paper allows: without it most curves diverge, as figure 2 shows. The text of the paper does
not
say which epsilons and ratios it draws.
"""


def _findings(points: Sequence[Point]) -> str:
    lines = []
    for kind in KINDS:

        def at(method: str, missing: float, epsilon: float | None = None, kind: str = kind) -> float:
            return mean_at(points, panel(kind, missing), method, epsilon)

        title, last = reference.TITLES[kind], EPSILONS[-1]
        words = [
            f"{method} {at(method, 0.1, last):.3f}, {at(method, 0.7, last):.3f} and {at(method, 0.9, last):.3f}"
            for method in METHODS
        ]
        lines += [
            f"- {title}, epsilon {last:g}, with 10, 70 and 90 % missing: {'; '.join(words)}. The constant has "
            f"{at(CONSTANT, 0.1):.3f}, {at(CONSTANT, 0.7):.3f} and {at(CONSTANT, 0.9):.3f}, a well-solved fit "
            f"{at(FIT_LINE, 0.1):.3f}, {at(FIT_LINE, 0.7):.3f} and {at(FIT_LINE, 0.9):.3f}.",
        ]
        worst = [at(DESCENT_LINE, missing) / at(CONSTANT, missing) for missing in MISSING]
        lines.append(
            f"- {title}: the published descent without noise has {min(worst):.2f} to {max(worst):.2f} times the "
            f"constant's error: {wording.join_numbers(round(value, 2) for value in worst)} from 10 to 90 % missing."
        )
        lines.append(_beside_the_constant(points, kind))
    return "\n".join(lines) + "\n"


def _beside_the_constant(points: Sequence[Point], kind: str) -> str:
    """Say where published methods are below the constant, and where ours is not."""
    places = [(missing, epsilon) for missing in MISSING for epsilon in EPSILONS]

    def tell(method: str, below: bool) -> str:
        found: dict[float, list[float]] = {}
        for missing, epsilon in places:
            constant = mean_at(points, panel(kind, missing), CONSTANT)
            if (mean_at(points, panel(kind, missing), method, epsilon) < constant) is below:
                found.setdefault(missing, []).append(epsilon)
        told = ", ".join(f"{wording.join_numbers(where)} with {m:.0%} missing" for m, where in found.items())
        return f"{method} at epsilon {told}" if told else f"{method} nowhere"

    published = "; ".join(tell(method, True) for method in METHODS[:3])
    return (
        f"- {reference.TITLES[kind]}, below the constant on the mean over runs: {published}. Not below it: "
        f"{tell(METHODS[3], False)}."
    )


def _statements(points: Sequence[Point]) -> str:
    near = [
        mean_at(points, panel(kind, missing), DESCENT_LINE) / mean_at(points, panel(kind, missing), CONSTANT)
        for kind in KINDS
        for missing in MISSING[:-1]
    ]
    early, late = _most_grown(points, MISSING[0], MISSING[-2]), _most_grown(points, MISSING[-2], MISSING[-1])
    soon = [method for method, multiple in early.items() if multiple > SIGNIFICANT]
    sooner = f" So it is, but for {' and '.join(soon)}, that loses sooner." if soon else " So it is here."
    lines = [
        answer("wei-missing", _tendency(points)),
        answer(
            "wei-missing-loss",
            f"from 10 to 70 % missing the error grows at most to this multiple of itself, over all models and "
            f"epsilons: {_tell(early)}; from 70 to 90 %, to {_tell(late)}.{sooner}",
        ),
        answer(
            "wei-missing-high",
            f"up to 70 % missing the descent has {min(near):.2f} to {max(near):.2f} times the error of a constant, and "
            "a constant needs few entries. Well-solved fits, and our methods where epsilon is large, do depend on how "
            "much is missing.",
        ),
    ]
    return "\n".join(lines) + "\n"


def _tendency(points: Sequence[Point]) -> str:
    """Count the curves whose error is larger with most missing than with least, and name the largest falls between."""
    grown, falls, curves = 0, [], 0
    for kind in KINDS:
        for method in METHODS[:3]:
            for epsilon in EPSILONS:
                means = [mean_at(points, panel(kind, missing), method, epsilon) for missing in MISSING]
                curves += 1
                grown += means[-1] > means[0]
                for k, less in enumerate(means):
                    more, at = min((error, m) for error, m in zip(means[k:], MISSING[k:], strict=True))
                    told = (
                        f"{reference.TITLES[kind]}, {method} at epsilon {epsilon:g}: {less:.3f} with {MISSING[k]:.0%}"
                    )
                    falls.append((more / less, f"{told} missing, {more:.3f} with {at:.0%}"))
    deep = [told for ratio, told in sorted(falls) if ratio < SLIGHT]
    against = f" Against it, most of all, {'; '.join(deep[:2])}." if deep else ""
    return (
        f"in {grown} of {curves} curves of the three methods the error is larger with 90 % missing than with 10 %. In "
        f"{len(deep)} pairs of a smaller and a larger ratio it falls by more than {1 - SLIGHT:.0%}.{against}"
    )


def _most_grown(points: Sequence[Point], less: float, more: float) -> dict[str, float]:
    """Return the largest error with more missing as a multiple of that with less, by method."""
    return {
        method: max(
            mean_at(points, panel(kind, more), method, epsilon) / mean_at(points, panel(kind, less), method, epsilon)
            for kind in KINDS
            for epsilon in EPSILONS
        )
        for method in METHODS[:3]
    }


def _tell(multiples: Mapping[str, float]) -> str:
    return ", ".join(f"{method} {multiple:.2f}" for method, multiple in multiples.items())


STUDY = Study(
    name="wei-figure-3",
    title="Error by epsilon and missing ratio, reference case",
    source="Wei, Li, Mao and Wang, Applying Differential Privacy to Tensor Completion, figure 3 of the long version",
    runs=(1, 10),
    cells=cells,
    compute=compute,
    draw=draw,
    page=page,
    caption=caption,
    settings={**reference.SETTINGS, "epsilons": EPSILONS, "missing": MISSING, "methods": METHODS},
    minutes=(1.3, 7),
)
