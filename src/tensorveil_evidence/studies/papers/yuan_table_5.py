"""Table 5 of Yuan et al.: expected error of local mechanisms for one image, beside what their epsilon really is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tensorveil.local import choose
from tensorveil.noise import SeededSource
from tensorveil_evidence.published.table5 import label_of, table5, table5_mechanisms
from tensorveil_evidence.studies import drawing, wording
from tensorveil_evidence.studies.drawing import Style
from tensorveil_evidence.studies.study import (
    FIRST_RUN,
    NOT_PRIVATE,
    PROVEN,
    Cell,
    Results,
    Row,
    Settings,
    Stated,
    Study,
)
from tensorveil_evidence.studies.summary import Point, mean_at, pick, summarise
from tensorveil_evidence.studies.wording import answer

SHAPE, BOUNDS, SPAN, DELTA = (28, 28), (0.0, 255.0), 256.0, 1e-5
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
SHOWN = 1.0  # the nominal epsilon of the large table
MIDDLE, ITSELF = "always the middle", "the image itself"
ERROR, MEASURED, PRINTED, TRUE = "expected error", "measured error", "printed error", "true epsilon"
NOWHERE = 3e4  # where methods without any epsilon at this delta are drawn
STYLES = {
    "Laplace": Style(colour=drawing.PURPLE, marker="s"),
    "Gaussian, paper": Style(colour=drawing.GREY, marker="D"),
    "Gaussian, classic": Style(colour=drawing.BLACK, marker="d"),
    "MVG": Style(colour=drawing.SKY, marker="v"),
    "IDN": Style(colour=drawing.BLUE, marker="<"),
    "TLDP-L, p of the proof": Style(colour=drawing.ORANGE, marker="o"),
    "TLDP-G, p of the proof": Style(colour=drawing.VERMILION, marker="^"),
    "TLDP-L, p of the algorithm": Style(colour=drawing.ORANGE, marker="P"),
    "TLDP-G, p of the algorithm": Style(colour=drawing.VERMILION, marker="X"),
    "ours, PrivUnit": Style(colour=drawing.GREEN, marker="*", width=2.2),
    "ours, RandomizedResponse": Style(colour=drawing.GREEN, marker="p", width=1.2),
    "ours, ExactGaussian": Style(colour=drawing.GREEN, marker="h", width=1.2),
}


def cells(runs: int, quick: bool) -> list[Cell]:
    """One cell per epsilon and kind of method; runs are draws of noise."""
    return [
        Cell(settings={"epsilon": epsilon, "methods": methods, "draws": runs})
        for epsilon in EPSILONS
        for methods in ("published", "ours")
    ]


def compute(settings: Settings) -> Iterator[Row]:
    """Compute errors by formula and by simulation, and what epsilon really is."""
    work = _run_published if settings["methods"] == "published" else _ours
    yield from work(settings["epsilon"], settings["draws"])


def _run_published(epsilon: float, draws: int) -> Iterator[Row]:
    facts = (SHAPE, epsilon, BOUNDS, SPAN, DELTA)
    status = {label_of(found): found.guarantee("tensor").status for found in table5_mechanisms(*facts)}
    status["DPHSGD, C = 1"] = status["Gaussian, classic"]  # its noise is the same
    for row in table5(*facts, runs=draws, random_state=FIRST_RUN):
        values = {
            PRINTED: row.printed,
            ERROR: row.formula,
            MEASURED: row.measured,
            TRUE: row.epsilon_tensor,
            "pure epsilon": row.pure_tensor,
            "least delta": row.least_delta_tensor,
            "true epsilon, entry": row.epsilon_entry,
        }
        yield from _rows(row.method, status[row.method], epsilon, values, draws)


def _ours(epsilon: float, draws: int) -> Iterator[Row]:
    for candidate in choose(SHAPE, epsilon, "tensor", bounds=BOUNDS, delta=DELTA).candidates:
        mechanism, source = candidate.mechanism, SeededSource(1000 + FIRST_RUN)
        worst = mechanism.worst_tensor()
        reports = mechanism.perturb(np.broadcast_to(worst, (draws, *SHAPE)), source=source)
        # Reports may differ much in their error, so the root of the mean square is what the formula is about.
        measured = math.sqrt(float(np.mean(np.sum((reports - worst) ** 2, axis=(1, 2)))))
        guarantee = mechanism.guarantee(source=source)
        values = {ERROR: math.sqrt(candidate.worst_mse), MEASURED: measured, TRUE: guarantee.epsilon}
        yield from _rows(f"ours, {candidate.name}", guarantee.status, epsilon, values, draws)
    farthest = 0.5 * (BOUNDS[1] - BOUNDS[0]) * math.sqrt(math.prod(SHAPE))
    yield from _rows(MIDDLE, PROVEN, epsilon, {ERROR: farthest, TRUE: 0.0})
    yield from _rows(ITSELF, NOT_PRIVATE, epsilon, {ERROR: 0.0, TRUE: math.inf})


def _rows(method: str, status: str, epsilon: float, values: dict[str, float], draws: int = 0) -> Iterator[Row]:
    for metric, value in values.items():
        yield Row(
            panel="", method=method, status=status, run=FIRST_RUN, x=epsilon, metric=metric,
            value=value if math.isfinite(value) else None, note=f"{draws} draws" if metric == MEASURED else "",
        )  # fmt: skip


def caption(results: Results) -> Stated:
    """State what the reader must know."""
    draws = next(row.note for row in results.rows if row.metric == MEASURED)
    return wording.caption(
        results,
        shown=(
            "Expected norm of the error of one report of a 28 x 28 image of bytes, at the worst image, by the epsilon "
            "that really holds for the whole image; a curve joins the nominal budgets "
            f"{wording.join_numbers(EPSILONS)}. At the right edge: no finite epsilon holds; at the left: 0.00001 or "
            "less. The image itself has error 0 and no protection."
        ),
        unit="tensor (the whole image is replaced; local, nobody is trusted)",
        epsilon="horizontal axis, what is true; nominal along the curves",
        delta=f"{DELTA:g} (0 for ours but ExactGaussian)",
        runs=f"errors are closed forms; the page has means of {draws} beside them",
    )


def draw(results: Results) -> Any:
    """Draw error against true epsilon."""
    points = summarise(results.rows)
    figure, body, axes = drawing.new_figure(9.6, 5.4, str(caption(results)), rows=1, columns=1)
    axis = axes[0, 0]
    for method, style in STYLES.items():
        errors, truths = (pick(points, method=method, metric=metric) for metric in (ERROR, TRUE))
        x = [NOWHERE if point.mean is None else max(point.mean, 1e-5) for point in truths]
        statuses = list(dict.fromkeys(point.status for point in errors))
        stroke = "none" if x[0] == NOWHERE else drawing.STROKES[statuses[0]]
        axis.plot(
            x, [point.mean for point in errors], marker=style.marker, color=style.colour, linewidth=style.width,
            linestyle=stroke, markersize=5, label=drawing.label_method(method, ", then ".join(statuses)),
        )  # fmt: skip
    middle = mean_at(points, "", MIDDLE, SHOWN, ERROR)
    axis.axhline(middle, color=drawing.GREY, linestyle=(0, (6, 2)), label=f"{MIDDLE}, epsilon 0 (proven)")
    axis.set(xscale="log", yscale="log")
    axis.set_xticks([1e-4, 1e-2, 1, 1e2, NOWHERE], ["0.0001", "0.01", "1", "100", "none"])
    axis.minorticks_off()
    axis.set_xlabel(f"epsilon that holds for the whole image at delta {DELTA:g}", fontsize=9)
    axis.set_ylabel("expected error of one report", fontsize=9)
    drawing.shared_legend(body, [axis], columns=1, place="outside right upper")
    return figure


def page(results: Results) -> str:
    """Write the page: the table, and what agrees with the paper."""
    points = summarise(results.rows)
    methods = list(dict.fromkeys(point.method for point in points))
    rows = [_table_row(points, method) for method in methods]
    head = ["method", "guarantee", PRINTED, ERROR, MEASURED, "true epsilon, whole image", "true epsilon, one entry"]
    by_epsilon = [
        [method, *(wording.write_number(mean_at(points, "", method, e, ERROR), 4) for e in EPSILONS)]
        for method in methods
    ]
    return f"""## Settings

