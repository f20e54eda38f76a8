"""Laws of user-level counts: what one record moves, and that nothing of it enters but through one noisy sum."""

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.errors import InputError
from tensorveil.kernels import users as compiled
from tensorveil.noise import SeededSource
from tensorveil.rounds import LIMIT, RecordsRecipe, State, draw_noise, records, run_recipe
from tensorveil.tensor import ObservedTensor
from tests.users_reference import add_bounded

SHAPE, MODES = (9, 6, 4, 3), ("user", "film", "day", "place")


def recipe(order: int, **changes: Any) -> RecordsRecipe:
    facts: dict[str, Any] = {"shape": SHAPE[:order], "modes": MODES[:order], "protect": "user", "bounds": (0.0, 50.0)}
    return RecordsRecipe(**{**facts, "epsilon": 2.0, "delta": 1e-5, "rank": 2, **changes})


def tensor(cells: Any, values: Any, order: int) -> ObservedTensor:
    """Entries, some of which may share a cell."""
    return ObservedTensor(
        np.asarray(cells), np.asarray(values, float), shape=(100, *SHAPE[1:order]), modes=MODES[:order],
        duplicates="keep", unlisted="zero",
    )  # fmt: skip


def length(user: ObservedTensor, made: RecordsRecipe, state: State | None = None) -> float:
    """The length of a record's contribution, as a share of the limit, in exact integers."""
    total = made.contribute(made.start() if state is None else state, user, threads=1)
    return float(np.sqrt(sum(int(number) ** 2 for number in total))) / LIMIT


@st.composite
def wild_users(draw: Any, order: int) -> ObservedTensor:
    """One user: cells anywhere or in one slice, also several times; values between, at and far beyond the bounds."""
    rng, n = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 60))
    cells = np.stack([np.full(n, 99), *(rng.integers(0, size, n) for size in SHAPE[1:order])], axis=1)
    if draw(st.booleans()):
        cells[:, 1] = 0
    return tensor(cells, rng.choice([0.0, 1.0, 50.0, 7.5, 1e300, -3.0, 5e-324], n), order)


@pytest.mark.parametrize("order", [2, 3, 4])
@settings(max_examples=25)
@given(data=st.data())
def test_no_record_moves_more_than_declared(order: int, data: Any) -> None:
    user = data.draw(wild_users(order))
    assert length(user, recipe(order, contributions=data.draw(st.sampled_from([None, 4.0, 1e6])))) <= 1.0


@functools.cache
def refined(order: int) -> tuple[RecordsRecipe, tuple[State, ...]]:
    """A recipe that refines twice, and the states of a noisy run over some users."""
    made, rng, source = recipe(order, refinements=2, contributions=3.0), np.random.default_rng(2), SeededSource(2)
    cells = np.stack([rng.integers(0, 90, 700), *(rng.integers(0, size, 700) for size in SHAPE[1:order])], axis=1)
    data, state, states = tensor(cells, np.ones(700), order), made.start(), []
    for this in made.rounds:
        states.append(state)
        state = made.advance(state, made.contribute(state, data) + draw_noise(this, source))
    return made, (*states, state)


