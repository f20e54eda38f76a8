"""Matrices and pictures from the command to files, and the examples as scripts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.release.release import load_release
from tensorveil.tensor.files.images import write_image
from tests.flows.private_cases import RELEASE, assert_nothing_private, names, new_ledger, write_table
from tests.flows.private_cases import complete as complete_privately

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def ratings(tmp_path: Path) -> Any:
    return write_table(tmp_path / "ratings.csv")


def complete(path: Path, output: Any, *options: Any) -> Any:
    return run(list(map(str, ["complete", path, "-o", output, "--model", "matrix", "--threads", 1, *options])))


@pytest.mark.parametrize("solver", ["bayes", "als", "dlnm_qr", "sor", "altmin"])
def test_every_solver_from_the_command(
    ratings: Any, tmp_path: Path, solver: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete(ratings, tmp_path / "result", "--rank", 2, "--solver", solver, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["model"], summary["rank"]) == ("matrix", 2)
    assert tv.load_model(tmp_path / "result" / "model.npz").shape == (14, 9)


def test_the_rank_is_found_by_default(ratings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert complete(ratings, tmp_path / "result", "--json") == 0
    assert 1 <= json.loads(capsys.readouterr().out)["rank"] <= 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rank", 10], "at most the smaller side of the matrix, 9"),
        (["--rank", "auto", "--solver", "altmin"], "has no meaning for"),
        (["--filled-format", "png", "--at", "ratings.csv"], "Leave out --at"),
    ],
)
def test_what_is_refused(
    ratings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: Any,
    message: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert complete(ratings, tmp_path / "result", *options) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "result").exists()


def test_a_tensor_is_no_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tv.ObservedTensor.from_dense(np.ones((3, 3, 2))).write(tmp_path / "x.npz")
    assert complete(tmp_path / "x.npz", tmp_path / "result") == 2
    assert "a low-rank matrix has two modes" in capsys.readouterr().err
    assert complete(tmp_path / "x.npz", tmp_path / "result", "--filled-format", "png") == 2


@pytest.mark.parametrize("options", [[], ["--rank", "auto"], ["--solver", "sor"], ["--solver", "altmin"]])
def test_private_matrices(ratings: Any, tmp_path: Path, options: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = new_ledger(tmp_path / "x.ledger")
    release = tmp_path / "release"
    assert complete_privately(ratings, release, "--model", "matrix", "--ledger", ledger, *options) == 0
    said = capsys.readouterr()
    assert names(release) == RELEASE
    assert_nothing_private(release, said.out, said.err)
    model, guarantee = load_release(release)
    assert guarantee.private
    assert model.shape == (14, 9)
    assert complete_privately(ratings, tmp_path / "again", "--model", "matrix", "--ledger", ledger) == 2


def test_a_solver_is_an_option_of_private_matrices_alone(
    ratings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete_privately(ratings, tmp_path / "release", "--solver", "sor") == 2
    assert "--solver cannot be used with --epsilon" in capsys.readouterr().err
    assert complete_privately(ratings, tmp_path / "release", "--model", "matrix", "--solver", "als") == 2
    assert complete_privately(ratings, tmp_path / "r", "--model", "matrix", "--solver", "sor", "--method", "mean") == 2
    assert not (tmp_path / "release").exists()


def test_plans_for_matrices(capsys: pytest.CaptureFixture[str]) -> None:
    facts = ["--shape", "943,1682", "--entries", "90570", "--bounds", "1", "5", "--epsilon", "5", "--json"]
    plans = []
    for model in (["--model", "matrix"], ["--model", "matrix", "--rank", "8"], ["--model", "cp", "--rank", "8"]):
        assert run(["plan", *facts, *model]) == 0
        plans.append(json.loads(capsys.readouterr().out)["budgets"])
    assert plans[0] == plans[1] == plans[2]
    assert run(["plan", *facts, "--model", "matrix", "--rank", "944"]) == 2


def picture(colour: Any) -> Any:
    """A smooth picture of low rank, 60 % of its pixels seen."""
    x, y = np.linspace(0, 1, 40), np.linspace(0, 1, 32)
    grey = 128 + 90 * np.outer(np.sin(3 * y), np.cos(4 * x)) + 30 * np.outer(y, x)
    whole = np.stack([grey, 0.7 * grey, 255 - grey], axis=2) if colour else grey
    seen = np.random.default_rng(0).random(grey.shape) < 0.6
    return whole, np.where(seen[..., None] if colour else seen, whole, np.nan)


@pytest.mark.parametrize("colour", [False, True])
def test_pictures_in_and_out(tmp_path: Path, colour: Any) -> None:
    whole, left = picture(colour)
    write_image(left, tmp_path / "left.png")
    model = "cp" if colour else "matrix"
    options = ["--model", model, "--filled-format", "png", "--rank", "4", "--threads", "1"]
    assert run(["complete", str(tmp_path / "left.png"), "-o", str(tmp_path / "result"), *options]) == 0
    filled = tv.read(tmp_path / "result" / "filled.png").to_dense()
    assert np.sqrt(np.mean((filled - whole) ** 2)) < 4
    seen = ~np.isnan(left)
    np.testing.assert_array_equal(filled[seen], np.rint(np.clip(left[seen], 0, 255)))


def test_private_pictures_are_all_predicted(tmp_path: Path) -> None:
    """A pixel that was seen must not be copied into the release."""
    _, left = picture(colour=False)
    write_image(left, tmp_path / "left.png")
    promise = ["--epsilon", "1000", "--unit", "value", "--bounds", "0", "255"]
    options = ["--model", "matrix", "--filled-format", "png", "--threads", "1", "--method", "input"]
    release = tmp_path / "release"
    assert run(["complete", str(tmp_path / "left.png"), "-o", str(release), *promise, *options]) == 0
    assert names(release) == ["MODEL_CARD.md", "filled.png", "guarantee.json", "model.npz", "report.html"]
    model, _ = load_release(release)
    assert isinstance(model, tv.CPModel)
    filled = tv.read(release / "filled.png").to_dense()
    np.testing.assert_array_equal(filled, np.rint(model.dense()))


def example(name: str, *arguments: Any, folder: Path, data: Any = None) -> Any:
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | ({"TENSORVEIL_DATA": str(data)} if data else {})
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)], capture_output=True, text=True, cwd=folder,
        env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_image_example(tmp_path: Path) -> None:
    whole, _ = picture(colour=True)
    write_image(whole, tmp_path / "photo.png")
    said = example("image_recovery.py", "photo.png", "--output", "pictures", "--patch", 4, folder=tmp_path)
    for kind in ("grey", "colour"):
        assert len(list((tmp_path / "pictures").glob(f"{kind}-*.png"))) == 6
    decibels = [float(line.split(" dB")[0].split()[-1]) for line in said.splitlines() if " dB" in line]
    constant, plain, *private = decibels[:5]
    assert plain > constant + 10
    assert len(private) == 3
    again = tv.read(tmp_path / "pictures" / "grey-1-left.png")
    assert again.density == pytest.approx(0.3, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"), [("trajectory_recovery.py", "place at night"), ("recommendation.py", "user 1")]
)
def test_examples_on_real_data(name: str, words: Any, tmp_path: Path) -> None:
    data = os.environ.get("TENSORVEIL_DATA")
    if data is None or not tv.list_datasets()[1].present:
        pytest.skip("needs the data folder, TENSORVEIL_DATA")
    assert words in example(name, folder=tmp_path, data=data)
