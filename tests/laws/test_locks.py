"""What is installed is what was looked at: everything by hash, but for the one package that has several builds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-docs.lock"])
def test_locks_pin_by_hash(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    pinned = re.findall(r"^[A-Za-z0-9._-]+(?:\[[^\]]*\])?==[^ \\\n]+(.*)\n( *)(.*)", text, flags=re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[^ #\n]", text, flags=re.MULTILINE)) > 30
    assert all(rest == " \\" and more.startswith("--hash=sha256:") for rest, _, more in pinned)
    assert "torch==" not in text
    assert "://" not in text


def test_torch_alone_has_no_hash() -> None:
    text = (ROOT / "requirements-torch.lock").read_text(encoding="utf-8")
    assert re.findall(r"^[^#\n].*", text, flags=re.MULTILINE) == ["torch==2.13.0"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'learning = ["torch==2.13.0"]' in project
