"""The notebooks of the tutorials: outputs are those of their code, tell nothing of this machine, and come again."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def load_tool() -> Any:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "_site" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


TOOL = load_tool()


def cells_of(notebook: Any) -> Any:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def shape_of(notebook: Any) -> Any:
    """Which kinds of output every cell has, and the first heading of what is shown as markup."""
    shapes = []
    for cell in cells_of(notebook):
        kinds = [(each["output_type"], *sorted(each.get("data", {}))) for each in cell["outputs"]]
        titles = re.findall(r"<strong>([\w ]+)</strong>", str([each.get("data", {}) for each in cell["outputs"]]))
        shapes.append((kinds, titles))
    return shapes


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["hospitals", "ratings", "traffic"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_those_of_the_code(path: Path) -> None:
    notebook = TOOL.read_notebook(path)
    assert notebook["metadata"]["digest"] == TOOL.digest_code(notebook), "run docs/_site/notebooks.py"
    cells = cells_of(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert sum("text/html" in output.get("data", {}) for output in outputs) >= 3
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
    assert all(output["output_type"] != "error" for output in outputs)
    drawn = [cell for cell in cells if any("image/png" in output.get("data", {}) for output in cell["outputs"])]
    assert all(len(cell["metadata"]["alt"]) > 40 for cell in drawn)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_of_the_machine_is_in_them(path: Path) -> None:
    outputs = [output for cell in cells_of(TOOL.read_notebook(path)) for output in cell["outputs"]]
    text = re.sub(r"'image/png': '[^']*'", "", str(outputs))
    assert not re.search(r"/tmp/|/home/|/root/|/work/|\.venv|<script|Traceback|Warning", text)


def test_a_changed_cell_is_noticed() -> None:
    notebook = TOOL.read_notebook(NOTEBOOKS[0])
    cells_of(notebook)[0]["source"].append("\n1 + 1")
    assert notebook["metadata"]["digest"] != TOOL.digest_code(notebook)


def test_cells_show_what_a_notebook_shows(tmp_path: Path) -> None:
    sources = ["x = 2\nprint('said')\nx", "x + 1;", "import tensorveil as tv\ntv.ObservedTensor([[0, 1]], [1.0])"]
    cells = [{"cell_type": "code", "metadata": {}, "source": [source]} for source in sources]
    ran = TOOL.run_notebook({"cells": [{"cell_type": "markdown", "source": ["# x"]}, *cells], "metadata": {}})
    first, second, third = cells_of(ran)
    assert [output["output_type"] for output in first["outputs"]] == ["stream", "execute_result"]
    assert second["outputs"] == []
    assert "ObservedTensor" in "".join(third["outputs"][0]["data"]["text/html"])
    assert "0x" not in str(third["outputs"])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_still_run(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    tool = str(ROOT / "docs" / "_site" / "notebooks.py")
    done = subprocess.run([sys.executable, tool, str(copy)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert shape_of(TOOL.read_notebook(copy)) == shape_of(TOOL.read_notebook(path))