@pytest.mark.parametrize("order", [2, 3, 4])
@settings(max_examples=15)
@given(data=st.data())
def test_no_record_moves_a_refinement_by_more_than_declared(order: int, data: Any) -> None:
    """In states of an honest server, and in such as no server that is honest sends."""
    made, states = refined(order)
    user, wild = data.draw(wild_users(order)), np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    for state in states[1:3]:
        assert length(user, made, state) <= 1.0
        sizes = wild.choice([-1.0, 0.0, 5e-324, 1e-200, 1.0, 1e200, 1.7e308, np.inf, np.nan], 8)
        names = [name for name in state.arrays if name not in ("tables", "sizes")]
        with np.errstate(all="ignore"):
            arrays = {name: state[name] * wild.choice(sizes, state[name].shape) for name in names}
        liar = State(round=state.round, arrays={**state.arrays, **arrays})
        assert length(user, made, liar) <= 1.0
        if not all(np.isfinite(a).all() and np.all(a >= 0) for a in arrays.values()):
            with pytest.raises(InputError, match=r"of a state must not be negative|must hold finite numbers"):
                made.check_state(liar)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_refinements_use_their_limit_and_leave_others_as_they_are(order: int) -> None:
    made, states = refined(order)
    cells = np.zeros((2, order), dtype=int)
    assert length(tensor(cells, [50.0, 50.0], order), made, states[1]) > 0.97
    rng, n = np.random.default_rng(3), 300
    cells = np.stack([rng.integers(0, 40, n), *(rng.integers(0, size, n) for size in SHAPE[1:order])], axis=1)
    values = rng.choice([1.0, 2.5, 50.0], n)
    everybody = made.contribute(states[2], tensor(cells, values, order), threads=2)
    users = (tensor(cells[cells[:, 0] == u], values[cells[:, 0] == u], order) for u in np.unique(cells[:, 0]))
    np.testing.assert_array_equal(everybody, sum(made.contribute(states[2], user) for user in users))
    assert all(np.all(factor >= 0) for factor in made.finish(states[3]).factors)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_limit_is_nearly_reached(order: int) -> None:
    """One cell of two released modes, or one pair of indices of a single one, fills a user's share."""
    cells = np.zeros((2, order), dtype=int)
    cells[1, 1:] = 1 if order == 2 else 0
    assert length(tensor(cells, [50.0, 50.0], order), recipe(order)) > 0.97


def test_one_record_changes_nothing_of_the_others() -> None:
    """Sums with and without a user differ by this user's own contribution, bit by bit, in any grouping and order."""
    rng = np.random.default_rng(0)
    for order in (2, 3, 4):
        made, n = recipe(order, contributions=3.0), 400
        cells = np.stack([rng.integers(0, 60, n), *(rng.integers(0, size, n) for size in SHAPE[1:order])], axis=1)
        values = rng.choice([1.0, 2.5, 50.0, 1e9], n)
        everybody = made.contribute(made.start(), tensor(cells, values, order), threads=2)
        mixed = rng.permutation(n)
        again = made.contribute(made.start(), tensor(cells[mixed], values[mixed], order), threads=1)
        np.testing.assert_array_equal(everybody, again)
        parts = sum(
            made.contribute(made.start(), tensor(cells[cells[:, 0] == user], values[cells[:, 0] == user], order))
            for user in np.unique(cells[:, 0])
        )
        np.testing.assert_array_equal(everybody, parts)


def test_what_is_released_follows_from_the_noisy_sum_alone() -> None:
    made = recipe(3)
    total = np.random.default_rng(1).integers(-LIMIT, LIMIT, made.rounds[0].size)
    one, other = (made.finish(made.advance(made.start(), total)) for _ in range(2))
    for first, second in zip(one.factors, other.factors, strict=True):
        np.testing.assert_array_equal(first, second)
    assert all(np.all(np.isfinite(factor)) and np.all(factor >= 0) for factor in one.factors)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_data_without_entries_are_as_good_as_any_other(order: int) -> None:
    beyond = np.full((1, order), 40)  # of the declared shape: left out
    none = ObservedTensor(beyond, [1.0], shape=(50,) * order, modes=MODES[:order], unlisted="zero")
    state = run_recipe(recipe(order), [none], SeededSource(0))
    assert np.isfinite(recipe(order).finish(state).dense()).all()


@pytest.mark.parametrize("broken", ["not cut", "sizes not charged"])
def test_mutants_are_caught(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = np.zeros((5, 3), dtype=int)
    user = tensor(cells, np.full(5, 50.0), 3)
    assert length(user, recipe(3)) <= 1.0
    monkeypatch.setattr(compiled, "add_bounded", functools.partial(add_bounded, broken="no clip"))
    if broken == "not cut":
        monkeypatch.setattr(records, "_shorten", lambda made, room: np.ones(len(made.entries)))
    else:
        monkeypatch.setattr(RecordsRecipe, "reach", 1.0)
    assert length(user, recipe(3)) > 1.03
