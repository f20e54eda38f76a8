"""A table whose value column nobody names: the last column was taken, and what was to be protected became public.

In the layout user, film, rating, timestamp the ratings were a mode, whose labels are published, and the clipping that
privacy asks for hid the mistake.
"""

from pathlib import Path
from typing import Any

import pytest

import tensorveil as tv
from tensorveil.cli.main import run

TABLE = "userId,movieId,rating,timestamp\n1,10,4.5,1112486027\n1,20,3.5,1112484676\n2,10,2.0,1112484819\n2,30,5.0,111\n"
PROMISE = ["--epsilon", "1", "--unit", "value", "--bounds", "1", "5", "--rank", "1"]


def test_the_value_column_must_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ratings.csv").write_text(TABLE)
    assert run(["complete", str(tmp_path / "ratings.csv"), *PROMISE, "-o", str(tmp_path / "release")]) == 2
    assert "--value" in capsys.readouterr().err
    assert not (tmp_path / "release").exists()


def test_in_python_too(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text(TABLE)
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "value", "bounds": (1, 5)}
    with pytest.warns(tv.GuessWarning, match="was taken for the value"):
        guessed = tv.read(tmp_path / "ratings.csv")
    with pytest.raises(tv.InputError, match="value must name the column"):
        tv.PrivateCP(1, **promise).fit(guessed)


def test_what_is_protected_and_what_is_public_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ratings.csv").write_text(TABLE)
    named = ["--value", "rating", "--modes", "userId,movieId"]
    assert run(["complete", str(tmp_path / "ratings.csv"), *named, *PROMISE, "-o", str(tmp_path / "release")]) == 0
    words = " ".join(capsys.readouterr().out.split())
    card = " ".join((tmp_path / "release" / "MODEL_CARD.md").read_text().split())
    for text in (words, card):
        assert "rating" in text
        assert "userId, movieId" in text


def test_a_first_row_is_not_taken_for_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plain.csv").write_text("1,10,4.5\n1,20,3.5\n2,10,2.0\n")
    entry = ["--epsilon", "1", "--unit", "entry", "--bounds", "1", "5", "--indices", "--private-shape", "9,99"]
    for promise in (PROMISE, entry):
        given = [str(tmp_path / "plain.csv"), *promise, "--value", "4.5", "-o", str(tmp_path / "release")]
        assert run(["complete", *given]) == 2
        assert not (tmp_path / "release").exists()
    assert "4.5" not in capsys.readouterr().err
