"""Report files that count for more than they are: named twice, or with a mechanism that is not theirs beside them."""

import json
from pathlib import Path

import numpy as np
import pytest

from tensorveil.cli.main import run
from tensorveil.local import PrivUnit, shuffle

OWNERS = 3000
SHUFFLED = ("--shuffled", "--delta", "1e-6")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.full((OWNERS, 4), 0.5))
    target = tmp_path / "reports.npy"
    promise = ("--owners", "--bounds", "0", "1", "--epsilon", "1", "--unit", "tensor")
    assert run(["perturb", str(tmp_path / "x.npy"), str(target), *promise]) == 0
    return target


def aggregate(report: Path, *more: str) -> int:
    return run(["aggregate", str(report), *more, "-o", str(report.with_name("mean.npz"))])


@pytest.mark.parametrize("name", ["reports.npy", "../{folder}/reports.npy", "link.npy"])
def test_a_crowd_does_not_grow_by_naming_it_again(report: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten times the same file: epsilon 0.36 was promised as 0.13."""
    for ending in ("", ".guarantee.json"):
        report.with_name(f"link.npy{ending}").symlink_to(report.with_name(report.name + ending))
    again = report.parent / name.format(folder=report.parent.name)
    assert aggregate(report, str(again), *SHUFFLED) == 2
    assert "each owner counts once" in " ".join(capsys.readouterr().err.split())
    assert aggregate(report, *SHUFFLED) == 0


def test_the_sentence_says_that_each_owner_sends_one_report() -> None:
    local = PrivUnit(shape=(4,), epsilon=1.0, unit="tensor", radius=1.0).guarantee()
    assert "each owner sends one report" in shuffle(local, OWNERS, 1e-6).sentence()


@pytest.mark.parametrize(("name", "value"), [("epsilon", 0.01), ("unit", "tensor:differ=1")])
def test_a_mechanism_that_the_guarantee_does_not_speak_of_is_refused(
    report: Path, name: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = report.with_name(report.name + ".guarantee.json")
    facts = json.loads(beside.read_text(encoding="utf-8"))
    facts["mechanism"][name] = value
    beside.write_text(json.dumps(facts), encoding="utf-8")
    assert aggregate(report) == 2
    assert "one of them was changed" in " ".join(capsys.readouterr().err.split())