28 x 28 bytes, Delta = 256 as in the paper, delta = 1e-5 where one is needed. Errors of published methods do not depend
on the image; for ours they are those of the worst image. *True epsilon* is computed in exact arithmetic for the noise
that is really added. Published errors are simulated at an image in the middle of the range, ours at the worst one.

The paper's text of the table can be read in more than one way, and the readings differ. MVG's formula is printed as
"I I sqrt(I)", read here as I times I; with I_1, the number of rows, for the first I it is 28 times smaller, 1.8 times
the error of the noise itself. MVG's and IDN's have the range 255 for Delta, the others 256. They have sqrt(2 epsilon)
below the line in the text and sqrt(2) epsilon in the table, which is what is shown; at epsilon 1 both are one number.

## Numbers

Nominal epsilon {SHOWN:g}:

{wording.table(head, rows)}
Expected error by nominal epsilon:

{wording.table(["method", *(f"{e:g}" for e in EPSILONS)], by_epsilon)}
## What agrees with the paper, and what does not

{_findings(points)}"""


def _table_row(points: Sequence[Point], method: str) -> list[str]:
    own = {point.metric: point for point in pick(points, method=method) if point.x == SHOWN}

    def cell(metric: str) -> str:
        return wording.write_number(own[metric].mean, 4) if metric in own else ""

    truth = cell(TRUE)
    if "pure epsilon" in own and own["pure epsilon"].mean is not None:
        truth += f" (pure {cell('pure epsilon')})"
    elif own[TRUE].mean is None and own.get("least delta") and own["least delta"].mean:
        truth = f"none below delta {own['least delta'].mean:.2g}"
    return [method, own[ERROR].status, cell(PRINTED), cell(ERROR), cell(MEASURED), truth, cell("true epsilon, entry")]


def _findings(points: Sequence[Point]) -> str:
    def at(method: str, metric: str = ERROR, epsilon: float = SHOWN) -> float:
        return mean_at(points, "", method, epsilon, metric)

    off = [
        abs(at(method, MEASURED, e) / at(method, ERROR, e) - 1)
        for method in STYLES
        if not method.startswith("ours")
        for e in EPSILONS
    ]
    names = {point.method for point in points if point.method.startswith("ours")}
    own = [abs(at(name, MEASURED, e) / at(name, ERROR, e) - 1) for name in names for e in EPSILONS]
    ours = min((point.mean or math.inf, point.method) for point in points if _is_ours(point, SHOWN))
    best = min((point.mean or math.inf, point.method) for point in points if _is_ours(point, 10.0))
    gaussian = at("Gaussian, paper", PRINTED) / at("Gaussian, paper")
    laplace = at("Laplace") / at("TLDP-L, p of the proof")
    root = at("Gaussian, paper") / at("TLDP-G, p of the proof")
    normal = at("Gaussian, paper", PRINTED) / at("TLDP-G, p of the proof")
    return f"""- The printed formulas for Laplace noise and TLDP-L are those of the noise. Those of Gaussian noise are
    not: the
  printed one for the Gaussian baseline is {gaussian:.0f} times what its noise has, TLDP-G's
  {at("TLDP-G, p of the proof", PRINTED) / at("TLDP-G, p of the proof"):.2f} times. Formulas by the noise and
  simulations
  differ by {max(off):.1%} at most; those of ours, whose reports vary more, by {max(own):.1%}.
