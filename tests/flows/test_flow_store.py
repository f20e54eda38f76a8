"""From files to a store, to a release, on one machine or several; and back to the run that was killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest

from tensorveil.cli.main import run
from tensorveil.privacy import Ledger
from tensorveil.release.release import load_release
from tests.flows.private_cases import SECRET, SHAPE, assert_nothing_private, write_table

PROMISE = ["--epsilon", "2", "--delta", "1e-5", "--unit", "slice:user", "--bounds", "1", "5", "--rank", "2"]
BY_ENTRY = ["--epsilon", "2", "--unit", "entry", "--bounds", "1", "5", "--rank", "2", "--no-fill"]
SIZES = ",".join(map(str, SHAPE))


def make_store(folder: Path, *options: Any) -> Path:
    path = write_table(folder / "ratings.csv", indices=True)
    asked = ["--order", "user", "--unit", "slice:user", "--bounds", "1", "5", "--value", "rating", "--indices"]
    shape = ["--private-shape", SIZES, "--part-rows", "40"]
    assert run(["store", str(path), "-o", str(folder / "STORE"), *asked, *shape, *map(str, options)]) == 0
    return folder / "STORE"


def complete(store: Path, output: Path, *options: Any) -> Any:
    return run(["complete", str(store), "-o", str(output), *PROMISE, "--private-shape", SIZES, *map(str, options)])


def new_ledger(path: Path) -> Path:
    promise = ["--epsilon", "9", "--delta", "1e-3", "--unit", "slice:user", "--name", "ratings"]
    assert run(["budget", "create", str(path), *promise]) == 0
    return path


def test_from_a_file_to_a_store_to_a_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, ledger = make_store(tmp_path), new_ledger(tmp_path / "ledger")
    assert run(["info", str(store), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))
    assert facts["shape"] == list(SHAPE)
    assert facts["modes"][0]["parts"] > 1
    places = ["--engine", "loop", "--memory", "1GB", "--checkpoint", tmp_path / "rounds"]
    assert complete(store, tmp_path / "release", "--ledger", ledger, *places) == 0
    captured = capsys.readouterr()
    _, guarantee = load_release(tmp_path / "release")
    assert guarantee.private
    assert_nothing_private(tmp_path / "release", captured.out, captured.err)
    assert [charge.status for charge in Ledger.open(ledger).entries()] == ["released"]
    assert len(list((tmp_path / "rounds").glob("*.state"))) > 3


def test_single_values_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_table(tmp_path / "ratings.csv")
    asked = ["--order", "user", "--unit", "value", "--bounds", "1", "5", "--value", "rating", "--duplicates", "mean"]
    assert run(["store", str(path), "-o", str(tmp_path / "S"), *asked]) == 0
    promise = ["--epsilon", "2", "--unit", "value", "--bounds", "1", "5", "--rank", "2", "--no-fill"]
    assert run(["complete", str(tmp_path / "S"), "-o", str(tmp_path / "release"), *promise]) == 0
    model, guarantee = load_release(tmp_path / "release")
    assert guarantee.private
    assert guarantee.unit.kind == "value"
    assert all(mode.labels is not None for mode in model.modes)
    assert "not published" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["complete", "STORE", "-o", "r", "--epsilon", "1", "--bounds", "1", "5", "--unit", "value", "--no-fill"],
            "in unit value a cell has one value",
        ),
        (
            ["complete", "STORE", "-o", "r", *BY_ENTRY, "--private-shape", SIZES, "--checkpoint", "c"],
            "the rounds of fits for whole users",
        ),
        (["complete", "STORE", "-o", "r", *BY_ENTRY[:-1], "--private-shape", SIZES], "--no-fill"),
        (["complete", "STORE", "-o", "r", "--no-fill"], "--no-report"),
        (["complete", "STORE", "-o", "r", "--no-report"], "--at FILE"),
        (["complete", "STORE", "-o", "r", "--no-report", "--no-fill"], "'film' is missing"),
        (["complete", "STORE", "-o", "r", "--no-report", "--no-fill", "--solver", "als"], "'film' is missing"),
        (["complete", "STORE", "-o", "r", "--checkpoint", "c"], "for private fits"),
        (["complete", "STORE", "-o", "r", *PROMISE, "--private-shape", SIZES, "--value", "x"], "how its files were"),
        (
            ["complete", "STORE", "-o", "r", *PROMISE, "--private-shape", SIZES, "--diagnostics", "d"],
            "from all entries",
        ),
        (["complete", "STORE", "-o", "r", *PROMISE, "--private-shape", SIZES, "--engine", "ray"], "--engine must be"),
        (
            ["complete", "STORE", "-o", "r", *PROMISE, "--private-shape", SIZES, "--engine", "dask:h:1"],
            "--trust-network",
        ),
        (["complete", "ratings.csv", "-o", "r", "--engine", "loop"], "for stores"),
        (["complete", ".", "-o", "r"], "no store"),
        (["perturb", "STORE", "r", "--bounds", "1", "5", "--epsilon", "1"], "is a directory"),
        (["plan", "STORE", "--bounds", "1", "5", "--epsilon", "1"], "--duplicates keep"),
        (["info", "STORE", "--value", "x"], "how its files were read"),
        (["store", "ratings.csv", "-o", "s2", "--order", "user", "--unit", "slice:user"], "--bounds"),
        (["store", "ratings.csv", "-o", "s2", "--order", "nobody", "--indices", "--value", "rating"], "'nobody'"),
        (["store", "ratings.csv", "-o", "STORE", "--order", "user", "--indices", "--value", "rating"], "--force"),
    ],
)
def test_what_a_store_is_not_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: Any, words: str
) -> None:
    make_store(tmp_path)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert words in " ".join(said.split())
    assert SECRET not in said
    assert not (tmp_path / "r").exists()


def test_a_part_that_is_gone_costs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, ledger = make_store(tmp_path), new_ledger(tmp_path / "ledger")
    next(iter(sorted(store.glob("by-0/*.parquet")))).unlink()
    assert complete(store, tmp_path / "release", "--ledger", ledger) == 2
    assert "a part is not there" in capsys.readouterr().err
    assert not Ledger.open(ledger).entries()
    assert not (tmp_path / "release").exists()


# The command, but that it kills itself, as nothing can catch it, when the third round has been kept.
KILLED = """
import os, signal
from tensorveil.cli.main import main
from tensorveil.rounds.checkpoint import Checkpoint

