"""What the source papers say of their own figures and tables, word for word, and the pages that answer it.

Pages quote from here, so that no quotation is a paraphrase and none is forgotten. Whoever has the text of the papers
can hold the quotations against it; the papers themselves are not part of the project:

    python -m tensorveil_evidence.quotations FOLDER
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

GAP, MOST_LEFT_OUT = "[...]", 800
OPENINGS = {"W": "Applying Differential Privacy", "G": "Matrix Completion Algorithm Based", "Y": "TLDP"}
# Letters as texts of papers have them, and how pages write them.
LETTERS = {"ε": "epsilon", "ϵ": "epsilon", r"\epsilon": "epsilon", "，": ",", "’": "'", "×": "x", r"\times": "x"}


@dataclass(frozen=True, kw_only=True)
class Quotation:
    """A sentence of a paper, or a part of one.

    Parameters
    ----------
    key
        What pages ask for it by.
    paper
        W, G or Y, as in the table of items.
    text
        Word for word; ``[...]`` stands where words are left out, "epsilon" for the letter.
    pages
        The pages of docs/studies that answer it.
    original
        The Chinese that ``text`` is our translation of; empty where the paper is in English.
    """

    key: str
    paper: str
    text: str
    pages: tuple[str, ...]
    original: str = ""


@cache
def list_quotations() -> dict[str, Quotation]:
    """Return all quotations by key."""
    content = tomllib.loads(files("tensorveil_evidence").joinpath("quotations.toml").read_text(encoding="utf-8"))
    found = [
        Quotation(
            key=each["key"],
            paper=each["paper"],
            text=each["text"],
            pages=tuple(each["pages"]),
            original=each.get("original", ""),
        )
        for each in content["quotation"]
    ]
    return {each.key: each for each in found}


def quote(key: str) -> str:
    """Return a quotation in its marks; one from Chinese says that it is translated.

    >>> quote("wei-near")
    '"the curves of GP are very close to that of the baselines"'
    """
    found = list_quotations()[key]
    return f'"{found.text}"{" (our translation)" if found.original else ""}'


def occurs(quotation: Quotation, paper: str) -> bool:
    """Tell whether a paper's text has the words of a quotation, in their order, and nothing but gaps between them."""
    parts = (quotation.original or quotation.text).split(GAP)
    text, at = _plain(paper), 0
    for part in parts:
        where = text.find(_plain(part), at)
        if where < 0 or (at and where - at > MOST_LEFT_OUT):
            return False
        at = where + len(_plain(part))
    return True


def _plain(text: str) -> str:
    """Leave letters and digits, without the marks of formulas, breaks of words at the ends of lines, and spaces."""
    for letter, word in LETTERS.items():
        text = text.replace(letter, word)
    return re.sub(r"[\s$*\\_{}-]+", "", text)


def main(folder: Path) -> int:
    """Print the quotations that no text of their paper in a folder has; return how many those are."""
    texts: dict[str, list[str]] = {letter: [] for letter in OPENINGS}
    for path in sorted(folder.glob("*.txt")):
        content = path.read_text(encoding="utf-8")
        for letter, opening in OPENINGS.items():
            if opening.lower() in " ".join(content.split()).lower():
                texts[letter].append(content)
    quotations = list_quotations().values()
    lost = [each for each in quotations if not any(occurs(each, text) for text in texts[each.paper])]
    for each in lost:
        print(f"{each.key}: not found: {each.original or each.text}")
    print(f"{len(quotations) - len(lost)} of {len(quotations)} quotations found")
    return len(lost)


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1])) else 0)
