"""Every format gives back what was written, and writes all or nothing."""

import gzip
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorveil.errors import InputError, LeftOutWarning
from tensorveil.tensor import Mode, ObservedTensor, read
from tensorveil.tensor import labels as tensor_labels
from tensorveil.tensor.files import tns
from tests.unit.tensor.tensor_cases import labels_of


def same(one: Any, other: Any) -> None:
    assert one.shape == other.shape
    assert one.bounds == other.bounds
    assert one.modes == other.modes
    assert np.array_equal(one.columns, other.columns)
    assert np.array_equal(one.values, other.values)
    assert one.values.dtype == other.values.dtype


@pytest.fixture
def labelled() -> Any:
    # Labels out of order, one of them unused: the exact formats must keep both facts.
    modes: list[str | Mode] = [
        Mode("user", ["zoë", "ann", "nobody", 'quo"te,d']),
        Mode("year", [2001, 1999]),
        Mode("day", np.array(["2020-01-03", "2020-01-01", "2020-01-02"], "M8[D]")),
        "slot",
    ]
    coords = [[0, 0, 0, 5], [1, 1, 2, 0], [3, 0, 1, 2]]
    return ObservedTensor(coords, [0.1, -2.5, 1e-300], (4, 2, 3, 9), (-3, 3), modes)


@pytest.fixture
def plain() -> Any:
    rng = np.random.default_rng(0)
    cells = rng.permutation(6 * 7 * 8)[:100]
    return ObservedTensor(np.array(np.unravel_index(cells, (6, 7, 8))).T, rng.standard_normal(100), (6, 7, 8))


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_exact_formats_keep_everything(labelled: Any, plain: Any, ending: Any, tmp_path: Path) -> None:
    for number, tensor in enumerate([labelled, plain, plain.with_values(plain.values.astype(np.float32))]):
        tensor.write(tmp_path / f"{number}.{ending}")
        same(read(tmp_path / f"{number}.{ending}"), tensor)


def test_arrow_keeps_everything(labelled: Any, plain: Any) -> None:
    for tensor in (labelled, plain):
        same(ObservedTensor.from_frame(tensor.to_arrow()), tensor)


@pytest.mark.parametrize("ending", ["tns", "tns.gz", "mat"])
def test_index_formats_keep_entries(plain: Any, ending: Any, tmp_path: Path) -> None:
    plain.write(tmp_path / f"a.{ending}")
    same(read(tmp_path / f"a.{ending}", shape=plain.shape), plain)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "tsv.gz"])
def test_text_keeps_labels_and_values(labelled: Any, plain: Any, ending: Any, tmp_path: Path) -> None:
    plain.write(tmp_path / f"a.{ending}")
    same(read(tmp_path / f"a.{ending}", labels=False, shape=plain.shape), plain)
    labelled.write(tmp_path / f"b.{ending}")
    back = read(tmp_path / f"b.{ending}", modes=labelled.modes, bounds=(-3, 3), shape=labelled.shape, labels=False)
    same(back, labelled)
    # Without the modes, labels are numbered anew, in sorted order.
    fresh = read(tmp_path / f"b.{ending}")
    assert labels_of(fresh.modes[0]) == sorted(['quo"te,d', "ann", "zoë"])
    assert [column.tolist() for column in fresh.decode(fresh.coords)][:2] == [
        column.tolist() for column in labelled.decode(labelled.coords)
    ][:2]


@given(
    st.lists(st.tuples(st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=8)
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_npz_and_parquet_keep_any_text(tmp_path: Path, rows: Any) -> None:
    frame = pa.table([list(column) for column in zip(*rows, strict=True)], names=["a", "b", "value"])
    tensor = ObservedTensor.from_frame(frame, duplicates="last")
    for name in ("t.npz", "t.parquet"):
        tensor.write(tmp_path / name)
        same(read(tmp_path / name), tensor)
    wanted = {(a, b): value for a, b, value in rows}
    first, second = tensor.decode(tensor.coords)
    assert dict(zip(zip(first.tolist(), second.tolist(), strict=True), tensor.values.tolist(), strict=True)) == wanted


def test_stored_description_can_be_ignored(labelled: Any, tmp_path: Path) -> None:
    labelled.write(tmp_path / "a.parquet")
    names = ["user", "year", "day", "slot"]
    assert read(tmp_path / "a.parquet", modes=names).shape == (3, 2, 3, 3)


def test_damaged_description(labelled: Any) -> None:
    table = labelled.to_arrow().replace_schema_metadata({"tensorveil": "{}"})
    with pytest.raises(InputError, match="description is damaged"):
        ObservedTensor.from_frame(table)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "parquet", "tns", "tns.gz", "npz", "mat"])
