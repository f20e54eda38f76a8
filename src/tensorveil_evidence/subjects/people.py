"""User-level fits run once on canary users: whoever is there has put everything into two slices, at the bounds.

Every canary has two films of its own, and rates one at the highest value and the other at the lowest, on every day: the
worst that a user can do, whose entries all add up in two rows. The auditor knows everything but coins and noise, sees
the whole noisy transcript, and scores a canary by its likelihood ratio at the canary's own films.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.rounds import Recipe, draw_noise
from tensorveil.rounds.grouping import People
from tensorveil.tensor import ObservedTensor
from tensorveil_evidence.subjects.subject import OneRun, source

Array = NDArray[Any]

_DAYS, _OTHERS, _FILMS = 8, 50, 10  # ordinary users rate films of their own
# Delta is small because what guesses can refute falls with canaries times delta.
_EPSILON, _DELTA = 2.0, 1e-9


def people_subjects() -> Iterator[OneRun]:
    """Yield user-level fits without and with latent features."""
    yield canary_users("biases", sweeps=0)
    yield canary_users("factors", sweeps=1)


def canary_users(name: str, *, sweeps: int, days: int = _DAYS) -> OneRun:
    """Return the subject of one fit on canaries with so many entries in each of their rows."""
    claim = Claim(epsilon=_EPSILON, delta=_DELTA)
    return OneRun(
        name=f"one run/users, {name}",
        unit="slice:user",
        claim=claim,
        proven=claim,
        about="one run with canary users",
        run=_run(sweeps, days),
    )


def _run(sweeps: int, days: int) -> Callable[[Array, np.random.Generator], Array]:
    def run(coins: Array, rng: np.random.Generator) -> Array:
        recipe, noise = _recipe(len(coins), days, sweeps), source(rng)
        everyone, there = (_canaries(recipe, who) for who in (np.arange(len(coins)), np.flatnonzero(coins)))
        groups = [there, _ordinary(recipe, rng)]
        state, scores = recipe.start(), np.zeros(len(coins))
        for step, this in zip(recipe.steps, recipe.rounds, strict=True):
            total = draw_noise(this, noise)
            for group in groups:
                total += recipe.contribute(state, group, threads=1)
            if step.kind in ("counts", "biases", "sweep") and step.mode == 0:
                # Nobody else rates a canary's films: of a sum over all canaries its rows are what the canary gives.
                mine, seen = (
                    _own_rows(numbers, recipe.basis_ranks[0] if step.kind == "sweep" else 1, len(coins))
                    for numbers in (recipe.contribute(state, everyone, threads=1), total)
                )
                scores += np.sum(mine * (seen - 0.5 * mine), axis=1) * (this.mu / this.limit) ** 2
            state = recipe.advance(state, total)
        return scores

    return run


def _own_rows(numbers: Array, width: int, count: int) -> Array:
    """Return, for every canary, the numbers of its two films."""
    rows = numbers[: 2 * count * width].astype(np.float64).reshape(2, count, width)
    return np.concatenate([rows[0], rows[1]], axis=1)


def _recipe(count: int, days: int, sweeps: int) -> Recipe:
    return Recipe(
        shape=(count + _OTHERS, 2 * count + _FILMS, days), modes=("user", "film", "day"), protect="user",
        bounds=(1.0, 5.0), epsilon=_EPSILON, delta=_DELTA, rank=1, contributions=1.0, sweeps=sweeps,
    )  # fmt: skip


def _canaries(recipe: Recipe, who: Array) -> People:
    count, days = recipe.shape[0] - _OTHERS, recipe.shape[2]
    films = np.repeat(np.column_stack([who, who + count]).reshape(-1), days)
    cells = np.column_stack([np.repeat(who, 2 * days), films, np.tile(np.arange(days), 2 * len(who))])
    return _people(recipe, cells, np.tile(np.repeat([5.0, 1.0], days), len(who)))


def _ordinary(recipe: Recipe, rng: np.random.Generator) -> People:
    users, films, days = recipe.shape
    seen = np.argwhere(rng.random((_OTHERS, _FILMS, days)) < 0.1) + np.array([users - _OTHERS, films - _FILMS, 0])
    return _people(recipe, seen, rng.integers(1, 6, len(seen)).astype(np.float64))


def _people(recipe: Recipe, cells: Array, values: Array) -> People:
    return recipe.people(ObservedTensor(cells, values, shape=recipe.shape, modes=recipe.modes))
