"""DLNM_QR of Guo with the multiplier of eq. 22 and without it: where they agree, and where the former follows noise."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from tensorveil_evidence.published import MatrixPerturbation
from tensorveil_evidence.studies import drawing, planted_matrix, wording
from tensorveil_evidence.studies.drawing import Style
from tensorveil_evidence.studies.planted_matrix import RANK, SWEEPS, rse
from tensorveil_evidence.studies.study import Cell, Results, Row, Settings, Stated, Study, seeds_of
from tensorveil_evidence.studies.summary import Point, mean_at, pick, summarise

# So many runs of each size: small matrices differ from draw to draw, large ones do not.
SIZES = {200: 10, 500: 5, 1000: 3}
EPSILONS = (1.0, 0.2)
GROWTHS = (1.05, 1.1, 1.2, 1.5)
WITHOUT, DEFAULT = "without multiplier", 1.1
PRINTED = {1.0: {200: 0.1992, 500: 0.089262, 1000: 0.069397}, 0.2: {1000: 0.30315}}
KEPT, SECONDS = "kept", "CPU seconds"
COLOURS = (drawing.VERMILION, drawing.ORANGE, drawing.PURPLE, drawing.BLUE)


def with_growth(growth: float) -> str:
    """Name the form with the multiplier by rho."""
    return f"multiplier, rho = {growth:g}"


def name_panel(epsilon: float) -> str:
    """Name the panel of an epsilon."""
    return f"epsilon {epsilon:g}"


SAME = 0.02  # errors whose ratio differs from 1 by no more are called the same
METHODS = (WITHOUT, *(with_growth(growth) for growth in GROWTHS))


def cells(runs: int, quick: bool) -> list[Cell]:
    """One cell per size and run; large matrices have fewer runs."""
    return [
        Cell(settings={"size": size, "run": seed})
        for size, most in SIZES.items()
        for seed in seeds_of(min(runs, most))
        if not (quick and size == max(SIZES))
    ]


def compute(settings: Settings) -> Iterator[Row]:
    """Complete one matrix by every form, at both epsilons."""
    size, seed = settings["size"], settings["run"]
    truth, mask, _ = planted_matrix.plant(size, seed)
    tensor = planted_matrix.observe(truth, mask)
    forms: dict[str, dict[str, Any]] = {WITHOUT: {"growth": DEFAULT}}
    forms |= {with_growth(growth): {"growth": growth, "multiplier": True} for growth in GROWTHS}
    for epsilon in EPSILONS:
        for method, options in forms.items():
            began = time.process_time()
            fit = MatrixPerturbation(
                RANK, epsilon=epsilon, sweeps=SWEEPS, random_state=seed, verbose=False, **options
            ).fit(tensor)  # fmt: skip
            seconds = time.process_time() - began
            found = {KEPT: rse(fit.complete(tensor), truth), "low rank": rse(fit.model_.dense(), truth)}
            for metric, value in {**found, SECONDS: seconds}.items():
                yield Row(
                    panel=name_panel(epsilon), method=method, status=fit.guarantee_.status, run=seed, x=size,
                    metric=metric, value=value,
                )  # fmt: skip


def caption(results: Results) -> Stated:
    """State what the reader must know."""
    return wording.caption(
        results,
        shown=(
            "Relative error (RSE) of DLNM_QR with noisy entries kept, as the paper measures it, rank 10, 15 % "
            f"observed, {SWEEPS} sweeps, with the multiplier of eq. 22 at several rho and without it; crosses: as "
            "printed; bands: one standard deviation over runs."
        ),
        unit="value that changes by at most 1",
        epsilon="1 (left) and 0.2 (right), nominal",
        delta="0",
    )


def draw(results: Results) -> Any:
    """Draw errors by size, one panel per epsilon."""
    points = summarise(results.rows)
    figure, body, axes = drawing.new_figure(9.6, 4.4, str(caption(results)), rows=1, columns=2)
    for axis, epsilon in zip(axes[0], EPSILONS, strict=True):
        own = pick(points, panel=name_panel(epsilon), metric=KEPT)
        drawing.draw_curve(axis, pick(own, method=WITHOUT), Style(colour=drawing.BLACK, marker="o", width=2.0))
        for growth, colour, marker in zip(GROWTHS, COLOURS, "sDv^", strict=True):
            drawing.draw_curve(axis, pick(own, method=with_growth(growth)), Style(colour=colour, marker=marker))
        drawing.draw_printed(axis, PRINTED[epsilon], Style(colour=drawing.GREY))
        axis.set(yscale="log")
        drawing.mark_ticks(axis, SIZES)
        axis.set_xlabel("rows and columns", fontsize=9)
        axis.set_title(name_panel(epsilon), fontsize=10)
    axes[0, 0].set_ylabel("relative error (RSE)", fontsize=9)
    drawing.shared_legend(body, [axes[0, 0]], columns=3)
    return figure


def page(results: Results) -> str:
    """Write the page: the numbers, and what they say of eq. 22."""
    points = summarise(results.rows)
    runs = {point.x: point.runs for point in points}
    told = ", ".join(f"{size:g}: {number}" for size, number in runs.items())
    parts = [f"{SETTINGS_TEXT}{told}.\n", "## Numbers\n\nMean ± standard deviation over runs, by rows and columns.\n"]
    for epsilon in EPSILONS:
        for metric, told in ((KEPT, "noisy entries kept"), ("low rank", "the low-rank estimate")):
            found = pick(points, panel=name_panel(epsilon), metric=metric)
            parts.append(f"### Epsilon {epsilon:g}, {told}\n\n" + wording.curves_table(found, 4))
    parts.append("## What agrees with the paper, and what does not\n\n" + _findings(points))
    return "\n".join(parts)


SETTINGS_TEXT = """## Settings

