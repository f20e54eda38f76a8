"""The errors of a release, from the command to its files: intervals, its own estimate, what was worth measuring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.privacy import Ledger
from tensorveil.release.release import load_release
from tests.flows.private_cases import assert_nothing_private, complete, new_ledger, write_table


def test_a_release_tells_its_own_error_and_fills_with_intervals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = write_table(tmp_path / "ratings.csv"), tmp_path / "release"
    assert complete(path, output, "--interval", "0.9", epsilon=20) == 0
    words = " ".join(capsys.readouterr().out.split())
    model, guarantee = load_release(output)
    assert not isinstance(model, tv.rounds.SharedModel)
    assert model.errors is not None
    told = f"RMSE about {model.errors.rmse:.3g}, from a noisy histogram of its residuals"
    card, page = ((output / name).read_text() for name in ("MODEL_CARD.md", "report.html"))
    for text in (words, card):
        assert told in text
        assert "before anything was spent: a guess of" in text
        assert "spent" in text
    assert "from a noisy histogram of its residuals" in page
    assert "a guess of" in page
    assert "errors to expect of its predictions" in guarantee.released
    filled = pyarrow.csv.read_csv(output / "filled.csv")
    assert filled.column_names == ["user", "film", "rating", "low", "high"]
    rows = zip(*(filled.column(name).to_pylist() for name in ("low", "rating", "high")), strict=True)
    assert all(1 <= low <= rating <= high <= 5 for low, rating, high in rows)
    assert_nothing_private(output, words)


def test_the_notes_of_the_stages_are_released(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = write_table(tmp_path / "ratings.csv"), tmp_path / "release"
    assert complete(path, output, "--json", epsilon=20) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["notes"]
    for name in ("MODEL_CARD.md", "report.html"):
        text = (output / name).read_text()
        assert all(note in text for note in facts["notes"])
    assert 0 < facts["estimated_rmse"] < 4
    assert facts["guessed_rmse"] == next(p["rmse"] for p in facts["expected"] if p["method"] == facts["method"])


def test_a_saved_release_predicts_with_intervals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output, answers = write_table(tmp_path / "ratings.csv"), tmp_path / "release", tmp_path / "answers.csv"
    assert complete(path, output, "--no-fill") == 0
    (tmp_path / "asked.csv").write_text("user,film\nu01,3\nu02,4\n")
    asked = ["predict", str(output / "model.npz"), "--at", str(tmp_path / "asked.csv"), "-o", str(answers)]
    assert run([*asked, "--interval", "0.8", "--value", "low"]) == 0
    table = pyarrow.csv.read_csv(answers)
    assert table.column_names == ["user", "film", "low", "predicted_low", "high"]
    assert run([*asked, "--interval", "1.5", "--force"]) == 2
    assert "--interval" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("unit", "options", "words"),
    [
        ("slice:user", ["--private-shape", "12,9"], "--interval needs --epsilon and --unit value"),
        ("value", ["--no-fill"], "--interval adds columns"),
        ("value", ["--filled-format", "png"], "--interval adds columns"),
        ("value", ["--spread", "-1"], "spread must be"),
        ("value", ["--spread", "2.5"], "spread must be"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_charged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: str, options: Any, words: str
) -> None:
    path = write_table(tmp_path / "ratings.csv", indices=unit == "entry")
    ledger = new_ledger(tmp_path / "ratings.ledger", unit)
    options = ["--interval", "0.9", "--ledger", ledger, *options]
    assert complete(path, tmp_path / "release", *options, unit=unit) != 0
    assert words in " ".join(capsys.readouterr().err.split())
    assert list(Ledger.open(ledger).entries()) == []


def test_open_runs_know_no_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_table(tmp_path / "ratings.csv")
    assert run(["complete", str(path), "-o", str(tmp_path / "result"), "--interval", "0.9"]) == 2
    assert "--interval needs --epsilon" in capsys.readouterr().err
    assert run(["complete", str(path), "-o", str(tmp_path / "result"), "--rank", "2"]) == 0
    (tmp_path / "asked.csv").write_text("user,film\nu01,3\n")
    asked = ["--at", str(tmp_path / "asked.csv"), "-o", str(tmp_path / "answers.csv"), "--interval", "0.9"]
    capsys.readouterr()
    assert run(["predict", str(tmp_path / "result" / "model.npz"), *asked]) != 0
    assert "does not know its errors" in " ".join(capsys.readouterr().err.split())


def test_a_declared_spread_scales_the_guess_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, guesses = write_table(tmp_path / "ratings.csv"), []
    for number, spread in enumerate((0.2, 0.4)):
        assert complete(path, tmp_path / str(number), "--spread", spread, "--method", "mean", "--json") == 0
        guesses.append(json.loads(capsys.readouterr().out)["guessed_rmse"])
        assert f"standard deviation of {spread}, as declared" in (tmp_path / str(number) / "report.html").read_text()
    assert guesses[1] == pytest.approx(2 * guesses[0], rel=0.1)
    facts = ["--shape", "943,1682", "--entries", "90570", "--bounds", "1", "5", "--epsilon", "1"]
    assert run(["plan", *facts, "--spread", "1.1"]) == 0
    assert "a standard deviation of 1.1, as declared" in " ".join(capsys.readouterr().out.split())
