"""Studies from measured numbers: means, ranges, lines, tables, and what a caption says of them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_cases import NASTY, Reader

from tensorveil.errors import InputError
from tensorveil.report.drawing import SLOTS
from tensorveil.report.page import render
from tensorveil_evidence.studies.study_page import study_page
from tensorveil_evidence.studies.study_rows import study_of_rows

FACTS = {"title": "t", "finding": "f", "unit": "value", "epsilon": "0.1 to 10", "delta": 0.0}


def row(method, value, *, x=None, status="proven", panel="CP", metric="RMSE"):
    return SimpleNamespace(panel=panel, method=method, status=status, x=x, metric=metric, value=value)


@given(st.lists(st.tuples(st.sampled_from([0.1, 1.0, 10.0]), st.floats(-1e6, 1e6)), min_size=1, max_size=30))
def test_curves_are_means_and_ranges(points):
    study = study_of_rows([row("input", value, x=x) for x, value in points], **FACTS)
    (chart,) = study.charts
    (series,) = chart.series
    for k, place in enumerate(series.x):
        values = [value for x, value in points if x == place]
        assert series.y[k] == pytest.approx(np.mean(values), abs=1e-6)
        if series.low is not None:
            assert (series.low[k], series.high[k]) == (min(values), max(values))
    assert sorted(series.x) == sorted({x for x, _ in points})
    assert chart.caption.runs == max(sum(x == place for x, _ in points) for place in series.x)


def test_rows_without_a_place_are_lines_and_without_any_axis_a_table():
    rows = [row("input", 1.0, x=1.0), row("constant", 2.0, status="not private"), row("constant", 4.0)]
    (chart,) = study_of_rows(rows, **FACTS).charts
    assert [(level.name, level.y) for level in chart.levels] == [("constant", 3.0)]
    study = study_of_rows([row("a", 1.0), row("a", 3.0), row("b", None, status="refuted")], **FACTS)
    assert study.charts == ()
    assert study.tables[0].rows == (("a", 2.0, 1.0, 3.0, 2, "proven"), ("b", None, None, None, 0, "refuted"))


def test_what_diverged_is_said_and_left_out():
    rows = [row("input", value, x=1.0) for value in (1.0, None, float("inf"), 3.0)]
    (chart,) = study_of_rows(rows, small_print="Seeded.", **FACTS).charts
    assert chart.series[0].y == (2.0,)
    assert chart.caption.small_print == "Left out, because there is no finite number: input (2 of 4). Seeded."
    assert chart.caption.runs == 4


def test_a_status_that_changes_along_the_axis_is_told_for_each_part():
    rows = [row("classic", 1.0, x=1.0, status="claimed"), row("classic", 1.0, x=10.0, status="refuted")]
    (chart,) = study_of_rows(rows, **FACTS).charts
    assert [(m.name, m.status) for m in chart.caption.methods] == [
        ("classic at 1", "claimed"),
        ("classic at 10", "refuted"),
    ]


def test_more_curves_than_colours_become_a_table():
    few = [row(f"m{k}", float(k), x=x) for k in range(SLOTS) for x in (1.0, 2.0)]
    assert len(study_of_rows(few, **FACTS).charts) == 1
    study = study_of_rows([*few, row("one more", 9.0, x=2.0), row("line", 5.0)], **FACTS)
    assert study.charts == ()
    (table,) = study.tables
    assert table.columns == ("method", "epsilon 1", "epsilon 2")
    assert table.rows[0] == ("m0", 0.0, 0.0)
    assert table.rows[-2:] == (("one more", None, 9.0), ("line", 5.0, 5.0))


def test_panels_and_metrics_get_figures_of_their_own():
    rows = [row("a", 1.0, x=1.0, panel=p, metric=m) for p, m in (("CP", "RMSE"), ("CP", "bias"), ("", "RMSE"))]
    rows.append(row("a", 1.0, x=1.0, panel="Tucker"))
    study = study_of_rows(rows, notes=[NASTY], source=NASTY, **FACTS)
    assert [chart.title for chart in study.charts] == ["CP: RMSE", "CP: bias", "RMSE", "Tucker"]
    Reader(render(study_page(study)))


def test_nothing_is_no_study():
    with pytest.raises(InputError, match="at least one number"):
        study_of_rows([], **FACTS)
