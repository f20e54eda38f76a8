"""The contract of user-level fits: rounds fixed beforehand, exact sums whatever the split, a state that travels."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tensorveil.errors import InputError
from tensorveil.noise import SeededSource
from tensorveil.rounds import LIMIT, Recipe, Round, State, describe_parts, draw_noise, run_recipe, sums
from tensorveil.tensor import ObservedTensor


def recipe(**changes: Any) -> Any:
    facts: dict[str, Any] = {"shape": (40, 12), "modes": ("user", "film"), "protect": "user", "bounds": (1, 5)}
    facts |= {"epsilon": 2.0, "delta": 1e-5, "rank": 2}
    return Recipe(**{**facts, **changes})


def ratings(shape: Any = (40, 12), n: int = 200, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    cells = rng.choice(np.prod(shape), n, replace=False)
    values = rng.integers(1, 6, n).astype(float)
    modes = ("user", "film", "day")[: len(shape)]
    return ObservedTensor(np.stack(np.unravel_index(cells, shape), axis=1), values, shape=shape, modes=modes)


def states(made: Any, tensor: Any, groups: Any, seed: int = 1) -> Any:
    """Every state of a run over these groups, with the same noise whatever the groups."""
    source, state, out = SeededSource(seed), made.start(), []
    for this in made.rounds:
        total = sum(made.contribute(state, group, threads=1) for group in groups) + draw_noise(this, source)
        state = made.advance(state, total)
        out.append(state.to_bytes())
    return out


@pytest.mark.parametrize("sweeps", [0, 2])
@pytest.mark.parametrize("shape", [(40, 12), (40, 12, 5)])
def test_any_split_of_users_gives_the_same_bytes(shape: tuple[int, ...], sweeps: Any) -> None:
    tensor = ratings(shape)
    made = recipe(shape=shape, modes=("user", "film", "day")[: len(shape)], sweeps=sweeps)
    rng = np.random.default_rng(3)
    team = rng.integers(0, 3, shape[0])[tensor.columns[0]]
    groups = [tensor.take(rng.permutation(np.flatnonzero(team == k))) for k in range(3)]
    assert states(made, tensor, [tensor]) == states(made, tensor, groups)


def test_threads_change_nothing() -> None:
    tensor, made = ratings(), recipe(sweeps=2)
    runs = [run_recipe(made, [tensor], SeededSource(1), threads=n).to_bytes() for n in (1, 3)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("shape", [(40, 12), (40, 12, 5)])
def test_a_contribution_does_not_depend_on_who_else_is_there(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the last bit: or removing one user would move many sums by a step."""
    made = recipe(shape=shape, modes=("user", "film", "day")[: len(shape)], sweeps=2)
    tensor = ratings(shape)
    runs = []
    for piece in (1 << 17, 50, 1):
        monkeypatch.setattr(sums, "_PIECE", piece)
        runs.append(run_recipe(made, [tensor], SeededSource(1), threads=1).to_bytes())
    assert len(set(runs)) == 1


def test_rounds_spend_no_more_than_the_budget() -> None:
    made = recipe(sweeps=3, shape=(40, 12, 5), modes=("user", "film", "day"))
    assert sum(r.mu**2 for r in made.rounds) <= made.mu**2
    assert all(r.limit == LIMIT and r.largest <= r.limit for r in made.rounds)
    assert [part.name for part in describe_parts(made)] == [r.name for r in made.rounds]


def test_the_runner_is_the_loop_of_the_contract() -> None:
    tensor, made = ratings(), recipe()
    assert run_recipe(made, [tensor], SeededSource(1), threads=1).to_bytes() == states(made, tensor, [tensor])[-1]


def test_state_travels_as_bytes() -> None:
    state = State(round=3, arrays={"b": np.arange(6).reshape(2, 3), "a": np.array([0.1, -2.0])})
    back = State.from_bytes(state.to_bytes())
    assert back.round == 3
    assert back.to_bytes() == state.to_bytes()
    for name in ("a", "b"):
        np.testing.assert_array_equal(back[name], state[name])
        assert not back[name].flags.writeable


@pytest.mark.parametrize("cut", [0, 5, 30, -1])
def test_broken_states_are_refused(cut: Any) -> None:
    content = State(round=1, arrays={"a": np.arange(4.0)}).to_bytes()
    for broken in (content[:cut], content + b"x", b"x" + content):
        with pytest.raises(InputError, match="not a complete state"):
            State.from_bytes(broken)


def test_recipe_travels_as_json() -> None:
    made = recipe(contributions=30.0)
    tucker = recipe(kind="tucker", rank=(2, 3), sweeps=1)
    assert Recipe.from_json(json.dumps(made.to_json())) == made
    assert Recipe.from_json(json.dumps(tucker.to_json())) == tucker
    for change in ({"more": 1}, {"format": 2}):
        with pytest.raises(InputError):
            Recipe.from_json({**made.to_json(), **change})
    with pytest.raises(InputError):
        Recipe.from_json({k: v for k, v in made.to_json().items() if k != "bounds"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"protect": "nobody"},
        {"delta": 0.0},
        {"bounds": (5, 1)},
        {"contributions": 0.5},
        {"epsilon": -1.0},
        {"kind": "other"},
        {"rank": 0},
        {"rank": (2, 2)},
        {"kind": "tucker"},
        {"sweeps": -1},
        {"modes": ("user", "user")},
    ],
)
def test_recipe_refuses(wrong: Any) -> None:
    with pytest.raises(InputError):
        recipe(**wrong)


def test_rounds_come_in_order() -> None:
    made, tensor = recipe(), ratings()
    with pytest.raises(InputError, match="finish"):
        made.contribute(State(round=99, arrays=made.start().arrays), tensor)
    with pytest.raises(InputError, match="after"):
        made.finish(made.start())
    with pytest.raises(InputError, match="integers"):
        made.advance(made.start(), np.zeros(3, dtype=np.int64))
    with pytest.raises(InputError, match="modes that the recipe declares"):
        made.contribute(made.start(), ObservedTensor([[0, 0, 0]], [1.0]))
    with pytest.raises(InputError):
        replace(made.rounds[0], largest=LIMIT + 1)
    with pytest.raises(InputError):
        Round(name="x", size=1, limit=1, largest=1, mu=0.0)
