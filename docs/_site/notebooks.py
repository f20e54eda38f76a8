"""Run the notebooks of the tutorials, and write their outputs into them.

python docs/_site/notebooks.py docs/tutorials/*.ipynb

No kernel is needed: cells are plain Python, run one after the other in an empty folder. What a cell prints, the value
of its last line (as a notebook shows it, unless a semicolon ends the line) and open figures become its outputs. A
digest of all code is kept, so that a test notices outputs of other code. `docs/_site/hooks.py` makes pages of the
notebooks.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import hashlib
import io
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

Notebook = dict[str, Any]


def read_notebook(path: Path) -> Notebook:
    """Read a notebook."""
    found: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return found


def code_of(notebook: Notebook) -> list[str]:
    """Return the source of every cell of code."""
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def digest_code(notebook: Notebook) -> str:
    """Return a digest of all code, by which outputs are known to be those of this code."""
    return hashlib.sha256("\0".join(code_of(notebook)).encode()).hexdigest()


def run_notebook(notebook: Notebook) -> Notebook:
    """Return the notebook with the outputs of a run in an empty folder."""
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                outputs = _run_cell("".join(cell["source"]), names, count)
                cell = {**cell, "execution_count": count, "outputs": outputs}
            cells.append(cell)
    metadata = {**notebook["metadata"], "digest": digest_code({"cells": cells})}
    return {**notebook, "cells": cells, "metadata": metadata}


def _run_cell(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    import matplotlib.pyplot as plt

    tree = ast.parse(source)
    shown = tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";")
    last = tree.body.pop() if shown else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("default")
        exec(compile(tree, f"<cell {count}>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"<cell {count}>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": _lines(value._repr_html_()), "text/plain": [f"<{type(value).__name__}>"]}
        outputs.append({"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}})
    for number in plt.get_fignums():
        image = io.BytesIO()
        plt.figure(number).savefig(image, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})
        plt.close(number)
        data = {"image/png": base64.b64encode(image.getvalue()).decode(), "text/plain": ["<Figure>"]}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(paths: list[str]) -> int:
    """Run notebooks in place."""
    for path in map(Path, paths):
        text = json.dumps(run_notebook(read_notebook(path)), indent=1, ensure_ascii=False) + "\n"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
        print(f"{path}: {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
