"""Write docs/reference/licences.md: what the lock file pins, and under which licence each package says it is.

python docs/_site/licences.py
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "licences.md"
HEAD = """# Licences of dependencies

tensorveil itself is under the Apache License 2.0. What `make setup` installs, by the packages' own metadata (`make
licences` writes this page). The core needs numpy, scipy, numba, pyarrow, click, rich and cryptography, and what these
need; everything else belongs to extras, tests and documentation.

| package | version | licence |
|---|---|---|
"""


def list_pinned() -> list[tuple[str, str]]:
    """Return the packages of the lock files, with their versions."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("requirements.lock", "requirements-torch.lock")]
    return sorted(re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ \\\n]+)", "".join(texts), flags=re.MULTILINE))


def find_licence(name: str) -> str:
    """Return what a package says about its licence, in a few words."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return "not installed here"
    said = about.get("License-Expression")
    if not said:
        classes = [line.split(" :: ")[-1] for line in about.get_all("Classifier", []) if line.startswith("License ::")]
        said = ", ".join(each for each in classes if each != "OSI Approved")
    if not said:
        said = (about.get("License") or "").strip().splitlines()[0] if about.get("License") else ""
    return " ".join(said.split())[:80].replace("|", "/") or "names none in its metadata"


def main() -> None:
    """Write the page."""
    rows = "".join(f"| {name} | {version} | {find_licence(name)} |\n" for name, version in list_pinned())
    PAGE.write_text(HEAD + rows, encoding="utf-8")


if __name__ == "__main__":
    main()
