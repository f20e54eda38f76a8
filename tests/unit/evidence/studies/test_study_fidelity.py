"""The table of what the papers describe: whole, true about its places, and the page made of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tensorveil_evidence import fidelity
from tensorveil_evidence.fidelity import DIFFERS, EXAMINED, MISSING, PAPERS, PART, STATES, Item, list_items, write_page

ROOT = Path(__file__).parents[4]
ITEMS = list_items()


def test_every_number_is_there_once_and_in_order() -> None:
    wanted = [f"{letter}{k}" for letter, (_, most) in PAPERS.items() for k in range(1, most + 1)]
    assert [item.number for item in ITEMS] == wanted
    assert len(wanted) == 104


@pytest.mark.parametrize("item", ITEMS, ids=[item.number for item in ITEMS])
def test_an_item_says_where_it_is_or_why_not(item: Item) -> None:
    assert item.state in STATES
    assert item.what
    if item.state in (DIFFERS, EXAMINED, PART, MISSING):
        assert len(item.told) > 20, "what differs, what was found, or why it is missing, is not said"
    if item.state != MISSING:
        assert item.places
    if item.state == DIFFERS:
        assert any(not place.startswith("tests/") for place in item.places)
    for place in item.places:
        _find(place)


def _find(place: str) -> None:
    """A file is there; what is named in it is defined there; a heading is on the page."""
    path, _, name = place.partition("::")
    path, _, anchor = path.partition("#")
    assert (ROOT / path).is_file(), place
    text = (ROOT / path).read_text(encoding="utf-8")
    if name:
        assert re.search(rf"^\s*(def|class) {name}\b|^{name}\b.* = ", text, re.MULTILINE), place
    if anchor:
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
        assert anchor in slugs, place


def test_the_page_is_the_one_that_the_items_give() -> None:
    """After a change of the items: python -m tensorveil_evidence.fidelity > docs/studies/fidelity.md."""
    assert (ROOT / "docs" / "studies" / "fidelity.md").read_text(encoding="utf-8") == write_page()


def test_a_place_that_is_gone_is_noticed() -> None:
    gone = "nothing"
    for place in (f"docs/{gone}.md", f"docs/published.md#{gone}", f"src/tensorveil_evidence/fidelity.py::{gone}"):
        with pytest.raises(AssertionError):
            _find(place)
    _find("src/tensorveil_evidence/fidelity.py::Item")


def test_links_of_the_page_are_relative_to_it() -> None:
    for target in re.findall(r"\]\(([^)#]+)", fidelity.write_page()):
        assert (ROOT / "docs" / "studies" / target).is_file(), target
