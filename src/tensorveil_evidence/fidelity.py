"""Every sentence, formula, table and figure of the source papers that can be held against the project: state and place.

The items stand in ``fidelity.toml``, one each: what the paper describes, whether the project follows it, where to look,
and what differs or is missing and why. `write_page` makes docs/studies/fidelity.md of them:

    python -m tensorveil_evidence.fidelity > docs/studies/fidelity.md
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files

FAITHFUL, DIFFERS, EXAMINED = "faithful", "differs, said", "examined"
PART, MISSING = "in part", "missing"
STATES = (FAITHFUL, DIFFERS, EXAMINED, PART, MISSING)
PAPERS = {
    "W": ("Wei, Li, Mao and Wang: tensor completion under differential privacy (three versions)", 42),
    "G": ("Guo: matrix completion under differential privacy", 23),
    "Y": ("Yuan, Tang, Huang, Wu and Wang: local differential privacy for tensors", 39),
}
DOCS = "docs/"


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that a paper describes.

    Parameters
    ----------
    number
        W, G or Y with a number.
    what
        What the paper describes.
    state
        One of `STATES`.
    places
        Where to look: files from the top of the repository; ``::name`` behind one names a class, function or constant
        in it, ``#anchor`` a heading of a page.
    told
        What differs, what is left out, or what was found; why something is missing.
    """

    number: str
    what: str
    state: str
    places: tuple[str, ...] = ()
    told: str = ""


def list_items() -> tuple[Item, ...]:
    """Return all items in the order of the papers.

    >>> len(list_items())
    104
    """
    content = tomllib.loads(files("tensorveil_evidence").joinpath("fidelity.toml").read_text(encoding="utf-8"))
    return tuple(
        Item(
            number=found["number"],
            what=found["what"],
            state=found["state"],
            places=tuple(found.get("places", ())),
            told=found.get("told", ""),
        )
        for found in content["item"]
    )


def write_page() -> str:
    """Return the text of docs/studies/fidelity.md."""
    items = list_items()
    counts = Counter(item.state for item in items)
    used = [state for state in STATES if counts[state]]
    parts = [
        "# The papers, item by item\n",
        "What the source papers describe - algorithms, formulas, claims, tables, figures, and what they leave to the\n"
        "future - and where each is here. Written by `python -m tensorveil_evidence.fidelity` from\n"
        "`src/tensorveil_evidence/fidelity.toml`; do not edit.\n",
        "*Faithful*: as printed, or as the paper says. *Differs, said*: differs, and the page or the docstring named\n"
        "says so. *Examined*: a theorem, a statement or a measured number of the paper, held against proof\n"
        "or measurement here; the remark says whether it holds. *In part*: a part is there. *Missing*: not there,\n"
        "for the reason given.\n",
        _table(("", "items", *used), [_count(items, letter, used) for letter in PAPERS] + [_count(items, "", used)]),
    ]
    for letter, (title, _) in PAPERS.items():
        rows = [_row(item) for item in items if item.number.startswith(letter)]
        parts += [f"## {title}\n", _table(("", "what", "state", "where", "remarks"), rows)]
    return "\n".join(parts)


def _count(items: tuple[Item, ...], letter: str, used: list[str]) -> tuple[str, ...]:
    own = Counter(item.state for item in items if item.number.startswith(letter))
    name = PAPERS[letter][0].partition(":")[0] if letter else "all"
    return (name, str(sum(own.values())), *(str(own[state]) for state in used))


def _row(item: Item) -> tuple[str, ...]:
    return (item.number, item.what, item.state, "<br>".join(_link(place) for place in item.places), item.told)


def _link(place: str) -> str:
    """Link to pages of the docs; name everything else."""
    path, _, anchor = place.partition("#")
    if not path.endswith(".md") or not path.startswith(DOCS):
        return f"`{place}`"
    name = path.removeprefix(DOCS)
    target = name.removeprefix("studies/") if name.startswith("studies/") else f"../{name}"
    return f"[{name}]({target}{'#' + anchor if anchor else ''})"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows)]
    return "\n".join(line.replace("|  |", "| |") for line in lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(write_page())
