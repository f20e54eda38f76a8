"""The examples in README, the tutorials and the guides run as they are printed; what pages cite and link to exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tensorveil.cli.main import run
from tensorveil.runs import demo_fits

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
CODE = [path for folder in ("src", "tests", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.*")]
LIMIT = 120
CITATION = re.compile(r"\bdocs/((?:[a-z0-9-]+/)*[a-z0-9-]+\.md)(?:#([a-z][\w-]*))?")


def blocks(page: Any, language: Any) -> Any:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def commands(page: Any) -> Any:
    text = "\n".join(blocks(page, "console")).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith("$ tensorveil ") and "VERB" not in line]
    return [shlex.split(line, comments=True)[2:] for line in lines]


def execute(page: Any, names: Any) -> None:
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)


@pytest.fixture
def quick_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_fits, "CP_RANK", 6)
    monkeypatch.setattr(demo_fits, "TUCKER_RANK", (3, 3, 3))
    monkeypatch.setattr(demo_fits, "GRID", (1.0,))
    monkeypatch.setattr(demo_fits, "REPEATS", 1)


def test_the_pages_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], quick_demo: Any
) -> None:
    """In a reader's order: tutorials, guides, the page of the command, README."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    execute("docs/tutorials/first-completion.md", names)
    score = float(re.findall(r"R² ([\d.]+)", capsys.readouterr().out)[0])
    assert score > 0.75
    assert len(commands("docs/tutorials/first-completion.md")) == 4
    for page in ("docs/tutorials/first-completion.md", "docs/tutorials/first-release.md"):
        for command in commands(page):
            assert run(command) == 0, command
    assert Path("release/report.html").exists()
    execute("docs/tutorials/first-release.md", {})
    assert "for single values" in capsys.readouterr().out
    execute("docs/how-to/complete.md", names)
    execute("docs/how-to/privacy.md", names)
    for command in commands("docs/how-to/privacy.md"):
        assert run(command) == 0, command
    for command in commands("docs/reference/cli.md"):
        assert run([*command, "--force"] if "result" in command else command) == 0, command


def test_readme_and_index_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    execute("docs/index.md", {})
    assert "for single values" in capsys.readouterr().out
    execute("README.md", {})
    assert "for single values" in capsys.readouterr().out
    rows = [f"user {k % 20},film {k % 7},{1 + k % 5}" for k in range(100)]
    Path("ratings.csv").write_text("\n".join(["user,film,rating", *rows]))
    Path("questions.csv").write_text("film,user\nfilm 3,user 1\n")
    Path("release").rename("release-of-python")
    assert len(commands("README.md")) == 4
    for command in commands("README.md"):
        assert run(command) == 0, command


def test_the_page_about_stores_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{k % 60},{k % 30},{1 + k % 5}" for k in range(0, 1800, 7)]
    Path("ratings.csv").write_text("\n".join(["user,film,rating", *rows]))
    assert len(commands("docs/how-to/scale.md")) == 3
    for command in commands("docs/how-to/scale.md"):
        assert run(command) == 0, command
    execute("docs/how-to/scale.md", {})
    assert capsys.readouterr().out.endswith("proven (300, 20, 5)\nTrue\n")


def test_every_option_of_complete_is_in_the_page() -> None:
    from tensorveil.cli.complete import complete

    page = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    options = {option for parameter in complete.params for option in parameter.opts if option.startswith("--")}
    assert [option for option in options if option not in page and option != "--output"] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Any) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)(?:#([^)\s]+))?\)", text):
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), f"{target}#{anchor}"


def anchors(page: Any) -> Any:
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
    return slugs | set(re.findall(r'<a id="([\w-]+)"', text))


def test_what_code_cites_exists() -> None:
    """Docstrings, error texts and guarantees cite pages as docs/PAGE.md#SECTION."""
    cited = {
        citation
        for path in CODE
        if path.suffix in (".py", ".md")
        for citation in CITATION.findall(path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 20
    missing = [f"{page}#{anchor}" for page, anchor in sorted(cited) if not is_there(page, anchor)]
    assert missing == []


def is_there(page: Any, anchor: Any) -> Any:
    return (DOCS / page).exists() and (not anchor or anchor in anchors(DOCS / page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_lines_are_short_enough_to_read(page: Any) -> None:
    """Tables, drawings in ASCII and the pages that studies write are exempt: their lines cannot be broken."""
    if page.parent.name == "studies" and page.name != "README.md":
        pytest.skip("written by its study")
    lines = re.sub(r"```\n.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL).splitlines()
    assert [n for n, line in enumerate(lines, 1) if len(line) > LIMIT and not line.startswith("|")] == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1]
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert [page for page in pages if page not in navigation] == []
