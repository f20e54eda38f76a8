"""Whatever records and states are: no unit contributes beyond its limit, no tensor stands off the grid of its report.

Records of all scales, subnormal to huge, mixed and not numbers at all; states as a liar would send them. Contributions
are compared in exact integers, and a record's own must not change by a bit when others stand beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorveil.learning import (
    AveragedParameters,
    ClassContrasts,
    ClassMeans,
    ClassMoments,
    Directions,
    Network,
    PrivateGradients,
    Samples,
)
from tensorveil.local import Basis
from tensorveil.local.ball import DirectionMechanism
from tensorveil.local.catalogue import all_mechanisms
from tensorveil.local.entrywise import Entrywise
from tensorveil.local.gaussian import ExactGaussian
from tensorveil.noise import SeededSource
from tensorveil.rounds import State

ENTRIES, CLASSES = 6, 3
TOLD = Directions(basis=Basis.dct((ENTRIES,), 5), centre=0.0)
PLAIN = Directions(basis=Basis.own(np.eye(ENTRIES), (ENTRIES,)), centre=0.0)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
USERS: dict[str, Any] = BUDGET | {"most_users": 3, "users": 3}
MLP = Network(kind="mlp", sizes={"inputs": ENTRIES, "classes": CLASSES, "hidden": [4]})
WORDS = Network(kind="bilstm", sizes={"words": 9, "classes": CLASSES, "embedding": 2, "hidden": 2})
DESCENT: dict[str, Any] = BUDGET | {"most_users": 10**6, "records": 9, "steps": 2, "clip": 0.5, "rate": 1.0}
TRAINING: dict[str, Any] = USERS | {"network": MLP, "epochs": 2, "clip": 0.5}

OF_RECORDS: dict[str, Any] = {
    "moments": ClassMoments(**BUDGET, most_users=10**6, directions=TOLD, classes=CLASSES),
    "moments of entries": ClassMoments(**BUDGET, most_users=10**6, directions=PLAIN, classes=CLASSES),
    "sums": ClassMoments(**BUDGET, most_users=10**6, directions=TOLD, classes=CLASSES, products=False),
    "gradients": PrivateGradients(**DESCENT, network=MLP),
    "gradients of words": PrivateGradients(**DESCENT, network=WORDS),
}
OF_USERS: dict[str, Any] = {
    "means": ClassMeans(**USERS, directions=PLAIN, classes=CLASSES, clip=0.3),
    "contrasts": ClassContrasts(**USERS, directions=PLAIN, classes=CLASSES),
    "parameters, max": AveragedParameters(**TRAINING, clip_kind="max"),
    "parameters, norm": AveragedParameters(**TRAINING, clip_kind="norm"),
}
STRANGE = np.array([0.0, -0.0, 5e-324, -5e-324, 2.0**-537.5, 1e-300, 1e300, -1e308, np.nan, np.inf, -np.inf, 1.0])


def draw_records(rng: np.random.Generator, count: int) -> Any:
    """Records of one scale, of mixed scales, around the underflow of squares, and of strange numbers."""
    x = rng.normal(size=(count, ENTRIES)) * 10.0 ** rng.integers(-323, 308, (count, 1))
    kind = rng.integers(0, 5, count)
    scales = 10.0 ** rng.integers(-323, 308, (count, ENTRIES))
    x[kind == 1] = (rng.normal(size=(count, ENTRIES)) * scales)[kind == 1]
    edge = 2.0**-537.5 * (1 + rng.choice([-1e-9, 1e-9, 1e-3], (count, ENTRIES)))
    x[kind == 2] = edge[kind == 2]
    x[kind == 3] = rng.choice(STRANGE, (count, ENTRIES))[kind == 3]
    x[kind == 4] = rng.integers(-3, 15, (count, ENTRIES))[kind == 4]  # words, some beyond the vocabulary
    return Samples(x=x, y=rng.integers(-2, CLASSES + 2, count), classes=CLASSES)


def draw_state(rng: np.random.Generator, recipe: Any, turn: int) -> Any:
    """A state as the recipe starts with it, or one of any numbers of the same shapes."""
    first = recipe.start()
    if turn == 0 and rng.random() < 0.5:
        return first
    scale = 10.0 ** rng.integers(-300, 300)
    arrays = {key: scale * rng.normal(size=array.shape) for key, array in first.arrays.items()}
    return State(round=turn, arrays=arrays)


def squared_length(contribution: Any) -> int:
    return sum(int(number) ** 2 for number in contribution.tolist())


def check_records(recipe: Any, data: Any, rng: np.random.Generator) -> None:
    turn = int(rng.integers(len(recipe.rounds)))
    state = draw_state(rng, recipe, turn)
    total = np.zeros(recipe.size, dtype=np.int64)
    for k in range(len(data)):
        alone = recipe.contribute(state, data.take(slice(k, k + 1)))
        assert squared_length(alone) <= recipe.rounds[turn].limit ** 2
        total += alone
    assert np.array_equal(recipe.contribute(state, data), total)


def check_user(recipe: Any, data: Any, rng: np.random.Generator) -> None:
    turn = int(rng.integers(len(recipe.rounds)))
    found = recipe.contribute(draw_state(rng, recipe, turn), data)
    assert 4 * squared_length(found) <= recipe.rounds[turn].limit ** 2


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("name", list(OF_RECORDS))
def test_no_record_exceeds_its_limit(name: str) -> None:
    rng = np.random.default_rng(len(name))
    for _ in range(4):
        check_records(OF_RECORDS[name], draw_records(rng, 40), rng)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("name", list(OF_USERS))
def test_no_user_exceeds_its_limit(name: str) -> None:
    rng = np.random.default_rng(len(name))
    for _ in range(25):
        check_user(OF_USERS[name], draw_records(rng, int(rng.integers(1, 12))), rng)


LOCAL = {name: one for kind in all_mechanisms().values() for name, one in kind.examples(1.0).items()}


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("name", list(LOCAL))
def test_no_tensor_stands_off_the_grid_or_the_sphere(name: str) -> None:
    """What a report's law is proven for: any point of the grid, any direction, any place within the length."""
    mechanism: Any = LOCAL[name]
    rng, source = np.random.default_rng(len(name)), SeededSource(1)
    rows = np.concatenate([draw_records(rng, 600).x, rng.choice(STRANGE, (200, ENTRIES))])
    rows = np.resize(rows, (len(rows), mechanism.size))
    settled = mechanism._floats(rows)
    if isinstance(mechanism, Entrywise):
        places = mechanism._places(settled.reshape(-1), source)
        assert 0 <= places.min() <= places.max() <= mechanism.last
    elif isinstance(mechanism, DirectionMechanism):
        lengths = np.linalg.norm(mechanism._directions(settled, source), axis=1)
        np.testing.assert_allclose(lengths, 1.0, rtol=1e-12)
    elif isinstance(mechanism, ExactGaussian) and mechanism.bounds is None:
        assert np.linalg.norm(settled, axis=1).max() <= mechanism.reach * (1 + 1e-12)
    assert np.all(np.isfinite(mechanism.perturb(rows.reshape(-1, *mechanism.shape), source=source)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_none_of_a_hundred_thousand_records_exceeds_its_limit() -> None:
    rng = np.random.default_rng(0)
    for recipe in (OF_RECORDS["moments"], OF_RECORDS["moments of entries"]):
        for _ in range(125):
            check_records(recipe, draw_records(rng, 400), rng)
    for _ in range(15):
        check_records(OF_RECORDS["gradients"], draw_records(rng, 200), rng)
    for recipe in (OF_USERS["means"], OF_USERS["contrasts"]):
        for _ in range(2000):
            check_user(recipe, draw_records(rng, int(rng.integers(1, 12))), rng)