- TLDP has less error because it has less privacy. At nominal epsilon 1 and delta 1e-5 the whole image has epsilon
  {at("TLDP-L, p of the proof", TRUE):.0f} by TLDP-L and {at("TLDP-G, p of the proof", TRUE):.0f} by TLDP-G in the
  proof's
  reading of p; in the algorithm's reading there is none. Laplace noise at nominal 1 has {at("Laplace", TRUE):.2f}, MVG
  {at("MVG", TRUE):.1g}, IDN {at("IDN", TRUE):.2f}.
- By true epsilon, where the curves overlap, no published method has less error than the proven ones. At epsilon 1 for
  the whole image the best of ours is {ours[1].removeprefix("ours, ")} with {ours[0]:.3g}, at 10
  {best[1].removeprefix("ours, ")} with {best[0]:.3g}; always answering the middle is off by at most {at(MIDDLE):.3g}.
  At
  such budgets a single image cannot be sent by anyone, and averages of many reports are what local privacy is for.

## The paper's statements, one by one

{answer("yuan-5-less", "under the same nominal budget.")} At epsilon {SHOWN:g} the error
  is {laplace:.0f} times less than Laplace noise's for TLDP-L and {normal:.0f} times less than the printed Gaussian
  baseline's for TLDP-G, and by true epsilon it is the noise of the same mechanism with less of it.
{answer("yuan-5-times", f"I is {math.prod(SHAPE)} here, and the printed formulas do so.")} The noise itself has
  {laplace:.0f} times that of TLDP-L for Laplace and {root:.0f} times that of TLDP-G for Gaussian, whose deviation grows
  with the root of I.
{answer("yuan-5-order", "as a share of")} the baselines' it is, because their noise is made I times
  larger, I = {math.prod(SHAPE)} here. By the paper's own formula the error itself grows as the root of I.
{answer("yuan-5-dphsgd", "the formula that the table prints for it is C times that of Laplace noise,")} not of
  Gaussian noise: {at("DPHSGD, C = 1", PRINTED):.3g} against {at("Gaussian, paper", PRINTED):.3g} at epsilon {SHOWN:g}.
{answer("yuan-5-llagp", "nor is it here; the panels of figure 3 have it, such as")}
  that of [MNIST](yuan-figure-3-mnist.md).
"""


def _is_ours(point: Point, epsilon: float) -> bool:
    return point.method.startswith("ours") and point.metric == ERROR and point.x == epsilon


STUDY = Study(
    name="yuan-table-5",
    title="Expected error of local mechanisms, and their true epsilon",
    source=(
        "Yuan, Tang, Huang, Wu and Wang, Local Differential Privacy for Tensors in Distributed Computing Systems, "
        "table 5"
    ),
    runs=(20, 200),
    cells=cells,
    compute=compute,
    draw=draw,
    page=page,
    caption=caption,
    settings={"shape": SHAPE, "bounds": BOUNDS, "span": SPAN, "delta": DELTA, "epsilons": EPSILONS},
    minutes=(0.3, 0.5),
)
