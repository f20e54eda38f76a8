"""Effects of indices whose neighbours are alike: against dense Gaussian posteriors, and what they gain."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tensorveil.mechanisms.fitting import Perturbed
from tensorveil.mechanisms.pairs import PairEffect, fit_pairs
from tensorveil.mechanisms.remainders import find_remainder
from tensorveil.mechanisms.smooth import OF_BIASES, OF_PAIRS, fit_biases, list_waves, solve_rows, start_walk
from tensorveil.solvers.priors.series import Series
from tensorveil.solvers.priors.walk import Walk

PHI = 0.9


def walk_of(size: int, cycle: bool = False, limits: Any = OF_BIASES, rank: int = 1) -> Walk:
    found = start_walk({0: partial(Walk.start, order=np.arange(size), cycle=cycle)}, 0, rank, limits)
    assert found is not None
    return found


def draw_walk(size: int, rng: np.random.Generator, phi: float = 0.97) -> Any:
    steps = rng.standard_normal(size) * np.sqrt(1 - phi**2)
    out = np.empty(size)
    out[0] = rng.standard_normal()
    for t in range(1, size):
        out[t] = phi * out[t - 1] + steps[t]
    return out


def test_smooth_biases_are_the_dense_posterior_and_its_evidence() -> None:
    rng, size, alpha = np.random.default_rng(0), 7, 0.4
    precision, means = rng.uniform(0.1, 4.0, size), 3 * rng.standard_normal(size)
    precision[2] = 0.0  # nothing was measured of this index
    walk = walk_of(size)
    walk.phi = np.array([PHI])
    found, spread, evidence = solve_rows(
        walk, precision[:, None, None], (precision * means)[:, None], np.array([alpha])
    )
    prior = PHI ** np.abs(np.subtract.outer(np.arange(size), np.arange(size))) / alpha
    inverse = np.linalg.inv(np.linalg.inv(prior) + np.diag(precision))
    np.testing.assert_allclose(found[:, 0], inverse @ (precision * means), atol=1e-10)
    np.testing.assert_allclose(spread[:, 0, 0], np.diag(inverse), atol=1e-10)
    seen = precision > 0
    noise = np.diag(1 / precision[seen])
    dense = prior[np.ix_(seen, seen)] + noise
    expected = 0.5 * (np.linalg.slogdet(noise)[1] - np.linalg.slogdet(dense)[1])
    expected += 0.5 * (means[seen] ** 2 @ precision[seen] - means[seen] @ np.linalg.solve(dense, means[seen]))
    assert evidence == pytest.approx(expected)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_biases_are_smoothed_where_they_are_smooth_and_left_out_where_there_are_none(scale: float) -> None:
    rng, size = np.random.default_rng(1), 300
    truth, noise = scale * draw_walk(size, rng), 2.0 * scale
    precision = np.full(size, noise**-2)
    measured = truth + noise * rng.standard_normal(size)
    found, prior = fit_biases(
        walk_of(size), precision * measured, precision, 0.1 * scale**2, 4.0 * scale**2, learn=True
    )
    shrunk = measured / (1 + (noise / scale) ** 2)
    assert np.mean((found - truth) ** 2) < 0.5 * np.mean((shrunk - truth) ** 2)
    assert 0.1 * scale**2 < prior < 10 * scale**2
    only_noise = noise * rng.standard_normal(size)
    found, _ = fit_biases(walk_of(size), precision * only_noise, precision, 0.1 * scale**2, scale**2, learn=True)
    assert not found.any()


def pair_error(size: int, smooth: bool, rough: bool, seed: int) -> float:
    """The error of a two-way effect of rank 2, each component at 1.3 times the noise's edge."""
    rng = np.random.default_rng(seed)
    make = (lambda: rng.standard_normal(size)) if rough else (lambda: draw_walk(size, rng))
    truth: Any = sum(np.outer(make(), rng.standard_normal(40)) for _ in range(2))
    noise = np.linalg.norm(truth) / 2**0.5 / (1.3 * (np.sqrt(size) + np.sqrt(40)))
    precision = np.full(truth.shape, noise**-2)
    walks = (walk_of(size, limits=OF_PAIRS, rank=4), None) if smooth else (None, None)
    effect = fit_pairs(precision, precision * (truth + noise * rng.standard_normal(truth.shape)), 4, 30, walks=walks)
    return float(np.mean((effect.matrix - truth) ** 2) / np.mean(truth**2))


