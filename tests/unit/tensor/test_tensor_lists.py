"""Public lists of labels: what is compared with what, and which lists are refused."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tensorveil as tv
from tensorveil.tensor.files.label_files import read_labels
from tensorveil.tensor.lists import find_listed, label_key, number_owners, settle_lists


@pytest.mark.parametrize(
    "same",
    [
        ["7", 7, 7.0, "7.0", " 07 ", "+7", "7e0", "0x7", np.int8(7)],
        ["é", "e\u0301", " é\t"],
        ["2024-05-01", np.datetime64("2024-05-01"), "2024-05-01 00:00:00", "2024-05-01T00:00Z"],
        [True, "true", "TRUE"],
        ["9007199254740993", 9007199254740993],
    ],
)
def test_one_label_has_one_key_however_it_is_written(same: list[Any]) -> None:
    assert len({label_key(label) for label in same}) == 1


def test_different_labels_have_different_keys() -> None:
    labels = [
        "Alien",
        "alien",
        "7",
        "7a",
        7.5,
        "9007199254740993",
        "9007199254740992",
        "true",
        "1",
        "1e999x",
        "2024-05-01",
    ]
    assert len({label_key(label) for label in labels}) == len(labels)
    assert [label_key(label) for label in ("", "  ", None, float("nan"), b"\xff", [1])] == [None] * 6


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([], "at least one label"),
        (["a", "a"], "labels 1 and 2 are the same"),
        (["a", " a"], "labels 1 and 2 are the same"),
        (["é", "e\u0301"], "labels 1 and 2 are the same"),
        (["7", "07"], "labels 1 and 2 differ only in how they are written"),
        ([1.0, 2.0, np.nan], "label 3 is missing"),
        (["a", None], "label 2 is missing"),
        (["a", ""], "label 2 is empty"),
        ([["a"], ["b"]], "flat sequence"),
        ("films", "must be a list"),
        (pa.table({"a": [1], "b": [2]}), "one column"),
    ],
)
def test_lists_that_do_not_say_who_is_who_are_refused(labels: Any, said: str) -> None:
    with pytest.raises(tv.InputError, match=said):
        settle_lists({"film": labels})


def test_a_row_finds_its_place_whatever_stands_in_its_column() -> None:
    mode = settle_lists({"film": ["7", "x", "12.5"]})["film"]
    columns = [["7", "x", "12.5", None, "y"], ["7", None], [7, 8], [7.0, 12.5, float("nan")], [b"x", b"\xff"]]
    found = [find_listed(pa.chunked_array([pa.array(column)]), mode).tolist() for column in columns]
    assert found == [[0, 1, 2, -1, -1], [0, -1], [0, -1], [0, 2, -1], [1, -1]]
    assert find_listed(pa.chunked_array([[["x"]]]), mode).tolist() == [-1]


def test_owners_are_numbered_whatever_the_order_of_rows() -> None:
    rows = ["bob", "ann", None, "bob", " ann"]
    for order in itertools.permutations(range(len(rows))):
        found, mode = number_owners(pa.chunked_array([[rows[k] for k in order]]), "user")
        assert mode.labels is not None
        assert mode.labels.tolist() == ["ann", "bob"]
        assert [found[order.index(k)] for k in range(len(rows))] == [1, 0, -1, 1, 0]


def test_lists_in_files(tmp_path: Path) -> None:
    (tmp_path / "films.csv").write_text("id,title\n1,Alien\n2,007\n")
    (tmp_path / "one.tsv").write_text("film\n007\n7a\n")
    (tmp_path / "plain.txt").write_text("\ufeffAlien\n\nBrazil, 1985\n", encoding="utf-8")
    (tmp_path / "ids").write_text("12\n7\n")
    assert read_labels(f"{tmp_path}/films.csv:title", "film") == ["Alien", "007"]
    assert read_labels(f"{tmp_path}/films.csv:id", "film") == [1, 2]
    assert read_labels(f"{tmp_path}/one.tsv", "film") == ["007", "7a"]
    assert read_labels(f"{tmp_path}/plain.txt", "film") == ["Alien", "Brazil, 1985"]
    assert read_labels(f"{tmp_path}/ids", "film") == [12, 7]
    for place, said in (("films.csv", "several"), ("films.csv:x", "no column 'x'"), ("none.csv", "not found"),
                        ("ids:x", "no table")):  # fmt: skip
        with pytest.raises(tv.InputError, match=said):
            read_labels(f"{tmp_path}/{place}", "film")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "film\nAlien\nBrazil\n", ["Alien", "Brazil"]),
        ("a.csv", "Film title\nAlien\nBrazil\n", ["Alien", "Brazil"]),
        ("a.csv", "filmId\n7\n8\n", [7, 8]),
        ("a.csv", "Alien\nBrazil\n", "'Alien', could be a label or the name of the column.*film=a.csv:Alien"),
        ("a.tsv", "101\n102\n", "could be a label"),
        ("a.csv:Alien", "Alien\nBrazil\n", ["Brazil"]),
        ("a.txt", "film\nAlien\n", "first label in a.txt is the name of mode 'film'"),
        ("a.json", '["Alien", "Brazil"]', ["Alien", "Brazil"]),
        ("a.json", "\ufeff[\n7,\n8\n]\n", [7, 8]),
        ("a.txt", '["Alien", "Brazil"]\n', ["Alien", "Brazil"]),
        ("a.txt", "[Rec]\n[Rec]²\n[x]", ["[Rec]", "[Rec]²", "[x]"]),
        ("a.json", '["Alien", 7]', "texts and numbers"),
        ("a.json", '[{"film": "Alien"}]', "one array of texts"),
        ("a.json", "[Alien]", "one array of texts"),
    ],
)
def test_no_label_is_lost_or_made_of_others(tmp_path: Path, name: str, text: str, expected: list[Any] | str) -> None:
    (tmp_path / name.partition(":")[0]).write_text(text, encoding="utf-8")
    if isinstance(expected, list):
        assert read_labels(f"{tmp_path}/{name}", "film") == expected
    else:
        with pytest.raises(tv.InputError, match=expected):
            read_labels(f"{tmp_path}/{name}", "film")


def test_open_reading_leaves_out_what_is_not_on_the_list(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("user,film,rating\nann,7,3\nbob,07,4\nann,8,5\nbob,x,1\n")
    with pytest.warns(tv.LeftOutWarning, match="1 of 4 rows are left out, whose 'film' is not") as told:
        tensor = tv.read(path, value="rating", labels={"film": [8, 7, 9]})
    assert [each.filename for each in told] == [__file__]
    assert tensor.shape == (2, 3)
    assert sorted(zip(tensor.coords[:, 1].tolist(), tensor.values.tolist(), strict=True)) == [
        (0, 5.0),
        (1, 3.0),
        (1, 4.0),
    ]
    with pytest.raises(tv.InputError, match="no row of the table has its 'film'"):
        tv.read(path, value="rating", labels={"film": ["none"]})
    with pytest.raises(tv.InputError, match="no mode 'flim'"):
        tv.read(path, value="rating", labels={"flim": ["none"]})


def test_models_know_labels_as_they_were_read_and_as_lists_have_them() -> None:
    films = tv.Mode("film", ["Amélie", "Brazil", "Alien"])
    listed = tv.CPModel(factors=(np.array([[0.0], [1.0], [2.0]]), np.array([[1.0]])), modes=(films, tv.Mode("one")))
    written = ["Alien ", "Ame\u0301lie", "Brazil", " Alien"]
    asked = pa.table({"film": written, "one": [0] * 4})
    np.testing.assert_array_equal(listed.predict(asked), [2.0, 0.0, 1.0, 2.0])
    np.testing.assert_array_equal(listed.modes[0].encode(written), [2, 0, 1, 2])
    for wrong in ("alien", " "):
        with pytest.raises(tv.InputError, match="has not seen"):
            listed.predict(pa.table({"film": [wrong], "one": [0]}))
        with pytest.raises(tv.InputError, match="does not know"):
            listed.modes[0].encode([wrong])
    exact = tv.Mode("film", ["Alien", "Alien "])
    np.testing.assert_array_equal(exact.encode(["Alien ", "Alien"]), [1, 0])