def test_writing_is_all_or_nothing(plain: Any, ending: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_text("old")

    class Cut(ObservedTensor):
        """Fails half-way, after the writer has asked for the columns."""

        @property
        def values(self) -> NoReturn:
            raise RuntimeError("stopped")

    broken = Cut.__new__(Cut)
    broken._set(plain.columns, plain.values, plain.shape, None, plain.modes, plain.origin)
    with pytest.raises(RuntimeError, match="stopped"):
        broken.write(path)
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
    plain.write(path)
    assert read(path, labels=False).n_entries == plain.n_entries
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_failed_replace_leaves_no_file(plain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        plain.write(tmp_path / "a.npz")
    assert not list(tmp_path.iterdir())


def test_npz_needs_no_pickle(labelled: Any, tmp_path: Path) -> None:
    labelled.write(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        assert all(archive[name].dtype.kind != "O" for name in archive.files)
    assert read(tmp_path / "a.npz", bounds=(-9, 9)).bounds == (-9.0, 9.0)
    assert read(tmp_path / "a.npz", modes=["a", "b", "c", "d"]).modes[0] == Mode("a")


MESSY = "# a comment\n 1  2\t3   4.5 \n\n2 2 3 1e-3 # tail\r\n\t3 1 1 -7\n  \n#end"


def test_messy_tns(tmp_path: Path) -> None:
    (tmp_path / "a.tns").write_text(MESSY)
    tensor = read(tmp_path / "a.tns", modes=["x", "y", "z"])
    assert tensor.coords.tolist() == [[0, 1, 2], [1, 1, 2], [2, 0, 0]]
    assert tensor.values.tolist() == [4.5, 1e-3, -7.0]
    assert tensor.modes[0].name == "x"


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_tns_blocks_of_any_size(tmp_path: Path, block: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tns, "BLOCK", block)
    lines = [f"{i % 7 + 1} {i + 1} {i / 3!r}" for i in range(100)]
    (tmp_path / "a.tns").write_text("\n".join(lines))
    tensor = read(tmp_path / "a.tns")
    assert tensor.coords.tolist() == [[i % 7, i] for i in range(100)]
    assert tensor.values.tolist() == [i / 3 for i in range(100)]


def test_tns_from_zero_and_gzip_by_content(tmp_path: Path) -> None:
    (tmp_path / "a.tns").write_bytes(gzip.compress(b"0 3 1.5\n"))
    assert read(tmp_path / "a.tns", index_base=0).coords.tolist() == [[0, 3]]
    with pytest.raises(InputError, match="index_base must be 0 or 1"):
        read(tmp_path / "a.tns", index_base=2)


def test_csv_without_header_and_nulls(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("u,x,1\nu,y,\n,z,3\nv,x,NaN\nv,y,4\n")
    with pytest.warns(LeftOutWarning, match="1 of 5 rows are left out: column 1 of 3 is empty"):
        tensor = read(tmp_path / "a.csv", header=False, missing="drop")
    assert [mode.name for mode in tensor.modes] == ["f0", "f1"]
    assert tensor.values.tolist() == [1.0, 4.0]


def test_csv_columns_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("rating,when,user,item\n3,2020-05-01,7,b\n4,2019-01-01,9,a\n")
    tensor = read(tmp_path / "a.csv", ["user", "when"], "rating", bounds=(1, 5))
    assert tensor.values.tolist() == [3.0, 4.0]
    assert labels_of(tensor.modes[0]) == [7, 9]
    days = tensor.modes[1].labels
    assert days is not None
    assert days.dtype.kind == "M"
    assert tensor.coords.tolist() == [[0, 1], [1, 0]]


def test_index_base_of_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,value\n1,2,3\n")
    assert read(tmp_path / "a.csv", labels=False, index_base=1).coords.tolist() == [[0, 1]]
    assert read(tmp_path / "a.csv", format="csv", labels=False).coords.tolist() == [[1, 2]]


def test_parquet_with_row_groups_and_folders_with_equals_signs(tmp_path: Path) -> None:
    folder = tmp_path / "year=2023"
    folder.mkdir()
    rng = np.random.default_rng(1)
    users = [f"u{i}" for i in rng.integers(30, size=500)]
    table = pa.table({"value": rng.random(500), "user": users, "item": [f"i{i}" for i in range(500)]})
    pq.write_table(table, folder / "a.parquet", row_group_size=37)
    tensor = read(folder / "a.parquet")
    assert [mode.name for mode in tensor.modes] == ["user", "item"]
    assert labels_of(tensor.modes[0]) == sorted(set(users))
    assert tensor.decode(tensor.coords)[0].tolist() == users


def test_matlab_dense_version_5(tmp_path: Path) -> None:
    array = np.array([[[1.0, np.nan], [0.0, 4.0]]])
    scipy.io.savemat(tmp_path / "a.mat", {"cube": array, "title": "words"})
    assert read(tmp_path / "a.mat").n_entries == 3
    assert read(tmp_path / "a.mat", variable="cube", modes=["a", "b", "c"]).modes[2].name == "c"
    with pytest.raises(InputError, match="none called 'x'"):
        read(tmp_path / "a.mat", variable="x")
    with pytest.raises(InputError, match="shape does not apply"):
        read(tmp_path / "a.mat", shape=(1, 2, 2))
    scipy.io.savemat(tmp_path / "b.mat", {"a": array, "b": array})
    with pytest.raises(InputError, match="variable must be named"):
        read(tmp_path / "b.mat")
    scipy.io.savemat(tmp_path / "c.mat", {"a": np.array([[0.0, 2.0], [3.0, 0.0]])})
    assert read(tmp_path / "c.mat", missing_value=0).n_entries == 2


def test_matlab_columns(tmp_path: Path) -> None:
    rows = np.array([[1, 1, 5], [2, 3, 4]], np.uint16)
    scipy.io.savemat(tmp_path / "a.mat", {"rows": rows})
    for value in ("last", "2"):
        tensor = read(tmp_path / "a.mat", value=value)
        assert tensor.coords.tolist() == [[0, 0], [1, 2]]
        assert tensor.values.tolist() == [5.0, 4.0]
    assert read(tmp_path / "a.mat", value="first", index_base=0).values.tolist() == [1.0, 2.0]
    with pytest.raises(InputError, match="value must be 'last'"):
        read(tmp_path / "a.mat", value="5")


def test_matlab_version_7_3(tmp_path: Path) -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        file["cube"] = array.T  # MATLAB stores the axes reversed
    tensor = read(tmp_path / "a.mat")
    assert tensor.shape == (2, 3, 4)
    assert np.array_equal(tensor.to_dense(), array)
    (tmp_path / "b.mat").write_bytes((tmp_path / "a.mat").read_bytes()[:700])
    with pytest.raises(InputError, match="readable MATLAB"):
        read(tmp_path / "b.mat")


def test_frames_from_every_library() -> None:
    columns = {"user": ["b", "a", "b"], "item": [30, 10, 10], "value": [1.0, 2.0, 3.0]}
    expected = ObservedTensor.from_frame(pa.table(columns))
    assert expected.coords.tolist() == [[1, 1], [0, 0], [1, 0]]
    assert expected.modes == (Mode("user", ["a", "b"]), Mode("item", [10, 30]))
    frames = [
        pd.DataFrame(columns, index=["x", "y", "z"]),
        pd.DataFrame(columns).astype({"user": "category"}),
        pl.DataFrame(columns),
        pl.DataFrame(columns).with_columns(pl.col("user").cast(pl.Categorical)),
        pa.RecordBatch.from_pydict(columns),
        pa.table(
            {
                "user": pa.chunked_array([["b"], ["a", "b"]]).dictionary_encode(),
                **{k: columns[k] for k in ("item", "value")},
            }
        ),
        pa.table({"user": pa.array(columns["user"], pa.string_view()), **{k: columns[k] for k in ("item", "value")}}),
        expected.to_pandas(),
        expected.to_polars(),
    ]
    for frame in frames:
        same(ObservedTensor.from_frame(frame), expected)


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.text("ab", max_size=2), st.booleans()), min_size=1, max_size=12),
    st.randoms(),
)
def test_the_encoding_does_not_depend_on_row_order(rows: Any, random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    tensors = []
    for version in (rows, shuffled):
        columns = [list(column) for column in zip(*version, strict=True)]
        table = pa.table([*columns, [1.0] * len(rows)], names=["n", "s", "b", "value"])
        tensors.append(ObservedTensor.from_frame(table, duplicates="first"))
    assert tensors[0].modes == tensors[1].modes
    assert sorted(tensors[0].coords.tolist()) == sorted(tensors[1].coords.tolist())


def test_unused_categories_and_reused_modes() -> None:
    train = ObservedTensor.from_frame(pd.DataFrame({"a": ["x", "y"], "b": [1, 2], "value": [1, 2]}))
    frame = pd.DataFrame({"a": pd.Categorical(["y"], ["z", "y"]), "b": [1], "value": [5]})
    assert ObservedTensor.from_frame(frame).shape == (1, 1)
    test = ObservedTensor.from_frame(frame, modes=train.modes)
    assert test.shape == train.shape
    assert test.coords.tolist() == [[1, 0]]


def test_value_columns_of_any_number_type() -> None:
    for kind in (pa.int8(), pa.float32(), pa.bool_(), pa.decimal128(5, 2)):
        table = pa.table({"a": [1, 2], "b": [1, 2], "value": pa.array([0, 1]).cast(pa.int8()).cast(kind)})
        tensor = ObservedTensor.from_frame(table)
        assert tensor.values.tolist() == [0.0, 1.0]
        assert tensor.values.dtype == (np.float32 if kind == pa.float32() else np.float64)


def test_the_tensor_does_not_alias_the_frame() -> None:
    frame = pl.DataFrame({"a": [1, 2], "b": [1, 2], "value": [1.0, 2.0]})
    tensor = ObservedTensor.from_frame(frame)
    assert tensor.values.flags.owndata
    assert not tensor.values.flags.writeable


def test_default_value_column_is_called_value_or_last() -> None:
    assert ObservedTensor.from_frame(pa.table({"value": [9], "a": [1], "b": [1]})).values.tolist() == [9.0]
    assert ObservedTensor.from_frame(pa.table({"a": [1], "b": [1], "stars": [9]})).values.tolist() == [9.0]
    chosen = ObservedTensor.from_frame(pa.table({"a": [1], "b": [1], "stars": [9], "c": [3]}), modes=["b", "c"])
    assert chosen.values.tolist() == [9.0]


def test_dense_and_scipy() -> None:
    array = np.array([[1.0, np.nan, 0.0], [np.nan, 5.0, 6.0]])
    tensor = ObservedTensor.from_dense(array, modes=["a", "b"], bounds=(0, 6))
    assert np.array_equal(tensor.to_dense(), array, equal_nan=True)
    assert ObservedTensor.from_dense(np.nan_to_num(array), missing=0).n_entries == 3
    assert ObservedTensor.from_dense(array, mask=array > 1).values.tolist() == [5.0, 6.0]
    assert ObservedTensor.from_dense(np.ma.masked_invalid(array)).n_entries == 4
    sparse = tensor.to_scipy()
    assert sparse.shape == (2, 3)
    assert sparse.nnz == 4  # the observed zero is stored
    for kind in ("coo", "csr", "csc", "lil", "dok"):
        back = ObservedTensor.from_scipy(sparse.asformat(kind))
        kept = array.copy()
        if kind in ("lil", "dok"):  # these formats forget stored zeros
            kept[0, 2] = np.nan if back.n_entries == 3 else 0.0
        assert np.array_equal(back.to_dense(), kept, equal_nan=True)


def test_scipy_duplicates_need_a_policy() -> None:
    sparse = scipy.sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))
    with pytest.raises(InputError, match="duplicated"):
        ObservedTensor.from_scipy(sparse)
    assert ObservedTensor.from_scipy(sparse, duplicates="sum").values.tolist() == [3.0]


