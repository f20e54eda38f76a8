"""Where latent features start: public random directions, before any round has looked for better ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import State
from tensorveil.rounds.own_part import widened
from tensorveil.rounds.sweeps import orthonormal

if TYPE_CHECKING:
    from tensorveil.rounds.recipe import Recipe

Array = NDArray[Any]

# What latent features together are thought to explain of the spread, before a round asks.
_EXPLAINED = 0.1


def with_latent(recipe: Recipe, state: State) -> State:
    """Add a basis for every released mode, and tastes for the products of their columns.

    But for the largest mode a basis begins with a constant column: what users like tends to last.
    """
    rng = np.random.default_rng(recipe.seed)
    arrays: dict[str, Array] = {}
    largest = int(np.argmax(recipe.rows.sizes))
    for m, (size, rank) in enumerate(zip(recipe.rows.sizes, recipe.basis_ranks, strict=True)):
        rows = rng.standard_normal((size, rank))
        if m != largest:
            rows[:, 0] = 1.0
        arrays[f"basis_{m}"] = orthonormal(rows, state["counts"][recipe.row_slices[m]])
    features = int(np.prod(recipe.basis_ranks))
    variances = np.full(features, _EXPLAINED * float(state["spread"][0]) / features)
    return State(round=state.round, arrays={**state.arrays, **arrays, **widened(state, variances)})
