"""Pages quote the papers word for word, answer every statement with a number, and call no guess a win."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

import pytest

from tensorveil_evidence.quotations import GAP, Quotation, list_quotations, main, occurs, quote
from tensorveil_evidence.studies.catalogue import find_study
from tensorveil_evidence.studies.joint_pages import JOINT_PAGES, write_joint_pages
from tensorveil_evidence.studies.learning import names
from tensorveil_evidence.studies.store import read_results
from tensorveil_evidence.studies.summary import Point, summarise

DOCS = Path(__file__).parents[4] / "docs"
STUDIES = DOCS / "studies"
QUOTATIONS = list_quotations()
PAGES = [*sorted(STUDIES.glob("*.md")), DOCS / "published.md"]
LEARNING = sorted(path.stem for path in STUDIES.glob("yuan-figure-*.parquet"))
QUOTED = re.compile(r'"([^"]+)"')
SHORT = 4  # fewer words than that may be a term


def flat(text: str) -> str:
    """Leave the words of a page: no code, one space between two words."""
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    return " ".join(text.split())


def read(path: Path) -> str:
    return flat(path.read_text(encoding="utf-8"))


def statements_of(page: str) -> list[str]:
    """Return the items of a page that begin with a quotation."""
    return [flat(item) for item in re.findall(r'^- (".*?)(?=^- |^#|\Z)', page, re.MULTILINE | re.DOTALL)]


@pytest.mark.parametrize("key", QUOTATIONS)
def test_a_statement_stands_word_for_word_on_every_page_that_should_answer_it(key: str) -> None:
    found = QUOTATIONS[key]
    assert found.pages
    for name in found.pages:
        assert quote(key) in read(STUDIES / f"{name}.md"), name


@pytest.mark.parametrize("path", PAGES, ids=[path.stem for path in PAGES])
def test_a_page_quotes_nothing_but_what_is_kept_word_for_word(path: Path) -> None:
    kept = [part.strip(" ,").lower() for each in QUOTATIONS.values() for part in (each.text, *each.text.split(GAP))]
    for words in QUOTED.findall(read(path)):
        if len(words.split()) >= SHORT:
            assert any(words.lower() in each for each in kept), words


@pytest.mark.parametrize("path", PAGES, ids=[path.stem for path in PAGES])
def test_every_statement_has_an_answer_with_a_number(path: Path) -> None:
    for item in statements_of(path.read_text(encoding="utf-8")):
        words, _, told = item[1:].partition('"')
        own = [each for each in QUOTATIONS.values() if each.text == words]
        assert own, words
        assert path.stem in own[0].pages, "the page is not named beside the quotation"
        assert re.search(r"\d", re.sub(r"\]\([^)]*\)|CIFAR-10", "", told)), item


def test_every_study_answers_statements() -> None:
    answered = {name for each in QUOTATIONS.values() for name in each.pages}
    assert {path.stem for path in STUDIES.glob("*.parquet")} - answered == {"claims", "guo-multiplier"}


@pytest.mark.parametrize("name", LEARNING)
def test_what_is_called_as_good_is_above_a_guess(name: str) -> None:
    """Read off the page what is called a win, and hold it against the rows, not against what wrote the page."""
    points, page = summarise(read_results(find_study(name), STUDIES).rows), read(STUDIES / f"{name}.md")
    guess = max((p for p in points if p.method in (names.GUESS, names.MAJORITY)), key=lambda p: p.mean or 0.0)
    pattern = r"(Same true epsilon[^:]*): our best is at least as good as every published one at epsilon ([^(]*) \("
    won = re.findall(pattern, page)
    assert won
    for panel, listed in won:
        for budget in map(float, listed.split(", ")):
            here = [p for p in points if p.panel == panel[0].lower() + panel[1:] and p.x == budget]
            ours = max((p for p in here if p.method in names.OURS), key=lambda p: p.mean or 0.0)
            assert (ours.mean or 0.0) >= max(p.mean or 0.0 for p in here)
            assert (ours.mean or 0.0) - (guess.mean or 0.0) > band(ours, guess)


@pytest.mark.parametrize("name", LEARNING)
def test_tldp_is_called_better_only_where_it_is_above_a_guess(name: str) -> None:
    points, page = summarise(read_results(find_study(name), STUDIES).rows), read(STUDIES / f"{name}.md")
    guess = max((p for p in points if p.method in (names.GUESS, names.MAJORITY)), key=lambda p: p.mean or 0.0)
    for method in names.AS_PRINTED:
        found = re.search(
            rf"{method} is more than 0.05 above Laplace, Gaussian, MVG and IDN at epsilon ([^;]*?)(?:;|[.] )", page
        )
        listed = found[1].split(", ") if found else []
        for nominal in map(float, listed):
            own = next(p for p in points if (p.panel, p.method, p.x) == (names.NOMINAL, method, nominal))
            assert (own.mean or 0.0) - (guess.mean or 0.0) > band(own, guess)


def band(one: Point, other: Point) -> float:
    return 2 * math.hypot(one.error or 0.0, other.error or 0.0)


@pytest.mark.parametrize("name", JOINT_PAGES)
def test_a_page_of_several_studies_is_the_one_that_their_results_give(name: str) -> None:
    """If not: tensorveil study all --redraw -o docs/studies."""
    assert (STUDIES / f"{name}.md").read_text(encoding="utf-8") == JOINT_PAGES[name].write(STUDIES)


def test_pages_of_several_studies_are_written_where_all_of_these_are_in_full(tmp_path: Path) -> None:
    needs = JOINT_PAGES["wei-across"].needs
    for name in needs:
        for ending in ("json", "parquet"):
            assert not write_joint_pages(needs, tmp_path)
            shutil.copy(STUDIES / f"{name}.{ending}", tmp_path)
    assert not write_joint_pages(["claims"], tmp_path)
    assert [path.name for path in write_joint_pages(needs[:1], tmp_path)] == ["wei-across.md"]
    facts = (tmp_path / f"{needs[0]}.json").read_text(encoding="utf-8")
    (tmp_path / f"{needs[0]}.json").write_text(facts.replace('"quick": false', '"quick": true'), encoding="utf-8")
    assert not write_joint_pages(needs, tmp_path)


PAPER = """The bud-
get, as we \\(say\\), is split at $\\epsilon$ = 1. {gap} Then the error falls."""


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("The budget, as we", True),
        ("split at epsilon = 1", True),
        ("The budget [...] the error falls", True),
        ("the error falls [...] The budget", False),
        ("The budget is split", False),
    ],
)
def test_quotations_are_held_against_a_text(text: str, there: bool) -> None:
    asked = Quotation(key="one", paper="W", text=text, pages=("one",))
    assert occurs(asked, PAPER) is there
    assert occurs(asked, PAPER.replace("{gap}", 200 * "much more ")) is (there and GAP not in text)


def test_quotations_that_are_not_found_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "paper.txt").write_text("Applying Differential Privacy. The curves of GP are\nvery close", "utf-8")
    assert main(tmp_path) == len(QUOTATIONS)
    told = capsys.readouterr().out
    assert "wei-near: not found: the curves of GP" in told
    assert f"0 of {len(QUOTATIONS)} quotations found" in told