def test_smooth_rows_find_more_of_a_pair_and_rough_ones_lose_nothing() -> None:
    plain, smooth = (np.mean([pair_error(144, each, False, seed) for seed in range(3)]) for each in (False, True))
    assert smooth < 0.65 * plain
    plain, smooth = (np.mean([pair_error(144, each, True, seed) for seed in range(3)]) for each in (False, True))
    assert smooth < 1.02 * plain


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 24, 144])
@pytest.mark.parametrize("cycle", [False, True])
def test_waves_are_orthonormal_and_follow_the_order(size: int, cycle: bool) -> None:
    order = np.random.default_rng(0).permutation(size)
    walk = Walk.start(1, order, cycle=cycle)
    bases: Any = list_waves(walk, size)
    assert bases.pop(0) is None
    for waves in bases:
        np.testing.assert_allclose(waves.T @ waves, np.eye(waves.shape[1]), atol=1e-9)
        assert np.ptp(waves[:, 0]) < 1e-9
    if size >= 24:  # slower waves differ less between neighbours
        assert len(bases) == (4 if size > 30 else 3)
        steps = np.mean(np.diff(bases[0][order], axis=0) ** 2, axis=0)
        assert steps[1] < 0.2 * steps[-1]


@pytest.mark.parametrize("cycle", [False, True])
def test_pairs_stay_finite_whatever_was_measured(cycle: bool) -> None:
    rng = np.random.default_rng(3)
    for trial in range(40):
        rows, columns = (int(n) for n in rng.integers(1, 12, 2))
        precision = 10.0 ** rng.uniform(-9, 9) * rng.choice([0.0, 1.0, 1e-6, 1e6], (rows, columns))
        score = precision * 10.0 ** rng.uniform(-6, 6) * rng.laplace(size=(rows, columns))
        rank = min(4, rows, columns)
        walks = tuple(walk_of(size, cycle, OF_PAIRS, rank) for size in (rows, columns))
        effect: PairEffect | None = None
        for sweeps in (15, 3, 3):
            effect = fit_pairs(precision, score, 4, sweeps, effect, walks)  # type: ignore[arg-type]
        assert effect is not None
        assert np.isfinite(effect.matrix).all(), trial


def along_time(seed: int, share: float, spread: float) -> tuple[Perturbed, Any, Any]:
    rng = np.random.default_rng(seed)
    shape, noise = (6, 5, 40), 1.5
    truth = np.stack([spread * draw_walk(200, rng, 0.95) for _ in range(6)]).reshape(shape)
    cells = np.argwhere(rng.random(shape) < share).T.astype(np.int32)
    left = truth[tuple(cells)] + noise * rng.standard_normal(cells.shape[1])
    return Perturbed(columns=cells, shape=shape, noise=noise**2), left, truth


TIME = Series(modes=(1, 2), orders=(np.arange(5), np.arange(40)))
SHORT = Series(modes=(2,), orders=(np.arange(40),))


def test_remainders_along_time_are_found_and_noise_alone_has_none() -> None:
    perturbed, left, truth = along_time(0, 0.7, 1.0)
    found = find_remainder(perturbed, left, (TIME, SHORT))
    assert found is not None
    assert found.table.shape == truth.shape
    assert np.mean((found.table - truth) ** 2) < 0.4 * np.mean(truth**2)
    perturbed, left, _ = along_time(1, 0.7, 0.0)
    assert find_remainder(perturbed, left, (TIME, SHORT)) is None
    assert find_remainder(perturbed, left, ()) is None


def test_what_the_others_say_is_the_remainder_without_an_entry() -> None:
    perturbed, left, _ = along_time(2, 0.5, 1.0)
    found = find_remainder(perturbed, left, (TIME,))
    assert found is not None
    entry = 17
    others = np.arange(len(left)) != entry
    without = find_remainder(replace(perturbed, columns=perturbed.columns[:, others]), left[others], (TIME,))
    assert without is not None  # its process is a little different, as it is learnt of one entry less
    at = tuple(perturbed.columns[:, entry])
    assert found.table[at] + found.unseen[entry] == pytest.approx(without.table[at], abs=0.02)
    assert abs(found.unseen[entry]) > 0.05
