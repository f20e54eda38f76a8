"""Bring docstrings into the form that the generator of API pages reads: numpydoc, with one text before the sections.

In the source a docstring may state its guarantee after its parameters, begin its examples without a heading, and list
a parameter on one line ("delta: at least 0 and below 1"). Pages show the guarantee first, linked to its proof.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

LISTS = ("Parameters", "Attributes", "Other Parameters", "Raises")
ITEM = re.compile(r"^(\*{0,2}\w+(?:(?:, | or | and )\*{0,2}\w+)*)(?::\s+(.*)|)$")
CITED = re.compile(r"(?<!\[)docs/([\w/-]+)\.md(#[\w-]+)?")


class PlainDocstrings(griffe.Extension):
    """Rewrite every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = rewrite(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the docstring of a whole package, which no other call covers."""
        self.on_object(obj=pkg)


def rewrite(text: str) -> str:
    """Return the docstring with text first, then lists, then examples."""
    words: list[str] = []
    lists: dict[str, list[str]] = {}
    examples: list[str] = []
    lines = text.splitlines()
    place, section = 0, ""
    while place < len(lines):
        line = lines[place]
        heading = line.strip().rstrip(":")
        if place + 1 < len(lines) and heading and re.fullmatch(r"-{3,}", lines[place + 1].strip()):
            section, place = heading, place + 2
            words += ["", f"**{heading}**", ""] if section not in (*LISTS, "Examples") else []
            continue
        if line.strip() in ("Examples:", "Example:"):
            section = "Examples"
        elif line.startswith(">>>"):
            end = _end_of_paragraph(lines, place)
            examples += [*lines[place:end], ""]
            place = end - 1
        elif line.startswith("Guarantee:"):
            end = _end_of_paragraph(lines, place)
            words += ["", "**Guarantee:**" + line.removeprefix("Guarantee:"), *lines[place + 1 : end], ""]
            place = end - 1
        elif section in LISTS and (not line or line.startswith(" ") or ITEM.match(line)):
            lists.setdefault(section, []).extend(_item(line))
        else:
            section = section if not line else ""
            words.append(line)
        place += 1
    shown = "\n".join(words).strip()
    for heading, items in (*lists.items(), ("Examples", examples)):
        if any(items):
            shown += f"\n\n{heading}\n{'-' * len(heading)}\n" + "\n".join(items).strip("\n")
    return CITED.sub(r"[docs/\1.md\2](../../\1.md\2)", shown)


def _end_of_paragraph(lines: list[str], start: int) -> int:
    return next((place for place in range(start, len(lines)) if not lines[place].strip()), len(lines))


def _item(line: str) -> list[str]:
    found = ITEM.match(line)
    return [found[1], f"    {found[2]}"] if found and found[2] else [line]
