from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tensorveil.cli.main import run
from tensorveil.mechanisms.planner import plan
from tensorveil.privacy import Budget, Unit

FACTS = ["--shape", "943,1682", "--entries", "90570", "--bounds", "1", "5", "--rank", "10"]


def table(path: Path, values: Any) -> Any:
    cells = [f"{i},{j}" for i in range(6) for j in range(5) if (i + j) % 3]
    path.write_text("user,film,rating\n" + "\n".join(f"{c},{v}" for c, v in zip(cells, values * 20, strict=False)))
    return str(path)


def test_the_plan_is_the_planners(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *FACTS, "--epsilon", "0.01", "--epsilon", "1", "--epsilon", "10", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [budget["method"] for budget in facts["budgets"]] == ["staged"] * 3
    for budget in facts["budgets"]:
        known = plan(
            shape=(943, 1682), n_entries=90570, bounds=(1.0, 5.0), ranks=(10, 10), core=False,
            budget=Budget(epsilon=budget["epsilon"], delta=0.0), unit=Unit.value(),
        )  # fmt: skip
        assert budget["expected"] == [{"method": p.method, "rmse": p.rmse} for p in known.predictions]
    assert "typical tensor" in facts["assumed"]


def test_the_table_marks_what_is_chosen_and_says_what_is_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *FACTS, "--epsilon", "1", "--epsilon", "10", "--delta", "1e-6", "--model", "tucker"]) == 0
    out = capsys.readouterr().out
    assert out.count("* ") == 1 + 2  # the legend, and one per budget
    for words in ("epsilon 10", "tables", "943 x 1,682", "the values are not looked", "costs no budget"):
        assert words in out


def test_of_a_file_only_positions_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for number, values in enumerate((["1", "2", "5"], ["4", "4.5", "1000"])):
        assert run(["plan", table(tmp_path / f"{number}.csv", values), "--bounds", "1", "5", "--epsilon", "1"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert "6 x 5, 20 entries" in said[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shape", "9,9", "--bounds", "1", "5", "--epsilon", "1"], "both --shape and --entries"),
        (["--bounds", "1", "5", "--epsilon", "1"], "either FILE"),
        ([*FACTS], "--epsilon"),
        ([*FACTS, "--epsilon", "-1"], "epsilon must be"),
        ([*FACTS, "--epsilon", "1", "--delta", "1"], "delta must be"),
        (["--shape", "9,9", "--entries", "5", "--bounds", "5", "1", "--epsilon", "1"], "bounds must be"),
        (["--shape", "9,9", "--entries", "5", "--bounds", "1", "inf", "--epsilon", "1"], "bounds must be"),
        (["--shape", "9,9", "--entries", "82", "--bounds", "1", "5", "--epsilon", "1"], "more entries than cells"),
        (["--shape", "9", "--entries", "5", "--bounds", "1", "5", "--epsilon", "1"], "2 or more modes"),
        ([*FACTS[:-1], "3,3", "--epsilon", "1"], "rank"),
    ],
)
def test_bad_questions_are_refused(capsys: pytest.CaptureFixture[str], arguments: Any, words: Any) -> None:
    assert run(["plan", *arguments]) == 2
    captured = capsys.readouterr()
    assert words in " ".join(captured.err.split())
    assert captured.out == ""


def test_a_file_and_a_shape_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "a.csv", ["1", "2"])
    for more in (["--shape", "6,5"], FACTS[:4]):
        assert run(["plan", path, *more, "--bounds", "1", "5", "--epsilon", "1"]) == 2
    assert "FILE" in capsys.readouterr().err
