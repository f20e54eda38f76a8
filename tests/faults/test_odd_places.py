"""Names, places and ledgers that are not what they should be: nothing is charged for them, and what is said is true."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.errors import STANDS, FileTooLargeError
from tensorveil.memory import limit_memory
from tensorveil.privacy import Ledger, LedgerError, Pure
from tensorveil.release.release import note_release
from tensorveil.tensor.files.formats import read_array, read_table
from tensorveil.tensor.files.npy import create_array
from tensorveil.tensor.files.text import defuse_formulas

NO_TEXT = os.fsdecode(b"re\xff")


def new_ledger(path: Path, unit: str = "tensor") -> Any:
    return tv.Ledger.create(path, budget=tv.Budget(epsilon=9.0, delta=0.0), unit=unit, name="data")


def perturb(folder: Path, target: str) -> int:
    np.save(folder / "mine.npy", np.full((3, 4), 0.5))
    promise = ["--epsilon", "2", "--unit", "tensor", "--bounds", "0", "1", "--ledger", str(folder / "ledger")]
    return run(["perturb", str(folder / "mine.npy"), str(folder / target), *promise])


def test_names_that_are_no_text_are_refused_before_the_charge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = new_ledger(tmp_path / "ledger")
    assert perturb(tmp_path, f"{NO_TEXT}.npy") == 2
    assert "must be text" in capsys.readouterr().err
    assert ledger.entries() == ()
    with pytest.raises(LedgerError, match="must be text"):
        new_ledger(tmp_path / NO_TEXT)
    with pytest.raises(LedgerError, match="must be text"):
        Ledger.open(tmp_path / NO_TEXT)
    from tensorveil.release.folder import write_folder

    with pytest.raises(tv.InputError, match="must be text"), write_folder(tmp_path / NO_TEXT):
        pass


def test_half_characters_are_no_names_and_no_labels() -> None:
    """They come from damaged JSON; no file of ours could have held them, so a release could not be written."""
    with pytest.raises(tv.InputError, match="must be text"):
        tv.Mode("\ud800")
    with pytest.raises(tv.InputError, match="must be text") as caught:
        tv.Mode("film", ["a", "secret\ud800"])
    assert caught.value.__context__ is None
    assert "secret" not in str(caught.value)


def test_a_ledger_that_was_exchanged_during_a_run(tmp_path: Path) -> None:
    """The release stands, and nothing claims that its charge is in the new file."""
    data = tv.synthetic_cp((6, 5), 1, random_state=0).train
    ledger = tmp_path / "ledger"
    new_ledger(ledger, "value")
    private = tv.PrivateCP(
        1, epsilon=1.0, delta=0.0, unit="value", bounds=(-1, 2), method="mean", ledger=ledger
    ).fit(data)  # fmt: skip
    ledger.unlink()
    new_ledger(ledger, "value")
    with pytest.raises(LedgerError, match="if not, the file was replaced") as caught:
        note_release(private, tmp_path / "release")
    assert any(note.startswith(STANDS) for note in caught.value.__notes__)
    assert Ledger.open(ledger).entries() == ()


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "device"])
def test_a_ledger_that_is_no_file(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "ledger"
    make: Any = {
        "folder": place.mkdir,
        "pipe": lambda: os.mkfifo(place),
        "loop": lambda: place.symlink_to(place.name),
        "device": lambda: place.symlink_to("/dev/null"),
    }
    make[kind]()
    assert run(["budget", "show", str(place)]) == 2
    create = ["budget", "create", str(place), "--unit", "value", "--epsilon", "1", "--delta", "0", "--name", "data"]
    assert run(create) == 2


def test_a_ledger_is_not_created_over_another(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path / "ledger")
    ledger.charge(Pure(1.0), "test", "one")
    with pytest.raises(LedgerError, match="already"):
        new_ledger(tmp_path / "ledger")
    assert len(Ledger.open(tmp_path / "ledger").entries()) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("may not mount a disk")
    yield place
    subprocess.run(["umount", place], check=True)


def test_the_room_for_a_report_is_taken_before_the_charge(small_disk: Path, tmp_path: Path) -> None:
    """Written into a mapped file on a full disk, the report killed the process after the charge."""
    ledger = new_ledger(tmp_path / "ledger")
    np.save(tmp_path / "mine.npy", np.full((300_000,), 0.5))
    promise = ["--epsilon", "2", "--unit", "tensor", "--bounds", "0", "1", "--ledger", str(tmp_path / "ledger")]
    assert run(["perturb", str(tmp_path / "mine.npy"), str(small_disk / "out.npy"), *promise]) == 1
    assert ledger.entries() == ()
    assert list(small_disk.iterdir()) == []


def test_an_array_takes_its_room(tmp_path: Path) -> None:
    array = create_array(tmp_path / "x.npy", (1000, 100))
    assert (tmp_path / "x.npy").stat().st_blocks * 512 >= array.nbytes


# Files that say more than they are.


@pytest.mark.parametrize("name", ["x.mat", "x.npz", "x.png"])
def test_files_of_holes_are_not_loaded(tmp_path: Path, name: str) -> None:
    """They take no room on the disk, and as much memory as they say."""
    head = {"x.mat": b"\0" * 4, "x.npz": b"PK\3\4", "x.png": b"\x89PNG\r\n\x1a\n\x7f\xff\xff\xf0tEXt"}[name]
    with (tmp_path / name).open("wb") as file:
        file.write(head)
        file.truncate(1 << 36)
    with limit_memory("1 GB"), pytest.raises(FileTooLargeError):
        tv.read(tmp_path / name)


def test_a_table_that_would_not_fit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("user,film,value\n" + "ann,Alien,4\n" * 1000)
    with (tmp_path / "x.csv").open("r+b") as file:
        file.truncate(1 << 33)
    with limit_memory("1 GB"), pytest.raises(FileTooLargeError, match="put it into a store"):
        tv.read(tmp_path / "x.csv")


def test_a_text_that_stands_in_many_cells(tmp_path: Path) -> None:
    """Parquet keeps it once: 48 kB were 100 GB of memory."""
    path = tmp_path / "x.parquet"
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), pa.array(["x" * 1_000_000]))
    columns = {"user": pa.array(["a"] * 100_000), "film": pa.array(range(100_000)), "value": long}
    pq.write_table(pa.table(columns), path, store_schema=False)
    for read in (read_table, read_array, tv.read):
        with limit_memory("1 GB"), pytest.raises(FileTooLargeError):
            read(path)
    columns["value"] = pa.array(np.ones(100_000))
    columns["user"] = long
    pq.write_table(pa.table(columns), path, store_schema=False)
    assert tv.read(path).shape == (1, 100_000)  # as a label it is kept once


def test_columns_of_lists_are_left_out(tmp_path: Path) -> None:
    table = pa.table({"user": ["a", "b"], "film": ["x", "y"], "tags": [["q"], ["r"]], "value": [1.0, 2.0]})
    pq.write_table(table, tmp_path / "x.parquet")
    assert read_table(tmp_path / "x.parquet").column_names == ["user", "film", "value"]
    assert tv.read(tmp_path / "x.parquet", ["user", "film"], "value").shape == (2, 2)
    with pytest.raises(tv.InputError, match="not lists"):
        tv.read(tmp_path / "x.parquet", ["user", "tags"], "value")


@pytest.mark.parametrize("label", ["=1", " =1", "\t1", "\n=1", "\uff1d1", "\ufeff=1", "@x", "-1+1"])
def test_formulas_hide_behind_blanks_and_full_width(label: str) -> None:
    (column,) = defuse_formulas(pa.table({"a": [label, "plain"]})).columns
    assert column.to_pylist() == [f"'{label}", "plain"]
