from __future__ import annotations

import json

import pyarrow.csv
import pytest

from tensorveil.cli import demonstration
from tensorveil.cli.main import run
from tensorveil.errors import MissingDependencyError
from tensorveil.models import load_model


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(demonstration, "CP_RANK", 6)
    monkeypatch.setattr(demonstration, "TUCKER_RANK", (3, 3, 3))
    monkeypatch.setattr(demonstration, "TUCKER_SWEEPS", 5)


@pytest.mark.usefixtures("quick")
def test_the_demo_shows_writes_and_can_be_repeated(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    output = tmp_path / "demo-output"
    assert run(["demo", "--output", str(output)]) == 0
    text = capsys.readouterr().out
    for word in ("constant", "biases", "CP", "Tucker", "RMSE", "true-against-predicted.png"):
        assert word in text
    assert run(["demo", "--output", str(output), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert sorted(found.name for found in output.iterdir()) == summary["files"]
    constant, additive, cp, tucker = (method["rmse"] for method in summary["methods"])
    assert cp < additive < constant
    assert tucker < additive
    assert (output / "true-against-predicted.png").read_bytes().startswith(b"\x89PNG")
    assert pyarrow.csv.read_csv(output / "filled.csv").num_rows == summary["hidden"]
    assert load_model(output / "cp-model.npz").shape == (438, 6, 11)


@pytest.mark.usefixtures("quick")
def test_without_matplotlib_everything_else_is_there(tmp_path, capsys, monkeypatch):
    def missing(*_, **__):
        raise MissingDependencyError("pictures need matplotlib. Install it with: pip install 'tensorveil[plots]'")

    monkeypatch.setattr(demonstration, "save_true_against_predicted", missing)
    assert run(["demo", "--output", str(tmp_path / "out")]) == 0
    assert "pip install 'tensorveil[plots]'" in capsys.readouterr().out
    assert (tmp_path / "out" / "filled.csv").exists()


def test_the_demo_spares_folders_that_hold_other_things(tmp_path, capsys):
    (tmp_path / "thesis.docx").write_text("precious")
    assert run(["demo", "--output", str(tmp_path)]) == 2
    assert "other files" in capsys.readouterr().err
    assert (tmp_path / "thesis.docx").exists()
