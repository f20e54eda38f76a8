"""From a file to reports to a mean: `tensorveil perturb` and `tensorveil aggregate`."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.cli.main import run
from tensorveil.privacy import Guarantee, Ledger

SECRET = 0.7182818284590452
PROMISE = ["--epsilon", "4", "--unit", "tensor", "--bounds", "0", "1"]


@pytest.fixture
def people(tmp_path: Path) -> Any:
    rng = np.random.default_rng(0)
    truth = np.outer(np.linspace(0.2, 0.9, 6), np.linspace(0.3, 1.0, 5))
    values = np.clip(truth + rng.normal(0, 0.05, (4000, 6, 5)), 0, 1)
    values[7, 3, 2] = SECRET
    np.save(tmp_path / "people.npy", values)
    return tmp_path


def perturb(folder: Path, source: Any, target: Any, *options: Any) -> Any:
    return run(["perturb", str(folder / source), str(folder / target), *options])


def test_reports_come_with_their_guarantee_and_aggregate(people: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert perturb(people, "people.npy", "reports.npy", "--owners", *PROMISE) == 0
    said = capsys.readouterr().out
    assert "(epsilon = 4, delta = 0)" in " ".join(said.split())
    assert "Proven." in said
    facts = json.loads((people / "reports.npy.guarantee.json").read_text())
    assert Guarantee.from_json(facts["guarantee"]).private
    assert facts["reports"] == 4000
    assert facts["mechanism"]["mechanism"] == "PrivUnit"
    reports = np.load(people / "reports.npy")
    assert reports.shape == (4000, 6, 5)
    assert np.float64(SECRET).tobytes() not in (people / "reports.npy").read_bytes()
    options = ["-o", str(people / "mean.npz"), "--low-rank", "2", "--clip", "--json"]
    assert run(["aggregate", str(people / "reports.npy"), *options]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["reports"] == 4000
    found, truth = np.load(people / "mean.npz"), np.load(people / "people.npy").mean(axis=0)
    assert np.sqrt(np.mean((found["mean"] - truth) ** 2)) < 1.5 * said["standard_error"]
    assert np.sqrt(np.mean((found["low_rank_mean"] - truth) ** 2)) < np.sqrt(np.mean((found["mean"] - truth) ** 2))


@pytest.mark.parametrize(
    "options",
    [
        ["--mechanism", "dtldp", "--points", "17"],
        ["--mechanism", "k-rr"],
        ["--mechanism", "staircase", "--differ", "3"],
        ["--mechanism", "hybrid"],
        ["--mechanism", "privunitg"],
        ["--mechanism", "gaussian", "--delta", "1e-5"],
        ["--basis", "dct:4"],
        ["--basis", "haar:4", "--mechanism", "hybrid"],
    ],
)
def test_every_mechanism_from_the_shell(people: Any, options: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert perturb(people, "people.npy", "out.npz", "--owners", *PROMISE, *options) == 0
    assert np.load(people / "out.npz")["values"].shape == (4000, 6, 5)
    assert run(["aggregate", str(people / "out.npz"), "-o", str(people / "mean.npz")]) == 0
    assert "Proven." in capsys.readouterr().out


def test_images_in_and_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3)).astype(np.uint8)
    image.fromarray(pixels).save(tmp_path / "photo.png")
    options = [
        "--epsilon",
        "8",
        "--unit",
        "local-entry",
        "--bounds",
        "0",
        "255",
        "--mechanism",
        "dtldp",
        "--points",
        "256",
    ]
    assert perturb(tmp_path, "photo.png", "noisy.png", *options) == 0
    assert "no longer unbiased" in capsys.readouterr().out
    with image.open(tmp_path / "noisy.png") as opened:
        assert np.array(opened).shape == pixels.shape
    assert perturb(tmp_path, "photo.png", "noisy.npy", *options) == 0
    assert np.load(tmp_path / "noisy.npy").min() < 0  # estimates are not cut
    assert run(["aggregate", str(tmp_path / "noisy.png"), "-o", str(tmp_path / "mean.npz")]) == 2
    assert "biased" in capsys.readouterr().err


def test_tables_keep_their_columns_if_asked_to(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = np.random.default_rng(0).uniform(0, 1, (50, 3))
    pq.write_table(pa.table({name: rows[:, k] for k, name in enumerate(["a", "b", "c"])}), tmp_path / "x.parquet")
    assert perturb(tmp_path, "x.parquet", "y.parquet", "--owners", "--keep-names", *PROMISE) == 0
    assert pq.read_table(tmp_path / "y.parquet").column_names == ["a", "b", "c"]
    said = json.loads((tmp_path / "y.parquet.guarantee.json").read_text())["guarantee"]["sentence"]
    assert "the names of columns are public" in said


def test_public_weights_come_from_a_file(people: Any) -> None:
    np.save(people / "weights.npy", np.linspace(0, 0.9, 30).reshape(6, 5))
    options = ["--mechanism", "dtldp", "--weights", str(people / "weights.npy")]
    assert perturb(people, "people.npy", "out.npy", "--owners", *PROMISE, *options) == 0
    facts = json.loads((people / "out.npy.guarantee.json").read_text())
    assert any("public" in note for note in facts["guarantee"]["notes"])


def test_a_ledger_is_charged_before_and_refuses_overspending(people: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = people / "mine.ledger"
    budget = ["--epsilon", "6", "--delta", "0", "--unit", "tensor", "--name", "me"]
    assert run(["budget", "create", str(ledger), *budget]) == 0
    charge = ["--ledger", str(ledger), "--purpose", "survey"]
    assert perturb(people, "people.npy", "one.npy", "--owners", *PROMISE, *charge) == 0
    assert perturb(people, "people.npy", "two.npy", "--owners", *PROMISE, *charge) == 2
    assert not (people / "two.npy").exists()
    entries = Ledger.open(ledger).statement().entries
    assert [(entry.purpose, entry.status) for entry in entries] == [("survey", "released")]
    capsys.readouterr()


def test_groups_with_other_budgets_are_combined_and_shuffling_is_accounted(
    people: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perturb(people, "people.npy", "one.npy", "--owners", *PROMISE) == 0
    assert perturb(people, "people.npy", "two.npy", "--owners", *PROMISE, "--mechanism", "privunitg") == 0
    both = [str(people / "one.npy"), str(people / "two.npy")]
    capsys.readouterr()
    assert run(["aggregate", *both, "-o", str(people / "mean.npz"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["groups"], said["reports"]) == (2, 8000)
    assert perturb(people, "people.npy", "small.npy", "--owners", "--epsilon", "1", *PROMISE[2:]) == 0
    shuffled = ["--shuffled", "--delta", "1e-5", "--json"]
    capsys.readouterr()
    assert run(["aggregate", str(people / "small.npy"), "-o", str(people / "mean2.npz"), *shuffled]) == 0
    assert json.loads(capsys.readouterr().out)["guarantee"]["epsilon"] < 1
    assert (
        run(["aggregate", both[0], "-o", str(people / "mean3.npz"), *shuffled]) == 2
    )  # epsilon 4 needs a larger crowd
    assert "users must be at least" in capsys.readouterr().err
    assert run(["aggregate", *both, "-o", str(people / "mean3.npz"), *shuffled]) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", "1", "--unit", "tensor"], "Try --bounds 0 1"),
        (["--epsilon", "0", *PROMISE[2:]], "epsilon must be"),
        (["--epsilon", "inf", *PROMISE[2:]], "epsilon must be"),
        ([*PROMISE[:4], "--bounds", "1", "0"], "bounds must be"),
        ([*PROMISE, "--differ", "0"], "differ must be"),
        (["--epsilon", "1", "--unit", "local-entry", "--bounds", "0", "1", "--differ", "3"], "differ is for"),
        ([*PROMISE, "--basis", "dct:4", "--differ", "3"], "without differ"),
        ([*PROMISE, "--points", "9"], "--mechanism dtldp"),
        ([*PROMISE, "--mechanism", "privunit", "--points", "9"], "points cannot be used with --mechanism privunit"),
        ([*PROMISE, "--mechanism", "gaussian"], "delta must be above 0"),
        ([*PROMISE, "--basis", "fourier:3"], "Try --basis dct:64"),
        ([*PROMISE, "--basis", "dct:99"], "keep must be"),
        ([*PROMISE, "--purpose", "fun"], "--ledger"),
        ([*PROMISE[:4], "--radius", "1", "--mechanism", "dtldp"], "--mechanism dtldp needs bounds"),
        (["--epsilon", "1", "--unit", "local-entry", "--bounds", "0", "1", "--mechanism", "privunit"], "unit must be"),
    ],
)
def test_bad_options_are_refused_and_leave_nothing(
    people: Any, capsys: pytest.CaptureFixture[str], options: Any, words: Any
) -> None:
    before = sorted(path.name for path in people.iterdir())
    assert perturb(people, "people.npy", "out.npy", "--owners", *options) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert words in message
    assert str(SECRET)[:6] not in message
    assert sorted(path.name for path in people.iterdir()) == before


def test_bad_files_are_refused(people: Any, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(people / "empty.npy", np.empty((0, 3)))
    np.savez(people / "two.npz", a=np.zeros(2), b=np.zeros(2))
    (people / "broken.npy").write_bytes(b"not an array")
    (people / "words.npz").write_bytes(b"not an archive")
    np.save(people / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    for name, words in [
        ("empty.npy", "at least 1|empty"),
        ("two.npz", "--variable"),
        ("broken.npy", "readable NPY"),
        ("words.npz", "cannot be read|readable NPZ"),
        ("objects.npy", "cannot be read"),
    ]:
        assert perturb(people, name, "out.npy", *PROMISE) == 2
        message = capsys.readouterr().err
        assert any(word in message for word in words.split("|")), (name, message)
        assert not (people / "out.npy").exists()
    assert perturb(people, "two.npz", "out.npy", *PROMISE, "--variable", "b") == 0
    assert perturb(people, "two.npz", "out.npy", *PROMISE, "--variable", "b") == 2
    assert "never overwritten" in capsys.readouterr().err
    assert perturb(people, "people.npy", "out.txt", *PROMISE) == 2
    assert run(["aggregate", str(people / "people.npy"), "-o", str(people / "mean.npz")]) == 2
    assert "guarantee.json" in capsys.readouterr().err


def test_the_page_on_local_privacy_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "local.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "local.md", "exec"), names)
    np.save("people.npy", names["people"])
    assert "Proven." in capsys.readouterr().out
    lines = [line for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    assert len(lines) == 5
    for line in lines:
        assert run(shlex.split(line)[2:]) == 0, line
    study = (Path(__file__).parents[2] / "docs" / "published.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", study, re.DOTALL)[1:]:
        exec(compile(block, "published.md", "exec"), {})
    assert "untouched" in capsys.readouterr().out


def test_the_examples_of_the_help_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    image = pytest.importorskip("PIL.Image")
    assert run(["perturb", "--help"]) == 0
    text = capsys.readouterr().out.replace("\\\n", " ")
    examples = re.findall(r"^\s+tensorveil (perturb .*)$", text, flags=re.MULTILINE)
    assert len(examples) == 3
    monkeypatch.chdir(tmp_path)
    image.fromarray(np.full((6, 5), 100, np.uint8)).save("photo.png")
    np.save("people.npy", np.full((4, 8, 8), 0.5))
    for example in examples:
        assert run(shlex.split(example)) == 0, example
        for written in (*tmp_path.glob("reports.npy*"), *tmp_path.glob("noisy.png*")):
            written.unlink()
