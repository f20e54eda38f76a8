"""The parts of a report: escaping, numbers, axes, and drawings held against what they draw."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorveil.errors import InputError
from tensorveil.markup import Markup, join, shorten, tag
from tensorveil.report.bars import Bar, bar_plots, histogram_plots
from tensorveil.report.drawing import NARROW, WIDE
from tensorveil.report.factors import SHOWN, loading_plots, mode_loadings
from tensorveil.report.facts import Caption, Chart, Level, Series, Standing, TableOf, epsilons
from tensorveil.report.heat import LEVELS, MOST_COLUMNS, MOST_ROWS, choose_slice, gather_observed, heat_plots
from tensorveil.report.lines import axes, draw_chart
from tensorveil.report.page import data_table
from tensorveil.report.scales import Axis, number, span_axis
from tests.unit.report.report_cases import NASTY, Reader, cp_model, observed, tucker_model

CAPTION = Caption(
    text="t", unit="value", epsilon="1", delta=0.0, runs=3, methods=(Standing(name="m", status="proven"),)
)


@given(st.text())
def test_any_text_stays_text(text: Any) -> None:
    """Parsed again, a page has the elements that were asked for, and the text that was given."""
    page = Reader(tag("p", text, title=text, id=text or None) + tag("div", join(text, Markup("<br>"))))
    assert [name for name, _ in page.elements] == ["p", "div", "br"]
    seen = page.elements[0][1]["title"]
    assert "\x00" not in seen
    assert seen == re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", "\ufffd", text)


def test_attributes() -> None:
    assert tag("a", href=f'"{NASTY}') == f'<a href="&quot;{NASTY_ESCAPED}"></a>'
    assert tag("input", hidden=True, value=None, disabled=False, data_x0=1.5) == '<input hidden data-x0="1.5">'
    assert tag("i", x=-0.001, y=2.0) == '<i x="0" y="2"></i>'
    # Markup is trusted as content, never as an attribute.
    assert tag("i", title=Markup('"><b>')) == '<i title="&quot;&gt;&lt;b&gt;"></i>'


NASTY_ESCAPED = (
    "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;&lt;b onclick=x&gt;"  # as HTML spells NASTY
)


@given(st.text(), st.integers(2, 40))
def test_shortened_texts_keep_their_length(text: Any, most: Any) -> None:
    assert len(shorten(text, most)) <= most


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_numbers_are_near_what_they_stand_for(value: Any) -> None:
    shown = float(number(value).replace("−", "-").replace(",", ""))
    assert shown == pytest.approx(value, rel=0.006, abs=0.0) or (value != 0 and abs(value) < 1e-300)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 9))
def test_linear_ticks_are_round_few_and_inside(low: Any, width: Any, most: Any) -> None:
    axis = Axis(low=low, high=low + width, start=0.0, end=1.0)
    ticks = axis.ticks(most)
    assert 1 <= len(ticks) <= most + 1
    assert all(low - 1e-6 * width <= tick <= low + width * (1 + 1e-6) for tick in ticks)
    assert np.allclose(np.diff(ticks), np.diff(ticks)[0]) if len(ticks) > 2 else True


@given(st.floats(-12, 6), st.floats(0.1, 12), st.integers(2, 9))
def test_logarithmic_ticks_are_few_and_inside(low: Any, decades: Any, most: Any) -> None:
    axis = span_axis([10**low, 10 ** (low + decades)], 0.0, 1.0, log=True)
    ticks = axis.ticks(most)
    assert 1 <= len(ticks) <= max(most, 2)
    assert all(-1e-6 <= axis.share(tick) <= 1 + 1e-6 for tick in ticks)
    assert axis(axis.low) == pytest.approx(0.0)
    assert axis(axis.high) == pytest.approx(1.0)


def points(svg: Any, css: Any) -> Any:
    found = re.findall(rf'<polyline points="([^"]*)" class="{css}">', svg)
    return [np.array([list(map(float, pair.split(","))) for pair in run.split()]) for run in found]


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("log", [False, True])
def test_a_curve_stands_where_its_numbers_are(width: Any, log: Any) -> None:
    x, y = (0.1, 1.0, 10.0), (4.0, 2.0, 1.0)
    chart = Chart(title="t", x="x", y="y", series=(Series(name="s", x=x, y=y),), caption=CAPTION, log_x=log, log_y=log)
    (drawn,) = points(draw_chart(chart, width), "line s1")
    _, across, up = axes(chart, width, 380.0 if width > 500 else 300.0)
    np.testing.assert_allclose(drawn, [[across(a), up(b)] for a, b in zip(x, y, strict=True)], atol=0.06)
    if log:  # equal ratios are equal distances
        assert np.diff(drawn[:, 0])[0] == pytest.approx(np.diff(drawn[:, 0])[1], abs=0.2)
        assert np.diff(drawn[:, 1])[0] == pytest.approx(np.diff(drawn[:, 1])[1], abs=0.2)


@given(
    st.lists(st.tuples(st.floats(1e-6, 1e6), st.floats(-1e9, 1e9), st.floats(0, 1e9)), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_any_numbers_can_be_drawn(points: Any, log_x: Any, log_y: Any) -> None:
    x, y, band = zip(*points, strict=True)
    low, high = (tuple(value + sign * wide for value, wide in zip(y, band, strict=True)) for sign in (-1, 1))
    series = Series(name="s", x=x, y=y, low=low, high=high)
    levels = (Level(name="zero", y=0.0),)
    chart = Chart(title="t", x="x", y="y", series=(series,), levels=levels, caption=CAPTION, log_x=log_x, log_y=log_y)
    for width in (WIDE, NARROW):
        drawn = draw_chart(chart, width)
        Reader(drawn)
        places = [float(n) for run in re.findall(r'points="([^"]*)"', drawn) for n in re.split("[ ,]", run)]
        assert all(-0.1 <= place <= width for place in places)


def test_a_curve_leaves_the_picture_above_its_most() -> None:
    y = (100.0, 1.0, 0.5, 90.0, 0.7, 0.6)
    series = Series(name="s", x=tuple(range(6)), y=y)
    chart = Chart(title="t", x="x", y="y", series=(series,), caption=CAPTION, most=2.0)
    assert [len(run) for run in points(draw_chart(chart, WIDE), "line s1")] == [2, 2]


def test_bars_are_as_long_as_their_numbers() -> None:
    wide, narrow = bar_plots([Bar(name="a", value=2.0), Bar(name=NASTY, value=1.0, mark=4.0)], "s")
    for drawn in (wide, narrow):
        first, second = (float(w) for w in re.findall(r'<rect [^>]*width="([\d.]+)"', drawn))
        assert first == pytest.approx(2 * second, abs=0.02)
        assert "<script" not in drawn
        (mark,) = re.findall(r'<line x1="([\d.]+)"', drawn)
        (start, *_) = re.findall(r'<rect x="([\d.]+)"', drawn)
        assert float(mark) - float(start) == pytest.approx(2 * first, abs=0.05)


def test_a_histogram_holds_every_number() -> None:
    values = np.random.default_rng(0).normal(size=500)
    drawn = histogram_plots(values, bins=10, title="x", summary="s")[0]
    heights = np.array([float(h) for h in re.findall(r'height="([\d.]+)" class="bar"', drawn)])
    counts = np.histogram(values, bins=10)[0]
    np.testing.assert_allclose(heights / heights.sum(), counts / 500, atol=1e-3)


def painted(group: Any, shape: tuple[int, ...]) -> Any:
    """Read a heat map's paths back into levels."""
    cells = np.full(shape, -1)
    for steps, css in re.findall(r'<path d="([^"]*)" class="(\w+)">', group):
        level = LEVELS if css == "missing" else int(css[1:])
        for x, y, long in re.findall(r"M(\d+) (\d+)h(\d+)", steps):
            part = cells[int(y), int(x) : int(x) + int(long)]
            assert (part == -1).all(), "a cell was painted twice"
            part[:] = level
    assert (cells >= 0).all(), "a cell was not painted"
    return cells


