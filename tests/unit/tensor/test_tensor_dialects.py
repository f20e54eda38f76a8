"""Text tables as they come: delimiters, decimals, encodings, detected or said; and what is wrong with damaged ones."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.tensor.files.dialect import Dialect, reads_lines_alone
from tensorveil.tensor.files.label_files import read_labels

WAYS: dict[str, tuple[str, str, str]] = {
    "utf-16": (",", ".", "utf-16"),
    "utf-16-le without a mark": (",", ".", "utf-16-le"),
    "utf-16-be without a mark": (",", ".", "utf-16-be"),
    "utf-8 with a mark": (",", ".", "utf-8-sig"),
    "latin-1": (",", ".", "latin-1"),
    "semicolons": (";", ".", "utf-8"),
    "tabs": ("\t", ".", "utf-8"),
    "bars": ("|", ".", "utf-16"),
    "decimal commas": (";", ",", "utf-8"),
    "decimal commas between tabs": ("\t", ",", "utf-8"),
    "decimal commas in quotes": (",", ",", "utf-8"),
    "a German spreadsheet": (";", ",", "cp1252"),
}


def make_rows(n: int) -> list[tuple[str, str, str, str]]:
    """Return rows with labels of text, of letters that are not ASCII, and of decimals, and a value."""
    rng = np.random.default_rng(0)
    cells = rng.choice(40 * 50 * 60, n, replace=False)
    values = np.round(rng.normal(3, 2, n), 2)
    rows = zip(cells % 40, cells // 40 % 50, cells // 2000, values, strict=True)
    return [(f"Zoë {user}", f"film {film}", f"{0.5 * time:.1f}", f"{value}") for user, film, time, value in rows]


def write(path: Path, rows: Sequence[tuple[str, ...]], way: str) -> Path:
    delimiter, decimal, encoding = WAYS[way]
    lines = ["spectateur,film,heure,note".replace(",", delimiter)]
    for row in rows:
        fields = [field.replace(".", decimal) if k > 1 else field for k, field in enumerate(row)]
        lines.append(delimiter.join(f'"{field}"' if delimiter in field else field for field in fields))
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return path


def assert_same(found: tv.ObservedTensor, expected: tv.ObservedTensor) -> None:
    assert [mode.name for mode in found.modes] == [mode.name for mode in expected.modes]
    for one, other in zip(found.modes, expected.modes, strict=True):
        assert one.labels is not None
        assert other.labels is not None
        assert one.labels.tolist() == other.labels.tolist()
    np.testing.assert_array_equal(found.coords, expected.coords)
    np.testing.assert_array_equal(found.values, expected.values)


def check_all_ways(folder: Path, n: int) -> None:
    rows = make_rows(n)
    WAYS["plain"] = (",", ".", "utf-8")
    expected = tv.read(write(folder / "plain.csv", rows, "plain"))
    assert expected.shape == (40, 50, 60) or n < 1000
    for way, (delimiter, decimal, encoding) in WAYS.items():
        path = write(folder / "x.csv", rows, way)
        assert_same(tv.read(path, delimiter=delimiter, decimal=decimal, encoding=encoding), expected)
        if encoding in ("latin-1", "cp1252"):
            with pytest.warns(tv.GuessWarning, match="Windows-1252"):
                assert_same(tv.read(path), expected)
        else:
            assert_same(tv.read(path), expected)


def test_a_table_is_the_same_however_it_is_written(tmp_path: Path) -> None:
    check_all_ways(tmp_path, 600)


@pytest.mark.slow
def test_large_tables_are_the_same_however_they_are_written(tmp_path: Path) -> None:
    check_all_ways(tmp_path, 100_000)


def test_thousands_are_not_taken_for_decimals(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('a,b,value\nx,1,"1,200"\ny,2,"3,400"\n')
    with pytest.raises(
        tv.InputError, match=r"line 2 of the file\. It looks like a number with signs between thousands"
    ):
        tv.read(tmp_path / "x.csv")
    assert tv.read(tmp_path / "x.csv", decimal=",").values.tolist() == [1.2, 3.4]
    for number, said in (("1.500,00", None), ("1,500.00", None), ("1,500", "say decimal=','"), ("1,5", "say decimal")):
        (tmp_path / "y.csv").write_text(f'a,b,value\nx,1,"{number}"\ny,2,three\n')
        with pytest.raises(tv.InputError, match="line 2") as told:
            tv.read(tmp_path / "y.csv")
        assert (said or "without them") in str(told.value)
        if said is None:  # a decimal comma alone would not help
            assert "decimal" not in str(told.value)
            with pytest.raises(tv.InputError, match=r"without them\.$"):
                tv.read(tmp_path / "y.csv", decimal=",")
    (tmp_path / "x.csv").write_text('a,b,value\nx,1,"1,200"\ny,2,"3,45"\n')
    assert tv.read(tmp_path / "x.csv").values.tolist() == [1.2, 3.45]


@pytest.mark.parametrize(
    "wrong",
    [{"delimiter": ";;"}, {"delimiter": "a"}, {"delimiter": '"'}, {"decimal": ";"}, {"encoding": "rot13"},
     {"encoding": "no such"}],
)  # fmt: skip
def test_what_is_no_dialect_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(tv.InputError, match=f"{next(iter(wrong))} must be"):
        Dialect(**wrong)


def test_encodings_whose_lines_depend_on_each_other_are_known() -> None:
    alone = {name: reads_lines_alone(name) for name in ("utf-8", "utf-16-le", "latin-1", "cp1250", "koi8-r")}
    assert all(alone.values())
    assert not any(map(reads_lines_alone, ("utf-7", "gbk", "shift_jis", "iso2022_jp", "utf-32", "cp037")))


def test_lists_of_labels_come_in_any_encoding(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le"):
        (tmp_path / "films.txt").write_bytes("Alien\nFilm 2\nAmélie\n".encode(encoding))
        assert read_labels(str(tmp_path / "films.txt"), "film") == ["Alien", "Film 2", "Amélie"]
    for name in ("films.txt", "films.csv"):
        (tmp_path / name).write_bytes("title\nAmélie\nÆon\n".encode("latin-1"))
        with pytest.warns(tv.GuessWarning, match="Windows-1252"):
            assert read_labels(str(tmp_path / name), "film")[-2:] == ["Amélie", "Æon"]
    (tmp_path / "films.txt").write_bytes(b"Am\x81lie\0")
    with pytest.raises(tv.InputError, match="one label per line"):
        read_labels(str(tmp_path / "films.txt"), "film")


# Damage.

GOOD = [b"user,film,rating\n"] + [b"u%d,f%d,%d\n" % (i, j, 1 + (i + j) % 5) for i in range(20) for j in range(5)]
SECRET = b"mallory"


def put(place: int, line: bytes) -> bytes:
    return b"".join([*GOOD[:place], line, *GOOD[place:]])


def spreadsheet() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("xl/workbook.xml", SECRET)
    return content.getvalue()


DAMAGE: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", r"the file is empty \(0 bytes\)"),
    "blank": (lambda: b"\n\n \n", "blank lines only"),
    "names alone": (lambda: GOOD[0], "at least one row"),
    "zeros": (lambda: bytes(4096), "nothing but zero bytes"),
    "a spreadsheet": (spreadsheet, "a spreadsheet or another archive"),
    "a web page": (lambda: b"<!DOCTYPE html>\n<p>" + SECRET + b", sorry", "a web page"),
    "json": (lambda: b'[{"user": "' + SECRET + b'"}]', "the file holds JSON"),
    "a pointer": (lambda: b"version https://git-lfs.github.com/spec/v1\noid x\n", "git lfs pull"),
    "a field too few": (lambda: put(31, SECRET + b",f1\n"), "Line 32 has 2 fields; the first line has 3"),
    "a field too many": (lambda: put(31, SECRET + b",f1,2,9\n"), "Line 32 has 4 fields; the first line has 3"),
    "an open quote": (lambda: put(41, b'"' + SECRET + b",f1,2\n"), "Line 42 opens a quote that is never closed"),
    "a zero byte": (lambda: put(17, SECRET + b"\0,f1,2\n"), "line 18 holds a zero byte"),
    "no text": (lambda: put(25, SECRET + b"\x81\xff,f1,2\n"), "no text in UTF-8: line 26"),
    "half a letter": (lambda: b"".join(GOOD).decode().encode("utf-16")[:-1], "no text in UTF-16: it ends within"),
    "another sign": (lambda: b"".join(GOOD).replace(b",", b"^"), "its first line holds one column"),
    "the names again": (lambda: put(60, GOOD[0]), "line 61 of the file. It holds the names of the columns again"),
    "words": (lambda: put(50, b"u99,f1," + SECRET + b"\n"), r"must hold numbers.*line 51 of the file\.$"),
    "a unit": (lambda: put(50, b"u99,f1,3 km\n"), "line 51 of the file. It looks like a number with a unit"),
    "no value": (lambda: put(50, SECRET + b",f1,\n"), "missing values.*line 51"),
    "no label": (lambda: put(50, b"," + SECRET + b",2\n"), "missing labels.*line 51"),
    "no number": (lambda: put(50, SECRET + b",f1,nan\n"), "must not contain NaN.*line 51"),
    "infinite": (lambda: put(50, SECRET + b",f1,-inf\n"), "infinities.*line 51"),
    "twice": (lambda: put(50, GOOD[3]), "share their coordinates.*line 51"),
    "no names": (lambda: b"".join(GOOD[1:]).replace(b"u0", b"7"), "the first line must name the columns"),
    "an index of pandas": (lambda: b"".join(b"," + line for line in GOOD), r"no name.*modes=\['user', 'film'\]"),
    "names twice": (lambda: b"user,user,rating\nx,y,1\n", "different column names"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_every_damage_has_its_own_cause_and_line(tmp_path: Path, kind: str) -> None:
    make, words = DAMAGE[kind]
    (tmp_path / "x.csv").write_bytes(make())
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(make()))
    for name in ("x.csv", "x.csv.gz")[: 1 if kind in ("empty", "a spreadsheet") else 2]:
        with pytest.raises(tv.InputError, match=words) as caught:
            tv.read(tmp_path / name)
        assert SECRET.decode() not in str(caught.value)
        assert caught.value.__context__ is None or SECRET.decode() not in str(caught.value.__context__)


def test_a_compressed_file_that_is_cut_or_changed(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(GOOD) * 40)
    for content in (whole[:-40], whole[:60] + b"\0\0\0" + whole[63:]):
        (tmp_path / "x.csv.gz").write_bytes(content)
        with pytest.raises(tv.InputError, match=r"compressed \(gzip\) file is damaged or cut short"):
            tv.read(tmp_path / "x.csv.gz")


def test_lines_are_counted_as_in_the_file(tmp_path: Path) -> None:
    # Blank lines and fields of several lines count; a value is out of bounds on line 6.
    (tmp_path / "x.csv").write_text('a,b,value\n\n"x\nx",1,2\n\ny,1,9\n')
    with pytest.raises(tv.InputError, match=r"bounds \(1, 5\).*line 6 of the file"):
        tv.read(tmp_path / "x.csv", bounds=(1, 5))


# Private runs: the line of names tells, rows do not.

LISTS: dict[str, Any] = {"labels": {"film": [f"f{n}" for n in range(5)]}, "unit": "slice:user", "bounds": (1, 5)}


def test_private_runs_say_what_the_names_cannot_tell(tmp_path: Path) -> None:
    text = b"".join(GOOD).decode().replace(",", ";")
    (tmp_path / "x.csv").write_bytes(text.encode("utf-16"))
    with pytest.raises(tv.InputError, match="decimal must be said"):
        tv.read_privately(tmp_path / "x.csv", value="rating", **LISTS)
    assert tv.read_privately(tmp_path / "x.csv", value="rating", decimal=",", **LISTS).n_entries == 100
    (tmp_path / "x.csv").write_bytes("".join(text).replace("user", "usé").encode("latin-1"))
    with pytest.raises(tv.InputError, match="encoding: the line of names"):
        tv.read_privately(tmp_path / "x.csv", value="rating", decimal=".", **LISTS)
    with pytest.raises(tv.InputError, match="every line by itself"):
        tv.read_privately(tmp_path / "x.csv", value="rating", decimal=".", encoding="iso2022_jp", **LISTS)


def test_damage_of_private_files_is_told_without_lines(tmp_path: Path) -> None:
    for content, words in ((b"", "is empty"), (b"<html>,x\n", "a web page"), (b"user^film\nx^y\n", "one column")):
        (tmp_path / "x.csv").write_bytes(content)
        with pytest.raises(tv.InputError, match=words):
            tv.read_privately(tmp_path / "x.csv", value="rating", **LISTS)
    (tmp_path / "x.csv").write_bytes(put(31, b"u1,f1\n"))
    with pytest.raises(tv.InputError, match="same number of fields in every line") as caught:
        tv.read_privately(tmp_path / "x.csv", unit="value", bounds=(1, 5), value="rating")
    assert "32" not in str(caught.value)


@pytest.mark.parametrize("private", [False, True])
def test_identifiers_too_long_for_floats_stay_apart(tmp_path: Path, private: bool) -> None:
    """Beyond 2^53, or beyond 64 bits, numbers would be merged; then they are text, as they are written."""
    ids = ["12345678901234567890", "12345678901234567891", "12345678901234567892"]
    path = tmp_path / "long.csv"
    path.write_text("u,f,v\n" + "".join(f"{each},{k},{k + 1}\n" for k, each in enumerate(ids)))
    rules: dict[str, Any] = {"unit": "value", "bounds": (1, 5)} if private else {}
    with pytest.warns(tv.GuessWarning, match="are text: column 'u'"):
        found = (tv.read_privately if private else tv.read)(path, modes=["u", "f"], value="v", **rules)
    assert found.shape == (3, 3)
    assert found.modes[0].labels is not None
    assert list(found.modes[0].labels) == ids
    mixed = tmp_path / "mixed.csv"
    mixed.write_text("u,f,v\n2345678901234567890,a,1\n2345678901234567891,b,2\n1.5,c,1e17\n")
    with pytest.warns(tv.GuessWarning, match="are text: column 'u'"):
        read = tv.read(mixed)
    assert read.shape == (3, 3)
    assert read.values.max() == 1e17
