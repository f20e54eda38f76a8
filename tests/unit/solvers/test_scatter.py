"""Values of which some are near and the others anywhere: their precisions, and fits that know it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorveil.solvers.bayes import Bayes, Scatter, scatter_precisions, solve_bayes
from tensorveil.solvers.task import Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor.entries import MemoryEntries

SHAPE = (30, 25, 20)


def make_scatter(inside: float = 0.8, **more: Any) -> Scatter:
    places = np.linspace(-3, 3, 61)
    masses = np.exp(-0.5 * places**2)
    facts = {"near": 0.01, "span": 12.0, "shift": np.zeros(1), "places": places, "masses": masses / masses.sum()}
    return Scatter(inside=inside, **(facts | more))


def test_precisions_are_chances_to_be_near_over_the_variance() -> None:
    precisions = scatter_precisions(make_scatter(), 1.01)
    assert precisions.logs is not None
    chances = precisions.table * 1.01
    assert chances.max() <= 1
    assert chances[0] > 0.9
    assert chances[-1] < 0.01  # 40 standard deviations away
    assert np.all(np.diff(chances) <= 1e-12)
    # The density adds up to the chance to be near, on both sides, where the others are spread thinly.
    r = precisions.step * np.arange(len(precisions.table))
    density = np.exp(precisions.logs) - 0.2 / 12.0
    assert 2 * np.trapezoid(density, r) == pytest.approx(0.8, rel=0.02)


def test_without_stray_values_all_count() -> None:
    precisions = scatter_precisions(make_scatter(inside=1.0), 1.0)
    np.testing.assert_allclose(precisions.table[:150], 1.0, rtol=1e-6)
    assert np.isfinite(precisions.table).all()


def test_ones_among_zeros_are_not_taken_for_stray_values() -> None:
    rare = make_scatter(inside=0.99, near=1e-6, span=1.2, places=np.array([-0.1, 0.9]), masses=np.array([0.9, 0.1]))
    precisions = scatter_precisions(rare, 0.02)  # a fit that explains most of the variance
    at = int(0.9 / precisions.step)
    assert precisions.table[at] * 0.02 > 0.7


def test_knowing_which_values_stray_pays() -> None:
    rng = np.random.default_rng(0)
    columns = np.argwhere(rng.random(SHAPE) < 0.5).T.astype(np.int32)
    factors = [rng.standard_normal((size, 2)) for size in SHAPE]
    truth = np.sum(
        [np.prod([f[:, k][c] for f, c in zip(factors, columns, strict=True)], axis=0) for k in (0, 1)], axis=0
    )
    inside, span = 0.7, 16.0
    stray = rng.random(len(truth)) > inside
    answers = np.where(
        stray, rng.uniform(-0.5 * span, 0.5 * span, len(truth)), truth + 0.2 * rng.standard_normal(len(truth))
    )
    values = answers / inside  # unbiased on average
    noise = float(np.var(values - truth))
    places = np.quantile(truth, np.linspace(0.005, 0.995, 100))
    scatter = make_scatter(
        inside, near=0.04, span=span, shift=answers - values, places=places, masses=np.full(100, 0.01)
    )
    errors = []
    for law in (None, scatter):
        task = Task(
            entries=MemoryEntries(columns=columns, values=values, shape=SHAPE), ranks=(2, 2, 2), core=False,
            baseline="none", dtype=np.dtype(np.float64), threads=1, seed=0,
        )  # fmt: skip
        settings = Bayes(sweeps=60, noise_variance=noise, scatter=law, start="spectral")
        found = solve_bayes(task, settings, Watch(iterations=60, tol=settings.tol, patience=1))
        predicted = found.offset + np.sum(
            [np.prod([f[:, k][c] for f, c in zip(found.factors, columns, strict=True)], axis=0) for k in (0, 1)], axis=0
        )
        errors.append(float(np.sqrt(np.mean((predicted - truth) ** 2))))
    assert errors[1] < 0.4 * errors[0]
