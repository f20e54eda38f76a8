"""The mechanisms of `tensorveil.noise`, on a fine grid as in releases and on a coarse one, where atoms would show."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.noise import (
    Grid,
    NoiseSource,
    Noisy,
    bounded_values_mechanism,
    discrete_gaussian,
    gaussian_mechanism,
    laplace_mechanism,
    norm_mechanism,
)
from tensorveil.noise.adding import PlusNoise
from tensorveil.noise.keyed import answer_by_cell
from tensorveil.noise.source import KeySource
from tensorveil.noise.windows import InWindow
from tensorveil.privacy.zcdp import zcdp_epsilon
from tensorveil_evidence.subjects.subject import BlackBox, noisy_statistic, source

Array = NDArray[Any]
Draw = Callable[[Array, NoiseSource], Noisy]

_DELTA = 1e-6


def noise_subjects() -> Iterator[BlackBox]:
    """Yield them: one statistic, at the claimed sensitivity, many times over with noise of its own."""
    for steps, grid_name in ((1 << 20, "fine grid"), (2, "coarse grid")):
        grid = Grid(1.0 / steps)
        one, many = np.array([0]), np.array([steps])
        rows = np.array([0, 0, 0]), np.array([2 * steps, 2 * steps, steps])  # of length 3 * steps
        yield _subject(f"noise/laplace, {grid_name}", Claim(epsilon=1.0), (one, many), _laplace(grid, steps))
        yield _subject(f"noise/gaussian, {grid_name}", Claim(mu=1.0), (one, many), _gaussian(grid, steps))
        yield _subject(f"noise/norm, {grid_name}", Claim(epsilon=1.0), rows, _norm(grid, 3 * steps))
        spread = zcdp_epsilon(0.5, _DELTA)
        zcdp = Claim(epsilon=spread, delta=_DELTA)
        yield _subject(f"noise/discrete gaussian, {grid_name}", zcdp, (one, many), _discrete(grid, steps))
    ends = np.array([1.0]), np.array([5.0])
    for claim in (Claim(epsilon=1.0), Claim(mu=1.0)):
        law = "laplace" if claim.mu is None else "gaussian"
        yield _subject(f"noise/bounded values, {law}", claim, ends, _draw_bounded(claim))
    laws: tuple[tuple[str, Claim, PlusNoise | InWindow], ...] = (
        ("windows", Claim(epsilon=1.0), InWindow.choose((1.0, 5.0), epsilon=1.0)),
        ("gaussian", Claim(mu=1.0), PlusNoise.choose((1.0, 5.0), mu=1.0)),
    )
    for name, claim, by_cell in laws:
        yield _subject(f"noise/values by cell, {name}", claim, ends, _draw_by_cell(by_cell))


def _subject(name: str, claim: Claim, pair: tuple[Array, Array], draw: Draw) -> BlackBox:
    def mechanism(statistic: Array, rng: np.random.Generator, n: int) -> Array:
        return draw(np.tile(statistic, (n, 1)), source(rng)).values

    return noisy_statistic(name, "statistic", claim, pair, mechanism)


def _laplace(grid: Grid, sensitivity: int) -> Draw:
    return lambda ints, bits: laplace_mechanism(ints, grid, sensitivity, 1.0, bits)


def _gaussian(grid: Grid, sensitivity: int) -> Draw:
    return lambda ints, bits: gaussian_mechanism(ints, grid, sensitivity, 1.0, bits)


def _norm(grid: Grid, sensitivity: int) -> Draw:
    return lambda ints, bits: norm_mechanism(ints, grid, sensitivity, 1.0, bits)


def _discrete(grid: Grid, sensitivity: int) -> Draw:
    def draw(ints: Array, bits: NoiseSource) -> Noisy:
        noise = discrete_gaussian(sensitivity, ints.shape, bits)
        return Noisy(values=grid.values(ints + noise), variance=0.0, source_secure=bits.secure)

    return draw


def _draw_by_cell(law: PlusNoise | InWindow) -> Draw:
    """Values in parts that are perturbed by tasks of their own, the last one first, and the first one twice."""

    def draw(values: Array, bits: NoiseSource) -> Noisy:
        assert isinstance(bits, KeySource)
        places = law.place(values).reshape(-1)
        key, ends = bits.make_key(law.count_words(len(places))), [0, len(places) // 3, len(places)]
        tasks = list(itertools.pairwise(ends))
        found = np.empty_like(places)
        for first, last in (tasks[1], tasks[0], tasks[0]):
            found[first:last] = answer_by_cell(law.answer, places[first:last], key, law.words, first, len(places))
        return law.read(found.reshape(values.shape), secure=bits.secure)

    return draw


def _draw_bounded(claim: Claim) -> Draw:
    return lambda values, bits: bounded_values_mechanism(values, (1.0, 5.0), bits, epsilon=claim.epsilon, mu=claim.mu)
