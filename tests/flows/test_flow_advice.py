"""What errors advise can be done at that call, and what is refused is named in the words of whoever asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run as run_command

pytestmark = pytest.mark.usefixtures("advice_can_be_followed")
pd = pytest.importorskip("pandas")

UNIT: dict[str, Any] = {"unit": "slice:user", "bounds": (1, 5), "shape": {"user": 60}}
VALUE: dict[str, Any] = {"epsilon": 5.0, "delta": 0.0, "unit": "value", "bounds": (1, 5), "threads": 1}


def open_fit(data: Any, values: Any = None) -> tv.CP:
    return tv.CP(1, random_state=0, threads=1).fit(data, values)


@pytest.fixture(scope="module")
def case() -> Any:
    """Return ratings, a model of them, and a release for whole users."""
    rng = np.random.default_rng(0)
    cells = [(f"u{i}", f"f{j}", float(rng.integers(1, 6))) for i in range(30) for j in range(9) if rng.random() < 0.6]
    frame = pd.DataFrame(cells, columns=["user", "film", "rating"])
    films = sorted(set(frame["film"]))
    private = tv.read_privately(frame, labels={"film": films}, value="rating", **UNIT)
    return SimpleNamespace(
        frame=frame, X=frame[["user", "film"]], y=frame["rating"], films=films, private=private,
        fitted=open_fit(frame[["user", "film"]], frame["rating"]),
        whole=tv.UserLevelCP(1, epsilon=20.0, delta=1e-5, noise_seed=1, **UNIT).fit(private),
        mine=frame[frame["user"] == "u3"][["film", "rating"]],
    )  # fmt: skip


def two_levels(frame: Any) -> Any:
    return frame.set_axis(pd.MultiIndex.from_tuples([("a", name) for name in frame.columns]), axis=1)


def read(case: Any, **changes: Any) -> Any:
    return tv.read_privately(case.frame, **({"labels": {"film": case.films}, "value": "rating"} | UNIT | changes))


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a column twice": (lambda c: open_fit(pd.concat([c.X, c.X[["film"]]], axis=1), c.y), "different column names"),
    "asked twice": (lambda c: c.fitted.predict(pd.concat([c.X, c.X[["film"]]], axis=1)), "different column names"),
    "names of two levels": (lambda c: open_fit(two_levels(c.X), c.y), "one level of column names"),
    "two columns of values": (lambda c: open_fit(c.X, pd.concat([c.y, c.y], axis=1).set_axis(["a", "b"], axis=1)),
                              "values must be one column"),
    "no label": (lambda c: open_fit(c.X.assign(user=c.X["user"].where(c.X.index > 3)), c.y), r"fit\(frame\[seen\]"),
    "a cell twice": (lambda c: open_fit(pd.concat([c.X, c.X]), pd.concat([c.y, c.y])), r"fit\(ObservedTensor.from_"),
    "coordinates twice": (lambda c: open_fit([[0, 0], [0, 0]], [1.0, 2.0]),
                          r"fit\(ObservedTensor\(coords, values, duplicates='mean'\)\)"),
    "a frame for whole users": (lambda c: tv.UserLevelCP(1, epsilon=1, delta=1e-5, **UNIT).fit(c.frame),
                                r"read_privately\(frame, .* labels=\{'film': films\}.*and fit\(private\)"),
    "labels for whole users": (lambda c: tv.UserLevelCP(1, epsilon=1, delta=1e-5, **UNIT).fit(c.X, c.y),
                               r"read_privately\(frame, .* labels=\{'film': films\}.*and fit\(private\)"),
    "labels for entries": (lambda c: tv.PrivateCP(1, **(VALUE | {"unit": "entry"})).fit(c.X, c.y), "read_privately"),
    "the error of a frame": (lambda c: c.fitted.rmse(c.frame), r"Try rmse\(frame\[\["),
    "a choice by a frame": (
        lambda c: tv.choose_privately([tv.PrivateCP(1, **VALUE)], c.frame, epsilon=9.0, delta=0.0),
        r"Try choose_privately\(estimators, ObservedTensor",
    ),
    "no such mode": (lambda c: read(c, unit="slice:usr", shape={"usr": 60}), "there is no mode 'usr'. Check its"),
    "nearly a mode": (lambda c: read(c, unit="slice:usr", modes=["user", "film"]), "Did you mean 'user'"),
    "a number of films": (lambda c: c.fitted.top("2", given={"user": "u1"}, along="film"), "n must be a whole number"),
    "a number of films each": (lambda c: c.fitted.recommend("user", "2"), "n must be a whole number"),
    "a mode that is given": (lambda c: c.fitted.top(2, given={"usr": "u1"}, along="film"), "Did you mean 'user'"),
    "a mode along": (lambda c: c.fitted.top(2, given={"user": "u1"}, along="flim"), "Did you mean 'film'"),
    "transform": (lambda c: c.fitted.set_output(transform="pandas"), r"set_output\(predict='pandas'\)"),
    "a series without labels": (lambda c: c.whole.recommend(2, entries=c.mine["rating"]), "rename_axis"),
    "a label twice": (lambda c: read(c, labels={"film": [*c.films, "f0"]}), "labels 1 and 10 are the same"),
    "a label of nothing": (lambda c: read(c, labels={"film": [*c.films, None]}), "label 10 is missing"),
    "a user who is misspelt": (lambda c: c.whole.personalise(c.mine).predict(c.X.set_axis(["usr", "film"], axis=1)),
                               "missing .'user'.*Did you mean 'usr'"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_errors_name_what_can_be_done(case: Any, kind: str) -> None:
    attempt, words = REFUSED[kind]
    with pytest.raises(tv.InputError, match=words):
        attempt(case)


def test_frames_of_many_kinds_are_as_good_as_plain_ones(case: Any) -> None:
    expected = case.fitted.predict(case.X)
    numbered = case.X.set_axis([0, 1], axis=1)
    np.testing.assert_array_equal(open_fit(numbered, case.y).predict(numbered), expected)
    np.testing.assert_array_equal(open_fit(case.X, case.y.astype("category")).predict(case.X), expected)
    shuffled = case.y.sort_values()
    assert case.fitted.rmse(case.X, shuffled) == case.fitted.rmse(case.X, case.y)
    with sqlite3.connect(":memory:") as base:
        base.execute("create table asked (user, film)")
        base.executemany("insert into asked values (?, ?)", case.X.to_numpy().tolist())
        np.testing.assert_array_equal(case.fitted.predict(base.execute("select * from asked")), expected)


def test_a_release_serves_whoever_brings_a_frame_or_a_series(case: Any) -> None:
    assert case.whole.rmse_for(case.frame, case.frame) == pytest.approx(case.whole.rmse_for(case.private, case.private))
    model = case.whole.model_
    lists = [
        each.recommend(*question, entries=entries, **options)
        for each in (case.whole, model)
        for entries in (case.mine, case.mine.set_index("film")["rating"])
        for question, options in (((2,), {}), (("user", 2), {}), ((), {"n": 2}))
    ]
    assert all(table == lists[0] for table in lists)
    assert lists[0].num_rows == 2
    # Whoever is the only one need not be named.
    one = model.personalise(case.mine)
    np.testing.assert_array_equal(one.predict(case.mine), one.predict(case.mine.assign(user=0)))


@pytest.fixture(scope="module")
def place(case: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the ratings, what one person brings of them, and a release."""
    folder = tmp_path_factory.mktemp("advice")
    (folder / "whole").mkdir()
    case.whole.model_.save(folder / "whole" / "model.npz")
    case.frame.to_csv(folder / "t.csv", index=False)
    case.frame.to_csv(folder / "tabs.csv", index=False, sep="\t")
    case.frame.assign(rating=[f"1.{value:.0f}00,50" for value in case.y]).to_csv(
        folder / "de.csv", index=False, sep=";"
    )
    case.frame.assign(rating=[f"1,{value:.0f}00.50" for value in case.y]).to_csv(folder / "en.csv", index=False)
    case.mine.head(0).to_csv(folder / "no-row.csv", index=False)
    case.mine[["film"]].to_csv(folder / "no-value.csv", index=False)
    case.mine.set_axis(["Film", "Rating"], axis=1).to_csv(folder / "capitals.csv", index=False)
    case.mine.assign(rating=case.mine["rating"].where(case.mine["rating"] > 2)).to_csv(
        folder / "empty.csv", index=False
    )
    (folder / "films.csv").write_text("film\n" + "\n".join(case.films) + "\n")
    (folder / "twice.csv").write_text("film\n" + "\n".join([*case.films, "f3"]) + "\n")
    return folder