def test_heat_maps_paint_every_cell_once_in_its_colour() -> None:
    model = cp_model((12, 40, 5), kinds=("text", "none", "numbers"))
    tensor = observed(model)
    part = choose_slice(model)
    before = gather_observed(part, tensor)
    assert part.predicted.shape == (12, 40)
    dense = tensor.to_dense()
    (fixed,) = part.fixed.items()
    expected = np.take(dense, fixed[1], axis=fixed[0])[np.ix_(part.rows, part.columns)]
    np.testing.assert_array_equal(before, expected)
    drawn = heat_plots(part, [("before", before), ("after", part.predicted)], ["r"] * 12, "x", "s")[0]
    groups = re.findall(r'<g transform="[^"]*" class="cells">(.*?)</g>', drawn)
    for group, cells in zip(groups, (before, part.predicted), strict=True):
        levels = painted(group, cells.shape)
        np.testing.assert_array_equal(levels == LEVELS, np.isnan(cells))
        away = cells - part.center
        away = away / np.where(away < 0, part.below, part.above)
        scaled = np.clip(away, -1, 1) * (LEVELS - 1) / 2 + (LEVELS - 1) / 2
        seen = ~np.isnan(cells)
        assert np.abs(levels[seen] - scaled[seen]).max() <= 0.5 + 1e-9


