"""One row that decides how others are read: by a byte of another encoding, a comma among points, half a letter.

Open runs guess how a table is written from its rows. In private runs a single person's row could then turn everybody
else's 4,5 into something else, or into nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv

NAMES = "user;film;rating\n"
LINES = [f"u{n};f{n % 3};{n % 4 + 1},{n % 2}5\n" for n in range(12)]
PROMISE: dict[str, Any] = {"bounds": (1, 9), "value": "rating", "labels": {"film": ["f0", "f1", "f2"]}}
# What one user may have written.
BAD = {
    "a point": b"u99;f1;4.5\n",
    "a word": b"u99;f1;high\n",
    "whole numbers": b"u99;f1;4\n",
    "thousands": b"u99;f1;1.234,5\n",
    "another encoding": b"u\xe9\x81;f1;4,5\n",
    "a value that is no text": b"u99;f1;\xff\n",
    "zeros": b"u99;f1;4\0,\0" + b"5\n",
    "quotes": b'u99;"f1;4,5\n',
    "another delimiter": b"u99,f1,4\tx|y\n",
    "a mark of byte order": b"\xff\xfeu99;f1;4,5\n",
    "a date": b"u99;f1;2024-01-03\n",
}


def read(path: Path, unit: str, **options: Any) -> list[list[float]]:
    if unit == "value":
        tensor = tv.read_privately(path, unit=unit, **(PROMISE | options), duplicates="first")
        labels = tensor.modes[0].labels
        assert labels is not None
        rows = zip(labels[tensor.coords[:, 0]].tolist(), tensor.coords[:, 1], tensor.values, strict=True)
        return sorted([user, film, value] for user, film, value in rows if user in {f"u{n}" for n in range(12)})
    tensor = tv.read_privately(path, unit="slice:user", **(PROMISE | options))
    entries = np.column_stack([tensor.coords[:, 1], tensor.values])
    return sorted(entries.tolist())


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
@pytest.mark.parametrize("kind", BAD)
def test_no_row_decides_how_others_are_read(tmp_path: Path, kind: str, encoding: str) -> None:
    extra = BAD[kind] if encoding != "utf-16" else BAD[kind].decode("latin-1").encode("utf-16-le")

    def write(name: str, *, at: int | None) -> Path:
        parts = [line.encode("utf-16-le" if encoding == "utf-16" else encoding) for line in (NAMES, *LINES)]
        if at is not None:
            parts.insert(at + 1, extra)
        (tmp_path / name).write_bytes((b"\xff\xfe" if encoding == "utf-16" else b"") + b"".join(parts))
        return tmp_path / name

    said = {"decimal": ",", "encoding": encoding}
    alone = read(write("alone.csv", at=None), "slice:user", **said)
    assert len(alone) == len(LINES)
    for at in (0, 5, len(LINES)):
        beside = read(write("beside.csv", at=at), "slice:user", **said)
        more = list(beside)
        for row in alone:
            more.remove(row)
        assert len(more) <= 1


@pytest.mark.parametrize(
    "kind", ["a point", "a word", "whole numbers", "thousands", "a value that is no text", "a date"]
)
def test_no_value_decides_how_others_are_read(tmp_path: Path, kind: str) -> None:
    (tmp_path / "alone.csv").write_text(NAMES + "".join(LINES))
    alone = read(tmp_path / "alone.csv", "value", decimal=",")
    assert len(alone) == len(LINES)
    (tmp_path / "beside.csv").write_bytes((NAMES + "".join(LINES)).encode() + BAD[kind])
    assert read(tmp_path / "beside.csv", "value", decimal=",") == alone


def test_half_a_pair_of_utf16_does_not_take_the_next_line(tmp_path: Path) -> None:
    lines = [line.replace(";", ",").replace(",05", "").replace(",15", "") for line in LINES]
    head = "user,film,rating\n".encode("utf-16-le")
    for at in (0, 4):
        parts = [line.encode("utf-16-le") for line in lines]
        parts.insert(at, "u99,f1,".encode("utf-16-le") + b"\x00\xd8" + "\n".encode("utf-16-le"))
        (tmp_path / "x.csv").write_bytes(b"\xff\xfe" + head + b"".join(parts))
        assert len(read(tmp_path / "x.csv", "slice:user")) == len(lines)


def test_no_moment_decides_how_others_are_binned(tmp_path: Path) -> None:
    days = [f"u{n},2024-01-0{n % 7 + 1}T0{n % 9}:30,{n % 5 + 1}\n" for n in range(12)]
    promise: dict[str, Any] = {"unit": "slice:user", "bounds": (1, 5), "value": "rating"}
    bins = {"when": ("day", "2024-01-01", "2024-01-07")}
    for when in ("2024-13-45", "x", "881250949", "2024-01-03T12:00+02:00", "", "2024-01-03", "1e300", "nan", "0x10"):
        for at in (0, 6):
            rows = [*days[:at], f"u99,{when},3\n", *days[at:]]
            (tmp_path / "x.csv").write_text("user,when,rating\n" + "".join(rows))
            found = tv.read_privately(tmp_path / "x.csv", bins=bins, **promise)
            assert found.shape[1] == 7
            assert found.n_entries == 12 + (when.startswith("2024-01-03"))
