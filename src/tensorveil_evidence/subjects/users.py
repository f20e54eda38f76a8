"""The rounds of user-level fits, each with and without one user, drawn in bulk; and whole fits.

The state that a round begins with is that of a noisy run over everybody else, which is public. All that a user may do
is tried, within one slice and everywhere, with values at the bounds; who contributes most is who comes and goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.noise import SeededSource
from tensorveil.rounds import Recipe, RecordsRecipe, State, draw_noise
from tensorveil.rounds.grouping import People
from tensorveil.tensor import ObservedTensor
from tensorveil_evidence.subjects.rounds import likelihood_ratio, noisy_sums
from tensorveil_evidence.subjects.subject import BlackBox, source

Array = NDArray[Any]

_SHAPE, _BOUNDS = (6, 3, 4), (1.0, 5.0)  # users, films, days
_OTHERS = 5
_TRIED = 32  # users with entries everywhere


def user_subjects() -> Iterator[BlackBox]:
    """Yield every round by itself, and whole fits."""
    for number, this in enumerate(_recipe().rounds):
        yield _subject(f"users/{this.name}", Claim(mu=this.mu), _neighbours(number), _round(number))
    for number, this in enumerate(_records().rounds):
        name = f"users/records{f', {this.name}' if number else ''}"
        yield _subject(name, Claim(mu=this.mu), _record_neighbours(number), _sum_records(number))
    yield _subject(
        "users/whole fit", Claim(mu=_recipe().mu), lambda: [(False, True)], _whole_fit,
        about="whole runs", batched=False, samples=500, many=10_000,
    )  # fmt: skip


def _subject(
    name: str, claim: Claim, neighbours: Callable[[], list[Any]], mechanism: Callable[..., Array], **options: Any
) -> BlackBox:
    facts: dict[str, Any] = {"about": "noisy sums of a round", "unit": "slice:user", **options}
    return BlackBox(name=name, claim=claim, proven=claim, neighbours=neighbours, mechanism=mechanism, **facts)


@cache
def _records() -> RecordsRecipe:
    """Return a recipe for counts, in which one entry fills a user's share."""
    return RecordsRecipe(
        shape=_SHAPE, modes=("user", "film", "day"), protect="user", bounds=(0.0, 5.0), epsilon=6.0, delta=1e-5, rank=2,
        refinements=1,
    )  # fmt: skip


@cache
def _record_states() -> tuple[State, ...]:
    """Return the states that the rounds begin with: the second after a noisy first one over everybody else."""
    made = _records()
    first = made.contribute(made.start(), _people(_others()), threads=1)
    return made.start(), made.advance(made.start(), first + draw_noise(made.rounds[0], SeededSource(0)))


def _sum_records(number: int) -> Callable[[People, np.random.Generator, int], Array]:
    def mechanism(people: People, rng: np.random.Generator, n: int) -> Array:
        total = _records().contribute(_record_states()[number], people, threads=1)
        return noisy_sums(_records().rounds[number], total, rng, n)

    return mechanism


def _record_neighbours(number: int) -> Callable[[], list[tuple[People, People]]]:
    def length(user: tuple[Array, Array]) -> float:
        total = _records().contribute(_record_states()[number], _people([user]), threads=1)
        return float(np.linalg.norm(total.astype(np.float64)))

    def neighbours() -> list[tuple[People, People]]:
        return [(_people(_others()), _people([*_others(), max(_candidates(), key=length)]))]

    return neighbours


@cache
def _recipe() -> Recipe:
    """Return a recipe with rounds of every kind, in which one entry fills a user's share."""
    return Recipe(
        shape=_SHAPE, modes=("user", "film", "day"), protect="user", bounds=_BOUNDS, epsilon=6.0, delta=1e-5, rank=1,
        contributions=1.0, sweeps=1,
    )  # fmt: skip


def _round(number: int) -> Callable[[People, np.random.Generator, int], Array]:
    def mechanism(people: People, rng: np.random.Generator, n: int) -> Array:
        total = _recipe().contribute(_states()[number], people, threads=1)
        return noisy_sums(_recipe().rounds[number], total, rng, n)

    return mechanism


def _neighbours(number: int) -> Callable[[], list[tuple[People, People]]]:
    def neighbours() -> list[tuple[People, People]]:
        state = _states()[number]
        worst = max(_candidates(), key=lambda user: _length(state, _people([user])))
        return [(_people(_others()), _people([*_others(), worst]))]

    return neighbours


def _whole_fit(there: bool, rng: np.random.Generator) -> Array:
    """Run all rounds with or without the worst user; return what each reveals to an attacker who knows all others."""
    made, noise = _recipe(), source(rng)
    state, ratios = made.start(), []
    for this in made.rounds:
        others, mine = (made.contribute(state, group, threads=1) for group in _groups())
        total = others + draw_noise(this, noise) + (mine if there else 0)
        ratios.append(likelihood_ratio(this, mine, total - others))
        state = made.advance(state, total)
    return np.array(ratios)


@cache
def _states() -> tuple[State, ...]:
    """Return the states that the rounds of a noisy run begin with."""
    made, noise, people = _recipe(), SeededSource(0), _people(_others())
    found = [made.start()]
    for this in made.rounds[:-1]:
        found.append(made.advance(found[-1], made.contribute(found[-1], people, threads=1) + draw_noise(this, noise)))
    return tuple(found)


@cache
def _groups() -> tuple[People, People]:
    """Return everybody else, and the user who would give away most over all rounds."""
    worst = max(
        _candidates(),
        key=lambda user: sum(
            (this.mu * _length(state, _people([user]))) ** 2
            for this, state in zip(_recipe().rounds, _states(), strict=True)
        ),
    )
    return _people(_others()), _people([worst])


def _length(state: State, people: People) -> float:
    return float(np.linalg.norm(_recipe().contribute(state, people, threads=1).astype(np.float64)))


@cache
def _candidates() -> list[tuple[Array, Array]]:
    """Return users as (cells, values): all of one film, all of one day, or everything, at the bounds in every way."""
    cells = np.argwhere(np.ones(_SHAPE[1:]))
    film, day = cells[cells[:, 0] == 0], cells[cells[:, 1] == 0]
    found = [(part, np.array(values)) for part in (film, day) for values in product(_BOUNDS, repeat=len(part))]
    rng = np.random.default_rng(0)
    return found + [(cells, values) for values in rng.choice(_BOUNDS, (_TRIED, len(cells)))]


@cache
def _others() -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(1)
    cells = [np.argwhere(rng.random(_SHAPE[1:]) < 0.5) for _ in range(_OTHERS)]
    return [(part, rng.integers(1, 6, len(part)).astype(np.float64)) for part in cells]


def _people(users: list[tuple[Array, Array]]) -> People:
    """Group users given as (cells, values); the last may be the one who comes and goes."""
    coords = np.concatenate([np.column_stack([np.full(len(c), i), c]) for i, (c, _) in enumerate(users)])
    values = np.concatenate([values for _, values in users])
    return _recipe().people(ObservedTensor(coords, values, shape=_SHAPE, modes=("user", "film", "day")))
