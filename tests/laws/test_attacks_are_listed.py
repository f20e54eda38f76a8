"""Every attack that succeeded once is in the list of SECURITY.md, with the test that carries it out."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_list_of_attacks_is_complete() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    table = page.split("## Attacks that succeeded once")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[3])}
    there = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert listed == there
