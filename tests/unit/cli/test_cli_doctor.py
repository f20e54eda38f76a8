from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tensorveil.cli.main import run
from tensorveil.runs import doctor


def test_a_healthy_installation_is_said_to_be_healthy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TENSORVEIL_DATA", str(tmp_path))
    assert run(["doctor"]) == 0
    assert "works" in capsys.readouterr().out
    assert run(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["problems"] == []
    assert facts["kernels"]["error"] is None
    assert facts["data"]["exists"]
    assert facts["threads"]["usable"] >= 1


def test_everything_that_the_metadata_ask_for_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    """The core's packages and those of every extra; no list is kept beside the metadata."""
    assert run(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {"numpy", "scipy", "numba", "pyarrow", "click", "rich", "cryptography"} <= set(facts["versions"])
    assert all(facts["versions"].values())
    offered = metadata.metadata("tensorveil").get_all("Provides-Extra")
    assert offered is not None
    assert set(facts["extras"]) == set(offered)
    assert "dp-accounting" in facts["extras"]["accounting"]["packages"]


def test_missing_parts_are_named_with_their_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = doctor.find_version
    monkeypatch.setattr(doctor, "find_version", lambda name: None if name in ("scipy", "tensorly") else real(name))
    monkeypatch.delenv("TENSORVEIL_DATA", raising=False)
    assert run(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "scipy" in text
    assert "pip install 'tensorveil[tensorly]'" in text
    assert "TENSORVEIL_DATA" in text


def test_versions_that_are_too_old_are_a_problem(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = doctor.find_version
    monkeypatch.setattr(doctor, "find_version", lambda name: "1.26.4" if name == "numpy" else real(name))
    assert run(["doctor", "--json"]) == 1
    assert "numpy 1.26.4 does not do, >=2.0 is needed" in json.loads(capsys.readouterr().out)["problems"][0]


@pytest.mark.parametrize(
    ("version", "wanted", "met"),
    [
        ("2.0", ">=2.0", True),
        ("2.0.1", ">=2", True),
        ("1.9", ">=1.10", False),
        ("1.41.3", ">=1.41,<1.42", True),
        ("1.42", ">=1.41,<1.42", False),
        ("2.13.0+cpu", "==2.13.0", True),
        ("2.12", "==2.13.0", False),
        ("3.0rc1", "", True),
    ],
)
def test_rules_about_versions(version: Any, wanted: Any, met: Any) -> None:
    assert doctor.Requirement(name="x", wanted=wanted, version=version).met is met


def test_without_metadata_nothing_is_known(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert run(["doctor"]) == 1
    assert "tensorveil is not installed" in capsys.readouterr().out


def test_broken_kernels_are_a_problem(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_try_kernels", lambda: doctor.Kernels(error="LLVMError: no"))
    assert run(["doctor", "--json"]) == 1
    assert "LLVMError" in json.loads(capsys.readouterr().out)["problems"][0]


def test_the_cache_folder_is_judged_by_its_nearest_parent(tmp_path: Path) -> None:
    assert doctor.is_writable(tmp_path / "a" / "b")
