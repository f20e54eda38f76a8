"""The verb audit: subjects by name, functions of one's own, exit codes, JSON, the picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensorveil.cli.main import run
from tensorveil.errors import InputError
from tensorveil.report.curves import curve_picture
from tensorveil.runs.progress import count_progress

OWN = """
import numpy as np

def honest(data, rng):
    return data.sum() + np.round(rng.laplace(scale=2**20)) / 2**20

def half(data, rng, n):
    return data.sum() + rng.laplace(scale=0.5, size=n)

number = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    np.save("a.npy", np.array([0.0, 1.0, 1.0]))
    np.save("b.npy", np.array([0.0, 1.0, 0.0]))
    return ["--neighbours", "a.npy", "b.npy", "--epsilon", "1"]


def test_a_subject_that_stands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "noise/laplace, fine grid", "--samples", "4000", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "no violation found"
    assert found["claim"] == {"epsilon": 1.0, "delta": 0.0}
    assert found["draws"] == 4000
    assert found["power"]["ceiling"] > 5
    assert found["confidence"] == 0.999


def test_a_subject_that_falls_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "published/matrix noise of Guo", "--samples", "4000"]) == 3
    shown = capsys.readouterr().out
    assert "violated" in shown
    assert "Witness" in shown


def test_several_subjects_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "noise/bounded", "published/matrix noise of Guo", "--samples", "2000", "--json"]) == 3
    verdicts = [found["verdict"] for found in json.loads(capsys.readouterr().out)]
    assert verdicts == ["no violation found", "no violation found", "violated"]


def test_functions_of_ones_own(own: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "mine.py:half", "--batched", "--kind", "law", "--plot", "curve.svg", "--json", *own]) == 3
    (found,) = json.loads(capsys.readouterr().out)
    assert found["lower_bound"] > 1.5
    assert {witness["kind"] for witness in found["witnesses"]} == {"law"}
    assert len(found["curve"]) > 20
    drawn = Path("curve.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert "mine.py:half: violated" in drawn
    assert "excluded by epsilon = 1" in drawn
    assert run(["audit", "mine.py:honest", "--samples", "400", *own]) == 0
    assert "no violation found" in capsys.readouterr().out
    mu = ["--neighbours", "a.npy", "b.npy", "--mu", "0.5"]
    assert run(["audit", "mine.py:half", "--batched", "--samples", "4000", *mu]) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give NAME"),
        (["--all", "noise/"], "not both"),
        (["nothing"], "no subject"),
        (["noise/laplace", "--mu", "1"], "go with FILE.py:FUNCTION"),
        (["mine.py:half"], "--neighbours: a mechanism of your own needs pairs"),
        (["mine.py:half", "--neighbours", "a.npy", "b.npy"], "Try --epsilon 1, or --mu 1"),
        (["mine.py:half", "--neighbours", "a.npy", "b.npy", "--epsilon", "1", "--mu", "1"], "the claim is needed"),
        (["mine.py:half", "--neighbours", "a.npy", "mine.py", "--epsilon", "1"], "must end in .npy"),
        (["mine.py:number", "--neighbours", "a.npy", "b.npy", "--epsilon", "1"], "no function"),
        (["yours.py:half", "--neighbours", "a.npy", "b.npy", "--epsilon", "1"], "no file"),
        (["noise/", "--plot", "curve.svg"], "--plot: only a single audit"),
        (["noise/laplace, fine grid", "--plot", "curve.png"], "--plot: the name must end with .svg"),
        (["noise/laplace, fine grid", "--plot", "nowhere/curve.svg"], "does not exist"),
        (["noise/laplace, fine grid", "--confidence", "2"], "confidence must"),
    ],
)
def test_wrong_usage_is_explained(own: Any, capsys: pytest.CaptureFixture[str], arguments: Any, words: Any) -> None:
    assert run(["audit", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_single_run_has_no_curve(own: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "one run/PrivateCP mean, delta", "--plot", "curve.svg"]) == 2
    assert "no trade-off curve: it is one run. Leave --plot out" in capsys.readouterr().err


def test_the_list_names_claims_and_proofs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--list", "--json"]) == 0
    facts = {fact["name"]: fact for fact in json.loads(capsys.readouterr().out)}
    assert facts["published/TLDP-L, first reading"]["proven"] == "nothing finite"
    assert facts["noise/gaussian, fine grid"]["claimed"] == "mu = 1"
    assert run(["audit", "--list"]) == 0
    assert "noisy statistics" in capsys.readouterr().out


def test_the_bar_is_shown_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with count_progress("auditing") as progress:
        assert progress is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with count_progress("auditing") as progress:
        assert progress is not None
        progress(1, 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "auditing" in captured.err


def test_a_curve_needs_points() -> None:
    empty: Any = SimpleNamespace(curve=())
    with pytest.raises(InputError, match="no trade-off curve"):
        curve_picture("t", empty)


def test_the_owner_of_the_data_can_attack_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    values = np.einsum("ir,jr,kr->ijk", *(rng.normal(size=(n, 2)) for n in (12, 10, 8))).reshape(-1)
    values = np.clip(values + 0.3 * rng.normal(size=values.shape), -5, 5)
    cells = np.argwhere(rng.random((12, 10, 8)) < 0.6)
    lines = [f"u{i},f{j},d{k},{values[(i * 10 + j) * 8 + k]:.4f}" for i, j, k in rng.permutation(cells)]
    Path("ratings.csv").write_text("\n".join(["user,film,day,rating", *lines]) + "\n")
    fit = ["complete", "ratings.csv", "--rank", "2", "--no-fill"]
    assert run([*fit, "-o", "open", "--solver", "als"]) == 0
    assert (
        run([*fit, "-o", "release", "--value", "rating", "--epsilon", "1", "--unit", "value", "--bounds", "-5", "5"])
        == 0
    )
    capsys.readouterr()
    assert run(["audit", "open/model.npz", "--data", "ratings.csv", "--json"]) == 3
    (found,) = json.loads(capsys.readouterr().out)
    assert found["closer"] > 0.7
    assert found["recovered_error"] < 0.5 * found["predicted_error"]
    assert run(["audit", "release", "--data", "ratings.csv"]) == 0
    assert "no leak found by this attack" in capsys.readouterr().out
    assert run(["audit", "open/model.npz", "release", "--data", "ratings.csv"]) == 2
    Path("pairs.csv").write_text("user,film,rating\nu0,f0,1\n")
    assert run(["audit", "open/model.npz", "--data", "pairs.csv"]) == 2
    assert "--data: the data have another number of modes" in capsys.readouterr().err
