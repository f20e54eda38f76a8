"""Means, deviations, captions and tables, against numbers done by hand."""

from __future__ import annotations

import math

import pytest

from tensorveil_evidence.studies import wording
from tensorveil_evidence.studies.summary import mean_at, pick, summarise
from tests.unit.evidence.studies.study_cases import results, row


def test_means_and_deviations() -> None:
    rows = [row(value=value, run=run) for run, value in enumerate((1.0, 2.0, 6.0))]
    (point,) = summarise(rows)
    assert point.runs == 3
    assert point.mean == pytest.approx(3.0)
    assert point.deviation == pytest.approx(math.sqrt(7.0))
    assert point.error == pytest.approx(math.sqrt(7.0 / 3.0))


def test_a_run_that_diverged_leaves_no_mean() -> None:
    (point,) = summarise([row(value=1.0), row(value=None, run=101)])
    assert (point.mean, point.deviation, point.diverged) == (None, None, 1)
    assert wording.mean_and_spread(point) == "diverges (1 of 2)"
    assert mean_at([point], "", "one", 1.0) == math.inf


def test_one_run_has_no_deviation() -> None:
    (point,) = summarise([row(value=0.5)])
    assert point.deviation is None
    assert wording.mean_and_spread(point) == "0.500"


def test_a_method_has_one_status_at_a_place() -> None:
    with pytest.raises(AssertionError):
        summarise([row(), row(status="refuted", run=101)])


def test_points_are_picked_by_growing_x() -> None:
    points = summarise([row(x=3.0), row(x=None), row(x=1.0), row("other", x=2.0)])
    assert [point.x for point in pick(points, method="one")] == [None, 1.0, 3.0]
    with pytest.raises(KeyError):
        mean_at(points, "", "one", 7.0)


def test_captions_say_everything_that_must_be_said() -> None:
    rows = [
        row("ours", run=1), row("ours", run=2),
        row("theirs", status="refuted", run=1), row("theirs", status="refuted", run=2),
        row("classic", status="claimed", x=1.0, run=1), row("classic", status="claimed", x=1.0, run=2),
        row("classic", status="refuted", x=10.0, run=1), row("classic", status="refuted", x=10.0, run=2),
        row("line", status="not private", run=1), row("line", status="not private", run=2),
    ]  # fmt: skip
    stated = wording.caption(results(rows), shown="Errors.", unit="value", epsilon="on the axis", delta="1e-5")
    text = str(stated)
    for part in ("Unit: value.", "Epsilon: on the axis.", "Delta: 1e-5.", "Runs per point: 2.", "seeds"):
        assert part in text
    proven, claimed, refuted, open_ = text.split("Guarantees: ")[1].split(" | ")
    assert proven == "proven: ours"
    assert claimed.startswith("claimed by its paper (true")
    assert claimed.endswith(": classic at 1")
    assert refuted == "claimed by its paper and refuted: theirs; classic at 10"
    assert open_.startswith("not private: line.")
    assert "a quick run" in str(wording.caption(results(rows, quick=True), shown="", unit="", epsilon="", delta=""))


def test_tables_repeat_lines_at_every_place() -> None:
    points = summarise([row(x=1.0), row(x=2.0, value=None), row("line", 0.25, status="not private", x=None)])
    assert wording.curves_table(points).splitlines() == [
        "| method | guarantee | 1 | 2 |",
        "| --- | --- | --- | --- |",
        "| one | proven | 1.000 | diverges (1 of 1) |",
        "| line | not private | 0.250 | 0.250 |",
    ]


def test_text_is_broken_into_lines_and_tables_are_not() -> None:
    words = "word " * 60
    page = wording.fill(f"# Title\n\n{words}\n\n- {words}\n- short\n\n| {words} |\n\n    {words}\n")
    title, text, items, table, code = page.rstrip("\n").split("\n\n")
    assert title == "# Title"
    assert max(map(len, text.splitlines())) <= 120
    assert items.count("\n- ") == 1
    assert all(line.startswith(("- ", "  ")) for line in items.splitlines())
    assert table == f"| {words} |"
    assert code == f"    {words}".rstrip()
    assert " ".join(text.split()) == words.strip()
