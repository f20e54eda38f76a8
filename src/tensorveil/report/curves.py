"""The trade-off curve of an audit: how often tests of one neighbour against the other err, and what is claimed."""

from __future__ import annotations

import numpy as np

from tensorveil.audit.verdict import Verdict
from tensorveil.errors import InputError
from tensorveil.markup import Markup, tag
from tensorveil.report.drawing import Frame, Sample, path, svg, x_axis, y_axis
from tensorveil.report.pictures import Picture
from tensorveil.report.scales import Axis

__all__ = ["curve_height", "curve_picture", "draw_curve"]

WIDTH = 520.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 16.0, 26.0, 48.0


def curve_height(width: float) -> float:
    """Return the height of a curve of this width: its axes span a square."""
    return _TOP + (width - _LEFT - _RIGHT) + _BOTTOM


def curve_picture(name: str, verdict: Verdict) -> Picture:
    """Return the curve as a picture of its own."""
    if not verdict.curve:
        raise InputError(f"an audit of {name} has no trade-off curve: it is one run. Leave plot out.")
    return Picture(
        title=f"{name}: {verdict.word}",
        summary=_summarise(name, verdict),
        drawing=draw_curve(name, verdict, WIDTH),
        width=WIDTH,
        height=curve_height(WIDTH),
        legend=(
            Sample(css="excluded", name=f"excluded by {verdict.claim}", form="box"),
            Sample(css="guess", name="guessing"),
            Sample(css="point", name="a test, as measured", form="dot"),
            Sample(css="corner", name="up to its confidence bounds", form="box"),
        ),
    )


def draw_curve(name: str, verdict: Verdict, width: float) -> Markup:
    """Draw misses against false positives on a square.

    Every point is a test; its shade reaches to the confidence bounds of both rates. A shade that ends within the area
    that the claim excludes refutes the claim.
    """
    frame = Frame(left=_LEFT, right=width - _RIGHT, top=_TOP, bottom=curve_height(width) - _BOTTOM)
    across = Axis(low=0.0, high=1.0, start=frame.left, end=frame.right)
    up = Axis(low=0.0, high=1.0, start=frame.bottom, end=frame.top)
    alpha = np.unique(np.concatenate([np.linspace(0, 1, 101), np.geomspace(1e-4, 1e-2, 20)]))
    allowed = verdict.claim.least_missed(alpha)
    edge = [(across(float(a)), up(float(b))) for a, b in zip(alpha, allowed, strict=True)]
    floor = [(frame.right, frame.bottom), (frame.left, frame.bottom)]
    return svg(
        width,
        curve_height(width),
        _summarise(name, verdict),
        y_axis(up, frame, "misses"),
        path([*edge, *floor], "excluded", closed=True),
        path(edge, "claimed-curve"),
        tag("line", x1=frame.left, x2=frame.right, y1=frame.top, y2=frame.bottom, class_="guess"),
        _draw_tests(verdict, across, up),
        x_axis(across, frame, "false positives"),
    )


def _summarise(name: str, verdict: Verdict) -> str:
    return f"Trade-off curve of {name}: {verdict.word}; {len(verdict.curve)} tests against {verdict.claim}."


def _draw_tests(verdict: Verdict, across: Axis, up: Axis) -> Markup:
    """Draw all shades as one path and all points as another: an audit has up to hundreds."""
    shades, points = [], []
    for p in verdict.curve:
        x, y = across(p.false_positive), up(p.missed)
        right, top = across(p.false_positive_at_most), up(p.missed_at_most)
        shades.append(f"M{x:.1f} {y:.1f}H{right:.1f}V{top:.1f}H{x:.1f}z")
        points.append(f"M{x - 2:.1f} {y:.1f}a2 2 0 1 0 4 0a2 2 0 1 0 -4 0z")
    return tag("g", tag("path", d="".join(shades), class_="corner"), tag("path", d="".join(points), class_="point"))
