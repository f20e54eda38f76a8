"""Which options go with --epsilon, and which do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tensorveil.cli.complete import complete
from tensorveil.cli.main import run
from tensorveil.cli.private import PRIVATE, REFUSED
from tensorveil.completion.methods import METHODS as CATALOGUE
from tensorveil.mechanisms.names import BY_UNIT

PROMISE = ["--epsilon", "1", "--unit", "value", "--bounds", "1", "5"]
ENTRY = ["--epsilon", "1", "--unit", "entry", "--bounds", "1", "5"]


def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: Any) -> Any:
    """Run on a table that must not even be read; give the message."""
    path = tmp_path / "ratings.csv"
    path.write_text("not a table")
    assert run(["complete", str(path), "-o", str(tmp_path / "out"), *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert not (tmp_path / "out").exists()
    return " ".join(captured.err.split())


def test_the_names_of_methods_are_those_of_the_catalogue() -> None:
    for unit in ("value", "entry", "slice"):
        assert set(BY_UNIT[unit]) == {name for name, method in CATALOGUE.items() if method.unit == unit}


def test_the_tables_of_options_name_options() -> None:
    known = {parameter.name for parameter in complete.params}
    assert {*PRIVATE, *REFUSED} <= known


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", "1", "--bounds", "1", "5"], "--epsilon needs --unit"),
        (["--epsilon", "1", "--unit", "value"], "--epsilon needs --bounds"),
        ([*PROMISE, "--solver", "als"], "--solver cannot be used with --epsilon"),
        ([*PROMISE, "--baseline", "biases"], "--baseline cannot be used"),
        ([*PROMISE, "--regularization", "1"], "--regularization cannot be used"),
        ([*PROMISE, "--validation", "0.1"], "--validation cannot be used"),
        ([*PROMISE, "--validation", "0"], "--validation cannot be used"),
        ([*PROMISE, "--out-of-bounds", "drop"], "always clipped"),
        ([*PROMISE, "--seed", "0"], "never from a seed"),
        ([*PROMISE, "--force"], "never overwritten"),
        ([*PROMISE, "--method", "gram"], "--method must be one of auto, mean"),
        ([*PROMISE, "--method", "cp"], "--method must be one of"),
        ([*PROMISE, "--purpose", "fun"], "Add --ledger"),
        ([*PROMISE, "--at", __file__, "--no-fill"], "exclude each other"),
        (ENTRY, "--unit entry needs public lists of labels, or --private-shape"),
        ([*ENTRY, "--private-shape", "3,3", "--method", "mean"], "--method must be one of auto, crosstabs, gram"),
        ([*ENTRY, "--private-shape", "3,3", "--indices", "--duplicates", "mean"], "an entry of its own"),
        ([*ENTRY, "--private-shape", "3,3"], "this --unit needs public labels"),
        ([*ENTRY, "--private-shape", "3"], "size of a mode by its name, user=943"),
        ([*ENTRY, "--private-shape", "3,x"], "whole numbers and commas"),
        (["--epsilon", "1", "--unit", "slice", "--bounds", "1", "5"], "unit"),
        (["--unit", "value", "--bounds", "1", "5"], "--unit would protect nothing without --epsilon"),
        (["--delta", "0"], "--delta would protect nothing"),
        (["--ledger", "x", "--diagnostics", "y"], "--ledger, --diagnostics would protect nothing"),
        (["--method", "tucker"], "--model tucker"),
    ],
)
def test_combinations_that_make_no_sense_are_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: Any, words: Any
) -> None:
    assert words in refused(tmp_path, capsys, *options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", "0", "--unit", "value", "--bounds", "1", "5"], "epsilon must be"),
        (["--epsilon", "nan", "--unit", "value", "--bounds", "1", "5"], "epsilon must be"),
        ([*PROMISE, "--delta", "2"], "delta must be"),
        (["--epsilon", "1", "--unit", "value", "--bounds", "5", "1"], "bounds must be"),
        (["--epsilon", "1", "--unit", "value", "--bounds", "1", "inf"], "bounds must be"),
    ],
)
def test_promises_that_are_none_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: Any, words: Any
) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("user,film,value\nann,Alien,5\nbob,Cube,2\nann,Cube,1\n")
    assert run(["complete", str(path), "-o", str(tmp_path / "out"), "--rank", "1", *options]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
