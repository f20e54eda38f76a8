"""What Alice is shown changes, in its last bits, with Bob's entries: the two are computed in one call."""

from typing import Any

import numpy as np
import pytest

from tensorveil.noise import SeededSource
from tensorveil.rounds import Recipe, run_recipe
from tensorveil.tensor import ObservedTensor

SHAPE, MODES = (40, 60, 20), ("user", "film", "day")
BOB = 39


def make_tensor(cells: Any, seed: int) -> Any:
    values = np.random.default_rng(seed).integers(1, 6, len(cells)).astype(float)
    return ObservedTensor(cells, values, shape=SHAPE, modes=MODES)


def make_model(kind: str) -> Any:
    rng = np.random.default_rng(0)
    data = make_tensor(np.argwhere(rng.random(SHAPE) < 0.1), 1)
    public: dict[str, Any] = {"shape": SHAPE, "modes": MODES, "protect": "user", "bounds": (1, 5), "kind": kind}
    recipe = Recipe(**public, epsilon=20.0, delta=1e-5, rank=8 if kind == "cp" else (8, 8, 8), sweeps=2)
    return recipe.finish(run_recipe(recipe, [data], SeededSource(0)))


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_answers_are_the_same_bits_whoever_else_is_in_the_call(kind: str) -> None:
    model, rng = make_model(kind), np.random.default_rng(2)
    everywhere = np.argwhere(np.ones(SHAPE[1:]))
    others = [
        (user, *cell) for user in range(6) for cell in rng.permutation(everywhere)[: rng.integers(5, 40)].tolist()
    ]
    wanted = np.array([(user, *cell) for user in range(6) for cell in everywhere.tolist()])
    bobs = np.column_stack([np.full(len(everywhere), BOB), rng.permutation(everywhere)])
    alone = None
    for n in (0, 1, 10, 100, 300, 1000):
        cells = np.array([*others, *map(tuple, bobs[:n].tolist())])
        values = np.concatenate([np.tile([1.0, 5.0, 2.0], len(others))[: len(others)], np.full(n, 3.0)])
        entries = ObservedTensor(cells, values, shape=SHAPE, modes=MODES)
        asked = np.concatenate([wanted, bobs[:n]])
        shown = model.predict_for(entries, asked)[: len(wanted)]
        rows = [np.asarray(factor)[:6].tobytes() for factor in model.personalise(entries).factors[:1]]
        if alone is None:
            alone = shown, rows
        assert np.array_equal(alone[0], shown)
        assert alone[1] == rows


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_answers_for_one_person_are_those_in_company(kind: str) -> None:
    model, rng = make_model(kind), np.random.default_rng(3)
    entries = make_tensor(np.argwhere(rng.random(SHAPE) < 0.3), 4)
    wanted = np.array([(user, film, day) for user in range(SHAPE[0]) for film in range(4) for day in range(3)])
    together = model.predict_for(entries, wanted)
    for user in (0, 7, BOB):
        mine = wanted[:, 0] == user
        assert np.array_equal(model.predict_for(entries, wanted[mine]), together[mine])


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_a_person_with_a_single_entry_does_not_learn_whether_she_is_alone(kind: str) -> None:
    model = make_model(kind)
    bobs = [(BOB, film, 3) for film in range(SHAPE[1])]
    for film in range(20):
        wanted = np.array([(0, other, day) for other in range(SHAPE[1]) for day in range(SHAPE[2])])
        alone = ObservedTensor([(0, film, 5)], [5.0], shape=SHAPE, modes=MODES)
        company = ObservedTensor([(0, film, 5), *bobs], [5.0, *[1.0] * len(bobs)], shape=SHAPE, modes=MODES)
        shown = model.predict_for(company, np.concatenate([wanted, bobs]))[: len(wanted)]
        assert np.array_equal(model.predict_for(alone, wanted), shown)
