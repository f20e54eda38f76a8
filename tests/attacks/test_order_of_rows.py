"""The order in which a user's entries stand in a file shows in the last digits of what the user contributes."""

from typing import Any

import numpy as np
import pytest

from tensorveil.noise import SeededSource
from tensorveil.rounds import Recipe, draw_noise
from tensorveil.rounds.grouping import group_entries

SHAPE = (5, 6, 4)


def make_recipe() -> Any:
    public: dict[str, Any] = {"shape": SHAPE, "modes": ("user", "film", "day"), "protect": "user", "bounds": (-1, 1)}
    return Recipe(**public, epsilon=5.0, delta=1e-5, rank=2, sweeps=2)


def make_entries(seed: int) -> Any:
    """Entries with many repeated coordinates, among them zeros of either sign and values beyond the bounds."""
    rng = np.random.default_rng(seed)
    n = 200
    columns = np.stack([rng.integers(0, size, n) for size in SHAPE]).astype(np.int32)
    return columns, np.where(rng.random(n) < 0.3, rng.choice([0.0, -0.0], n), rng.normal(0, 1, n))


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_rows_give_the_same_bits(seed: int) -> None:
    recipe, source = make_recipe(), SeededSource(seed)
    columns, values = make_entries(seed)
    rng = np.random.default_rng(seed)
    people: list[Any] = []
    for _ in range(4):
        order = rng.permutation(len(values))
        signs = np.where(values == 0, -values, values)  # 0 and -0 are the same value
        given = signs if len(people) % 2 else values
        people.append(group_entries(columns[:, order], given[order], SHAPE, 0, (-1.0, 1.0)))
    first = people[0]
    for other in people[1:]:
        assert first.values.tobytes() == other.values.tobytes()
        assert np.array_equal(first.columns, other.columns)
    state = recipe.start()
    for this in recipe.rounds:
        totals = [recipe.contribute(state, each, threads=1) for each in people]
        assert all(np.array_equal(totals[0], total) for total in totals)
        state = recipe.advance(state, totals[0] + draw_noise(this, source))