The matrices and the noise of [table 1](guo-table-1.md). The multiplier Y stands in eq. 18 and 19 as a given matrix;
what eq. 22 makes of it enters neither eq. 20 nor eq. 21. Here it is fed back as alternating directions have it: each
step is taken of X + Y/mu. Neither rho nor the first mu is printed; the first sweep shrinks columns by a tenth of the
longest. Runs by size:
"""


def _findings(points: Sequence[Point]) -> str:
    lines = []
    sizes = sorted({int(point.x) for point in points if point.x is not None})
    for epsilon in EPSILONS:
        words = []
        for growth in GROWTHS:
            ratios = {
                size: mean_at(points, name_panel(epsilon), with_growth(growth), size, KEPT)
                / mean_at(points, name_panel(epsilon), WITHOUT, size, KEPT)
                for size in sizes
            }
            words.append(f"rho = {growth:g}: " + ", ".join(f"{ratio:.2f} at {size}" for size, ratio in ratios.items()))
        lines.append(f"- Epsilon {epsilon:g}, error with the multiplier over the error without: {'; '.join(words)}.")
    small = {name: _spread(points, name) for name in METHODS}
    most = max(sizes)
    cost = [
        mean_at(points, name_panel(1.0), name, most, SECONDS) / mean_at(points, name_panel(1.0), WITHOUT, most, SECONDS)
        for name in METHODS[1:]
    ]
    lines += [
        "- No run left the finite numbers. Where mu grows slowly the form with the multiplier follows the noise in "
        "the values, the more so the larger the noise. "
        f"{_tell_same_end(points, sizes)}",
        f"- At 200 rows, where 15 % are too few for rank 10, draws differ (mean and deviation at epsilon 1): "
        f"{'; '.join(f'{name} {told}' for name, told in small.items())}. Printed: {PRINTED[1.0][200]:g}.",
        f"- A sweep with the multiplier passes over the entries once more. Measured at {most} rows: {min(cost):.1f} to "
        f"{max(cost):.1f} times the time{'' if min(cost) > 1 else ', compilation counted in'}. The form without it is "
        "the default; `multiplier=True` has the other.",
    ]
    return "\n".join(lines) + "\n"


def _tell_same_end(points: Sequence[Point], sizes: Sequence[int]) -> str:
    """Say from which rho on both forms end at the same error, for every size and epsilon."""
    words = []
    for size in sizes:
        for epsilon in EPSILONS:
            alone = mean_at(points, name_panel(epsilon), WITHOUT, size, KEPT)
            own = {
                growth: mean_at(points, name_panel(epsilon), with_growth(growth), size, KEPT) / alone
                for growth in GROWTHS
            }
            same = [growth for growth, ratio in own.items() if abs(ratio - 1) <= SAME]
            from_on = [g for g in same if all(other in same for other in own if other > g)]
            told = f"from rho = {min(from_on):g} on" if from_on else "at no rho tried"
            words.append(f"{told} at {size} rows and epsilon {epsilon:g}")
    return f"Both end at the same error, to {SAME:.0%}, {'; '.join(words)}."


def _spread(points: Sequence[Point], method: str) -> str:
    (found,) = [point for point in pick(points, panel=name_panel(1.0), method=method, metric=KEPT) if point.x == 200]
    return wording.mean_and_spread(found)


STUDY = Study(
    name="guo-multiplier",
    title="DLNM_QR with and without its multiplier",
    source="Guo, A Matrix Completion Algorithm Based on Differential Privacy (2025), eq. 22",
    runs=(1, 10),
    cells=cells,
    compute=compute,
    draw=draw,
    page=page,
    caption=caption,
    settings={**planted_matrix.SETTINGS, "sizes": [list(pair) for pair in SIZES.items()], "growths": GROWTHS},
    minutes=(0.3, 5),
    axis="rows and columns",
)
