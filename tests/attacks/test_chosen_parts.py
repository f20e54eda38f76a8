"""A part of the data that is held out by looking at all of them: one user more, and other entries are held out.

The fit then sees another half of everybody's entries. Whoever knows all of them but one user's reads off a release for
epsilon 1 whether this user is there, with certainty.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.runs import simulate
from tensorveil.tensor import block_split, cell_split, k_fold, random_split, slice_split, time_split

CELLS = np.array([[user, film] for user in range(60) for film in range(8)])
SHAPE = (61, 8)


def make(*, victim: bool) -> tv.ObservedTensor:
    cells = np.vstack([CELLS, [[60, 3]]]) if victim else CELLS
    return tv.ObservedTensor(cells, np.arange(len(cells)) % 5 + 1.0, SHAPE, modes=["user", "film"])


def rows(tensor: tv.ObservedTensor) -> set[tuple[int, ...]]:
    return {tuple(row) for row in tensor.coords.tolist()}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_another_user_does_not_change_whose_entries_are_held_out(seed: int) -> None:
    with_user, without = (cell_split(make(victim=there), 0.5, seed) for there in (True, False))
    for more, fewer in zip(with_user, without, strict=True):
        assert rows(more) - rows(fewer) <= {(60, 3)}
        assert rows(fewer) <= rows(more)


def test_the_share_is_about_right_and_does_not_follow_the_indices() -> None:
    train, held_out = cell_split(make(victim=False), 0.5, 0)
    assert 0.4 < held_out.n_entries / 480 < 0.6
    assert train.n_entries + held_out.n_entries == 480
    for axis in (0, 1):
        assert len(set(np.bincount(held_out.columns[axis]).tolist())) > 1
    assert rows(held_out) != rows(cell_split(make(victim=False), 0.5, 1).held_out)


@pytest.mark.parametrize(
    "split",
    [
        lambda tensor: random_split(tensor, 0.5, 0),
        lambda tensor: slice_split(tensor, "film", 0.5, random_state=0),
        lambda tensor: block_split(tensor, ("film", "user"), 0.5, 0),
        lambda tensor: time_split(tensor, "film", 0.5),
        lambda tensor: next(k_fold(tensor, 3, 0)),
    ],
    ids=["random_split", "slice_split", "block_split", "time_split", "k_fold"],
)
def test_parts_that_were_chosen_by_looking_at_all_entries_are_refused(split: Any) -> None:
    train = split(make(victim=True)).train
    entry: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "entry", "bounds": (1, 5), "shape": SHAPE}
    users = entry | {"delta": 1e-6, "unit": "slice:user"}
    for estimator, promise in ((tv.PrivateCP, entry), (tv.UserLevelCP, users)):
        for part in (train, train.with_modes(["user", "film"]), train.take(slice(None))):
            with pytest.raises(tv.InputError, match="cell_split"):
                estimator(1, **promise).fit(part)
    tv.PrivateCP(1, epsilon=1.0, delta=0.0, unit="value", bounds=(1, 5)).fit(train)  # positions are public


def test_parts_that_entries_do_not_decide_on_are_fitted() -> None:
    entry: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "entry", "bounds": (1, 5), "shape": SHAPE}
    tensor = make(victim=True)
    for split in (cell_split(tensor, 0.5, 0), slice_split(tensor, "film", indices=[1, 2])):
        assert tv.PrivateCP(1, **entry).fit(split.train).guarantee_.private


def test_held_out_entries_of_a_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[set[tuple[int, ...]]] = []

    def split_users(tensor: tv.ObservedTensor, *rest: Any) -> Any:
        fitted.append(rows(tensor))
        return original(tensor, *rest)

    original: Any = vars(simulate)["split_users"]
    monkeypatch.setattr(simulate, "split_users", split_users)
    for victim in (True, False):
        data = tmp_path / f"data-{victim}.npz"
        make(victim=victim).write(data)
        given = ["--private-shape", "61,8", "--protect", "user", "--bounds", "1", "5", "--epsilon", "1"]
        given += ["--delta", "1e-6", "--trust", "aggregator", "--held-out", "0.5", "--rank", "1", "--clients", "2"]
        assert run(["federate", "simulate", str(data), *given, "-o", str(tmp_path / f"release-{victim}")]) == 0
    assert fitted[0] ^ fitted[1] <= {(60, 3)}
