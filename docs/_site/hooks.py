"""Bring the documents of the repository's root into the site, and make their links work in both places.

Pages link to each other, and to files outside docs/ such as ARCHITECTURE.md, by paths that work in the repository.
The site has docs/ as its root: here such links are turned into those of the site. A link to a file that the site does
not have is left as it is, and MkDocs refuses it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs/"
# What lies outside docs/ and belongs to the site, and its place there.
BROUGHT = {path: path for path in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")} | {
    "benchmarks/README.md": "benchmarks/README.md",
    "benchmarks/results/matrix.md": "benchmarks/results/matrix.md",
    "benchmarks/results/matrix-laplace.svg": "benchmarks/results/matrix-laplace.svg",
    "benchmarks/results/matrix-scale.svg": "benchmarks/results/matrix-scale.svg",
    "benchmarks/results/speed.md": "benchmarks/results/speed.md",
    "benchmarks/results/speed.svg": "benchmarks/results/speed.svg",
    "examples/README.md": "how-to/examples.md",
    "README.md": "index.md",  # links only: the site has a first page of its own
}
# A line of a page that stands for all public modules of a package, in the order of their names.
MODULES = re.compile(r"^::modules:: (tensorveil[\w.]*)$", re.MULTILINE)
LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the files from outside docs/."""
    for path, uri in BROUGHT.items():
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links that work in the repository into links that work in the site."""
    uri = page.file.src_uri
    here = next((path for path, there in BROUGHT.items() if there == uri != "index.md"), DOCS + uri)
    folder = posixpath.dirname(uri)

    def turn(match: re.Match[str]) -> str:
        before, target, anchor, after = match[1], match[2], match[3] or "", match[4]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        if there.startswith(DOCS):
            there = there.removeprefix(DOCS)
        elif there in BROUGHT:
            there = BROUGHT[there]
        else:
            return match[0]
        return f"{before}{posixpath.relpath(there, folder or '.')}{anchor}{after}"

    return LINK.sub(turn, MODULES.sub(list_modules, markdown))


def list_modules(match: re.Match[str]) -> str:
    """Return a section with the documented names of every module of a package; modules move, pages need not."""
    package = match[1]
    folder = ROOT / "src" / Path(*package.split("."))
    names = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    options = "    options:\n      heading_level: 3"
    return "\n\n".join(f"## {package}.{name}\n\n::: {package}.{name}\n{options}" for name in names)
