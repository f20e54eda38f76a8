"""What all figures share: colours that colour-blind readers can tell apart, bands, marks of divergence, captions."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorveil.errors import MissingDependencyError
from tensorveil.tensor.files.atomic import replace_file
from tensorveil_evidence.studies.study import CLAIMED, NOT_PRIVATE, PROVEN, REFUTED
from tensorveil_evidence.studies.summary import Point, pick

# Okabe and Ito (2008): told apart with every common kind of colour blindness.
ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE, BLACK = (
    "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7", "#000000",
)  # fmt: skip
GREY, INK, GRID = "#7f7f7f", "#222222", "#d9d9d9"
# The line tells how far a method's guarantee can be trusted.
STROKES = {PROVEN: "-", CLAIMED: "--", REFUTED: ":", NOT_PRIVATE: "-."}
LOST = "diverged"
CAPTION_SIZE, INCHES_PER_LINE = 7.6, 0.135


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a method is drawn."""

    colour: str
    marker: str = ""
    label: str = ""
    width: float = 1.5
    stroke: Any = ""
    band: bool = True


def figure_class() -> Any:
    """Return matplotlib's figure; the object interface has no global state and needs no window system."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            "studies need matplotlib for their figures. Install it with: pip install 'tensorveil[plots]'"
        ) from error
    return Figure


def new_figure(
    width: float, height: float, caption: str, *, rows: int, columns: int, **options: Any
) -> tuple[Any, Any, Any]:
    """Return a figure with its caption, the part for axes and legend, and the axes as a 2-D array."""
    lines = textwrap.wrap(caption, int(width * 17), break_on_hyphens=False)
    foot_inches = INCHES_PER_LINE * len(lines) + 0.12
    figure = figure_class()(figsize=(width, height + foot_inches), dpi=130, layout="constrained")
    body, foot = figure.subfigures(2, 1, height_ratios=[height, foot_inches])
    foot.text(0.01, 0.98, "\n".join(lines), fontsize=CAPTION_SIZE, color=INK, va="top", ha="left", linespacing=1.25)
    axes = body.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        dress(axis)
    return figure, body, axes


def dress(axis: Any) -> None:
    """Make an axis look like all others."""
    axis.grid(color=GRID, linewidth=0.5)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8, colors=INK)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def draw_curve(axis: Any, points: Sequence[Point], style: Style, *, factor: float = 1.0) -> None:
    """Draw means with a band of one standard deviation; where a run diverged, an arrow at the upper edge."""
    whole = [point for point in points if point.mean is not None]
    if not points:
        return
    stroke = style.stroke or STROKES[points[0].status]
    x = [point.x for point in whole]
    means = [factor * (point.mean or 0.0) for point in whole]
    axis.plot(
        x, means, color=style.colour, marker=style.marker, markersize=3.8, linewidth=style.width, linestyle=stroke,
        label=label_method(style.label or points[0].method, points[0].status),
    )  # fmt: skip
    spread = [factor * (point.deviation or 0.0) for point in whole]
    if style.band and any(spread):
        # On a logarithmic axis a band that reaches zero ends at a hundredth of the mean.
        low = [max(mean - band, 0.01 * mean) for mean, band in zip(means, spread, strict=True)]
        high = [mean + band for mean, band in zip(means, spread, strict=True)]
        axis.fill_between(x, low, high, color=style.colour, alpha=0.16, linewidth=0)
    lost = [point.x for point in points if point.mean is None]
    if lost:
        # Methods that are lost at the same place stand below each other.
        height = 0.985 - 0.045 * sum(line.get_gid() == LOST for line in axis.lines)
        look = {"color": style.colour, "markersize": 5.5, "clip_on": False, "zorder": 5, "gid": LOST}
        axis.plot(lost, [height] * len(lost), "^", transform=axis.get_xaxis_transform(), **look)


def draw_line(axis: Any, point: Point, style: Style) -> None:
    """Draw what does not depend on the place: a line across the panel, with its band."""
    if point.mean is None:
        return
    if point.deviation:
        axis.axhspan(point.mean - point.deviation, point.mean + point.deviation, color=style.colour, alpha=0.08, lw=0)
    stroke = style.stroke or STROKES[point.status]
    label = label_method(style.label or point.method, point.status)
    axis.axhline(point.mean, color=style.colour, linewidth=style.width, linestyle=stroke, label=label)


def draw_panel(
    axis: Any, points: Sequence[Point], styles: Mapping[str, Style], *, lines: Sequence[str], curves: Sequence[str]
) -> None:
    """Draw what does not depend on the place as lines, and the rest as curves."""
    for name in lines:
        draw_line(axis, pick(points, method=name)[0], styles[name])
    for name in curves:
        draw_curve(axis, pick(points, method=name), styles[name])


def draw_printed(axis: Any, printed: Mapping[Any, float], style: Style) -> None:
    """Mark printed numbers by crosses in the colour of their method."""
    axis.plot(list(printed), list(printed.values()), "x", color=style.colour, markersize=8, markeredgewidth=1.6)


def label_method(name: str, status: str) -> str:
    """Name a method with the status of its guarantee."""
    return f"{name} ({status})"


def mark_ticks(axis: Any, values: Iterable[float]) -> None:
    """Write the budgets that were tried on a logarithmic axis."""
    axis.set_xscale("log")
    axis.set_xticks(list(values), [f"{value:g}" for value in values])
    axis.minorticks_off()


def shared_legend(body: Any, axes: Sequence[Any], *, columns: int, place: str = "outside lower center") -> None:
    """Put one legend beside the panels, where it covers no data."""
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    body.legend(list(handles.values()), list(handles), loc=place, ncols=columns, fontsize=8, frameon=False)


def save(figure: Any, folder: Path, name: str, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Write the figure, the same bytes for the same results."""
    paths = []
    # Text stays text in SVG: smaller files, and words that can be searched.
    with _repeatable(name, fonttype="none"):
        for ending in formats:
            path = folder / f"{name}.{ending}"
            with replace_file(path) as temporary:
                figure.savefig(temporary, format=ending, metadata={"Date": None} if ending == "svg" else None)
            paths.append(path)
    return paths


def draw_for_page(figure: Any, name: str) -> bytes:
    """Return the figure as SVG without its caption, which a page sets as text of its own.

    Letters are outlines here: a page embeds the figure as an image, and then no reader's fonts can move its words.
    """
    figure.draw_without_rendering()  # lays the parts out
    body = figure.subfigs[0].bbox.transformed(figure.dpi_scale_trans.inverted())
    out = io.BytesIO()
    with _repeatable(name, fonttype="path"):
        figure.savefig(out, format="svg", bbox_inches=body, metadata={"Date": None})
    return out.getvalue()


def _repeatable(name: str, *, fonttype: str) -> Any:
    from matplotlib import rc_context

    return rc_context({"svg.hashsalt": name, "svg.fonttype": fonttype})
