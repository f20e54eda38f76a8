"""What happens at a user's own place: bias and tastes from the user's entries and the public state. Never released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import State
from tensorveil.rounds.grouping import People

if TYPE_CHECKING:
    from tensorveil.rounds.recipe import Recipe

Array = NDArray[Any]


def target(recipe: Recipe, state: State, people: People) -> Array:
    """Return what is left of every value without offset and biases of the released modes."""
    left = people.values - float(state["offset"][0])
    biases = state["biases"]
    for part, column in zip(recipe.row_slices, people.columns, strict=True):
        left -= biases[part][column]
    return left


def design(recipe: Recipe, state: State, people: People) -> Array:
    """Return what a user's coefficients multiply: 1, traits of the entry's rows, latent features, as far as known."""
    parts = [np.ones((len(people.values), 1))]
    if "traits" in state.arrays:
        traits = state["traits"]
        parts += [traits[part][column] for part, column in zip(recipe.row_slices, people.columns, strict=True)]
    if "basis_0" in state.arrays:
        parts.append(latent_features(bases(recipe, state), people.columns))
    return np.concatenate(parts, axis=1)


def n_plain(state: State) -> int:
    """How many of a user's coefficients are not latent."""
    latent = int(np.prod([a.shape[1] for name, a in state.arrays.items() if name.startswith("basis_")], dtype=int))
    return len(state["taste_mean"]) - (latent if "basis_0" in state.arrays else 0)


def bases(recipe: Recipe, state: State) -> tuple[Array, ...]:
    """Return the bases of all released modes."""
    return tuple(state[f"basis_{m}"] for m in range(len(recipe.released)))


def latent_features(known: tuple[Array, ...], columns: Array) -> Array:
    """Return the products of the bases' rows, one factor per mode, the last mode's index running fastest."""
    out: Array = known[0][columns[0]]
    for basis, column in zip(known[1:], columns[1:], strict=True):
        out = (out[:, :, None] * basis[column][:, None, :]).reshape(len(column), -1)
    return out


def residuals(recipe: Recipe, state: State, ridge: Array, people: People) -> Array:
    """Return what the user's own bias and tastes leave unexplained; ``ridge`` is `precision` of the state."""
    from tensorveil.kernels.users import ridge_residuals

    wanted, given = target(recipe, state, people), design(recipe, state, people)
    left = np.empty(len(wanted))
    ridge_residuals(people.pointers, given, wanted, ridge, state["taste_mean"], left)
    return left


def precision(state: State) -> Array:
    """Return the ridge matrix that the prior of tastes amounts to: computed once, so that all users have the same."""
    out: Array = float(state["spread"][0]) * np.linalg.inv(state["taste_covariance"])
    return out


def widened(state: State, variances: Array) -> dict[str, Array]:
    """Return the prior of tastes with further coefficients: independent, around zero."""
    old = state["taste_covariance"]
    d, more = len(old), len(variances)
    covariance = np.zeros((d + more, d + more))
    covariance[:d, :d] = old
    covariance[range(d, d + more), range(d, d + more)] = variances
    return {"taste_mean": np.append(state["taste_mean"], np.zeros(more)), "taste_covariance": covariance}
