"""From a table with titles to lists of titles: in every kind of model, in the shell and in Python alike."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest

import tensorveil as tv
from tensorveil.cli.main import run

FILMS = [f"Film {k:02d}" for k in range(12)]
USERS = [f"u{k:02d}" for k in range(25)]


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    rng = np.random.default_rng(4)
    taste, kind = rng.standard_normal((len(USERS), 1)), rng.standard_normal((len(FILMS), 1))
    scores = np.clip(np.round(3 + taste @ kind.T, 2), 1, 5)
    rows = [f"{USERS[i]},{FILMS[j]},{scores[i, j]}" for i, j in np.argwhere(rng.random(scores.shape) < 0.6)]
    (tmp_path / "ratings.csv").write_text("user,film,rating\n" + "\n".join(rows) + "\n")
    (tmp_path / "films.csv").write_text("id,title\n" + "".join(f"{k},{film}\n" for k, film in enumerate(FILMS)))
    return tmp_path / "ratings.csv"


def complete(path: Path, output: Path, *options: Any) -> int:
    quick = ["--value", "rating", "--bounds", 1, 5, "--rank", 1, "--threads", 1, "--no-fill", "--no-report"]
    return run(list(map(str, ["complete", path, "-o", output, *quick, *options])))


def seen_by(path: Path, user: str) -> set[str]:
    return {line.split(",")[1] for line in path.read_text().splitlines() if line.startswith(f"{user},")}


@pytest.mark.parametrize("kind", ["cp", "tucker", "matrix"])
def test_lists_for_users_leave_out_what_they_have(
    ratings: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete(ratings, tmp_path / "result", "--model", kind, "--sweeps", 5) == 0
    capsys.readouterr()
    given = ["recommend", str(tmp_path / "result"), "--for", "user", "--top", "3", "--entries", str(ratings)]
    assert run([*given, "--users", "u03,u07", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["along"], found["averaged"]) == ("film", [])
    rows = found["recommendations"]
    assert [(row["user"], row["rank"]) for row in rows] == [(u, k) for u in ("u03", "u07") for k in (1, 2, 3)]
    assert not [row for row in rows if row["film"] in seen_by(ratings, row["user"])]
    # Brute force: every film that the user has not seen, by its prediction.
    model = tv.load_model(tmp_path / "result" / "model.npz")
    free = [film for film in FILMS if film not in seen_by(ratings, "u03")]
    scores = model.predict_labels({"user": ["u03"] * len(free), "film": free}, clip=False)
    assert [row["film"] for row in rows[:3]] == [free[k] for k in np.argsort(-scores, kind="stable")[:3]]
    assert run([*given, "-o", str(tmp_path / "lists.csv")]) == 0
    assert set(pyarrow.csv.read_csv(tmp_path / "lists.csv").column("user").to_pylist()) == set(USERS)


def test_a_newcomer_is_served_from_a_release_of_whole_users(
    ratings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promise = ["--epsilon", 5, "--delta", "1e-6", "--unit", "slice:user", "--private-shape", "user=40"]
    lists = ["--labels", f"film={tmp_path / 'films.csv'}:title"]
    assert complete(ratings, tmp_path / "release", *promise, *lists) == 0
    assert not [user for user in USERS if user.encode() in (tmp_path / "release" / "model.npz").read_bytes()]
    (tmp_path / "mine.csv").write_text("film,rating\nFilm 03,5\nFilm 04,1\nUnknown,5\n")
    capsys.readouterr()
    mine = ["--for", "user", "--top", "4", "--entries", str(tmp_path / "mine.csv")]
    assert run(["recommend", str(tmp_path / "release"), *mine, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["recommendations"]
    shared: Any = tv.load_release(tmp_path / "release")[0]
    with pytest.warns(tv.LeftOutWarning, match="1 of 3 are left out"):
        same = shared.recommend(n=4, entries={"film": ["Film 03", "Film 04", "Unknown"], "rating": [5, 1, 5]})
    same = same.to_pylist()
    assert [row["film"] for row in rows] == [row["film"] for row in same]
    assert not {"Film 03", "Film 04"} & {row["film"] for row in rows}
    assert "user" not in rows[0]
    (tmp_path / "ask.csv").write_text("film\nFilm 07\n")
    where = ["--at", str(tmp_path / "ask.csv"), "-o", str(tmp_path / "answers.csv")]
    given = ["predict", str(tmp_path / "release" / "model.npz"), "--entries", str(tmp_path / "mine.csv")]
    assert run([*given, *where]) == 0
    answer = pyarrow.csv.read_csv(tmp_path / "answers.csv").to_pylist()[0]
    own = shared.personalise({"film": ["Film 03", "Film 04"], "rating": [5, 1]})
    assert answer["rating"] == pytest.approx(own.predict_labels({"user": [0], "film": ["Film 07"]})[0])


def test_shell_and_python_read_private_tables_alike(ratings: Path, tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("\n".join(USERS))
    lists = ["--labels", f"film={tmp_path / 'films.csv'}:title", "--labels", f"user={tmp_path / 'users.txt'}"]
    assert complete(ratings, tmp_path / "release", "--epsilon", 5, "--unit", "entry", *lists) == 0
    model: Any = tv.load_release(tmp_path / "release")[0]
    tensor = tv.read_privately(
        ratings, unit="entry", bounds=(1, 5), labels={"film": FILMS, "user": USERS}, value="rating"
    )
    assert [mode.labels.tolist() for mode in model.modes] == [USERS, FILMS]
    assert tensor.modes == model.modes
    assert model.top(2, given={"user": "u03"}, along="film").labels[0] in FILMS


def test_what_is_unclear_is_asked_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensor = tv.synthetic_cp((6, 5, 3), 2, random_state=0).train
    days = tv.Mode("day", ["mo", "tu", "we"])
    model = tv.CP(2, sweeps=3, threads=1).fit(tensor.with_modes(["user", "film", days])).model_
    model.save(tmp_path / "model.npz")
    given = ["recommend", str(tmp_path / "model.npz"), "--for", "user"]
    for options, said in [
        (["--users", "all"], "'film', 'day' could be. Try --along film"),
        (["--along", "film"], "Try --users all"),
        (["--along", "film", "--users", "9"], "must lie inside the model's shape"),
        (["--along", "film", "--users", "2", "--at", "day=su"], "has no label 'su'"),
        (["--along", "film", "--users", "2", "--at", "film=1"], "another mode"),
        (["--along", "film", "--users", "x"], "give indices from 0"),
    ]:
        assert run([*given, *options]) == 2, options
        assert said in " ".join(capsys.readouterr().err.split()), options
    assert run([*given, "--along", "film", "--users", "2", "--top", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["averaged"] == ["day"]
    means = model.slice({"user": 2}, clip=False).mean(axis=1)
    assert [row["film"] for row in found["recommendations"]] == np.argsort(-means, kind="stable").tolist()
    assert run([*given, "--along", "film", "--users", "2", "--at", "day=tu", "--json"]) == 0
    ranked = [row["film"] for row in json.loads(capsys.readouterr().out)["recommendations"]]
    assert ranked == model.top(5, given={"user": 2, "day": "tu"}, along="film").indices.tolist()
