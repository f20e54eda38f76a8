"""One table of formats: a module in the folder is all that a new format takes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.errors import InputError
from tensorveil.models.tables import cells_table
from tensorveil.release.cells import read_asked
from tensorveil.tensor import files
from tensorveil.tensor.files.file_format import Format
from tensorveil.tensor.files.formats import (
    array_format,
    formats,
    pick_format,
    read_array,
    read_table,
    table_format,
    write_table,
)

TABLES = ["arrow", "csv", "duckdb", "jsonl", "parquet", "sqlite", "tsv"]
TOY = '''
"""Streams of Arrow as tensors, tables and matrices."""

import numpy as np
import pyarrow as pa

from tensorveil.tensor.files.file_format import DenseFile, Format
from tensorveil.tensor.frames import table_to_tensor
from tensorveil.tensor.tables_out import tensor_to_table


def load(path):
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as reader:
        return reader.read_all()


def save(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def read(path, layout, options):
    return table_to_tensor(load(path), layout.modes, layout.value, labels=layout.labels, **options)


def read_array(path, variable):
    return DenseFile(values=np.stack([column.to_numpy() for column in load(path).columns], axis=1))


def write_array(values, path, columns):
    save(pa.table({f"x{k}": column for k, column in enumerate(values.T)}), path)


FORMAT = Format(
    name="toy",
    endings=(".toy",),
    read=read,
    write=lambda tensor, path, name: save(tensor_to_table(tensor), path),
    read_table=lambda path, *, text: load(path),
    write_table=save,
    read_array=read_array,
    write_array=write_array,
)
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    folder = tmp_path / "more_formats"
    folder.mkdir()
    (folder / "toy.py").write_text(TOY)
    monkeypatch.setattr(files, "__path__", [*files.__path__, str(folder)])
    formats.cache_clear()
    yield formats()["toy"]
    monkeypatch.undo()
    sys.modules.pop("tensorveil.tensor.files.toy", None)
    formats.cache_clear()


def test_a_new_format_is_known_everywhere(toy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensor = tv.ObservedTensor([[0, 1], [2, 0]], [1.0, 2.0], shape=(3, 2), bounds=(0, 5))
    tensor.write(tmp_path / "x.toy")
    again = tv.read(tmp_path / "x.toy")
    assert again.shape == (3, 2)
    assert np.array_equal(again.columns, tensor.columns)
    assert tv.read(tmp_path / "x.toy", format="toy").n_entries == 2
    # Tables of cells, as `predict --at` and `--output` take them.
    cells = np.array([[0, 2], [1, 1]], dtype=np.int32)
    write_table(cells_table(cells, np.ones(2), tensor.modes, "value"), tmp_path / "cells.toy")
    assert np.array_equal(read_asked(tmp_path / "cells.toy", tensor.modes, tensor.shape)[0], cells)
    # Private runs ask for indices where a table could bring labels.
    assert pick_format(Path("x.toy")).is_table
    promise = ["--epsilon", "1", "--bounds", "0", "5", "--unit", "entry", "--delta", "1e-6"]
    private = [*promise, "--private-shape", "3,2", "--output", str(tmp_path / "release")]
    assert run(["complete", str(tmp_path / "x.toy"), *private]) == 2
    assert "--indices" in capsys.readouterr().err
    # Dense arrays, as `perturb` takes them.
    toy.write_array(np.full((5, 3), 0.5), tmp_path / "people.toy", None)
    options = ["--owners", "--epsilon", "4", "--unit", "tensor", "--bounds", "0", "1", "--json"]
    assert run(["perturb", str(tmp_path / "people.toy"), str(tmp_path / "reports.toy"), *options]) == 0
    assert json.loads(capsys.readouterr().out)["reports"] == 5
    assert read_array(tmp_path / "reports.toy").values.shape == (5, 3)


def test_messages_list_what_there_is(toy: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"arrow, csv, duckdb, jsonl, mat, npz, parquet, png, sqlite, tns, toy, tsv"):
        pick_format(Path("x.unknown"))
    with pytest.raises(InputError, match=r"\.toy"):
        table_format(Path("x.unknown"))
    with pytest.raises(InputError, match=r"\.npy, \.npz, \.parquet, \.pq, \.png, \.toy"):
        array_format(Path("x.unknown"))


def test_what_each_format_can_do() -> None:
    known = formats()
    assert [name for name, each in known.items() if each.is_table] == TABLES
    assert [name for name, each in known.items() if each.read_array] == ["npy", "npz", "parquet", "png"]
    assert [name for name, each in known.items() if each.create_array] == ["npy"]
    assert [name for name, each in known.items() if not each.exact] == ["png"]
    assert pick_format(Path("A.B.CSV.GZ")).name == "csv"
    with pytest.raises(InputError, match="format cannot be inferred"):
        pick_format(Path("x.npy"))  # a dense array, which is not a tensor file
    with pytest.raises(InputError, match="format must be one of"):
        pick_format(Path("x.csv"), "npy")


def test_a_tsv_is_written_with_tabs_whatever_its_name(tmp_path: Path) -> None:
    tensor = tv.ObservedTensor([[0, 1]], [1.0])
    tensor.write(tmp_path / "x.txt", format="tsv")
    assert "\t" in (tmp_path / "x.txt").read_text()


def nothing(*arguments: Any, **options: Any) -> None:
    raise AssertionError


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"name": "", "endings": (".x",), "read": nothing, "write": nothing}, "needs a name"),
        ({"name": "x", "endings": ("x",), "read": nothing, "write": nothing}, "begin with a dot"),
        ({"name": "x", "endings": (".x",)}, "reads nothing"),
        ({"name": "x", "endings": (".x",), "read": nothing}, "both read and write"),
        ({"name": "x", "endings": (".x",), "read_table": nothing}, "both read_table and write_table"),
    ],
)
def test_an_incomplete_format_fails_at_import(facts: Any, words: Any) -> None:
    with pytest.raises(TypeError, match=words):
        Format(**facts)


def test_two_formats_cannot_share_an_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "twin.py").write_text(TOY.replace('".toy"', '".csv"'))
    monkeypatch.setattr(files, "__path__", [*files.__path__, str(tmp_path)])
    formats.cache_clear()
    with pytest.raises(TypeError, match="module twin: format 'toy' or one of its endings exists already"):
        formats()
    monkeypatch.undo()
    sys.modules.pop("tensorveil.tensor.files.twin", None)
    formats.cache_clear()


def test_damaged_tables_are_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\nmallory\n")
    with pytest.raises(InputError, match=r"x\.csv must be a well-formed table.*Line 2 has 1 fields") as caught:
        read_table(tmp_path / "x.csv")
    assert "mallory" not in str(caught.value)
    with pytest.raises(InputError, match="uncompressed"):
        write_table(pa.table({"a": [1]}), tmp_path / "x.csv.gz")
    with pytest.raises(InputError, match="folder not found"):
        write_table(pa.table({"a": [1]}), tmp_path / "nowhere" / "x.csv")
