"""Drawings in SVG, twice: for wide screens and paper, and for narrow screens. Colours come from the page's style."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tensorveil.markup import Markup, join, shorten, tag, text_width
from tensorveil.report.facts import Chart
from tensorveil.report.scales import Axis, number

__all__ = [
    "NARROW",
    "SMALL",
    "WIDE",
    "Frame",
    "Sample",
    "both",
    "draw_sample",
    "label",
    "list_samples",
    "path",
    "sample_chart",
    "slot_of",
    "svg",
    "x_axis",
    "y_axis",
]

SLOTS = 8  # colours for curves
WIDE, NARROW = 704.0, 344.0
SAMPLE_WIDTH = 26
SMALL = 12.0  # size of the letters on axes; text is never scaled below it by more than a narrow screen's margins


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Where the axes stand within a drawing."""

    left: float
    right: float
    top: float
    bottom: float


def both(draw: Callable[[float], Markup]) -> tuple[Markup, Markup]:
    """Draw for wide and for narrow screens; the style shows one of them."""
    return (
        tag("div", draw(WIDE), class_="for-wide"),
        tag("div", draw(NARROW), class_="for-narrow"),
    )


def svg(width: float, height: float, summary: str, *parts: Markup | None) -> Markup:
    """Return a drawing; screen readers read its summary."""
    return tag(
        "svg",
        *(part for part in parts if part is not None),
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=summary,
    )


def label(x: float, y: float, text: str, *, anchor: str = "start", css: str = "tick") -> Markup:
    """Return a line of text, centred on y."""
    return tag("text", text, x=x, y=y + 0.35 * SMALL, text_anchor=anchor, class_=css)


def path(points: Iterable[tuple[float, float]], css: str, *, closed: bool = False) -> Markup:
    """Return a line through points, or the area that they enclose."""
    steps = " ".join(f"{_short(x)},{_short(y)}" for x, y in points)
    return tag("polygon" if closed else "polyline", points=steps, class_=css)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def x_axis(axis: Axis, frame: Frame, title: str, *, ticks: Sequence[tuple[float, str]] | None = None) -> Markup:
    """Draw the numbers below, and the axis' title under them."""
    room = int((axis.end - axis.start) / 58)
    shown = [(value, number(value)) for value in axis.ticks(max(room, 2))] if ticks is None else ticks
    marks = [tag("line", x1=axis(v), x2=axis(v), y1=frame.bottom, y2=frame.bottom + 4, class_="axis") for v, _ in shown]
    texts = [label(axis(v), frame.bottom + 15, text, anchor="middle") for v, text in shown]
    line = tag("line", x1=frame.left, x2=frame.right, y1=frame.bottom, y2=frame.bottom, class_="axis")
    short = shorten(title, int((frame.right - frame.left) / (0.54 * SMALL)))
    named = label((frame.left + frame.right) / 2, frame.bottom + 36, short, anchor="middle", css="title")
    return join(line, *marks, *texts, named if title else None)


def y_axis(axis: Axis, frame: Frame, title: str, *, numbers: bool = True) -> Markup:
    """Draw hairlines across and their numbers at the left; the title is above, where it can be read.

    Without ``numbers``, the numbers of a panel further left apply.
    """
    room = max(int((frame.bottom - frame.top) / 46), 2)
    lines, texts = [], []
    for value in axis.ticks(room):
        y = axis(value)
        lines.append(tag("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="grid"))
        if numbers:
            texts.append(label(frame.left - 8, y, number(value), anchor="end"))
    short = shorten(title, int(frame.right / (0.54 * SMALL)))
    return join(*lines, *texts, label(0, SMALL * 0.6, short, css="title") if title else None)


def left_room(axis: Axis, height: float) -> float:
    """Return how much room the numbers of a vertical axis need."""
    return 12 + max((text_width(number(v), SMALL) for v in axis.ticks(max(int(height / 46), 2))), default=20)


def slot_of(place: int) -> str:
    """Return the class that colours and dashes a curve."""
    return f"s{place % SLOTS + 1}"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """An entry of a legend: the class of the style that draws it, its name, and its form (line, box or dot)."""

    css: str
    name: str
    form: str = "line"


def sample_chart(chart: Chart) -> list[Sample]:
    """Return samples of a chart's curves, bands and lines; none where there is nothing to tell apart."""
    found = [Sample(css=f"line {slot_of(k)}", name=series.name) for k, series in enumerate(chart.series)]
    if any(series.low is not None for series in chart.series):
        found.append(Sample(css="band s1", name=chart.band, form="box"))
    found += [
        Sample(css=f"level l{k % 4 + 1}", name=f"{level.name}: {number(level.y)}")
        for k, level in enumerate(chart.levels)
    ]
    return found if len(found) > 1 else []


def draw_sample(sample: Sample) -> Markup:
    """Draw a sample of SAMPLE_WIDTH x 12 pixels."""
    if sample.form == "box":
        return tag("rect", x=0, y=2, width=SAMPLE_WIDTH, height=8, class_=sample.css)
    if sample.form == "dot":
        return tag("circle", cx=SAMPLE_WIDTH / 2, cy=6, r=3, class_=sample.css)
    return tag("line", x1=0, x2=SAMPLE_WIDTH, y1=6, y2=6, class_=sample.css)


def list_samples(samples: Sequence[Sample]) -> Markup | None:
    """Return the legend of a page's figure: a list of names beside their samples."""
    items = []
    for each in samples:
        drawn = tag(
            "svg", draw_sample(each), viewBox=f"0 0 {SAMPLE_WIDTH} 12", width=SAMPLE_WIDTH, height=12,
            aria_hidden="true",
        )  # fmt: skip
        items.append(tag("li", drawn, each.name))
    return tag("ul", *items, class_="legend") if items else None
