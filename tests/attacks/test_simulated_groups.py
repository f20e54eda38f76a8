"""One user's rows decide what becomes of everybody else's: a cell that occurs twice, or which entries are held out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.federated.agreement import Agreement
from tensorveil.rounds.contract import LIMIT
from tensorveil.runs.federate import Promise
from tensorveil.runs.reading import Reading
from tensorveil.runs.simulate import AGREEMENT, Simulation, _make_client, simulate_federation
from tensorveil.tensor import ObservedTensor, cell_split, random_split

SHAPE, CLIENTS = (40, 8), 2
Row = tuple[int, int, int]


def make_rows() -> list[Row]:
    rng = np.random.default_rng(0)
    return [(u, f, int(rng.integers(1, 6))) for u in range(SHAPE[0]) for f in range(SHAPE[1]) if rng.random() < 0.7]


def first_sum(folder: Path, rows: list[Row], held_out: float | None) -> Any:
    """Simulate a federation, and return the exact sum of its clients' first answers."""
    folder.mkdir()
    table = folder / "ratings.csv"
    table.write_text("user,film,rating\n" + "".join(f"{u},{f},{v}\n" for u, f, v in rows), encoding="utf-8")
    run = Simulation(
        promise=Promise(epsilon=5.0, delta=1e-5, bounds=(1, 5), trust="aggregator"),
        output=folder / "release",
        reading=Reading(file=table, modes=["user", "film"], value="rating", indices=True, shape=SHAPE),
        clients=CLIENTS,
        held_out=held_out,
        workdir=folder / "parties",
    )
    simulate_federation(run)
    state = Agreement.load(folder / "parties" / AGREEMENT).recipe.start()
    return np.sum([_make_client(folder / "parties", k).contribution(state) for k in range(CLIENTS)], axis=0)


@pytest.mark.parametrize("held_out", [None, 0.2], ids=str)
@pytest.mark.parametrize("change", ["left out", "a cell twice"])
def test_a_user_moves_the_sum_by_its_own_part_alone(tmp_path: Path, change: str, held_out: float | None) -> None:
    rows = make_rows()
    others = [row for row in rows if row[0] != 4]
    other = others if change == "left out" else [*rows, next(row for row in rows if row[0] == 4)]
    moved = first_sum(tmp_path / "one", rows, held_out) - first_sum(tmp_path / "other", other, held_out)
    # A user whose entries change is replaced: the old part is removed, and a new one added.
    assert 0 < np.linalg.norm(moved) <= (1 if change == "left out" else 2) * LIMIT


def test_what_is_held_out_of_others_does_not_depend_on_a_user() -> None:
    rows = np.array(make_rows())
    whole = ObservedTensor(rows[:, :2], rows[:, 2], shape=SHAPE)
    others = whole.take(whole.columns[0] != 4)

    def cells(tensor: ObservedTensor) -> set[tuple[int, ...]]:
        return {tuple(cell) for cell in tensor.columns.T.tolist() if cell[0] != 4}

    assert cells(cell_split(whole, 0.2, 0).train) == cells(cell_split(others, 0.2, 0).train)
    assert cells(random_split(whole, 0.2, 0).train) != cells(random_split(others, 0.2, 0).train)


def test_coins_of_cells_are_fair_and_follow_the_seed() -> None:
    whole = ObservedTensor.from_dense(np.zeros((200, 200)))
    one, other = (cell_split(whole, 0.3, seed).held_out for seed in (0, 1))
    assert abs(len(one) / 40_000 - 0.3) < 0.015
    both = {tuple(c) for c in one.columns.T.tolist()} & {tuple(c) for c in other.columns.T.tolist()}
    assert abs(len(both) / 40_000 - 0.09) < 0.01
    for axis in (0, 1):  # no row or column is held out as a whole, or not at all
        shares = np.bincount(one.columns[axis], minlength=200) / 200
        assert 0.1 < shares.min() < shares.max() < 0.5
