"""Studies from measured numbers: means, ranges, lines, tables, what a caption says of them, and the figure."""

from __future__ import annotations

import base64
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorveil.errors import InputError
from tensorveil.report.page import render
from tensorveil_evidence.studies import drawing
from tensorveil_evidence.studies.row_tables import Conditions, make_caption, tabulate
from tensorveil_evidence.studies.study_page import StudyFigure, StudyPage, make_study_page
from tests.unit.report.report_cases import NASTY, Reader

CONDITIONS = Conditions(unit="value", epsilon="0.1 to 10", delta=0.0)


def row(
    method: Any, value: Any, *, x: Any = None, status: str = "proven", panel: str = "CP", metric: str = "RMSE"
) -> Any:
    return SimpleNamespace(panel=panel, method=method, status=status, x=x, metric=metric, value=value)


def numbers_in(cell: Any) -> Any:
    return [float(n) for n in re.findall(r"-?[\d.]+(?:e-?\d+)?", cell.replace("−", "-").replace(",", ""))]


@given(st.lists(st.tuples(st.sampled_from([0.1, 1.0, 10.0]), st.floats(-1e6, 1e6)), min_size=1, max_size=30))
def test_cells_are_means_and_deviations(points: Any) -> None:
    (table,) = tabulate([row("input", value, x=x) for x, value in points], CONDITIONS)
    places = sorted({x for x, _ in points})
    assert table.columns == ("method", *(f"epsilon {place:g}" for place in places))
    (cells,) = table.rows
    for place, cell in zip(places, cells[1:], strict=True):
        values = [value for x, value in points if x == place]
        expected = [np.mean(values), np.std(values, ddof=1)] if len(values) > 1 else values
        assert numbers_in(cell) == pytest.approx(expected, rel=0.06, abs=1e-6)
    assert table.caption.runs == max(sum(x == place for x, _ in points) for place in places)


def test_rows_without_a_place_hold_throughout_and_without_any_axis_have_columns_of_their_own() -> None:
    rows = [row("input", 1.0, x=1.0), row("input", 5.0, x=2.0), row("constant", 2.0), row("constant", 4.0)]
    (table,) = tabulate(rows, CONDITIONS)
    assert table.rows == (("input", "1", "5"), ("constant", "3 ± 1.4", "3 ± 1.4"))
    (table,) = tabulate([row("a", 1.0), row("a", 3.0), row("b", None, status="refuted")], CONDITIONS)
    assert table.columns == ("method", "mean", "lowest", "highest", "runs", "guarantee")
    assert table.rows == (("a", 2.0, 1.0, 3.0, 2, "proven"), ("b", None, None, None, 0, "refuted"))


def test_what_diverged_is_said_and_left_out() -> None:
    rows = [row("input", value, x=1.0) for value in (1.0, None, float("inf"), 3.0)]
    seeded = Conditions(unit="value", epsilon="1", delta=0.0, small_print="Seeded.")
    (table,) = tabulate([*rows, row("lost", None, x=1.0)], seeded)
    assert table.rows == (("input", "2 ± 1.4"), ("lost", None))
    left_out = "Left out, because there is no finite number: input (2 of 4), lost (1 of 1). Seeded."
    assert table.caption.small_print == left_out
    assert table.caption.runs == 4


def test_a_status_that_changes_along_the_axis_is_told_for_each_part() -> None:
    rows = [row("classic", 1.0, x=1.0, status="claimed"), row("classic", 1.0, x=10.0, status="refuted")]
    (table,) = tabulate(rows, CONDITIONS)
    assert [(m.name, m.status) for m in table.caption.methods] == [
        ("classic at 1", "claimed"),
        ("classic at 10", "refuted"),
    ]


def test_panels_and_metrics_get_tables_of_their_own() -> None:
    rows = [row("a", 1.0, x=1.0, panel=p, metric=m) for p, m in (("CP", "RMSE"), ("CP", "bias"), ("", "RMSE"))]
    rows.append(row("a", 1.0, x=1.0, panel="Tucker"))
    tables = tabulate(rows, CONDITIONS)
    assert [table.title for table in tables] == ["CP: RMSE", "CP: bias", "RMSE", "Tucker"]
    study = StudyPage(title="t", finding="f", tables=tables, notes=(NASTY,), source=NASTY)
    Reader(render(make_study_page(study)))


def test_the_page_shows_the_figure_that_was_drawn() -> None:
    rows = [row("input", 1.0, x=1.0), row("input", 2.0, x=2.0, panel="Tucker")]
    figure, _, axes = drawing.new_figure(4, 3, "The caption, which a page sets as text.", rows=1, columns=1)
    axes[0, 0].plot([1, 2], [1, 2])
    image = drawing.draw_for_page(figure, "made-up")
    assert image == drawing.draw_for_page(figure, "made-up")
    size = re.search(rb'width="([\d.]+)pt" height="([\d.]+)pt"', image)
    assert size is not None
    width, height = (float(n) for n in size.groups())
    assert (width, height) == pytest.approx((4 * 72, 3 * 72), abs=3)  # the panels without the caption below them
    caption = make_caption(rows, CONDITIONS, "What is seen.")
    assert caption.runs == 1
    page = make_study_page(
        StudyPage(title="t", finding="f", figure=StudyFigure(image=image, alt=NASTY, caption=caption))
    )
    text = render(page)
    (shown,) = Reader(text).all("img")
    assert shown["alt"] == NASTY
    assert base64.b64decode(shown["src"].removeprefix("data:image/svg+xml;base64,")) == image
    assert "img-src data:;" in text
    assert "What is seen." in Reader(text).text


def test_nothing_is_no_study() -> None:
    with pytest.raises(InputError, match="at least one number"):
        tabulate([], CONDITIONS)
    with pytest.raises(InputError, match="a figure or at least one table"):
        StudyPage(title="t", finding="f")
