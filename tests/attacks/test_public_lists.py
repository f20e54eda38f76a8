"""Public lists name rows by what each of them holds alone: no row changes what becomes of another, and nothing is told.

A reader guesses the kind of a whole column. By its guess "01" and "1" are one user or two, and a label is on a list or
not, so that a single row could decide on all others.
"""

import itertools
from pathlib import Path
from typing import Any

import pytest

import tensorveil as tv
from tensorveil.cli.main import run

FILMS = ["Alien", "7", "007", "12 Monkeys", "2001-01-01"]
FIELDS = [
    "Alien", " Alien", "alien", "7", "7.0", "07", "007", "seven", "", "12 Monkeys", "2001-01-01", "2001-01-01 00:00:00",
    "true", "nan", "1e5", '"7"', '"', "0x7", "NULL", "e\u0301", "9" * 400,
]  # fmt: skip


def read(path: Path, rows: list[str], **changes: Any) -> tv.ObservedTensor:
    path.write_text("user,film,rating\n" + "".join(f"{row}\n" for row in rows))
    promise: dict[str, Any] = {"unit": "slice:user", "bounds": (1, 5), "labels": {"film": FILMS}, "value": "rating"}
    return tv.read_privately(path, **(promise | changes))


def rows_of(tensor: tv.ObservedTensor) -> list[Any]:
    owners = tensor.modes[0].decode(tensor.columns[0]).tolist()
    return sorted(zip(owners, tensor.columns[1].tolist(), tensor.values.tolist(), strict=True))


def test_what_a_row_becomes_depends_on_this_row_alone(tmp_path: Path) -> None:
    rows = [f"ann,{field},3" for field in FIELDS] + [f"{field},Alien,4" for field in FIELDS]
    alone = {row: rows_of(read(tmp_path / "rows.csv", [row])) for row in rows}
    assert sum(map(len, alone.values())) > 20  # or nothing would be shown

    def strip(found: list[Any]) -> list[Any]:
        return sorted((label_of(owner), *rest) for owner, *rest in found)

    for one, other in itertools.combinations(rows, 2):
        both = rows_of(read(tmp_path / "rows.csv", [one, other]))
        assert strip(both) == strip(alone[one] + alone[other]), (one, other)


def label_of(owner: Any) -> Any:
    from tensorveil.tensor.lists import label_key

    return str(label_key(owner))


def test_who_is_one_user_does_not_depend_on_others(tmp_path: Path) -> None:
    rows = ["1,Alien,3", "01,7,4", "1.0,7,2"]
    few = read(tmp_path / "rows.csv", rows)
    more = read(tmp_path / "rows.csv", [*rows, "x,Alien,1"])
    assert len(set(few.columns[0])) == 1
    assert len(set(more.columns[0])) == 2


@pytest.mark.parametrize("unit", ["entry", "slice:user"])
def test_neighbours_get_the_same_release_or_none(tmp_path: Path, unit: str) -> None:
    """Rows that are on no list count as nothing: same bytes, no error, also where nothing else is left."""
    delta = 1e-6 if unit != "entry" else 0.0
    promise: dict[str, Any] = {"epsilon": 2.0, "delta": delta, "unit": unit, "bounds": (1, 5), "shape": {"user": 30}}
    lists: dict[str, Any] = {"film": FILMS}
    if unit == "entry":
        promise["shape"] = None
        lists["user"] = [f"u{k}" for k in range(30)]
    usual = [f"u{k % 23},{FILMS[k % 3]},{1 + k % 5}" for k in range(60)]
    bad = ["u1,Aliens,5", "u1,,5", ",Alien,5", "u1,Alien,", "u1,Alien,x", 'u1,"Alien,5', "u1,Alien", "u1\ufffd,alien,4"]
    seen = set()
    for rows in (usual, [*usual, *bad], [*bad, *usual[::-1]]):
        kind = tv.PrivateCP if unit == "entry" else tv.UserLevelCP
        tensor = read(tmp_path / "rows.csv", rows, unit=unit, labels=lists)
        fitted: Any = kind(1, noise_seed=3, random_state=0, **promise).fit(tensor)
        fitted.save(tmp_path / "model.npz")
        seen.add((tmp_path / "model.npz").read_bytes() + str(fitted.guarantee_.to_json()).encode())
    assert len(seen) == 1
    for rows in ([], bad):
        kind(1, noise_seed=3, random_state=0, **promise).fit(read(tmp_path / "rows.csv", rows, unit=unit, labels=lists))


def test_owners_who_are_numbered_by_who_occurs_may_only_be_grouped(tmp_path: Path) -> None:
    tensor = read(tmp_path / "rows.csv", ["ann,Alien,3", "bob,7,4", "bob,Alien,2", "eve,7,1"])
    users: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "bounds": (1, 5), "shape": (9, 4)}
    with pytest.raises(tv.InputError, match="public list"):
        tv.PrivateCP(1, unit="entry", **users).fit(tensor)
    with pytest.raises(tv.InputError, match="public list"):
        tv.UserLevelCP(1, unit="slice:film", **users).fit(tensor)
    with pytest.raises(tv.InputError, match="public list"):  # the names were exchanged
        tv.UserLevelCP(1, unit="slice:user", **users).fit(tensor.with_modes(["film", "user"]))
    for part in tv.cell_split(tensor, 0.5, random_state=0):
        with pytest.raises(tv.InputError, match="chosen among others"):
            tv.UserLevelCP(1, unit="slice:user", **users).fit(part)


def test_a_list_that_is_a_column_of_the_data_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("user,film,rating\nann,Alien,3\nbob,7,4\n")
    promise = [
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--unit",
        "slice:user",
        "--bounds",
        "1",
        "5",
        "--value",
        "rating",
        "--private-shape",
        "user=9",
    ]
    assert run(["complete", str(path), "-o", str(tmp_path / "out"), *promise, "--labels", f"film={path}:film"]) == 2
    assert "read off the data themselves" in capsys.readouterr().err


def test_labels_of_a_model_are_those_that_its_guarantee_names(tmp_path: Path) -> None:
    tensor = read(tmp_path / "rows.csv", ["zweig,Alien,3", "bob,7,4"])
    promise: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "unit": "slice:user", "bounds": (1, 5)}
    fitted = tv.UserLevelCP(1, shape={"user": 9}, **promise).fit(tensor)
    assert "the declared lists of labels (film)" in fitted.guarantee_.public
    tv.write_release(fitted, tmp_path / "release")
    shared: Any = tv.load_release(tmp_path / "release")[0]
    assert shared.modes[1].labels.tolist() == FILMS
    assert shared.modes[0].labels is None
    assert all(b"zweig" not in file.read_bytes() for file in (tmp_path / "release").iterdir())
    nameless = tv.ObservedTensor([[0, 1], [1, 2]], [1.0, 2.0], (9, 4), modes=["user", "film"])
    plain = tv.UserLevelCP(1, shape=(9, 4), **promise).fit(nameless)
    assert not [fact for fact in plain.guarantee_.public if "lists" in fact]