usual = Checkpoint.keep

def keep(self, state):
    usual(self, state)
    if state.round == 3:
        os.kill(os.getpid(), signal.SIGKILL)

Checkpoint.keep = keep
main()
"""


def test_a_command_that_is_killed_goes_on(tmp_path: Path) -> None:
    """The whole process, by a signal that nothing can catch; one charge, and every round but the last one once."""
    store, ledger = make_store(tmp_path), new_ledger(tmp_path / "ledger")
    rounds = tmp_path / "rounds"
    order = ["complete", store, *PROMISE, "--private-shape", SIZES, "--ledger", ledger, "--checkpoint", rounds]
    order += ["--method", "factors", "-o", tmp_path / "out"]
    first = subprocess.run([sys.executable, "-c", KILLED, *map(str, order)], capture_output=True, check=False)
    assert first.returncode == -signal.SIGKILL
    kept = {path.name: path.read_bytes() for path in rounds.glob("*.state")}
    assert len(kept) == 3
    assert len(Ledger.open(ledger).entries()) == 1
    assert not (tmp_path / "out").exists()
    words = [sys.executable, "-m", "tensorveil", *map(str, order)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "was killed" in done.stderr
    assert len(Ledger.open(ledger).entries()) == 1
    assert {path.name: path.read_bytes() for path in rounds.glob("*.state") if path.name in kept} == kept
    assert load_release(tmp_path / "out")[1].private


def test_an_open_fit_on_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_table(tmp_path / "ratings.csv", indices=True)
    asked = ["--order", "user,film", "--value", "rating", "--indices", "--part-rows", "50", "--duplicates", "mean"]
    assert run(["store", str(path), "-o", str(tmp_path / "STORE"), *asked]) == 0
    (tmp_path / "at.csv").write_text("user,film\n3,0\n3,8\n")
    options = ["--solver", "als", "--rank", "2", "--no-report", "--at", str(tmp_path / "at.csv")]
    options += ["--filled-format", "csv"]
    files = ["--value", "rating", "--indices", "--duplicates", "mean"]
    assert run(["complete", str(tmp_path / "STORE"), "-o", str(tmp_path / "one"), *options]) == 0
    assert run(["complete", str(path), "-o", str(tmp_path / "two"), *options, *files]) == 0
    capsys.readouterr()
    tables = [pyarrow.csv.read_csv(tmp_path / name / "filled.csv") for name in ("one", "two")]
    assert tables[0].column_names == tables[1].column_names == ["user", "film", "rating"]
    predictions = [table.column("rating").to_numpy() for table in tables]
    np.testing.assert_allclose(predictions[0], predictions[1], rtol=1e-6)
    facts = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("one", "two")]
    assert facts[0]["data"] == facts[1]["data"]
    assert facts[0]["fit"]["train_rmse"] == pytest.approx(facts[1]["fit"]["train_rmse"], rel=1e-6)


def test_a_release_for_single_entries_of_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path)
    ledger = tmp_path / "ledger"
    promise = ["--epsilon", "9", "--delta", "0", "--unit", "entry", "--name", "ratings"]
    assert run(["budget", "create", str(ledger), *promise]) == 0
    asked = [*BY_ENTRY, "--private-shape", SIZES, "--ledger", str(ledger), "--engine", "loop"]
    assert run(["complete", str(store), "-o", str(tmp_path / "release"), *asked]) == 0
    captured = capsys.readouterr()
    _, guarantee = load_release(tmp_path / "release")
    assert guarantee.private
    assert str(guarantee.unit) == "entry"
    assert_nothing_private(tmp_path / "release", captured.out, captured.err)
    assert [charge.status for charge in Ledger.open(ledger).entries()] == ["released"]


@pytest.mark.parametrize("unit", ["entry", "slice:user"])
def test_a_release_of_counts_of_a_store(tmp_path: Path, unit: str) -> None:
    store = make_store(tmp_path)
    asked = ["--epsilon", "9", "--delta", "1e-3", "--unit", unit, "--bounds", "0", "5", "--private-shape", SIZES]
    zeros = ["--unlisted", "zero", "--rank", "2", "--no-fill", "--engine", "loop"]
    assert run(["complete", str(store), "-o", str(tmp_path / "release"), *asked, *zeros]) == 0
    model, guarantee = load_release(tmp_path / "release")
    assert guarantee.private
    assert model.shape[1:] == SHAPE[1:]
