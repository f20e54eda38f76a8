"""The examples in the guide, in the page on privacy and in the command's page run as they are printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tensorveil.cli.main import run
from tensorveil.runs import demo as demonstration
from tensorveil.runs import private_demo as private_demonstration

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def commands(page):
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    return [shlex.split(line)[2:] for line in lines if line.startswith("$ tensorveil ") and "VERB" not in line]


def test_the_pages_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demonstration, "CP_RANK", 6)
    monkeypatch.setattr(demonstration, "TUCKER_RANK", (3, 3, 3))
    monkeypatch.setattr(private_demonstration, "GRID", (1.0,))
    monkeypatch.setattr(private_demonstration, "REPEATS", 1)
    names: dict[str, object] = {}
    for block in blocks("guide.md", "python"):
        exec(compile(block, "guide.md", "exec"), names)
    score = float(re.search(r"R² ([\d.]+)", capsys.readouterr().out)[1])
    assert score > 0.75
    Path("questions.csv").write_text("film,user\nfilm 03,user 01\n")
    assert len(commands("guide.md")) == 3
    for command in commands("guide.md"):
        assert run(command) == 0, command
    assert run(["complete", "ratings.csv", "-o", "again", "--no-fill", "--rank", "1"]) == 0
    for block in blocks("privacy.md", "python"):
        exec(compile(block, "privacy.md", "exec"), names)
    assert "for single values" in capsys.readouterr().out
    for command in commands("privacy.md"):
        assert run(command) == 0, command
    for command in commands("cli.md"):
        assert run([*command, "--force"] if "result" in command else command) == 0, command


def test_every_option_of_complete_is_in_the_page():
    from tensorveil.cli.complete import complete

    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    options = {option for parameter in complete.params for option in parameter.opts if option.startswith("--")}
    assert [option for option in options if option not in page and option != "--output"] == []


@pytest.mark.parametrize("page", ["guide.md", "cli.md", "privacy.md", "federated.md"])
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((\w+\.md)\)", (DOCS / page).read_text(encoding="utf-8")):
        assert (DOCS / target).exists()
