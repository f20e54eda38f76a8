"""Biases of the released modes: noisy sums of what users leave unexplained, shrunk by the noise that is known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import LIMIT, State, Step
from tensorveil.rounds.counts import adaptive_scales, user_weights
from tensorveil.rounds.grouping import People
from tensorveil.rounds.own_part import precision, residuals, widened
from tensorveil.rounds.sums import Parts, Rows, bounded_sum

if TYPE_CHECKING:
    from tensorveil.rounds.recipe import Recipe

Array = NDArray[Any]

# Where users' residuals are cut, in spreads: as a whole, not entry by entry.
_CUT = 0.9
STATISTIC = "weighted sums of users' residuals per row"
_LEAST_VARIANCE = 1e-3  # of biases, as a share of the spread
# What variance users' coefficients of the two traits are thought to have before a round asks: of the bias, a number
# without unit; of how often a row occurs, as a share of the spread.
_BIAS_TASTE, _COUNT_TASTE = 0.2, 0.02
TRAITS = 2


def size(recipe: Recipe, step: Step) -> int:
    """Return how many integers the round has."""
    return recipe.rows.total


def contribute(recipe: Recipe, step: Step, state: State, people: People, threads: int | None) -> Array:
    """Sum residuals per row; a user's bias and tastes are its own, found from its entries and the state."""

    ridge = precision(state)

    def parts(piece: People) -> Parts:
        weights = user_weights(recipe, piece)[piece.owners]
        left = residuals(recipe, state, ridge, piece)
        return Parts(entries=(weights * left)[:, None], own=np.empty((piece.n_users, 0)))

    return bounded_sum(people, _rows(recipe, state), 1, 0, _reach(recipe, state), parts, threads)


def _rows(recipe: Recipe, state: State) -> Rows:
    """Return the rows with their adaptive scales."""
    adapted = [adaptive_scales(state["counts"][part]) for part in recipe.row_slices]
    return replace(recipe.rows, scales=recipe.rows.scales * np.concatenate(adapted))


def _reach(recipe: Recipe, state: State) -> float:
    """Return the longest contribution: what a typical user's residuals have, scales included."""
    counts, scales = state["counts"], _rows(recipe, state).scales
    smaller = np.sum(counts * scales**2) / np.sum(counts * recipe.rows.scales**2)
    return _CUT * recipe.reach * float(np.sqrt(state["spread"][0] * smaller))


def advance(recipe: Recipe, step: Step, state: State, total: Array, mu: float) -> State:
    """Join this round's sums with those of the rounds before, each weighed by its noise."""
    reach = _reach(recipe, state)
    scales, counts, spread = _rows(recipe, state).scales, state["counts"], float(state["spread"][0])
    noise = (reach / mu / scales) ** 2
    seen = total * (reach / LIMIT) / scales + counts * state["biases"]
    # Users' weights are at most 1, so that the variance of a sum is at most its count.
    variance = noise + 0.5 * spread * counts
    weighted = state["bias_sums"] + counts * seen / variance
    known = state["bias_precisions"] + counts**2 / variance
    biases = np.empty(recipe.rows.total)
    for part in recipe.row_slices:
        shrunk = _shrunk(weighted[part], known[part], spread)
        biases[part] = shrunk - np.average(shrunk, weights=counts[part])
    traits = row_traits(recipe, biases, counts)
    more: dict[str, Array] = {}
    if "traits" not in state.arrays:
        more = widened(state, np.tile([_BIAS_TASTE, _COUNT_TASTE * spread], len(recipe.row_slices)))
    return state.after(bias_sums=weighted, bias_precisions=known, biases=biases, traits=traits, **more)


def row_traits(recipe: Recipe, biases: Array, counts: Array) -> Array:
    """Return what is known of every row: its bias and how often it occurs (the logarithm, standardised).

    Users differ in how far they follow the common opinion and in how they like what is common; their coefficients of
    these traits are their own, so that they cost nothing.
    """
    traits = np.zeros((recipe.rows.total, TRAITS))
    traits[:, 0] = biases
    for part in recipe.row_slices:
        often, weights = np.log1p(counts[part]), counts[part]
        often = often - np.average(often, weights=weights)
        deviation = float(np.sqrt(np.average(often**2, weights=weights)))
        traits[part, 1] = often / max(deviation, 0.1)
    return traits


def _shrunk(weighted: Array, known: Array, spread: float) -> Array:
    """Return posterior means of biases whose variance is found by maximum likelihood among a few candidates."""
    known = np.maximum(known, 1e-300)
    estimate = weighted / known
    candidates = spread * np.geomspace(_LEAST_VARIANCE, 2.0, 24)

    def likelihood(variance: float) -> float:
        total = variance + 1 / known
        return float(-np.sum(np.log(total) + estimate**2 / total))

    variance = max(candidates, key=likelihood)
    out: Array = weighted / (known + 1 / variance)
    return out
