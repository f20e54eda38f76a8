"""Whatever state a server makes up, no user's contribution is longer than declared; and no honest state is refused.

The states here are as wild as a liar makes them: negative, huge, subnormal, indefinite, not even numbers. They are
given to the stages directly, below the check that a client makes first: the bound must not rest on it.
"""

from typing import Any

import numpy as np
import pytest

from tensorveil.federated.recipes import read_state
from tensorveil.noise import SeededSource
from tensorveil.rounds import LIMIT, Recipe, State, draw_noise
from tensorveil.rounds.contract import COUNTS, SPREAD, TASTE_COVARIANCE
from tensorveil.tensor import ObservedTensor

SHAPE, MODES = (3, 5, 4, 3), ("user", "film", "day", "place")
SIZES = [0.0, 5e-324, 1e-310, 1e-200, 1e-30, 1e-12, 1e-6, 1e-3, 1.0, 1.0, 1.0, 10.0, 1e6, 1e18, 1e150, 1e300, 1.7e308]


def make_recipe(order: int, kind: str, epsilon: float = 3.0) -> Any:
    rank: Any = 2 if kind == "cp" else (2,) * order
    public: dict[str, Any] = {"shape": SHAPE[:order], "modes": MODES[:order], "protect": "user", "bounds": (1.0, 5.0)}
    return Recipe(**public, epsilon=epsilon, delta=1e-5, kind=kind, rank=rank, sweeps=2, contributions=4.0)


def blank_states(recipe: Any) -> Any:
    """The state of every round if all sums were zero."""
    out = [recipe.start()]
    for this in recipe.rounds[:-1]:
        out.append(recipe.advance(out[-1], np.zeros(this.size, dtype=np.int64)))
    return out


def make_user(rng: np.random.Generator, order: int) -> Any:
    """One user, with few entries or all, in one slice or anywhere."""
    cells = np.argwhere(np.ones(SHAPE[1:order]))
    if rng.random() < 0.3:
        cells = cells[cells[:, rng.integers(order - 1)] == 0]
    kept = rng.permutation(cells)[: rng.integers(1, len(cells) + 1)]
    values = rng.choice([1.0, 5.0, 2.5], len(kept))
    columns = np.column_stack([np.ones(len(kept), int), kept])
    return ObservedTensor(columns, values, shape=SHAPE[:order], modes=MODES[:order])


def wild_numbers(rng: np.random.Generator, like: Any) -> Any:
    """Numbers of one size or of all, of one sign or both, and now and then none at all."""
    sizes = rng.choice(SIZES, like.shape if rng.random() < 0.5 else ()) * rng.choice([-1.0, 1.0])
    with np.errstate(all="ignore"):
        out = np.broadcast_to(sizes, like.shape) * rng.standard_normal(like.shape)
    if rng.random() < 0.3:
        out = np.abs(out) * rng.choice([-1.0, 1.0])
    if rng.random() < 0.05:
        out[rng.random(like.shape) < 0.3] = rng.choice([np.nan, np.inf, -np.inf])
    return out


def make_wild(rng: np.random.Generator, state: Any) -> Any:
    """Replace some arrays of a state; covariances are often symmetric, and negative where the spread is."""
    chosen = [name for name in state.arrays if rng.random() < rng.choice([0.15, 0.6])]
    arrays = {**state.arrays, **{name: wild_numbers(rng, state[name]) for name in chosen}}
    if rng.random() < 0.5:
        covariance = arrays[TASTE_COVARIANCE]
        with np.errstate(all="ignore"):
            arrays[TASTE_COVARIANCE] = 0.5 * (covariance + covariance.T)
    if rng.random() < 0.3:
        size = rng.choice(SIZES)
        with np.errstate(all="ignore"):
            arrays[SPREAD] = np.array([-size])
            arrays[TASTE_COVARIANCE] = -rng.choice([1.0, size]) * np.eye(len(state[TASTE_COVARIANCE]))
    return State(round=state.round, arrays=arrays)


def find_longest(order: int, kind: str, tries: int, seed: int) -> float:
    """The longest contribution that a lying server gets, as a share of the limit, over all stages."""
    rng, recipe = np.random.default_rng(seed), make_recipe(order, kind)
    blank, longest = blank_states(recipe), 0.0
    for turn in range(tries):
        state = make_wild(rng, blank[turn % len(blank)])
        try:
            with np.errstate(all="ignore"):
                total = recipe.contribute(state, make_user(rng, order), threads=1)
        except np.linalg.LinAlgError:  # the state alone decides this
            continue
        longest = max(longest, sum(int(number) ** 2 for number in total) / LIMIT**2)
    return longest


@pytest.mark.parametrize("kind", ["cp", "tucker"])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_no_state_lengthens_a_contribution(order: int, kind: str) -> None:
    assert 0.9 < find_longest(order, kind, tries=300, seed=order) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cp", "tucker"])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_no_state_of_very_many_lengthens_a_contribution(order: int, kind: str) -> None:
    assert 0.9 < find_longest(order, kind, tries=20_000, seed=10 + order) <= 1.0


def walk_honestly(order: int, kind: str, epsilon: float, seed: int) -> Any:
    """Every state of a run under noise."""
    rng, recipe = np.random.default_rng(seed), make_recipe(order, kind, epsilon)
    cells = np.argwhere(rng.random(SHAPE[:order]) < 0.5)
    data = ObservedTensor(cells, rng.choice([1.0, 5.0], len(cells)), shape=SHAPE[:order], modes=MODES[:order])
    source, state = SeededSource(seed), recipe.start()
    for this in recipe.rounds:
        yield recipe, state
        state = recipe.advance(state, recipe.contribute(state, data, threads=1) + draw_noise(this, source))


def check_honest(seeds: range) -> None:
    for order in (2, 3, 4):
        for kind in ("cp", "tucker"):
            for epsilon in (2e-2, 0.5, 3.0, 200.0):
                for seed in seeds:
                    for recipe, state in walk_honestly(order, kind, epsilon, seed):
                        assert read_state(recipe, state.to_bytes(), state.round).round == state.round


def test_no_honest_state_is_refused() -> None:
    check_honest(range(2))


@pytest.mark.slow
def test_no_honest_state_of_very_many_is_refused() -> None:
    check_honest(range(2, 100))


def test_states_of_the_fuzz_reach_every_stage() -> None:
    kinds = {step.kind for step in make_recipe(3, "cp").steps}
    assert kinds == {"counts", "biases", "tastes", "pairs", "sweep"}
    assert all(COUNTS in state and SPREAD in state for state in blank_states(make_recipe(3, "cp")))
