"""HTML pages of studies hold what their Markdown holds: settings, printed values, findings."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tensorveil.report.page import render
from tensorveil_evidence.studies import publication
from tensorveil_evidence.studies.catalogue import find_study
from tensorveil_evidence.studies.page_text import read_sections
from tensorveil_evidence.studies.store import read_results
from tensorveil_evidence.studies.study_page import make_study_page

DOCS = Path(__file__).parents[4] / "docs" / "studies"


def test_what_studies_write_is_read() -> None:
    text = (
        "## One\n\nA `code`, a [link](x.md) and *all of it*: 1 < 2.\n\n### Two\n\n| a | b |\n| --- | --- |\n| 1 | *2* |"
    )
    first, second = read_sections(f"{text}\n\n## Three\n\nList:\n- one\n  more\n- two\n")
    assert (first.title, second.title) == ("One", "Three")
    assert first.blocks[0] == "<p>A <code>code</code>, a link and <em>all of it</em>: 1 &lt; 2.</p>"
    assert first.blocks[1] == "<h3>Two</h3>"
    assert ">2</td>" in first.blocks[2]
    assert "Table: Two" in first.blocks[2]
    assert second.blocks == ("<p>List:</p>", "<ul><li>one more</li><li>two</li></ul>")


@pytest.mark.parametrize("name", ["guo-table-1", "guo-table-2", "wei-figure-4", "yuan-figure-1-mnist", "yuan-table-5"])
def test_the_html_page_holds_the_words_and_numbers_of_the_markdown(name: str) -> None:
    study = find_study(name)
    results = read_results(study, DOCS)
    page = make_study_page(publication.describe(study, results, study.draw(results)))
    shown = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", render(page))).split())
    written = re.sub(r"\]\([^)]*\)", "", study.page(results))
    words = re.findall(r"[A-Za-z0-9.±-]*\w", written)
    assert len(words) > 300
    assert not {word for word in words if word not in shown}
