"""User-level fits run once on canary users: whoever is there has put everything into one slice, at the bounds.

Every canary has a film of its own, which it rates at the highest value on every day, and rates a film that all share at
the lowest: the worst that a user can do, whose entries all add up in one row. The auditor knows everything but coins
and noise, sees the whole noisy transcript, and scores a canary by its likelihood ratio at the canary's own film.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.audit.subjects.subject import OneRun
from tensorveil.noise import SeededSource
from tensorveil.tensor import ObservedTensor
from tensorveil.users import Recipe, noise_for

Array = NDArray[Any]

_CANARIES, _GUESSED = 400, 0.4
_DAYS, _OTHERS, _FILMS = 160, 50, 10  # ordinary users rate films of their own
_EPSILON, _DELTA = 2.0, 1e-5


def people_subjects() -> Iterator[OneRun]:
    """Yield user-level fits without and with latent features."""
    for name, sweeps in (("biases", 0), ("factors", 1)):
        claim = Claim(epsilon=_EPSILON, delta=_DELTA)
        yield OneRun(
            name=f"one run/users, {name}",
            unit="slice:user",
            claim=claim,
            proven=claim,
            about="one run with canary users",
            run=_run(sweeps),
            samples=_CANARIES,
            many=_CANARIES,
            guessed=_GUESSED,
        )


def _run(sweeps: int) -> Any:
    def run(coins: Array, rng: np.random.Generator) -> Array:
        count = len(coins)
        shape = (count + _OTHERS, count + _FILMS, _DAYS)
        recipe = Recipe(
            shape=shape, modes=("user", "film", "day"), protect="user", bounds=(1.0, 5.0), epsilon=_EPSILON,
            delta=_DELTA, rank=1, contributions=1.0, sweeps=sweeps,
        )  # fmt: skip
        source = SeededSource(int(rng.integers(2**60)))
        there = [_canary(i, count) for i in np.flatnonzero(coins).tolist()]
        people = recipe.people(_tensor([_ordinary(rng, count), *there], shape))
        alone = [recipe.people(_tensor([_canary(i, count)], shape)) for i in range(count)]
        state, scores = recipe.start(), np.zeros(len(coins))
        for step, this in zip(recipe.steps, recipe.rounds, strict=True):
            total = recipe.contribute(state, people, threads=1) + noise_for(this, source)
            if step.kind in ("counts", "biases", "sweep") and step.mode == 0:
                width = recipe.basis_ranks[0] if step.kind == "sweep" else 1
                for i, person in enumerate(alone):  # whatever else a canary moves, the others move as well
                    own = slice(i * width, (i + 1) * width)
                    mine = recipe.contribute(state, person, threads=1)[own].astype(np.float64)
                    scores[i] += (mine @ total[own] - 0.5 * mine @ mine) * (this.mu / this.limit) ** 2
            state = recipe.advance(state, total)
        return scores

    return run


def _canary(i: int, count: int) -> tuple[Array, Array]:
    films = np.repeat([i, count], _DAYS)
    cells = np.column_stack([np.full(2 * _DAYS, i), films, np.tile(np.arange(_DAYS), 2)])
    return cells, np.repeat([5.0, 1.0], _DAYS)


def _ordinary(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    seen = np.argwhere(rng.random((_OTHERS, _FILMS, _DAYS)) < 0.1)
    return seen + np.array([count, count, 0]), rng.integers(1, 6, len(seen)).astype(np.float64)


def _tensor(parts: list[tuple[Array, Array]], shape: tuple[int, ...]) -> ObservedTensor:
    cells, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return ObservedTensor(cells, values, shape=shape, modes=("user", "film", "day"))
