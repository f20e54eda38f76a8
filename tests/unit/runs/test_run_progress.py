from __future__ import annotations

import sys
from typing import Any

import pytest

from tensorveil.runs.progress import describe_record, fit_progress, step_progress
from tensorveil.solvers.task import Record


def record(**changes: Any) -> Any:
    facts = {"restart": 0, "iteration": 1, "iterations": 3, "seconds": 0.1, "train_error": 0.5}
    return Record(**(facts | changes))


def test_nothing_is_shown_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with fit_progress("fitting") as progress:
        assert progress is None
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_the_bar_goes_to_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with fit_progress("fitting") as progress:
        assert progress is not None
        progress(record())
        progress(record(restart=1, iteration=2, validation_error=0.6))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "fitting" in captured.err


def test_steps_and_rounds_are_named_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with step_progress(("reading", "fitting")) as told:
        assert told == (None, None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    for rounds in (False, True):
        with step_progress(("reading", "fitting")) as (begin, advance):
            assert begin is not None
            assert advance is not None
            begin("fitting")
            if rounds:
                advance("rounds", 3, 13)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "step 2 of 2, fitting" in captured.err
        assert ("3 of 13 rounds" in captured.err) is rounds


def test_the_state_names_the_errors() -> None:
    assert describe_record(record()) == "RMSE 0.5"
    assert describe_record(record(validation_error=0.25)) == "RMSE 0.5, held out 0.25"
