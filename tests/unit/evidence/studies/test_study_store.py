"""Cells are kept one by one, recognised by what they depend on, and become one table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorveil.errors import InputError
from tensorveil_evidence.studies.store import cells_in_results, find_finished, keep_cell, read_results, write_results
from tensorveil_evidence.studies.study import as_json, as_row
from tests.unit.evidence.studies.study_cases import doubled, row, study


def kept(made: Any, folder: Path, runs: int = 2) -> Any:
    return [
        keep_cell(made, folder, cell, list(made.compute(cell.settings)), 1.5) for cell in made.cells(runs, False)
    ]  # fmt: skip


def test_cells_become_results_and_leave_nothing_behind(tmp_path: Path) -> None:
    made = study()
    done = kept(made, tmp_path)
    assert sorted(path.name for path in (tmp_path / "cells" / "made-up").iterdir()) == [
        "number=0.json",
        "number=1.json",
    ]
    results = write_results(made, tmp_path, done, quick=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made-up.json", "made-up.parquet"]
    assert results == read_results(made, tmp_path)
    assert results.core_minutes == pytest.approx(3.0 / 60)
    table = pq.read_table(tmp_path / "made-up.parquet").to_pylist()
    assert [found["cell"] for found in table] == ["number=0"] * 2 + ["number=1"] * 2
    assert [found["value"] for found in table] == [found.value for cell in done for found in cell.rows]
    facts = json.loads((tmp_path / "made-up.json").read_text())
    assert facts["settings"] == {"depth": 3}
    assert "not private" in facts["noise"] or "nothing here is private" in facts["noise"]


def test_cells_of_a_larger_run_stay(tmp_path: Path) -> None:
    made = study()
    done = kept(made, tmp_path, runs=3)
    (tmp_path / "cells" / "made-up" / ".number=1.json.0f.tmp").write_text("{")
    write_results(made, tmp_path, done[:2], quick=False)
    assert [path.name for path in (tmp_path / "cells" / "made-up").iterdir()] == ["number=2.json"]
    assert len(find_finished(made, tmp_path)) == 3


def test_finished_results_are_known_cells(tmp_path: Path) -> None:
    made = study()
    done = kept(made, tmp_path)
    before = find_finished(made, tmp_path)
    write_results(made, tmp_path, done, quick=False)
    assert find_finished(made, tmp_path) == before
    assert cells_in_results(made, tmp_path) == 2


@pytest.mark.parametrize("change", [{"settings": {"depth": 4}}, {"name": "other"}])
def test_cells_of_other_settings_are_not_known(tmp_path: Path, change: Any) -> None:
    made = study()
    kept(made, tmp_path)
    other = replace(made, **change)
    wanted = {other.digest(cell, "0.1.0") for cell in other.cells(2, False)}
    assert not wanted & set(find_finished(made, tmp_path))
    cell = made.cells(1, False)[0]
    assert made.digest(cell, "0.1.0") != made.digest(cell, "0.1.1")


def test_rows_that_were_changed_are_not_believed(tmp_path: Path) -> None:
    made = study()
    write_results(made, tmp_path, kept(made, tmp_path), quick=False)
    path = tmp_path / "made-up.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    assert find_finished(made, tmp_path) == {}
    with pytest.raises(InputError, match="no finished results of made-up"):
        read_results(made, tmp_path)


@given(value=st.none() | st.floats(allow_nan=False, allow_infinity=False), x=st.none() | st.floats(0, 10))
def test_rows_survive_json(value: Any, x: Any) -> None:
    made = row(value=value, x=x)
    assert as_row(json.loads(json.dumps(as_json(made), allow_nan=False))) == made


def test_numbers_are_kept_to_the_last_bit(tmp_path: Path) -> None:
    made = study()
    values: list[Any] = [found.value for cell in kept(made, tmp_path) for found in cell.rows]
    again: list[Any] = [found.value for cell in find_finished(made, tmp_path).values() for found in cell.rows]
    assert sorted(values) == sorted(again)
    assert 0.1 + 1 / 3 in again
    assert list(doubled({"number": 1}))[1].value == 0.1 + 1 / 3
