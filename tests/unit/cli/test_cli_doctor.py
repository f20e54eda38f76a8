from __future__ import annotations

import json

from tensorveil.cli import doctor
from tensorveil.cli.main import run


def test_a_healthy_installation_is_said_to_be_healthy(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TENSORVEIL_DATA", str(tmp_path))
    assert run(["doctor"]) == 0
    assert "works" in capsys.readouterr().out
    assert run(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["problems"] == []
    assert facts["kernels"]["error"] is None
    assert facts["data"]["exists"]
    assert facts["threads"]["usable"] >= 1


def test_missing_parts_are_named_with_their_remedy(capsys, monkeypatch):
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in ("scipy", "tensorly") else real(name))
    monkeypatch.delenv("TENSORVEIL_DATA", raising=False)
    assert run(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "scipy" in text
    assert "pip install 'tensorveil[tensorly]'" in text
    assert "TENSORVEIL_DATA" in text


def test_broken_kernels_are_a_problem(capsys, monkeypatch):
    def broken():
        return {"error": "LLVMError: no", "seconds": None, "cache": None, "cache_writable": None}

    monkeypatch.setattr(doctor, "_kernels", broken)
    assert run(["doctor", "--json"]) == 1
    assert "LLVMError" in json.loads(capsys.readouterr().out)["problems"][0]


def test_the_cache_folder_is_judged_by_its_nearest_parent(tmp_path):
    assert doctor._writable(tmp_path / "a" / "b")
