"""The examples in the reference page on data run, and its names exist."""

import re
from pathlib import Path
from typing import Any

import pytest

import tensorveil.tensor

GUIDE = Path(__file__).parents[3] / "docs" / "reference" / "data.md"


def test_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 8
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/reference/data.md", "exec"), names)


def test_public_names() -> None:
    for name in tensorveil.tensor.__all__:
        assert hasattr(tensorveil.tensor, name)
    assert tensorveil.tensor.__all__ == sorted(tensorveil.tensor.__all__)
