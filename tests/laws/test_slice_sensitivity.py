"""Sensitivity of user-level rounds: no user's contribution is longer than declared, and the worst nearly are as long.

Sums are exact, so what adding or removing a user moves is the user's own contribution. States are those of a run under
noise, so that they are as wild as a real one's. Users put everything into one slice, hold values at the bounds, have as
many entries as there are cells.
"""

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.kernels import users as compiled
from tensorveil.noise import SeededSource
from tensorveil.rounds import LIMIT, Recipe, draw_noise
from tensorveil.tensor import ObservedTensor
from tests.users_reference import add_bounded, entry_norms, no_norms

SHAPE, MODES, BOUNDS = (12, 16, 4), ("user", "film", "day"), (1.0, 5.0)


def recipe(order: int = 3, **changes: Any) -> Any:
    facts = {"shape": SHAPE[:order], "modes": MODES[:order], "protect": "user", "bounds": BOUNDS, "epsilon": 3.0}
    return Recipe(**{**facts, "delta": 1e-5, "rank": 2, "sweeps": 2, "contributions": 4.0, **changes})


def tensor(cells: Any, values: Any, order: int = 3) -> Any:
    return ObservedTensor(np.asarray(cells), np.asarray(values, float), shape=SHAPE[:order], modes=MODES[:order])


@functools.cache
def states(order: int = 3, seed: int = 0, **changes: Any) -> Any:
    """Every state that a round of a noisy run begins with."""
    made, rng, source = recipe(order, **changes), np.random.default_rng(seed), SeededSource(seed)
    cells = np.argwhere(rng.random(SHAPE[:order]) < 0.4)
    data = tensor(cells, rng.choice([1.0, 2.0, 5.0], len(cells)), order)
    state, out = made.start(), []
    for this in made.rounds:
        out.append(state)
        state = made.advance(state, made.contribute(state, data, threads=1) + draw_noise(this, source))
    return out


def longest(order: int, user: Any, seed: int = 0, **changes: Any) -> Any:
    """The length of one user's contribution to every round, as a share of the limit."""
    made = recipe(order, **changes)
    sums = [made.contribute(state, user, threads=1) for state in states(order, seed, **changes)]
    squares = [sum(int(number) ** 2 for number in total) for total in sums]
    return np.sqrt(np.array(squares, dtype=float)) / LIMIT


@st.composite
def users(draw: Any, order: int) -> Any:
    """One user: cells anywhere, or all in one film or on one day; values at the bounds or between, or far outside."""
    inner = SHAPE[1:order]
    cells = np.argwhere(np.ones(inner))
    axis = draw(st.sampled_from([None, *range(len(inner))]))
    if axis is not None:
        cells = cells[cells[:, axis] == 0]
    kept = cells[: draw(st.integers(1, len(cells)))]
    values = draw(st.lists(st.sampled_from([1.0, 5.0, 3.3, -1e9, 1e9]), min_size=len(kept), max_size=len(kept)))
    return tensor(np.column_stack([np.full(len(kept), 3), kept]), values, order)


@pytest.mark.parametrize("order", [2, 3])
@settings(max_examples=25)
@given(data=st.data())
def test_no_user_contributes_more_than_declared(order: int, data: Any) -> None:
    user = data.draw(users(order))
    seed, few = data.draw(st.integers(0, 3)), data.draw(st.sampled_from([1.0, 4.0, 400.0]))
    assert longest(order, user, seed, contributions=few).max() <= 1.0  # and no single integer is longer than all are


@pytest.mark.parametrize(("order", "slices"), [(2, "everywhere"), (3, "everywhere"), (3, "one film"), (3, "one day")])
def test_ninety_percent_of_the_limit_are_reached_in_every_round(order: int, slices: Any) -> None:
    """The declared limit is no larger than it need be."""
    cells = np.argwhere(np.ones(SHAPE[1:order]))
    if slices != "everywhere":
        cells = cells[cells[:, int(slices == "one day")] == 0]
    best = np.zeros(len(recipe(order).rounds))
    for seed in range(4):
        for values in np.random.default_rng(seed).choice([1.0, 5.0], (24, len(cells))):
            user = tensor(np.column_stack([np.zeros(len(cells), int), cells]), values, order)
            best = np.maximum(best, longest(order, user, seed, contributions=1.0))
    short = {r.name for r, share in zip(recipe(order).rounds, best, strict=True) if share < 0.9}
    # Pairs of days are looked for within one film; whoever has one day has none.
    assert short == ({"pairs, day"} if slices == "one day" else set()), best


def test_the_reference_is_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    made, state, data = recipe(), states()[1], _everyone()
    want = made.contribute(state, data, threads=1)
    monkeypatch.setattr(compiled, "add_bounded", add_bounded)
    got = made.contribute(state, data, threads=1)
    assert np.abs(got - want).max() <= data.shape[0]  # a step per user: sums of floats are rounded differently


def _everyone() -> Any:
    rng = np.random.default_rng(1)
    cells = np.argwhere(rng.random(SHAPE) < 0.5)
    return tensor(cells, rng.choice([1.0, 4.0], len(cells)))


@pytest.mark.parametrize("broken", ["no clip", "linear sums ignored", "mean charged too little"])
def test_mutants_are_caught(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test has power: sums that are bounded in a wrong way fail it."""
    cells = np.argwhere(np.ones(SHAPE[1:]))
    cells = cells[cells[:, 0] == 0]
    user = tensor(np.column_stack([np.zeros(len(cells), int), cells]), np.full(len(cells), 5.0))
    few: dict[str, Any] = {"contributions": 1.0}
    assert longest(3, user, **few).max() <= 1.0
    monkeypatch.setattr(compiled, "add_bounded", functools.partial(add_bounded, broken=broken))
    if broken == "linear sums ignored":
        # The same mistake where users are weighed: single entries instead of rows.
        monkeypatch.setattr(compiled, "slice_norms", entry_norms)
    if broken == "no clip":
        monkeypatch.setattr(compiled, "slice_norms", no_norms)
    if broken == "mean charged too little":
        from tensorveil.rounds import counts

        monkeypatch.setattr(counts, "extend_reach", lambda reach: reach)
    assert longest(3, user, **few).max() > 1.03
