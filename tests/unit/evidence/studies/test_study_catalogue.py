"""What holds for every study: names, cells, settings, pages that are committed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal

import pytest

from tensorveil.errors import InputError
from tensorveil_evidence.studies import publication, reference
from tensorveil_evidence.studies.catalogue import find_study, list_studies
from tensorveil_evidence.studies.store import read_results
from tensorveil_evidence.studies.study import STATUSES

DOCS = Path(__file__).parents[4] / "docs" / "studies"
NAMES = sorted(list_studies())
WRITTEN = [name for name in NAMES if (DOCS / f"{name}.parquet").exists()]


def test_names() -> None:
    assert {
        "wei-figure-2",
        "wei-figure-3",
        "wei-figure-4",
        "guo-table-1",
        "guo-table-2",
        "yuan-table-5",
        "claims",
    } <= set(NAMES)
    with pytest.raises(InputError, match=r"no study is called 'nothing'\. The studies are claims"):
        find_study("nothing")
    with pytest.raises(InputError, match=r"Did you mean yuan-figure-1-mnist\?"):
        find_study("yuan-figure-1-mnst")


@pytest.mark.parametrize("name", NAMES)
def test_cells_have_their_own_names_and_can_be_written(name: str) -> None:
    study = list_studies()[name]
    full = study.cells(study.runs[1], False)
    quick = study.cells(study.runs[0], True)
    for cells in (full, quick):
        keys = [cell.key for cell in cells]
        assert len(set(keys)) == len(keys)
        assert all("/" not in key and len(key) < 200 for key in keys)
    assert len(quick) <= len(full)
    assert json.loads(json.dumps(dict(study.settings)))
    assert study.minutes[0] <= study.minutes[1]


OWN_QUICK_CELLS = {"claims", "yuan-table-5", *(name for name in NAMES if name.startswith("yuan-figure-"))}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OWN_QUICK_CELLS])
def test_a_quick_run_is_a_part_of_the_full_one(name: str) -> None:
    study = list_studies()[name]
    full = {study.digest(cell, "1") for cell in study.cells(study.runs[1], False)}
    assert {study.digest(cell, "1") for cell in study.cells(study.runs[0], True)} <= full


@pytest.mark.parametrize("name", NAMES)
def test_the_page_stands_in_the_docs_or_among_those_that_are_not_run(name: str) -> None:
    written, _, waiting = (DOCS / "README.md").read_text(encoding="utf-8").partition("**Not run in full.**")
    assert (name in WRITTEN) == (f"[{name}]({name}.md)" in written)
    assert (name not in WRITTEN) == (f"`{name}`" in waiting.partition("\n\n")[0])


@pytest.mark.parametrize("name", WRITTEN)
def test_the_page_is_the_one_that_its_results_give(name: str) -> None:
    """A page that was edited, or whose text changed, asks for `tensorveil study NAME --redraw -o docs/studies`."""
    study, page = list_studies()[name], (DOCS / f"{name}.md").read_text(encoding="utf-8")
    results = read_results(study, DOCS)
    assert not results.quick
    assert page == publication.write_page(study, results)
    assert {row.status for row in results.rows} <= set(STATUSES)
    caption = re.search(r"^\*(.*)\*$", page, re.MULTILINE)
    assert caption is not None
    for word in ("Unit: ", "psilon", "elta: ", "Runs", "Guarantees: "):
        assert word in caption[1]
    assert (DOCS / f"{name}.svg").is_file()
    for target in re.findall(r"\]\(([\w./-]+)\)", page):
        assert (DOCS / target).exists(), target


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_what_ours_does_now_is_what_is_stored(kind: Literal["cp", "tucker"]) -> None:
    """After a change of private fits the studies of Wei et al. and table 2 of Guo have to be run again."""
    rows = read_results(find_study("wei-figure-2"), DOCS).rows
    stored = {row.x: row.value for row in rows if (row.panel, row.method, row.run) == (kind, "ours, auto", 100)}
    case = reference.Reference(kind, 100, panel=kind)
    for row in case.run_proven(["ours, auto"], (1.0, 10.0)):
        assert row.value == pytest.approx(stored[row.x], rel=1e-6)
