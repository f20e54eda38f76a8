"""The central runner: one trusted place sums contributions, adds noise to every round's sum, and keeps nothing else."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tensorveil.noise import NoiseSource, rounded_gaussian
from tensorveil.privacy import Part
from tensorveil.privacy.events import Gaussian
from tensorveil.privacy.exact import exactly
from tensorveil.rounds.contract import Round, State
from tensorveil.rounds.recipe import Recipe
from tensorveil.tensor import ObservedTensor

__all__ = ["describe_parts", "draw_noise", "run_recipe"]


def run_recipe(
    recipe: Recipe, groups: Iterable[ObservedTensor], source: NoiseSource | None, *, threads: int | None = None
) -> State:
    """Run every round over groups of whole users and return the last state.

    Parameters
    ----------
    recipe
        What is computed.
    groups
        Tensors that share no user; any split of the same users gives the same result.
    source
        Where the noise comes from. With None no noise is added: for tests, and for sums that carry noise already.
    threads
        How many threads to use; this does not change the result.

    Guarantee: with a secure source, the recipe's (docs/guarantees.md#slice).
    """
    everyone = [recipe.people(group) for group in groups]
    state = recipe.start()
    for this in recipe.rounds:
        total = np.zeros(this.size, dtype=np.int64)
        for group in everyone:
            total += recipe.contribute(state, group, threads=threads)
        if source is not None:
            total += draw_noise(this, source)
        state = recipe.advance(state, total)
    return state


def draw_noise(this: Round, source: NoiseSource) -> NDArray[np.int64]:
    """Draw the noise of one round: rounded Gaussian, with a standard deviation of limit / mu steps."""
    return rounded_gaussian(this.limit / exactly(this.mu), this.size, source)


def describe_parts(recipe: Recipe) -> tuple[Part, ...]:
    """Return what every round computes and spends, for the guarantee."""
    return tuple(Part(name=r.name, statistic=r.statistic, event=Gaussian(r.mu)) for r in recipe.rounds)
