"""Norm-shaped noise follows exp(-||z|| / scale): cell by cell if small, by radius and direction if large."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from tensorveil.noise import SeededSource, discrete_laplace_variance, norm, norm_laplace, norm_laplace_variance
from tensorveil.noise.theta import log_partition
from tests import chance


def orbit(z: Any) -> Any:
    """Vectors that differ by signs and order have equal probability."""
    return tuple(sorted(map(abs, z)))


def orbit_weights(dimension: Any, reach: Any) -> Any:
    """How many integer vectors belong to each orbit, up to a largest coordinate."""
    found = {}
    for sizes in itertools.combinations_with_replacement(range(reach + 1), dimension):
        arrangements = math.factorial(dimension)
        for repeated in set(sizes):
            arrangements //= math.factorial(sizes.count(repeated))
        found[sizes] = arrangements * 2 ** sum(size > 0 for size in sizes)
    return found


def enumerated(dimension: Any, scale: Any, reach: Any) -> Any:
    weights = {
        o: count * math.exp(-math.sqrt(sum(k * k for k in o)) / scale)
        for o, count in orbit_weights(dimension, reach).items()
    }
    total = math.fsum(weights.values())
    return {o: w / total for o, w in weights.items()}, total


@pytest.mark.parametrize(
    ("dimension", "scale", "reach"), [(2, 0.6, 30), (2, 2.0, 90), (3, 0.4, 16), (3, 1.5, 50), (5, 0.5, 11)]
)
@pytest.mark.parametrize("kind", ["_propose_shells", "_propose_products"])
def test_every_cell_under_both_proposals(kind: Any, dimension: Any, scale: Any, reach: Any) -> None:
    draws = getattr(norm, kind)(Fraction(scale), dimension, 60_000, SeededSource(int(10 * scale) + dimension))
    law, _ = enumerated(dimension, scale, reach)
    cells = {o: i for i, o in enumerate(sorted(law, key=law.get, reverse=True))}
    counts = np.bincount([cells[orbit(z)] for z in draws.tolist()], minlength=len(cells))

    def wrong_by(factor: Any) -> Any:
        other, _ = enumerated(dimension, scale * factor, reach)
        return [other[o] for o in cells]

    chance.assert_fits(f"norm {kind} {dimension} {scale}", counts, wrong_by)
    for k in range(dimension):
        spread = norm_laplace_variance(scale, dimension) ** 0.5
        chance.assert_mean(f"norm {kind} {dimension} {scale}: mean {k}", draws[:, k], 0.0, spread)


@pytest.mark.parametrize(("dimension", "scale", "n"), [(2, 2.0**20, 40_000), (8, 2.0**34, 6_000), (32, 2.0**20, 6_000)])
def test_radius_and_direction_at_large_scales(dimension: Any, scale: Any, n: int) -> None:
    draws = norm_laplace(scale, dimension, n, SeededSource(dimension)).astype(float)
    radius = np.linalg.norm(draws, axis=1) / scale
    name = f"norm {dimension} at {scale:g}"
    edges = stats.gamma.ppf(np.linspace(0.05, 0.95, 19), dimension)
    counts = np.bincount(np.searchsorted(edges, radius), minlength=20)

    def radial(factor: Any) -> Any:
        return np.diff(special.gammainc(dimension, np.concatenate([[0], edges / factor, [np.inf]])))

    chance.assert_fits(f"{name}: radius", counts, radial)
    # One coordinate of a uniform direction: (1 + u) / 2 has a beta law. A wrong exponent stands for a wrong scale.
    first = (1 + draws[:, 0] / (radius * scale)) / 2
    half = (dimension - 1) / 2
    places = np.linspace(0.0, 1.0, 25)[1:-1]

    def direction(factor: Any) -> Any:
        cut = special.betainc(half * factor**2, half * factor**2, places)
        return np.diff(np.concatenate([[0], cut, [1]]))

    chance.assert_fits(f"{name}: direction", np.bincount(np.searchsorted(places, first), minlength=24), direction)
    chance.assert_uncorrelated(f"{name}: coordinates", draws[:, 0], draws[:, 1])
    chance.assert_uncorrelated(f"{name}: successive", radius[1:], radius[:-1])
    chance.assert_second_moment(
        f"{name}: variance", draws[:, -1] / scale, norm_laplace_variance(scale, dimension) / scale**2
    )


@pytest.mark.parametrize(("dimension", "scale", "reach"), [(1, 0.7, 60), (2, 0.3, 20), (2, 2.0, 90), (3, 0.8, 32)])
def test_partition_and_variance_against_enumeration(dimension: Any, scale: Any, reach: Any) -> None:
    law, total = enumerated(dimension, scale, reach)
    assert log_partition(scale, dimension) == pytest.approx(math.log(total), abs=1e-9)
    second = math.fsum(p * sum(k * k for k in o) for o, p in law.items()) / dimension
    assert norm_laplace_variance(scale, dimension) == pytest.approx(second, rel=1e-8)


def test_variance_has_its_continuous_limit() -> None:
    assert norm_laplace_variance(2.0**30, 7) == pytest.approx(8 * 2.0**60, rel=1e-9)
    assert norm_laplace_variance(3.0, 1) == pytest.approx(discrete_laplace_variance(3.0), rel=1e-9)


def coin_law(p: float) -> Callable[[float], list[float]]:
    return lambda f: [p * f, 1 - p * f]


@pytest.mark.parametrize(("dimension", "scale"), [(3, 1.0), (8, 2.0), (16, 0.5)])
def test_acceptance_is_as_computed(dimension: Any, scale: Any) -> None:
    shell, product = norm.acceptance(Fraction(scale), dimension)
    for kind, expected in ((norm._propose_shells, shell), (norm._propose_products, product)):
        n = int(4_000 / expected)
        kept = len(kind(Fraction(scale), dimension, n, SeededSource(3)))
        chance.assert_fits(f"acceptance {kind.__name__} {dimension}", [kept, n - kept], coin_law(expected))
