"""Print the oldest versions that pyproject.toml allows, as constraints for pip: one ``name==version`` per line.

    python .github/lowest_versions.py frames matlab > lowest.txt
    pip install --constraint lowest.txt '.[frames,matlab]'

Arguments are the extras to include beside the core.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

LOWEST = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(?:>=|==)\s*([0-9][0-9A-Za-z.]*)")


def list_lowest(project: dict[str, object], extras: list[str]) -> dict[str, str]:
    """Return the lowest version of every requirement of the core and of these extras."""
    optional = project["optional-dependencies"]
    assert isinstance(optional, dict)
    wanted = [project["dependencies"], *(optional[extra] for extra in extras)]
    found = {}
    for requirement in (each for group in wanted for each in group):  # type: ignore[attr-defined]
        match = LOWEST.match(requirement)
        if match is None:
            raise SystemExit(f"{requirement!r} in pyproject.toml states no lowest version. Add one, such as >=1.0.")
        found[match[1]] = match[2]
    return found


if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    for name, version in list_lowest(tomllib.loads(text)["project"], sys.argv[1:]).items():
        print(f"{name}=={version}")
