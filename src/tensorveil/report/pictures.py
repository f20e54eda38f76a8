"""Drawings as files of their own: SVG with title, legend and colours inside, for any viewer and any document."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tensorveil.errors import InputError
from tensorveil.markup import Markup, tag, text_width
from tensorveil.report.drawing import SAMPLE_WIDTH, SMALL, WIDE, Sample, draw_sample, label, sample_chart
from tensorveil.report.facts import Chart
from tensorveil.report.lines import chart_height, draw_chart
from tensorveil.report.lines import summary as summarise
from tensorveil.report.page import read_asset
from tensorveil.tensor.files.atomic import replace_file

__all__ = ["SUFFIX", "Picture", "chart_picture", "render_picture", "save_picture"]

SUFFIX = ".svg"
_MARGIN, _TITLE_SIZE, _ROW = 18.0, 16.0, 20.0


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing that stands alone.

    Parameters
    ----------
    title
        The line above it.
    summary
        What it shows, in words, for readers who cannot see it.
    drawing, width, height
        The drawing, as the functions of this folder return it, and its size in pixels.
    legend
        Samples of what is drawn, with their names.
    """

    title: str
    summary: str
    drawing: Markup
    width: float
    height: float
    legend: tuple[Sample, ...] = ()


def chart_picture(chart: Chart) -> Picture:
    """Return a chart as a picture."""
    return Picture(
        title=chart.title,
        summary=summarise(chart),
        drawing=draw_chart(chart, WIDE),
        width=WIDE,
        height=chart_height(WIDE),
        legend=tuple(sample_chart(chart)),
    )


def render_picture(picture: Picture) -> str:
    """Write the picture as the text of an SVG file.

    Colours are written out: most programs other than browsers know no variables in styles.
    """
    width = picture.width + 2 * _MARGIN
    legend, top = _draw_legend(picture.legend, picture.width, _MARGIN + 1.6 * _TITLE_SIZE)
    height = top + picture.height + _MARGIN
    title = tag(
        "text", picture.title, x=_MARGIN, y=_MARGIN + 0.75 * _TITLE_SIZE, class_="heading"
    )  # fmt: skip
    place = f"translate({_MARGIN:g} {top:g})"
    root = tag(
        "svg",
        tag("title", picture.title),
        tag("style", Markup(_style())),
        tag("rect", width=width, height=height, class_="sheet"),
        title,
        *legend,
        tag("g", picture.drawing, transform=place),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=picture.summary,
    )
    return f"{root}\n"


def check_picture_path(path: str | os.PathLike[str], parameter: str) -> None:
    """Refuse a path that no picture can be written to, naming the parameter that holds it."""
    place = Path(path)
    if place.suffix != SUFFIX:
        raise InputError(f"{parameter}: the name must end with {SUFFIX}, such as curve{SUFFIX}.")
    if not place.parent.is_dir():
        raise InputError(f"{parameter}: the folder {place.parent} does not exist. Make it first.")


def save_picture(path: str | os.PathLike[str], picture: Picture) -> None:
    """Write the picture into an SVG file, whole or not at all."""
    with replace_file(Path(path)) as temporary:
        temporary.write_text(render_picture(picture), encoding="utf-8")


def _draw_legend(samples: Sequence[Sample], width: float, top: float) -> tuple[list[Markup], float]:
    """Draw samples with their names in as many rows as they need; return them and where the drawing begins."""
    parts: list[Markup] = []
    x, y = 0.0, top
    for sample in samples:
        wide = SAMPLE_WIDTH + 8 + text_width(sample.name, SMALL) + 18
        if x > 0 and x + wide > width:
            x, y = 0.0, y + _ROW
        place = f"translate({_MARGIN + x:g} {y:g})"
        named = label(SAMPLE_WIDTH + 8, 6, sample.name, css="name")
        parts.append(tag("g", draw_sample(sample), named, transform=place))
        x += wide
    return parts, y + (_ROW + 8 if samples else 0)


def _style() -> str:
    """Return the style of drawings in the light colours, written out."""
    light = re.search(r":root \{(.*?)\}", read_asset("colours.css"), re.DOTALL)
    assert light is not None
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light[1]))
    rules = re.sub(r"var\(--([\w-]+)\)", lambda found: colours[found[1]], read_asset("drawing.css"))
    own = f"""
svg {{ font-family: system-ui, "Segoe UI", "Noto Sans", "Liberation Sans", sans-serif; }}
svg .heading {{ fill: {colours["ink"]}; font-size: {_TITLE_SIZE:g}px; font-weight: 600; }}
svg .name {{ font-size: {SMALL:g}px; }}
.sheet {{ fill: {colours["missing"]}; }}
"""
    return rules + own
