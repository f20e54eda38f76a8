from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pyarrow.csv
import pytest

from tensorveil.cli.main import run
from tensorveil.models import load_model
from tensorveil.privacy import Ledger
from tensorveil.release.release import load_release
from tensorveil.runs import demo, demo_fits


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_fits, "CP_RANK", 6)
    monkeypatch.setattr(demo_fits, "TUCKER_RANK", (3, 3, 3))
    monkeypatch.setattr(demo_fits, "TUCKER_SWEEPS", 5)
    monkeypatch.setattr(demo_fits, "GRID", (1.0, 50.0))
    monkeypatch.setattr(demo_fits, "REPEATS", 2)


@pytest.mark.usefixtures("quick")
def test_the_demo_shows_releases_and_can_be_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # pictures are the library's own
    output = tmp_path / "demo-output"
    assert run(["demo", "--output", str(output)]) == 0
    text = capsys.readouterr().out
    for word in ("constant", "biases", "CP", "Tucker", "RMSE", "epsilon 20", "do not publish", "trade-off.svg"):
        assert word in text
    assert run(["demo", "--output", str(output), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    found = [path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file()]
    assert sorted(found) == summary["files"] == sorted(demo.DEMO_FILES)
    constant, additive, same_rank, cp, tucker = (method["rmse"] for method in summary["methods"])
    assert max(cp, same_rank, tucker) < additive < constant
    errors = [each["rmse"] for each in summary["private"] if each["epsilon"] in summary["budgets"]]
    # A private model also has biases and two-way effects: with a large budget it may be ahead of components alone.
    assert constant > errors[0] > errors[1] > errors[2] > 0.95 * same_rank
    aside = output / "diagnostics"
    for name in ("true-against-predicted.svg", "trade-off.svg"):
        assert ElementTree.parse(aside / name).getroot().tag.endswith("svg")
    assert json.loads((aside / "summary.json").read_text()) == summary
    assert pyarrow.csv.read_csv(aside / "hidden.csv").num_rows == summary["hidden"]
    assert load_model(aside / "cp-model.npz").shape == (438, 6, 11)


@pytest.mark.usefixtures("quick")
def test_the_demo_releases_as_one_would_for_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--output", str(tmp_path / "out")]) == 0
    model, guarantee = load_release(tmp_path / "out" / "release")
    assert guarantee.sentence() in " ".join(capsys.readouterr().out.split())
    assert guarantee.private
    assert (guarantee.epsilon, guarantee.bounds, model.bounds) == (5.0, (-5.0, 5.0), (-5.0, 5.0))
    ledger = Ledger.open(tmp_path / "out" / "serology.ledger")
    assert [charge.status for charge in ledger.entries()] == ["released"]
    assert ledger.remaining().epsilon == 5.0
    for path in (tmp_path / "out" / "release").iterdir():
        # Of errors a release tells its own noisy estimate alone, not what was measured on the data.
        assert b"rmse" not in path.read_bytes().lower().replace(b"rmse about", b"")


@pytest.mark.parametrize("name", ["thesis.docx", "other.ledger", "release/thesis.docx"])
def test_the_demo_spares_folders_that_hold_other_things(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("precious")
    assert run(["demo", "--output", str(tmp_path)]) == 2
    assert "other files" in capsys.readouterr().err
    assert (tmp_path / name).exists()
