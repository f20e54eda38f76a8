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


SLICE = ["--unit", "slice:user", "--shape", "6040,3706", "--entries", "900000", "--bounds", "1", "5", "--delta", "1e-6"]
ENTRY = ["--unit", "entry", *FACTS]
MEANS = ["--unit", "tensor", "--shape", "28,28", "--people", "100000", "--bounds", "0", "1"]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["plan", *arguments]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_biases_instead_of_a_rank_are_said_before_spending(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, *SLICE, "--rank", "8", "--epsilon", "1", "--epsilon", "5")
    assert "epsilon 1: Rank 8 is asked for, but biases and traits alone would be released" in out
    assert "They are released from epsilon 2.83 on." in out
    assert "epsilon 5: Biases, traits and 8 latent features would be released." in out
    assert "guessed RMSE" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*FACTS, "--rmse", "0.25"], "is guessed to reach an RMSE of 0.25"),
        ([*SLICE, "--rmse", "0.6", "--spread", "1.1"], "is guessed to reach an RMSE of 0.6"),
        ([*ENTRY, "--rmse", "0.3", "--rank", "2"], "is guessed to reach an RMSE of 0.3"),
        ([*MEANS, "--rmse", "0.02"], "epsilon 6.17 reaches an RMSE of 0.02: 0.02 by privunit."),
    ],
)
def test_which_epsilon_for_an_accuracy(capsys: pytest.CaptureFixture[str], arguments: Any, words: str) -> None:
    assert words in said(capsys, *arguments)
    facts = json.loads(said(capsys, *arguments, "--json"))
    assert facts["answer"]["rmse"] <= facts["rmse"]
    again = json.loads(said(capsys, *arguments, "--epsilon", str(facts["answer"]["epsilon"]), "--json"))
    assert again["budgets"] == [again["answer"]] == [facts["answer"]]


def test_the_shell_says_what_python_says(capsys: pytest.CaptureFixture[str]) -> None:
    from tensorveil.runs.plan import PlanRun, plan_budgets
    from tensorveil.runs.plan_means import MeansRun, plan_means

    asked: dict[str, Any] = {"epsilons": (1.0, 5.0), "rmse": 0.3}
    users = PlanRun(unit="slice:user", shape=(6040, 3706), entries=900_000, bounds=(1.0, 5.0), delta=1e-6, **asked)
    more = ["--epsilon", "1", "--epsilon", "5", "--rmse", "0.3", "--json"]
    assert json.loads(said(capsys, *SLICE, *more)) == json.loads(json.dumps(plan_budgets(users).to_json()))
    means = MeansRun(unit="tensor", shape=(28, 28), people=100_000, bounds=(0.0, 1.0), **asked)
    assert json.loads(said(capsys, *MEANS, *more)) == json.loads(json.dumps(plan_means(means).to_json()))


def test_means_are_compared_by_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, *MEANS, "--epsilon", "1", "--epsilon", "4")
    for words in ("mean of 100,000 tensors of 28 x 28", "k-rr │ * 0.0958", "│ * 0.0292 │", "no guess", "these people"):
        assert words in out
    assert "gaussian" not in out
    assert "gaussian" in said(capsys, *MEANS, "--epsilon", "1", "--delta", "1e-6")
    ball = ["--unit", "tensor", "--shape", "10", "--people", "500", "--radius", "1", "--epsilon", "2"]
    assert "radius 1" in said(capsys, *ball)
    assert "population" in said(capsys, *MEANS, "--epsilon", "1", "--spread", "0.2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*FACTS], "--epsilon, which may be repeated, or the --rmse"),
        ([*FACTS, "--rmse", "0"], "rmse must be a finite number above 0"),
        ([*FACTS, "--rmse", "9"], "which a constant is guessed to have"),
        ([*FACTS, "--rmse", "0.0001"], "rmse must be at least"),
        ([*FACTS[:4], "--epsilon", "1"], "--bounds must be declared"),
        ([*FACTS, "--people", "7", "--epsilon", "1"], "--people says nothing about --unit value"),
        ([*SLICE[:-2], "--epsilon", "1"], "Try --delta 1e-6"),
        ([*SLICE, "--epsilon", "1", "--modes", "film,day"], "modes must name"),
        (["--unit", "slice", *FACTS, "--epsilon", "1"], "Try slice:user"),
        ([*ENTRY[:4], *ENTRY[6:], "--epsilon", "1"], "needs --shape and --entries: declared"),
        ([*MEANS, "--rank", "3", "--epsilon", "1"], "--rank says nothing about --unit tensor"),
        ([*MEANS[:4], "--bounds", "0", "1", "--epsilon", "1"], "needs --people and --shape"),
        ([*MEANS[:-3], "--epsilon", "1"], "Try --bounds -1 1"),
        ([*MEANS, "--epsilon", "50"], "epsilon must be at most 40"),
        ([*MEANS, "--rmse", "1e-9"], "the error at epsilon 40"),
    ],
)
def test_questions_without_an_answer_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: Any, words: str
) -> None:
    assert run(["plan", *arguments]) == 2
    captured = capsys.readouterr()
    assert words in " ".join(captured.err.split())
    assert captured.out == ""


@pytest.mark.parametrize("unit", ["entry", "slice:user"])
def test_no_file_is_read_where_positions_are_private(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: str
) -> None:
    path = table(tmp_path / "a.csv", ["1", "2"])
    assert run(["plan", path, "--unit", unit, "--bounds", "1", "5", "--epsilon", "1", "--delta", "1e-6"]) == 2
    assert "positions are private there" in " ".join(capsys.readouterr().err.split())
