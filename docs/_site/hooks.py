"""Bring the documents of the repository's root into the site, and make their links work in both places.

Pages link to each other, and to files outside docs/ such as ARCHITECTURE.md, by paths that work in the repository.
The site has docs/ as its root: here such links are turned into those of the site. A link to a file that the site does
not have is left as it is, and MkDocs refuses it. A notebook becomes a page: its texts, its code and its outputs.
"""

from __future__ import annotations

import html
import json
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
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        text = Path(str(notebook.abs_src_path)).read_text(encoding="utf-8")
        page = f"{notebook.src_uri.removesuffix('.ipynb')}.md"
        files.append(File.generated(config, page, content=write_notebook(json.loads(text), Path(page).stem)))
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
            there = re.sub(r"\.ipynb$", ".md", there.removeprefix(DOCS))
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


def write_notebook(notebook: dict[str, Any], name: str) -> str:
    """Return a notebook as the text of a page, with a link to itself."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [write_output(output, cell["metadata"].get("alt", "")) for output in cell["outputs"]]
    link = f'<a href="{name}.ipynb" download>{name}.ipynb</a>'
    parts.append(f"This page is a notebook, {link}, with the outputs of one run.")
    return "\n\n".join(parts) + "\n"


def write_output(output: dict[str, Any], alt: str) -> str:
    """Return an output of a cell: markup and pictures as they are, everything else as text."""
    data = output.get("data", {})
    if "image/png" in data:
        source = f"data:image/png;base64,{data['image/png']}"
        return f'<p class="output"><img alt="{html.escape(alt)}" src="{source}"></p>'
    if "text/html" in data:
        lines = "".join(data["text/html"]).splitlines()  # a blank line would end the markup
        return '<div class="output">' + "\n".join(line for line in lines if line.strip()) + "</div>"
    text = "".join(output.get("text") or data.get("text/plain", []))
    return f'<pre class="output">{html.escape(text.rstrip())}</pre>'
