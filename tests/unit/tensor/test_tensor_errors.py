"""Every rule has an error that names it and its remedy, and that quotes no data."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorveil.errors import DataNotFoundError, InputError, MissingDependencyError
from tensorveil.tensor import Mode, ObservedTensor, load_dataset, read

# Data of every case below are built from these, so that a leak is easy to see.
VALUE = 987654.125
INDEX = 424242
LABEL = "zq-private-zq"
TRACES = re.compile(r"987654|424242|zq-private")

TWO = [[0, INDEX], [1, INDEX]]
FRAME = pd.DataFrame({"user": [LABEL, "b"], "film": [LABEL, "c"], "value": [VALUE, 1.0]})


def with_cell(column: Any, cell: Any) -> Any:
    return pd.DataFrame({name: [cell, *FRAME[name][1:]] if name == column else FRAME[name] for name in FRAME})


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "duplicates": (
        lambda: ObservedTensor([[0, INDEX], [0, INDEX]], [VALUE, 1]),
        "must not be duplicated.*duplicates='mean'",
    ),
    "nan": (lambda: ObservedTensor(TWO, [VALUE, np.nan]), "must not contain NaN.*missing='drop'"),
    "infinity": (lambda: ObservedTensor(TWO, [VALUE, -np.inf]), "must not contain infinities"),
    "negative index": (lambda: ObservedTensor([[0, INDEX], [-1, 1]], [VALUE, 1]), "mode 0 must not be negative"),
    "negative int32 column": (
        lambda: ObservedTensor.from_columns(np.array([[0, -INDEX], [0, 1]], np.int32), [VALUE, 1]),
        "mode 0 must not be negative",
    ),
    "index beyond shape": (
        lambda: ObservedTensor(TWO, [VALUE, 1], (2, 5)),
        "mode 1 must be below its size in shape, 5",
    ),
    "index beyond int32": (
        lambda: ObservedTensor([[0, 424242 * 10**6]], [VALUE]),
        "mode 1 must be below 2147483647.*labels",
    ),
    "fractional index": (
        lambda: ObservedTensor([[0, INDEX + 0.5]], [VALUE]),
        "mode 1 must be integers; got fractional",
    ),
    "text index": (lambda: ObservedTensor([["0", LABEL]], [VALUE]), "mode 0 must be integers; got text"),
    "boolean index": (lambda: ObservedTensor(np.array([[True, False]]), [VALUE]), "must be integers; got booleans"),
    "ragged coordinates": (lambda: ObservedTensor([[0, INDEX], [1]], [VALUE, 1]), "coords must be 2-D"),
    "flat coordinates": (lambda: ObservedTensor([0, INDEX], [VALUE, 1]), "coords must be 2-D"),
    "uneven columns": (
        lambda: ObservedTensor.from_columns([np.arange(3), np.arange(2)], [VALUE] * 3),
        "1-D arrays of one length",
    ),
    "uneven lengths": (lambda: ObservedTensor(TWO, [VALUE]), "one number per row"),
    "empty": (lambda: ObservedTensor(np.empty((0, 3), int), []), "at least one entry"),
    "empty list": (lambda: ObservedTensor([], []), "at least one entry"),
    "order 1": (lambda: ObservedTensor([[INDEX]], [VALUE]), "2 to 8 modes; got 1"),
    "order 9": (lambda: ObservedTensor([[INDEX] * 9], [VALUE]), "2 to 8 modes; got 9"),
    "values not numbers": (lambda: ObservedTensor(TWO, [LABEL, "b"]), "values must be numbers; got text"),
    "complex values": (lambda: ObservedTensor(TWO, [VALUE, 1j]), "values must be numbers; got complex"),
    "values 2-D": (lambda: ObservedTensor(TWO, [[VALUE], [1]]), "values must be 1-D"),  # type: ignore[arg-type]
    "outside bounds": (
        lambda: ObservedTensor(TWO, [VALUE, 1], bounds=(1, 5)),
        r"must lie within bounds \(1, 5\).*out_of_bounds='clip'",
    ),
    "bounds reversed": (lambda: ObservedTensor(TWO, [VALUE, 1], bounds=(5, 1)), r"got \(5, 1\). Try bounds=\(1, 5\)"),
    "bounds equal": (lambda: ObservedTensor(TWO, [VALUE, 1], bounds=(1, 1)), r"Try bounds=\(1, 2\)"),
    "bounds infinite": (lambda: ObservedTensor(TWO, [VALUE, 1], bounds=(0, np.inf)), "two finite numbers"),
    "bounds not a pair": (lambda: ObservedTensor(TWO, [VALUE, 1], bounds=(0, 1, 2)), "two finite numbers"),
    "shape of another order": (lambda: ObservedTensor(TWO, [VALUE, 1], (2, 3, 4)), "3 sizes for 2 modes"),
    "shape not whole": (
        lambda: ObservedTensor(TWO, [VALUE, 1], (2, 3.5)),  # type: ignore[arg-type]
        "shape must hold integers",
    ),
    "shape zero": (lambda: ObservedTensor(TWO, [VALUE, 1], (2, 0)), "shape must hold integers"),
    "duplicates policy": (
        lambda: ObservedTensor(TWO, [VALUE, 1], duplicates="max"),  # type: ignore[arg-type]
        "duplicates must be one of.*'mean'",
    ),
    "missing policy": (
        lambda: ObservedTensor(TWO, [VALUE, 1], missing="fill"),  # type: ignore[arg-type]
        "missing must be one of.*'drop'",
    ),
    "bounds policy": (
        lambda: ObservedTensor(TWO, [VALUE, 1], out_of_bounds="wrap"),  # type: ignore[arg-type]
        "out_of_bounds must be one of.*'clip'",
    ),
    "nothing left": (lambda: ObservedTensor([[0, INDEX]], [np.nan], missing="drop"), "leaves none"),
    "too few modes": (lambda: ObservedTensor(TWO, [VALUE, 1], modes=["a"]), "modes must name each of the 2 modes once"),
    "modes a string": (lambda: ObservedTensor(TWO, [VALUE, 1], modes="ab"), "modes must name each"),
    "equal names": (lambda: ObservedTensor(TWO, [VALUE, 1], modes=["a", "a"]), "different names"),
    "too few labels": (
        lambda: ObservedTensor(TWO, [VALUE, 1], (2, INDEX + 1), modes=[Mode("a", [LABEL]), "b"]),
        "labels of mode 'a' must be as many",
    ),
    "equal labels": (lambda: Mode("a", [LABEL, LABEL]), "labels of mode 'a' must be unique"),
    "missing label": (lambda: Mode("a", [LABEL, None]), "contain a missing label"),  # type: ignore[arg-type]
    "nan label": (lambda: Mode("a", [VALUE, np.nan]), "contain a missing label"),
    "nat label": (lambda: Mode("a", np.array(["2020-01-01", "NaT"], "M8[D]")), "contain a missing label"),
    "mixed labels": (lambda: Mode("a", np.array([LABEL, 1], object)), "all strings, all numbers or all dates"),
    "2-D labels": (lambda: Mode("a", [[LABEL]]), "flat sequence"),
    "no name": (lambda: Mode(""), "non-empty string"),
    "unknown label": (lambda: Mode("a", ["b"]).encode([LABEL]), "mode 'a' does not know"),
    "unknown number": (lambda: Mode("a", [1]).encode([INDEX]), "mode 'a' does not know"),
    "label of another kind": (lambda: Mode("a", [1]).encode([LABEL]), "mode 'a' does not know"),
    "number among strings": (lambda: Mode("a", ["b"]).encode([INDEX]), "mode 'a' does not know"),
    "encode without labels": (lambda: Mode("a").encode([INDEX]), "has no labels"),
    "decode beyond": (lambda: Mode("a", ["b"]).decode([INDEX]), "between 0 and its number of labels"),
    "decode fractions": (lambda: Mode("a", ["b"]).decode([0.5]), "must be integers"),
    "encode too few modes": (
        lambda: ObservedTensor(TWO, [VALUE, 1]).encode([0]),
        "one array of labels per mode, 2; got 1",
    ),
    "unknown mode": (lambda: ObservedTensor(TWO, [VALUE, 1]).axis("day"), "mode must be one of"),
    "mode too large": (lambda: ObservedTensor(TWO, [VALUE, 1]).axis(2), "between 0 and 1; got 2"),
    # tables
    "null label": (
        lambda: ObservedTensor.from_frame(with_cell("user", None)),
        "column 1 of 3 must not contain missing labels",
    ),
    "null value": (
        lambda: ObservedTensor.from_frame(with_cell("value", None)),
        "column 'value' must not contain missing values.*missing='drop'",
    ),
    "text value": (lambda: ObservedTensor.from_frame(FRAME, value="user"), "column 'user' must hold numbers"),
    "no such value": (lambda: ObservedTensor.from_frame(FRAME, value="rating"), "none called 'rating'"),
    "no such mode": (lambda: ObservedTensor.from_frame(FRAME, modes=["user", "day"]), "none called 'day'"),
    "modes not a list": (lambda: ObservedTensor.from_frame(FRAME, modes="user"), "list of column names"),
    "mode is value": (
        lambda: ObservedTensor.from_frame(FRAME, modes=["user", "value"], value="value"),
        "not the value column",
    ),
    "one mode only": (
        lambda: ObservedTensor.from_frame(FRAME[["user", "value"]]),
        "must have a column for each of two modes or more, .* add a column of ones",
    ),
    "no rows": (lambda: ObservedTensor.from_frame(FRAME[:0]), "at least one row"),
    "all dropped": (
        lambda: ObservedTensor.from_frame(with_cell("user", None)[:1], missing="drop"),
        "must hold labels; all its fields are empty",
    ),
    "mixed column": (
        lambda: ObservedTensor.from_frame(FRAME.assign(user=pd.Series([LABEL, 1], dtype=object))),
        "one kind of data per column",
    ),
    "not a frame": (lambda: ObservedTensor.from_frame([[LABEL]]), "pandas, polars or Arrow"),
    "labels as indices": (
        lambda: ObservedTensor.from_frame(FRAME, labels=False),
        "mode 0 must be integers.*labels=True",
    ),
    "lists as labels": (
        lambda: ObservedTensor.from_frame(pa.table({"a": [[LABEL]], "b": ["x"], "value": [VALUE]})),
        "column 1 of 3 must hold strings, numbers or dates",
    ),
    "nan label column": (
        lambda: ObservedTensor.from_frame(pa.table({"a": [VALUE, np.nan], "b": ["x", "y"], "value": [VALUE, 1]})),
        "column 1 of 3 must not contain missing labels",
    ),
    "label the mode lacks": (
        lambda: ObservedTensor.from_frame(FRAME, modes=[Mode("user", ["b"]), "film"]),
        "column 'user' contains a label that the given mode does not know",
    ),
    "same column twice": (
        lambda: ObservedTensor.from_frame(pa.table([[1], [2], [VALUE]], names=["a", "a", "value"])),
        "different column names",
    ),
    # dense and sparse
    "dense text": (lambda: ObservedTensor.from_dense([[LABEL]]), "array must hold numbers"),
    "dense flat": (lambda: ObservedTensor.from_dense([VALUE]), "array must have 2 to 8 modes"),
    "dense empty": (lambda: ObservedTensor.from_dense(np.empty((0, 2))), "at least one cell"),
    "dense all missing": (lambda: ObservedTensor.from_dense([[np.nan, np.nan]]), "at least one observed cell"),
    "mask of another shape": (
        lambda: ObservedTensor.from_dense([[VALUE, 1]], mask=[True]),
        "mask must be a boolean array",
    ),
    "missing not a number": (
        lambda: ObservedTensor.from_dense([[VALUE]], missing="zero"),  # type: ignore[arg-type]
        "missing must be the number",
    ),
    "not sparse": (lambda: ObservedTensor.from_scipy(np.eye(2)), "must be a scipy.sparse"),
    "to_scipy of order 3": (lambda: ObservedTensor([[0, 0, INDEX]], [VALUE]).to_scipy(), "order 2; got order 3"),
    # files by name
    "no file": (lambda: read("nowhere.csv"), "existing file"),
    "unknown ending": (lambda: read("nowhere.xyz"), "cannot be inferred.*format='csv'"),
    "unknown format": (lambda: read("nowhere.csv", format="xls"), "format must be one of arrow, csv.*got 'xls'"),
    "unknown dataset": (lambda: load_dataset("ml-2k"), "name must be one of.*ml-100k"),
    "unknown dataset option": (lambda: load_dataset("covid19-serology", part="a"), "no option 'part'"),
    "no folder to write to": (lambda: ObservedTensor(TWO, [VALUE, 1]).write("nowhere/a.csv"), "existing folder"),
}


def assert_no_trace(error: Any) -> None:
    while error is not None:
        assert not TRACES.search(str(error)), error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str) -> None:
    action, message = CASES[name]
    with pytest.raises(InputError, match=message) as caught:
        action()
    assert_no_trace(caught.value)


def write_parquet(path: Path) -> None:
    pq.write_table(pa.table({"user": [LABEL], "film": [LABEL], "value": [VALUE]}), path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + data[-8:])


FILES = {
    "damaged.parquet": (write_parquet, "readable Parquet"),
    "text.parquet": (lambda path: path.write_text(LABEL), "readable Parquet"),
    "uneven.csv": (
        lambda path: path.write_text(f"a,b,value\n{LABEL},x,{VALUE}\n{LABEL},{LABEL}\n"),
        "Line 3 has 2 fields",
    ),
    "empty.csv": (lambda path: path.write_text(""), "the file is empty"),
    "header.csv": (lambda path: path.write_text("a,b,value\n"), "at least one row"),
    "words.csv": (lambda path: path.write_text(f"a,b,value\nx,y,{LABEL}\n"), "column 'value' must hold numbers"),
    "label.csv": (
        lambda path: path.write_text(f"a,b,value\n,{LABEL},{VALUE}\nx,y,1\n"),
        "column 1 of 3 must not contain missing labels",
    ),
    "value.csv": (
        lambda path: path.write_text(f"a,b,value\nx,{LABEL},\nx,y,1\n"),
        "'value' must not contain missing values",
    ),
    "cut.csv.gz": (
        lambda path: path.write_bytes(gzip.compress(f"a,b,value\n{LABEL},x,1".encode() * 99)[:40]),
        "damaged or cut short",
    ),
    "empty.tns": (lambda path: path.write_text("# nothing\n\n"), "at least one entry"),
    "zero.tns": (lambda path: path.write_text(f"0 {INDEX} {VALUE}\n"), "mode 0 must not be negative.*index_base=0"),
    "fraction.tns": (lambda path: path.write_text(f"1 {INDEX}.5 {VALUE}\n"), "coordinates must be integers"),
    "words.tns": (lambda path: path.write_text(f"1 2 {LABEL}\n"), "values must be numbers"),
    "uneven.tns": (lambda path: path.write_text(f"1 2 3\n1 {INDEX}\n"), "as many fields in every line"),
    "nan.tns": (lambda path: path.write_text(f"1 {INDEX} nan\n"), "must not contain NaN"),
    "narrow.tns": (lambda path: path.write_text(f"{INDEX} {VALUE}\n"), "2 to 8 modes; got 1"),
    "cut.tns.gz": (lambda path: path.write_bytes(gzip.compress(b"1 2 3\n" * 5000)[:30]), "damaged or cut short"),
    "noise.npz": (lambda path: path.write_text(LABEL), "readable NPZ"),
    "foreign.npz": (lambda path: np.savez(path, a=[VALUE]), "must be a tensorveil .npz.*from_dense"),
    "noise.mat": (lambda path: path.write_text(LABEL * 50), "readable MATLAB"),
}


@pytest.mark.parametrize("name", FILES)
def test_file_rule(name: str, tmp_path: Path) -> None:
    make, message = FILES[name]
    make(tmp_path / name)
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path / name)
    assert_no_trace(caught.value)


def test_formats_without_labels_refuse_them(tmp_path: Path) -> None:
    tensor = ObservedTensor([[0, 1]], [VALUE], modes=[Mode("a", [LABEL]), "b"])
    for ending in ("tns", "mat"):
        with pytest.raises(InputError, match=r"cannot hold labels.*with_modes\(None\)") as caught:
            tensor.write(tmp_path / f"a.{ending}")
        assert_no_trace(caught.value)
    assert not list(tmp_path.iterdir())


def test_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "h5py", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    (tmp_path / "a.mat").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(600))
    with pytest.raises(MissingDependencyError, match=r'pip install "tensorveil\[matlab\]"'):
        read(tmp_path / "a.mat")
    with pytest.raises(MissingDependencyError, match=r'pip install "tensorveil\[frames\]"'):
        ObservedTensor([[0, 1]], [1]).to_polars()


def test_data_not_found_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENSORVEIL_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"ml-100k/u\.data or .*Set TENSORVEIL_DATA"):
        load_dataset("ml-100k")
    with pytest.raises(DataNotFoundError, match="not in the data folder"):
        load_dataset("ml-100k", folder=tmp_path)