RECOMMEND = ["recommend", "{}/whole", "--for", "user", "--entries"]
PRIVATE = [
    "complete", "{}/t.csv", "-o", "{}/out", "--epsilon", "1", "--delta", "1e-5", "--unit", "slice:user", "--value",
    "rating", "--bounds", "1", "5", "--labels",
]  # fmt: skip
SHELL: dict[str, tuple[list[str], str]] = {
    "no row": ([*RECOMMEND, "{}/no-row.csv"], "Error: --entries must hold at least one row"),
    "no value": ([*RECOMMEND, "{}/no-value.csv"], "--entries: there must be a column of values, such as 'rating'"),
    "capitals": ([*RECOMMEND, "{}/capitals.csv"], "missing ['film']. Did you mean 'Film'?"),
    "an empty cell": ([*RECOMMEND, "{}/empty.csv"], "--entries: column 'rating' has empty cells. Fill them in"),
    "another mode": (["recommend", "{}/whole", "--for", "usr", "--users", "all"], "Did you mean 'user'?"),
    "held-out cells": (["evaluate", "{}/whole", "--at", "{}/t.csv"], "with --entries FILE, and compare"),
    "thousands": (["info", "{}/de.csv"], "signs between thousands: write all numbers of the column without them."),
    "and a comma": (["info", "{}/en.csv"], "signs between thousands: write all numbers of the column without them."),
    "one column": (["info", "{}/t.csv", "--delimiter", ";"], "say --delimiter; if this is no table, name its format:"),
    "no unit": ([*PRIVATE[:9], "slice:usr", *PRIVATE[10:], "film={}/films.csv"],
                "Error: --unit must name the mode whose indices are protected; there is no mode 'usr'"),
    "a size alone": ([*PRIVATE, "film={}/films.csv", "--private-shape", "400"], "by its name, user=943; got '400'"),
    "another size": ([*PRIVATE, "film={}/films.csv", "--private-shape", "usr=400"],
                     "--private-shape must name modes of the tensor, user, film; got 'usr'. Did you mean 'user'?"),
    "no picture": ([*PRIVATE[:5], "1", "--unit", "value", "--value", "rating", "--bounds", "1", "5", "--filled-format",
                    "png"], "a picture has rows and columns of pixels; mode 'user' has labels of another kind"),
    "a label twice": ([*PRIVATE, "film={}/twice.csv"], "labels 4 and 10 are the same"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SHELL)
def test_the_shell_names_its_own_options(place: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, words = SHELL[kind]
    assert run_command([each.format(place) for each in arguments]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert words in said
    assert "=..." not in said


def test_what_comes_next_can_be_typed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["info", str(place / "tabs.csv")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "--delimiter tab --output result" in said
    # Bounds are an example, and no advice to read them off the data.
    assert "in an open run for example --bounds 0 5." in said
    assert "Declare them from what values can be" in said