def test_large_slices_are_thinned() -> None:
    part = choose_slice(cp_model((3, 70, 2000), rank=1, kinds=("none",)))
    assert part.predicted.shape == (MOST_ROWS, MOST_COLUMNS)
    assert (part.down, part.across) == (1, 2)
    assert len(set(part.columns.tolist())) == MOST_COLUMNS
    assert np.all(np.diff(part.predicted.mean(axis=0)) > -0.5)  # sorted, up to what thinning moves


def test_components_stand_in_the_order_of_their_strength() -> None:
    model = cp_model((5, 4, 3), rank=7)
    strength = np.prod([np.linalg.norm(f, axis=0) for f in model.factors], axis=0)
    found = mode_loadings(model, 1)
    assert found.left_out == 7 - SHOWN
    order = np.argsort(-strength)[:SHOWN]
    np.testing.assert_allclose(found.columns * found.sizes, model.factors[1][:, order])
    assert np.abs(found.columns).max(axis=0) == pytest.approx(1.0)


def test_tucker_columns_are_weighed_by_their_core() -> None:
    model = tucker_model((6, 5, 4), (3, 2, 2))
    found = mode_loadings(model, 0)
    weight = [np.sum(model.core[k] ** 2) ** 0.5 * np.linalg.norm(model.factors[0][:, k]) for k in range(3)]
    np.testing.assert_allclose(found.columns * found.sizes, model.factors[0][:, np.argsort(weight)[::-1]])


@pytest.mark.parametrize("size", [2, 24, 25, 3000])
@pytest.mark.parametrize("kind", ["text", "numbers", "dates", "none"])
def test_factors_are_drawn_for_modes_of_any_length_and_kind(size: Any, kind: Any) -> None:
    for drawn in loading_plots(mode_loadings(cp_model((size, 3), kinds=(kind,), biases=True), 0)):
        Reader(drawn)
        assert "<script" not in drawn
        assert "NaN" not in drawn
        assert "nan" not in drawn


def test_tables_align_numbers_and_not_dates() -> None:
    text = data_table("t", ["a", "b", "c"], [["x", "1.5", "2026-01-01"], ["y", "≥ 2", "2026-01-02"], ["z", None, "–"]])
    page = Reader(text)
    assert [cell.get("class") for cell in page.all("td")] == ["number", None] * 3


def test_facts_are_checked() -> None:
    with pytest.raises(InputError, match="status must be one of proven, claimed, refuted, not private; got 'sure'"):
        Standing(name="m", status="sure")
    with pytest.raises(InputError, match="unit and epsilon"):
        Caption(text="t", unit="", epsilon="1", delta=0, runs=1, methods=())
    with pytest.raises(InputError, match="runs"):
        Caption(text="t", unit="value", epsilon="1", delta=0, runs=-1, methods=())
    with pytest.raises(InputError, match="one number per point"):
        Series(name="s", x=(1, 2), y=(1,))
    with pytest.raises(InputError, match="y must be finite"):
        Series(name="s", x=(1, 2), y=(1, float("nan")))
    with pytest.raises(InputError, match="both or neither"):
        Series(name="s", x=(1,), y=(1,), low=(0,))
    with pytest.raises(InputError, match="above 0"):
        Chart(title="t", x="x", y="y", series=(Series(name="s", x=(0,), y=(1,)),), caption=CAPTION, log_x=True)
    with pytest.raises(InputError, match="at least one series"):
        Chart(title="t", x="x", y="y", series=(), caption=CAPTION)
    with pytest.raises(InputError, match="one cell per column"):
        TableOf(title="t", columns=("a",), rows=(("b", "c"),), caption=CAPTION)
    with pytest.raises(InputError, match="at least one epsilon"):
        epsilons([])


def test_captions_never_show_a_smaller_delta() -> None:
    caption = Caption(text="t", unit="value", epsilon="1", delta=1.23451e-6, runs=1, methods=())
    assert caption.delta_text == "1.235e-6"
