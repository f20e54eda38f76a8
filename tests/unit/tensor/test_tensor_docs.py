"""The guide's examples and the docstrings' examples run."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tensorveil.tensor

GUIDE = Path(__file__).parents[3] / "docs" / "data.md"
MODULES = [info.name for info in pkgutil.walk_packages(tensorveil.tensor.__path__, "tensorveil.tensor.")]


def test_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 8
    names = {}
    for block in blocks:
        exec(compile(block, "docs/data.md", "exec"), names)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_public_names():
    for name in tensorveil.tensor.__all__:
        assert hasattr(tensorveil.tensor, name)
    assert tensorveil.tensor.__all__ == sorted(tensorveil.tensor.__all__)
