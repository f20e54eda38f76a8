"""Tables of other kinds: Arrow files, JSON lines, SQLite, DuckDB, and cursors of databases."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather

import tensorveil as tv
from tensorveil.memory import limit_memory
from tensorveil.tensor.files.formats import read_table, write_table

ENDINGS = ["arrow", "feather", "jsonl", "jsonl.gz", "sqlite", "db", "duckdb"]
TABLE = pa.table({"user": ["ann", "böb", "ann"], "film": [7, 7, 501], "stars": [4.5, 1.0, 2.0]})
QUERY = "SELECT user, film, stars FROM entries"


def make() -> tv.ObservedTensor:
    return tv.ObservedTensor.from_frame(TABLE, value="stars", bounds=(1, 5))


def need(ending: str) -> None:
    if ending == "duckdb":
        pytest.importorskip("duckdb")


@pytest.mark.parametrize("ending", ENDINGS)
def test_tensors_and_tables_come_back(tmp_path: Path, ending: str) -> None:
    need(ending)
    path, tensor = tmp_path / f"x.{ending}", make()
    tensor.write(path)
    tensor.write(path)  # over an earlier one
    found = tv.read(path)
    assert found.value_name == "stars"
    assert [(mode.name, np.asarray(mode.labels).tolist()) for mode in found.modes] == [
        ("user", ["ann", "böb"]),
        ("film", [7, 501]),
    ]
    np.testing.assert_array_equal(found.coords, tensor.coords)
    np.testing.assert_array_equal(found.values, tensor.values)
    assert found.bounds == ((1, 5) if ending in ("arrow", "feather") else None)
    if not ending.endswith("gz"):
        write_table(TABLE, path)
        assert read_table(path).to_pylist() == TABLE.to_pylist()


@pytest.mark.parametrize("ending", ENDINGS)
def test_whole_users_are_read_by_public_lists(tmp_path: Path, ending: str) -> None:
    need(ending)
    path = tmp_path / f"x.{ending}"
    make().write(path)
    lists: dict[str, Any] = {"labels": {"film": [7, 8, 9]}, "modes": ["user", "film"], "value": "stars"}
    private = tv.read_privately(path, unit="slice:user", bounds=(1, 5), **lists)
    assert (private.shape, sorted(private.values.tolist())) == ((2, 3), [1.0, 4.5])


@pytest.mark.parametrize("ending", ["arrow", "jsonl", "sqlite", "duckdb"])
@pytest.mark.parametrize("damage", ["empty", "noise", "cut", "changed"])
def test_damaged_files_are_refused_without_quoting_them(tmp_path: Path, ending: str, damage: str) -> None:
    need(ending)
    path = tmp_path / f"x.{ending}"
    make().write(path)
    whole = path.read_bytes()
    half = len(whole) // 2
    content = {"empty": b"", "noise": b"mallory " * 99, "cut": whole[:half], "changed": whole[:40] + whole[90:]}
    path.write_bytes(content[damage])
    with pytest.raises(tv.InputError) as caught:
        tv.read(path)
    assert "mallory" not in str(caught.value)
    assert "böb" not in str(caught.value)


def test_a_line_that_is_no_object_is_named_in_open_runs_and_left_out_in_private_ones(tmp_path: Path) -> None:
    good = [json.dumps(row) for row in TABLE.to_pylist()]
    promise: dict[str, Any] = {"unit": "slice:user", "bounds": (1, 5), "labels": {"film": [7, 501]}}
    names: dict[str, Any] = {"modes": ["user", "film"], "value": "stars"}
    for bad in (
        '{"user": ',
        "[1]",
        "7",
        "\xff",
        '{"stars": [3]}',
        '{"user": "eve", "film": 7, "stars": "mallory"}',
        "{" * 99999,
    ):
        for at in (0, 2):
            content = "\n".join([*good[:at], bad, *good[at:]])
            (tmp_path / "x.jsonl").write_text(content, encoding="latin-1")
            assert tv.read_privately(tmp_path / "x.jsonl", **promise, **names).n_entries == 3
        if not bad.startswith('{"stars') and "mallory" not in bad:
            with pytest.raises(tv.InputError, match="Line 3 is none"):
                tv.read(tmp_path / "x.jsonl")
    with pytest.raises(tv.InputError, match="modes and value must be named"):
        tv.read_privately(tmp_path / "x.jsonl", **promise)


def test_no_cell_of_a_database_decides_how_others_are_read(tmp_path: Path) -> None:
    promise: dict[str, Any] = {"unit": "slice:user", "bounds": (1, 5), "labels": {"film": [7, 501]}, "value": "stars"}
    for extra in ("'high'", "x'ff00'", "NULL", "1e999", "4"):
        with closing(sqlite3.connect(tmp_path / "x.db")) as connection, connection:
            connection.execute("DROP TABLE IF EXISTS entries")
            connection.execute("CREATE TABLE entries (user, film, stars)")
            connection.execute("INSERT INTO entries VALUES ('a', 7, 4.5), (8, '501', '2.5'), ('c', 7.0, 1)")
            connection.execute(f"INSERT INTO entries VALUES ('eve', 501, {extra})")
        found = tv.read_privately(tmp_path / "x.db", **promise)
        assert found.n_entries == 3 + (extra in ("1e999", "4"))
        with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
            cursor = connection.execute(QUERY)
            assert tv.read_privately(cursor, **promise).n_entries == found.n_entries


def test_the_table_of_a_database_is_named(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection, connection:
        connection.execute('CREATE TABLE "a ""b""" (u, v, value)')
        connection.execute("CREATE TABLE c (u, v, value)")
        connection.execute('INSERT INTO "a ""b""" VALUES (1, 2, 3.5)')
    with pytest.raises(tv.InputError, match="variable must name the table"):
        tv.read(tmp_path / "x.db")
    with pytest.raises(tv.InputError, match="variable must name a table"):
        tv.read(tmp_path / "x.db", variable="d")
    assert tv.read(tmp_path / "x.db", variable='a "b"').values.tolist() == [3.5]


