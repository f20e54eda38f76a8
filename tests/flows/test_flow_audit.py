"""The guide to auditing runs as it is printed, and the table of results holds what the catalogue holds."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.audit.subject import holds
from tensorveil.cli.main import run
from tensorveil_evidence.subjects.catalogue import list_subjects

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "how-to" / "audit.md").read_text(encoding="utf-8")
PAGE = (DOCS / "audit.md").read_text(encoding="utf-8")
OWN = re.findall(r"(def noisy_mean.*?)\n\n", GUIDE, re.DOTALL)[0]


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "audit.md", "exec"), {})
    shown = capsys.readouterr().out
    assert shown.startswith("violated")
    assert "low bits" in shown
    assert "by law" in shown
    assert "no violation found" in shown
    Path("mine.py").write_text(f"import numpy as np\n\n{OWN}\n")
    np.save("a.npy", np.array([0.0, 0.5, 1.0]))
    np.save("b.npy", np.array([1.0, 0.5, 1.0]))
    commands = [shlex.split(line)[2:] for line in GUIDE.splitlines() if line.startswith("$ tensorveil ")]
    assert [run(command) for command in commands] == [3, 3, 0, 0, 3]
    assert Path("curve.svg").exists()


def rows() -> Any:
    found = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.split(" | ")]
        if line.startswith("| ") and len(cells) == 8 and cells[0] != "| mechanism":
            found[cells[0].removeprefix("| ")] = cells
    return found


@pytest.mark.parametrize("name", sorted(list_subjects()))
def test_the_table_is_complete_and_its_verdicts_are_right(name: str) -> None:
    """A subject that is new, or whose claim changed, asks for `python -m benchmarks.audit NAME`."""
    subject = list_subjects()[name]
    cells = rows()[name]
    assert ("violated" in cells[-1]) != holds(subject), cells
    assert cells[1] == subject.unit
    claimed = str(subject.claim).replace("epsilon", "ε").replace("delta", "δ").replace("mu", "μ")
    assert cells[2] == claimed
