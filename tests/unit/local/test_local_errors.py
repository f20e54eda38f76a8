"""Means and errors of reports against their closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tensorveil.local import DTLDP, Basis, Hybrid, Piecewise, PrivUnit, Staircase, choose, project
from tensorveil.local.concave import concave_at
from tensorveil.local.picking import pick_entries
from tensorveil.noise import SeededSource
from tensorveil.noise.windows import window_law
from tensorveil.privacy.exact import exactly
from tests.chance import assert_mean, assert_second_moment
from tests.unit.local.local_cases import ALL, ENTRYWISE, WHOLE, make, projected

N = 20_000


def draws(mechanism: Any, x: Any, n: int, seed: int) -> Any:
    return mechanism.perturb(np.broadcast_to(x, (n, *mechanism.shape)), source=SeededSource(seed))


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize(("d", "epsilon"), [(1, 1.0), (1, 4.0), (5, 2.0), (40, 8.0)])
def test_reports_are_unbiased_and_err_as_predicted(name: str, d: Any, epsilon: float) -> None:
    mechanism = make(name, shape=(d,), epsilon=epsilon)
    x = np.linspace(-0.83, 0.71, d) if d > 1 else np.array([0.37])
    reports = draws(mechanism, x, N, d)
    label = f"{name} {d} {epsilon}"
    # One direction stands for the vector: the mean along x, and the length of the error.
    along = reports @ x / (x @ x)
    assert_mean(f"mean of {label}", along, 1.0, float(along.std()))
    assert_second_moment(f"error of {label}", np.linalg.norm(reports - x, axis=1), mechanism.mse(x))


@pytest.mark.parametrize("name", list(ENTRYWISE))
def test_single_entries_have_their_own_budget(name: str) -> None:
    mechanism = make(name, shape=(3,), epsilon=2.0, unit="local entry")
    alone = make(name, shape=(1,), epsilon=2.0, coordinates=None)
    x = np.array([-0.5, 0.0, 0.9])
    assert mechanism.mse(x) == pytest.approx(sum(alone.mse([value]) for value in x))
    reports = draws(mechanism, x, N, 3)
    assert_second_moment(f"entry {name}", reports[:, 2] - 0.9, alone.mse([0.9]))


@pytest.mark.parametrize("name", list(ALL))
def test_no_tensor_is_worse_than_the_worst(name: str) -> None:
    mechanism = make(name, shape=(4,), epsilon=3.0)
    rng = np.random.default_rng(1)
    tensors = np.concatenate([rng.uniform(-1, 1, (200, 4)), rng.choice([-1.0, 1.0], (20, 4)), np.zeros((1, 4))])
    assert mechanism.mse(tensors).max() <= mechanism.worst_mse * (1 + 1e-9)
    assert mechanism.mse(mechanism.worst_tensor()) == pytest.approx(mechanism.worst_mse, rel=1e-6)


def test_errors_in_a_ball_are_bounded_and_reached() -> None:
    for kind in (Staircase, Piecewise, Hybrid):
        mechanism = kind(shape=(16,), epsilon=4.0, unit="tensor", bounds=(-1, 1))
        worst = mechanism.worst_mse_in_ball(1.0)
        rng = np.random.default_rng(0)
        tensors = rng.normal(size=(300, 16))
        tensors /= np.linalg.norm(tensors, axis=1, keepdims=True)
        tensors = np.concatenate([tensors, np.eye(16), np.full((1, 16), 0.25), np.zeros((1, 16))])
        assert worst * 0.9 <= mechanism.mse(tensors).max() <= worst * (1 + 1e-9)
    assert concave_at(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.0, 4.0]), 1.0) == 2.0


def test_published_formulas_hold() -> None:
    """Piecewise and one bit, Wang et al. 2019; Laplace; PrivUnit and Gaussian noise at d = 784."""
    for epsilon in (1.0, 3.0):
        h = math.exp(epsilon / 2)
        law = window_law(exactly(epsilon), 1 << 14, round(2**14 / h))
        for t in (0.0, 0.5, 1.0):
            printed = t * t / (h - 1) + (h + 3) / (3 * (h - 1) ** 2)
            assert law.variance(np.array(t * 2**13)) / 2**26 == pytest.approx(printed, rel=1e-3)
        ours = Piecewise(shape=(1,), epsilon=epsilon, unit="tensor", bounds=(-1, 1), coordinates=None)
        assert 0.7 * printed < ours.worst_mse <= printed * (1 + 1e-3)
    bit = Hybrid(shape=(1,), epsilon=0.5, unit="tensor", bounds=(-1, 1))
    assert bit.mse([0.5]) == pytest.approx(1 / math.tanh(0.25) ** 2 - 0.25)
    laplace = DTLDP(shape=(1,), epsilon=1.0, unit="tensor", bounds=(0, 1), points=4097)
    assert laplace.mse([0.0]) == pytest.approx(2.0, rel=1e-6)
    for epsilon, unit_ball in [(1.0, 4959), (4.0, 341), (16.0, 37.2)]:
        ball = PrivUnit(shape=(784,), epsilon=epsilon, unit="tensor", radius=1.0)
        assert ball.mse(np.eye(784)[0]) == pytest.approx(unit_ball, rel=5e-3)
        gaussian = make("ExactGaussian", shape=(784,), epsilon=epsilon, bounds=None, radius=1.0)
        assert gaussian.worst_mse == pytest.approx({1.0: 43650, 4.0: 3666, 16.0: 372}[epsilon], rel=2e-3)


def test_picked_entries_are_different_and_all_sets_are_alike() -> None:
    found = pick_entries(30_000, 5, 3, SeededSource(0))
    assert all(len(set(row)) == 3 for row in found[:200].tolist())
    sets = np.sort(found, axis=1) @ np.array([100, 10, 1])
    counts = np.unique(sets, return_counts=True)[1]
    from tests.chance import LEVEL, fit_pvalue, register

    assert len(counts) == 10
    register("picked sets")
    assert fit_pvalue(counts, np.full(10, 0.1)) > LEVEL
    assert fit_pvalue(counts, np.array([0.12, *[0.88 / 9] * 9])) < LEVEL


def test_projection_keeps_what_the_basis_spans_and_loses_the_rest() -> None:
    mechanism = projected(epsilon=6.0)
    smooth = np.add.outer(np.linspace(0.5, 1.5, 4), np.zeros(4))
    kept = mechanism.basis.synthesise(mechanism.basis.analyse((smooth - 1).reshape(1, -1))).reshape(4, 4) + 1
    reports = draws(mechanism, smooth, N, 9)
    along = ((reports - 1) * (kept - 1)).sum(axis=(1, 2)) / ((kept - 1) ** 2).sum()
    assert_mean("projected mean", along, 1.0, float(along.std()))
    errors = np.sqrt(((reports - smooth) ** 2).sum(axis=(1, 2)))
    assert_second_moment("projected error", errors, mechanism.mse(smooth))
    assert mechanism.mse(smooth) <= mechanism.worst_mse


@pytest.mark.parametrize("made", [Basis.dct((4, 6), 24), Basis.haar((8, 6), 48), Basis.own(np.eye(6)[:4], (2, 3))])
def test_bases_are_orthonormal_and_ranges_are_never_exceeded(made: Any) -> None:
    entries = int(np.prod(made.shape))
    columns = made.analyse(np.eye(entries))
    assert np.allclose(columns.T @ columns, np.eye(made.keep), atol=1e-12)
    assert np.allclose(made.analyse(made.synthesise(np.eye(made.keep))), np.eye(made.keep), atol=1e-12)
    ranges = made.ranges(0.5)
    for k, coefficient in enumerate(columns.T):
        corner = 0.5 * np.sign(coefficient)  # the tensor within bounds that reaches furthest
        reached = made.analyse(corner[None])[0, k]
        assert ranges[k] * (1 - 1e-6) <= reached <= ranges[k]
    assert np.linalg.norm(made.analyse(np.full((1, entries), 0.5))) <= made.radius(0.5)
    assert Basis.from_settings(made.settings(), made.shape).analyse(np.eye(entries)) == pytest.approx(columns)


def test_coarse_coefficients_come_first() -> None:
    grid = np.linspace(0, 1, 16)
    image = np.exp(-8 * ((grid[:, None] - 0.3) ** 2 + (grid[None, :] - 0.6) ** 2)) + np.outer(grid, grid)
    for kind in (Basis.dct, Basis.haar):
        lost = [
            np.linalg.norm(image.reshape(1, -1) - basis.synthesise(basis.analyse(image.reshape(1, -1))))
            for basis in (kind((16, 16), keep) for keep in (1, 8, 64, 256))
        ]
        assert lost == sorted(lost, reverse=True)
        assert lost[2] < 0.2 * lost[0]
        assert lost[3] < 1e-10


@pytest.mark.parametrize("inner", [PrivUnit, Hybrid])
def test_a_few_coefficients_take_far_less_noise(inner: Any) -> None:
    whole = choose((16, 16), 4.0, "tensor", bounds=(0, 1)).candidates[0].worst_mse
    few = project(Basis.dct((16, 16), 8), inner, epsilon=4.0, bounds=(0, 1))
    assert few.noise_mse < whole


@pytest.mark.parametrize("name", list(WHOLE))
def test_a_declared_radius_is_a_ball(name: str) -> None:
    mechanism = make(name, shape=(3,), bounds=None, radius=2.0)
    x = np.array([1.0, -1.0, 0.5])
    errors = np.linalg.norm(draws(mechanism, x, N, 4) - x, axis=1)
    assert_second_moment(f"radius {name}", errors, mechanism.mse(x))
