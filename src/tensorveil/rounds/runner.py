"""The central runner: one trusted place adds noise to the sum of every round, and keeps nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tensorveil.noise import NoiseSource, rounded_gaussian
from tensorveil.privacy import Part
from tensorveil.privacy.events import Gaussian
from tensorveil.privacy.exact import exactly
from tensorveil.rounds.contract import Round, State
from tensorveil.rounds.recipe import Recipe
from tensorveil.rounds.records import RecordsRecipe
from tensorveil.tensor import ObservedTensor

__all__ = ["Keeper", "Total", "describe_parts", "draw_noise", "run_recipe", "run_rounds"]


AnyRecipe = Recipe | RecordsRecipe
Total = Callable[[State], NDArray[np.int64]]


class Keeper(Protocol):
    """What remembers the states of a run, so that it can go on after the process that ran it has died."""

    def last(self) -> State | None:
        """Return the last state that was kept, if there is one."""

    def keep(self, state: State) -> None:
        """Keep a state, which nobody has kept before; when this returns it is on disk."""


def run_recipe(
    recipe: AnyRecipe,
    groups: Iterable[ObservedTensor],
    source: NoiseSource | None,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
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
    progress
        Is told after each round how many are done, and how many there are.

    Guarantee: with a secure source, the recipe's (docs/guarantees.md#slice).
    """
    everyone = [recipe.people(group) for group in groups]

    def total(state: State) -> NDArray[np.int64]:
        found = np.zeros(recipe.rounds[state.round].size, dtype=np.int64)
        for group in everyone:
            found += recipe.contribute(state, group, threads=threads)
        return found

    return run_rounds(recipe, total, source, progress=progress)


def run_rounds(
    recipe: AnyRecipe,
    total: Total,
    source: NoiseSource | None,
    *,
    keeper: Keeper | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> State:
    """Run every round that has not been run yet, wherever sums are computed, and return the last state.

    Parameters
    ----------
    recipe
        What is computed.
    total
        Returns the exact sum of a round over all users. It may be computed in parts, again, or by many machines:
        noise is drawn here, once, on the total.
    source
        Where the noise comes from.
    keeper
        Keeps every state before the next round begins. What it kept of an earlier run is gone on from: no noise is
        drawn again for a round whose state was kept.
    progress
        Is told after each round how many are done, and how many there are.

    Guarantee: with a secure source, the recipe's (docs/guarantees.md#slice).
    """
    state = recipe.start()
    kept = None if keeper is None else keeper.last()
    if kept is not None:
        if source is not None and not source.secure:  # so that a seed means the same, interrupted or not
            for this in recipe.rounds[: kept.round]:
                draw_noise(this, source)
        state = kept
    for this in recipe.rounds[state.round :]:
        found = total(state)
        if source is not None:
            found = found + draw_noise(this, source)
        state = recipe.advance(state, found)
        if keeper is not None:
            keeper.keep(state)
        if progress is not None:
            progress(state.round, len(recipe.rounds))
    return state


def draw_noise(this: Round, source: NoiseSource) -> NDArray[np.int64]:
    """Draw the noise of one round: rounded Gaussian, with a standard deviation of limit / mu steps."""
    return rounded_gaussian(this.limit / exactly(this.mu), this.size, source)


def describe_parts(recipe: AnyRecipe) -> tuple[Part, ...]:
    """Return what every round computes and spends, for the guarantee."""
    return tuple(Part(name=r.name, statistic=r.statistic, event=Gaussian(r.mu)) for r in recipe.rounds)
