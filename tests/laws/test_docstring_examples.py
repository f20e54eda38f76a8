"""The examples in docstrings run, in every module that has any."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"


def modules_with_examples() -> list[str]:
    """Return the dotted names of modules whose text holds a prompt; no other module is imported for this test."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(SOURCES).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0, "examples that are all skipped, or stand where doctest does not look"
    assert result.failed == 0
