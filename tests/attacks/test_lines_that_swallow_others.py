"""One line of a file that takes others with it: an open quote, a byte that is no text, a field too many.

Rows are to become entries, or nothing, each by itself. But a quote that was never closed swallowed all rows behind it,
one byte that is no text made nothing of all rows, and other bad lines had the file refused.
"""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tests.released import mask_released

GOOD = [b"%d,1,4" % user for user in range(1, 6)]
BAD = {
    "an open quote": b'0,0,"3',
    "an open quote behind a letter that looks like one": b'x","',
    "a quote within a quote": b'0,"a""b,3',
    "no text": b"0,0,\xff",
    "an index that is no text": b"\xff,0,3",
    "a field too many": b"0,0,3,\xff",
    "a field too few": b"0,0",
    "a broken line": b"0,0\r,x",
    "an endless line": b"0,0," + b"3" * 3_000_000,
    "an endless part of a broken line": b"0,0,\r" + b"3" * 300_000,
    "a null": b"0,0,\x00",
    "fractions": b"0.5,0,3",
    "an index that is no number": b"x,0,3",
    "an index that is too long": b"99999999999999999999,0,3",
    "no value": b"0,0,",
}
RULES: dict[str, Any] = {
    "shape": (9, 3),
    "bounds": (1, 5),
    "duplicates": "keep",
    "missing": "drop",
    "out_of_bounds": "clip",
    "out_of_range": "drop",
}


def write(path: Path, lines: list[bytes]) -> Path:
    if path.suffix == ".tns":
        content = b"\n".join(line.replace(b",", b" ") for line in lines)
    else:
        content = b"\n".join([b"user,film,rating", *lines])
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read(path: Path) -> Any:
    more: dict[str, Any] = {"index_base": 0} if path.suffix == ".tns" else {"value": "rating", "labels": False}
    tensor = tv.read(path, **more, **RULES)
    return np.column_stack([tensor.coords, tensor.values]).tolist()


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tns"])
@pytest.mark.parametrize("place", [0, 2, 5])
@pytest.mark.parametrize("which", BAD)
def test_every_line_is_read_by_itself(tmp_path: Path, which: str, place: int, ending: str) -> None:
    good = read(write(tmp_path / f"good.{ending}", GOOD))
    assert len(good) == len(GOOD)
    assert read(write(tmp_path / f"bad.{ending}", [*GOOD[:place], BAD[which], *GOOD[place:]])) == good


@pytest.mark.parametrize("ending", ["csv", "tns"])
def test_a_mark_of_byte_order_counts_wherever_it_is(tmp_path: Path, ending: str) -> None:
    # Readers take the first one off: a line would be an entry only if no other is before it.
    marked = b"\xef\xbb\xbf" + GOOD[0]
    assert read(write(tmp_path / f"before.{ending}", [marked, GOOD[1]])) == [[1, 1, 4], [2, 1, 4]]
    assert read(write(tmp_path / f"behind.{ending}", [GOOD[1], marked])) == [[2, 1, 4], [1, 1, 4]]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tns"])
def test_the_only_line_does_not_show(tmp_path: Path, ending: str) -> None:
    # Without it, a header is all there is, and no line end is behind it.
    assert read(write(tmp_path / f"one.{ending}", GOOD[:1])) == [[1, 1, 4]]
    assert read(write(tmp_path / f"none.{ending}", [])) == []


def test_quotes_that_are_closed_are_read(tmp_path: Path) -> None:
    lines = [b'"1","2","4"', b'"2",1,"4"', b'3,"1",4', b'4,1,"a ""number"", or none"', b'5,1,4"']
    assert read(write(tmp_path / "quoted.csv", lines)) == [[1, 2, 4], [2, 1, 4], [3, 1, 4]]


@pytest.mark.parametrize("which", BAD)
def test_the_command_says_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str], which: str) -> None:
    said = set()
    for name, lines in (("without", GOOD), ("with", [*GOOD, BAD[which]])):
        data = write(tmp_path / "ratings.csv", lines)
        given = ["--indices", "--private-shape", "9,3", "--value", "rating", "--unit", "entry", "--bounds", "1", "5"]
        release = tmp_path / name
        code = run(["complete", str(data), *given, "--epsilon", "1", "--rank", "1", "-o", str(release)])
        shown = capfd.readouterr()
        said.add((code, mask_released(shown.out.replace(str(release), "release")), shown.err))
    assert len(said) == 1


@pytest.mark.parametrize("value", [b"\xff", b"x", b"", b"1e", b"nan"])
@pytest.mark.parametrize("ending", ["csv", "tns"])
def test_values_that_are_no_numbers_take_no_others_with_them(tmp_path: Path, ending: str, value: bytes) -> None:
    # In unit value too: positions are public, and the other values are there.
    if (ending, value) == ("tns", b""):
        pytest.skip("a line without a value is no line of this format")
    data = write(tmp_path / f"ratings.{ending}", [*GOOD, b"0,0," + value])
    more: dict[str, Any] = {"value": "rating"} if ending == "csv" else {"index_base": 0}
    tensor = tv.read(data, **more, bounds=(1, 5), missing="drop", out_of_bounds="clip")
    assert tensor.n_entries == len(GOOD)


def test_without_a_header_no_line_decides_on_others(tmp_path: Path) -> None:
    for lines in ([b"0,0,3,4", *GOOD], [*GOOD, b"0,0,3,4"]):
        (tmp_path / "plain.csv").write_bytes(b"\n".join(lines))
        with pytest.raises(tv.InputError, match="same number of fields"):
            tv.read(tmp_path / "plain.csv", ["f0", "f1"], "f2", labels=False, header=False, **RULES)
