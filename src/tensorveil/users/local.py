"""What happens at a user's own place: bias and tastes from the user's entries and the public state. Never released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.users.contract import State
from tensorveil.users.grouping import People

if TYPE_CHECKING:
    from tensorveil.users.recipe import Recipe

Array = NDArray[Any]


def baseline(recipe: Recipe, state: State, people: People) -> Array:
    """Return offset and biases of the released modes at every entry."""
    total = np.full(len(people.values), float(state["offset"][0]))
    biases = state["biases"]
    for part, column in zip(recipe.row_slices, people.columns, strict=True):
        total += biases[part][column]
    return total


def residuals(recipe: Recipe, state: State, people: People) -> Array:
    """Return what the user's own bias and tastes leave unexplained."""
    target = people.values - baseline(recipe, state, people)
    design = np.ones((len(target), 1))
    tastes = solve_tastes(state, people, design, target)
    left: Array = target - np.einsum("nk,nk->n", design, tastes[people.owners])
    return left


def solve_tastes(state: State, people: People, design: Array, target: Array) -> Array:
    """Return every user's coefficients: ridge regression towards the public prior."""
    from tensorveil.kernels.users import ridge_users

    precision = float(state["spread"][0]) * np.linalg.inv(state["taste_covariance"])
    out = np.empty((people.n_users, design.shape[1]))
    ridge_users(people.pointers, np.ascontiguousarray(design), target, precision, state["taste_mean"], out)
    return out
