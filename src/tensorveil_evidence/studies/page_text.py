"""A study's own text, written as Markdown, as sections of its HTML page: settings, tables with print, findings.

It reads what studies write: headings, paragraphs, lists, tables, and code, emphasis and links within lines. The words
of a link are kept and its target is not: an HTML page stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tensorveil.markup import Markup, join, tag
from tensorveil.report.page import Section, data_table
from tensorveil_evidence.studies.wording import fill

INLINE = re.compile(r"`([^`]+)`|\[([^\]]+)\]\([^)]*\)|\*([^*\s][^*]*[^*\s]|[^*\s])\*")


def read_sections(text: str) -> tuple[Section, ...]:
    """Return a section for each second-level heading.

    >>> [(section.name, section.title) for section in read_sections("## Settings\\n\\nAs *printed*, see [it](it.md).")]
    [('text-1', 'Settings')]
    """
    sections = []
    for number, part in enumerate(re.split(r"^## ", text.strip(), flags=re.MULTILINE)[1:]):
        title, _, body = part.partition("\n")
        blocks = tuple(_read_blocks(title, fill(body.strip())))
        sections.append(Section(name=f"text-{number + 1}", title=title.strip(), lead="", blocks=blocks))
    return tuple(sections)


def _read_blocks(title: str, body: str) -> Iterator[Markup]:
    """Yield the blocks of a section; a table is named by the heading above it."""
    for block in (part.strip() for part in body.split("\n\n") if part.strip()):
        if block.startswith("### "):
            title, _, rest = block.removeprefix("### ").partition("\n")
            yield tag("h3", _read_line(title))
            if rest.strip():
                yield tag("p", _read_line(rest))
        elif block.startswith("|"):
            head, _, *rows = [_split_row(line) for line in block.splitlines()]
            yield data_table(title, head, rows)
        elif re.search(r"^- ", block, re.MULTILINE):
            before, *items = re.split(r"^- ", block, flags=re.MULTILINE)
            if before.strip():
                yield tag("p", _read_line(before))
            yield tag("ul", *(tag("li", _read_line(item)) for item in items))
        else:
            yield tag("p", _read_line(block))


def _split_row(line: str) -> tuple[str, ...]:
    return tuple(_plain(cell.strip()) for cell in line.strip().strip("|").split("|"))


def _plain(cell: str) -> str:
    return INLINE.sub(lambda found: next(group for group in found.groups() if group), cell)


def _read_line(text: str) -> Markup:
    """Return a line's words with code and emphasis."""
    words, parts, at = " ".join(text.split()), [], 0
    for found in INLINE.finditer(words):
        parts.append(words[at : found.start()])
        code, link, emphasis = found.groups()
        parts.append(tag("code", code) if code else tag("em", emphasis) if emphasis else link)
        at = found.end()
    return join(*parts, words[at:])