def test_queries_of_databases_are_tables(tmp_path: Path) -> None:
    make().write(tmp_path / "x.sqlite")
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as connection:
        found = tv.ObservedTensor.from_frame(connection.execute(QUERY))
        assert found.value_name == "stars"
        assert found.values.tolist() == [4.5, 1.0, 2.0]
        with pytest.raises(tv.InputError, match="holds no result"):
            tv.ObservedTensor.from_frame(connection.execute("CREATE TABLE more (x)"))


def test_queries_through_adbc_are_tables(tmp_path: Path) -> None:
    dbapi = pytest.importorskip("adbc_driver_sqlite.dbapi")
    make().write(tmp_path / "x.sqlite")
    with dbapi.connect(str(tmp_path / "x.sqlite")) as connection, connection.cursor() as cursor:
        cursor.execute(QUERY)
        assert tv.ObservedTensor.from_frame(cursor).values.tolist() == [4.5, 1.0, 2.0]


def test_queries_of_duckdb_are_tables() -> None:
    duckdb = pytest.importorskip("duckdb")
    query = "SELECT 'a' AS u, 'b' AS v, 1.5 AS w UNION ALL SELECT 'c', 'd', 2"
    with closing(duckdb.connect()) as connection:
        assert tv.ObservedTensor.from_frame(connection.sql(query)).n_entries == 2
        assert sorted(tv.ObservedTensor.from_frame(connection.execute(query)).values.tolist()) == [1.5, 2.0]


@pytest.mark.parametrize("ending", ["jsonl", "sqlite"])
def test_rows_of_objects_are_counted_before_they_are_made(tmp_path: Path, ending: str) -> None:
    n = 40_000
    tv.ObservedTensor(np.stack([np.arange(n), np.arange(n) % 7], axis=1), np.ones(n)).write(tmp_path / f"x.{ending}")
    assert (tmp_path / f"x.{ending}").stat().st_size < 3_000_000
    with limit_memory("8 MB"), pytest.raises(tv.InputError, match="must fit into memory"):
        tv.read(tmp_path / f"x.{ending}")


def test_programs_in_a_database_are_no_tables(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection, connection:
        connection.execute("CREATE TABLE a (u, v, value)")
        connection.execute("CREATE VIEW b AS SELECT * FROM a")
        connection.execute("INSERT INTO a VALUES (1, 2, 3.5)")
    assert tv.read(tmp_path / "x.db").values.tolist() == [3.5]
    with pytest.raises(tv.InputError, match="variable must name a table"):
        tv.read(tmp_path / "x.db", variable="b")


@pytest.mark.parametrize("compression", ["zstd", "lz4", "uncompressed"])
def test_an_arrow_file_that_declares_too_much(tmp_path: Path, compression: Any) -> None:
    n = 1_000_000
    table = pa.table({"a": pa.array(["x"] * n).dictionary_encode(), "b": np.zeros(n, np.int64), "v": np.zeros(n)})
    feather.write_feather(table, tmp_path / "x.feather", compression=compression)
    with limit_memory("10 MB"), pytest.raises(tv.InputError, match="must fit into memory"):
        tv.read(tmp_path / "x.feather")
    with limit_memory("200 MB"):
        assert read_table(tmp_path / "x.feather").num_rows == n
