"""Labels that are dropped leave their numbering behind: every index still tells who occurs in the data.

The refusal of labelled tensors itself advised to drop the labels. Nor do files of our own, or another look at the
bounds, make a tensor forget what was merged, left out, numbered or chosen.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv

ENTRY: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "entry", "bounds": (1, 5), "shape": (9, 9)}
USERS: dict[str, Any] = ENTRY | {"delta": 1e-6, "unit": "slice:user"}
ROWS = "bob,x,5\nbob,y,3\neve,y,2\n"


def read(folder: Path, rows: str, **options: Any) -> tv.ObservedTensor:
    (folder / "ratings.csv").write_text(f"user,film,rating\n{rows}")
    return tv.read(folder / "ratings.csv", value="rating", **options)


def fit_all(tensor: tv.ObservedTensor) -> None:
    tv.PrivateCP(1, **ENTRY).fit(tensor)
    tv.UserLevelCP(1, **USERS).fit(tensor)


@pytest.mark.parametrize("ending", [None, "npz", "parquet"])
def test_dropping_labels_does_not_make_a_numbering_public(tmp_path: Path, ending: str | None) -> None:
    tensors = [read(tmp_path, rows) for rows in (ROWS, f"ann,x,1\n{ROWS}")]
    # With ann in the data, bob is another row.
    assert tensors[0].coords[0, 0] != tensors[1].coords[1, 0]
    for tensor in tensors:
        if ending is not None:
            tensor.write(tmp_path / f"tensor.{ending}")
            tensor = tv.read(tmp_path / f"tensor.{ending}")
        for nameless in (tensor, tensor.with_modes(["user", "film"])):
            for estimator, promise in ((tv.PrivateCP, ENTRY), (tv.UserLevelCP, USERS)):
                with pytest.raises(tv.InputError, match="public list"):
                    estimator(1, **promise).fit(nameless)


@pytest.mark.parametrize("named", [{}, {"modes": ["user", "film"]}])
def test_naming_columns_does_not_make_a_file_forget(tmp_path: Path, named: dict[str, Any]) -> None:
    cells = tv.ObservedTensor([[i, j] for i in range(6) for j in range(6)], np.ones(36), modes=["user", "film"])
    numbered, chosen = read(tmp_path, ROWS).with_modes(["user", "film"]), tv.random_split(cells, 0.3).train
    for tensor, reason in ((numbered, "public list"), (chosen, "chosen among others")):
        tensor.write(tmp_path / "tensor.parquet")
        drop: dict[str, Any] = {"out_of_range": "drop", "shape": (9, 9)}
        for rules in ({}, drop):
            again = tv.read(tmp_path / "tensor.parquet", value=tensor.value_name, labels=False, **named, **rules)
            with pytest.raises(tv.InputError, match=reason):
                tv.PrivateCP(1, **ENTRY).fit(again)


def test_labels_in_a_file_can_be_numbered_by_a_public_list(tmp_path: Path) -> None:
    everyone = [tv.Mode("user", ["ann", "bob", "eve"]), tv.Mode("film", ["x", "y"])]
    read(tmp_path, ROWS).write(tmp_path / "tensor.parquet")
    tensor = tv.read(tmp_path / "tensor.parquet", modes=everyone, value="rating")
    with pytest.raises(tv.InputError, match="size of the public list"):
        fit_all(tensor)
    fit_all(tensor.with_modes(["user", "film"]))


def test_a_public_list_of_labels_is_as_good_as_indices(tmp_path: Path) -> None:
    everyone = [tv.Mode("user", ["ann", "bob", "eve"]), tv.Mode("film", ["x", "y"])]
    tensor = read(tmp_path, ROWS, modes=everyone)
    entry, users = ENTRY | {"shape": None}, USERS | {"shape": None}
    model = tv.PrivateCP(1, **entry).fit(tensor).model_
    assert [mode.labels is not None for mode in model.modes] == [True, True]
    shared = tv.UserLevelCP(1, **users).fit(tensor).model_
    # Of the protected mode nothing is released, not even who may be in it.
    assert [mode.labels is not None for mode in shared.modes] == [False, True]
    fit_all(tv.ObservedTensor(tensor.coords, tensor.values, (9, 9), modes=["user", "film"]))
    assert tensor.coords[0, 0] == 1


def test_merged_entries_stay_merged_in_a_file(tmp_path: Path) -> None:
    merged = tv.ObservedTensor([[0, 1], [0, 1]], [1.0, 5.0], (9, 9), modes=["user", "film"], duplicates="mean")
    for ending in ("npz", "parquet"):
        merged.write(tmp_path / f"merged.{ending}")
        for duplicates in ("error", "keep"):
            again: Any = tv.read(tmp_path / f"merged.{ending}", duplicates=duplicates)
            with pytest.raises(tv.InputError, match="must not be merged"):
                tv.PrivateCP(1, **ENTRY).fit(again)


def test_values_that_were_left_out_stay_so_with_other_bounds() -> None:
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "value", "bounds": (1, 5)}
    dropped = tv.ObservedTensor([[0, 0], [1, 1], [2, 2]], [1.0, 9.0, 3.0], bounds=(1, 5), out_of_bounds="drop")
    for tensor in (dropped, dropped.with_bounds(None), dropped.with_bounds((1, 5), out_of_bounds="clip")):
        with pytest.raises(tv.InputError, match="must not be dropped"):
            tv.PrivateCP(1, **promise).fit(tensor)
