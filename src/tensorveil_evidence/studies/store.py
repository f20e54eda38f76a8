"""Files of a study: every finished cell at once; in the end one Parquet file, one JSON file, figures and a page.

A cell is a JSON file in OUTPUT/cells/NAME/ as long as the study is not finished. Then all rows are in NAME.parquet,
NAME.json tells how they came about, and the cells are removed. Files appear whole or not at all, so a study that is
killed loses only the cells that were being computed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tensorveil import __version__
from tensorveil.errors import InputError
from tensorveil.tensor.files.atomic import replace_file
from tensorveil_evidence.studies.study import Cell, Results, Row, Study, as_json, as_row
from tensorveil_evidence.studies.summary import summarise

TEXT = ("panel", "method", "status", "metric", "note")


@dataclass(frozen=True, kw_only=True)
class Done:
    """A finished cell."""

    key: str
    digest: str
    seconds: float
    rows: tuple[Row, ...]


def keep_cell(study: Study, folder: Path, cell: Cell, rows: Sequence[Row], seconds: float) -> Done:
    """Write a finished cell."""
    done = Done(key=cell.key, digest=study.digest(cell, __version__), seconds=seconds, rows=tuple(rows))
    content = {
        "cell": dict(cell.settings),
        "digest": done.digest,
        "seconds": seconds,
        "rows": [as_json(row) for row in rows],
    }
    where = _cells(study, folder)
    where.mkdir(parents=True, exist_ok=True)
    _write(where / f"{cell.key}.json", json.dumps(content, indent=1, allow_nan=False))
    return done


def find_finished(study: Study, folder: Path) -> dict[str, Done]:
    """Return the finished cells by digest, of an unfinished run and of a finished one."""
    found = _in_results(study, folder)
    for path in sorted(_cells(study, folder).glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(as_row(row) for row in content["rows"])
        done = Done(key=path.stem, digest=content["digest"], seconds=content["seconds"], rows=rows)
        found[done.digest] = done
    return found


def write_results(study: Study, folder: Path, done: Sequence[Done], *, quick: bool) -> Results:
    """Write NAME.parquet and NAME.json, then remove the cells that are in them."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    table = _table(done)
    with replace_file(folder / f"{study.name}.parquet") as temporary:
        pq.write_table(table, temporary, compression="zstd")
        seal = _seal(temporary)
    results = _results(done, quick)
    _write(folder / f"{study.name}.json", _lines(_facts(study, done, results, seal)))
    _remove_cells(_cells(study, folder), {cell.key for cell in done})
    return results


def read_results(study: Study, folder: Path) -> Results:
    """Read the results of a finished run, whatever settings it had."""
    facts = _read_facts(study, folder)
    if facts is None:
        raise InputError(
            f"{folder} holds no finished results of {study.name}. Leave out --redraw, or name their folder by --output."
        )
    return _results(_read_done(study, folder, facts), facts["quick"])


def is_full(study: Study, folder: Path) -> bool:
    """Tell whether the folder holds finished results of this study, and not those of a quick run."""
    facts = _read_facts(study, folder)
    return facts is not None and not facts["quick"]


def cells_in_results(study: Study, folder: Path) -> int:
    """Return how many cells the folder's finished results have."""
    facts = _read_facts(study, folder)
    return 0 if facts is None else len(facts["cells"])


def _in_results(study: Study, folder: Path) -> dict[str, Done]:
    facts = _read_facts(study, folder)
    return {} if facts is None else {done.digest: done for done in _read_done(study, folder, facts)}


def _read_facts(study: Study, folder: Path) -> dict[str, Any] | None:
    """Read NAME.json, unless it does not belong to the rows beside it."""
    rows, path = folder / f"{study.name}.parquet", folder / f"{study.name}.json"
    if not rows.is_file() or not path.is_file():
        return None
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return facts if facts["rows_sha256"] == _seal(rows) else None


def _read_done(study: Study, folder: Path, facts: Mapping[str, Any]) -> list[Done]:
    import pyarrow.parquet as pq

    rows: dict[str, list[Row]] = {}
    for content in pq.read_table(folder / f"{study.name}.parquet").to_pylist():
        rows.setdefault(content.pop("cell"), []).append(as_row(content))
    return [
        Done(
            key=cell["key"], digest=cell["digest"], seconds=cell["seconds"], rows=tuple(rows.get(cell["key"], ()))
        )
        for cell in facts["cells"]
    ]  # fmt: skip


def _results(done: Sequence[Done], quick: bool) -> Results:
    return Results(
        rows=[row for cell in done for row in cell.rows],
        quick=quick,
        seconds={cell.key: cell.seconds for cell in done},
    )


def _table(done: Sequence[Done]) -> Any:
    import pyarrow as pa

    kinds = {"run": pa.int64(), "x": pa.float64(), "value": pa.float64()}
    columns: dict[str, Any] = {"cell": pa.array([cell.key for cell in done for _ in cell.rows], pa.string())}
    for name in (field.name for field in fields(Row)):
        kind = pa.string() if name in TEXT else kinds[name]
        columns[name] = pa.array([getattr(row, name) for cell in done for row in cell.rows], kind)
    return pa.table(columns)


def _remove_cells(where: Path, keys: set[str]) -> None:
    """Remove the files of these cells, and what a kill left half-written; others belong to a larger run and stay."""
    for path in where.glob("*"):
        if path.stem in keys or path.suffix == ".tmp":
            path.unlink()
    for empty in (where, where.parent):
        if empty.is_dir() and not any(empty.iterdir()):
            empty.rmdir()


def _facts(study: Study, done: Sequence[Done], results: Results, seal: str) -> dict[str, Any]:
    """Say everything that is needed to repeat the study, and its numbers in short."""
    return {
        "study": study.name,
        "title": study.title,
        "source": study.source,
        "version": __version__,
        "quick": results.quick,
        "settings": dict(study.settings),
        "noise": "seeded, so that it can be drawn again: nothing here is private",
        "rows_sha256": seal,
        "summary": [vars(point) for point in summarise(results.rows)],
        "cells": [{"key": cell.key, "seconds": round(cell.seconds, 2), "digest": cell.digest} for cell in done],
    }


def _lines(facts: Mapping[str, Any]) -> str:
    """Write JSON with one line per item of a list, which is short and easy to compare."""

    def write(value: Any) -> str:
        if not isinstance(value, list):
            return json.dumps(value, allow_nan=False)
        return "[\n  " + ",\n  ".join(json.dumps(item, allow_nan=False) for item in value) + "\n ]"

    return "{\n " + ",\n ".join(f"{json.dumps(key)}: {write(value)}" for key, value in facts.items()) + "\n}"


def _cells(study: Study, folder: Path) -> Path:
    return folder / "cells" / study.name


def _seal(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write(path: Path, text: str) -> None:
    with replace_file(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