def test_reading_needs_no_frame_library() -> None:
    import subprocess

    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('pandas', 'polars'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import pyarrow as pa, tensorveil.tensor as t\n"
        "x = t.ObservedTensor.from_frame(pa.table({'a': ['u'], 'b': [1], 'value': [2.0]}))\n"
        "assert x.values.tolist() == [2.0]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_mode_without_labels_is_an_index_column() -> None:
    table = pa.table({"a": ["x", "y"], "b": [3, 7], "value": [1, 2]})
    tensor = ObservedTensor.from_frame(table, modes=["a", Mode("b")])
    assert tensor.shape == (2, 8)
    assert tensor.modes[1].labels is None
    again = ObservedTensor.from_frame(table, modes=tensor.modes)
    same(again, tensor)


def frame_of(column: Any) -> Any:
    return pa.table({"a": column, "b": list(range(len(column))), "value": [1.0] * len(column)})


def test_times_with_a_zone_become_instants() -> None:
    times = pa.array([7200, 0], pa.timestamp("s", "Europe/Oslo"))
    labels = ObservedTensor.from_frame(frame_of(times)).modes[0].labels
    assert labels is not None
    assert labels.astype("M8[s]").astype(int).tolist() == [0, 7200]


def test_nulls_inside_a_dictionary_are_missing_labels() -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    with pytest.raises(InputError, match="column 1 of 3 must not contain missing labels"):
        ObservedTensor.from_frame(frame_of(coded))


@pytest.mark.parametrize(
    ("column", "known"),
    [(["x"], [1]), ([1], ["x"]), ([1.5], [1, 2]), ([2.0**70], [1, 2])],
)
def test_labels_of_another_kind_are_unknown(column: Any, known: Any) -> None:
    with pytest.raises(InputError, match="the given mode does not know"):
        ObservedTensor.from_frame(frame_of(pa.array(column)), modes=[Mode("a", known), "b"])


def test_numbers_match_across_types() -> None:
    tensor = ObservedTensor.from_frame(frame_of(pa.array([2.0, 1.0])), modes=[Mode("a", [1, 2]), "b"])
    assert tensor.columns[0].tolist() == [1, 0]
    tensor = ObservedTensor.from_frame(frame_of(pa.array([2, 1], pa.int8())), modes=[Mode("a", [1, 2]), "b"])
    assert tensor.columns[0].tolist() == [1, 0]


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_dictionaries_merge_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: Any) -> None:
    monkeypatch.setattr(tensor_labels, "PARALLEL_ITEMS", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: workers)
    rng = np.random.default_rng(workers)
    users = [f"user {i}" for i in rng.integers(200, size=1000)]
    table = pa.table({"user": users, "item": np.arange(1000), "value": rng.random(1000)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=90)
    tensor = read(tmp_path / "a.parquet")
    assert labels_of(tensor.modes[0]) == sorted(set(users))
    assert tensor.decode(tensor.coords)[0].tolist() == users


def test_chunks_that_share_a_dictionary_are_merged_once() -> None:
    items = pa.array(["b", "unused", "a"])
    chunks = [pa.DictionaryArray.from_arrays(pa.array(codes), items) for codes in ([0, 2], [2], [0])]
    dictionaries, owner = tensor_labels._distinct_dictionaries(chunks)
    assert (len(dictionaries), owner) == (1, [0, 0, 0])
    tensor = ObservedTensor.from_frame(frame_of(pa.chunked_array(chunks)))
    assert labels_of(tensor.modes[0]) == ["a", "b"]
    assert tensor.columns[0].tolist() == [1, 0, 0, 1]
