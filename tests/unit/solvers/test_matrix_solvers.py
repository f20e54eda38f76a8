"""Matrix solvers: equal to their dense textbook forms, and good at what they are for."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.linalg import aslinearoperator

import tensorveil as tv
from tensorveil.solvers.altmin import AltMin, solve_altmin
from tensorveil.solvers.bayes import Bayes, laplace_precisions, solve_bayes
from tensorveil.solvers.dlnm_qr import DLNMQR, shrinkage, solve_dlnm_qr
from tensorveil.solvers.sor import SOR, find_cliff, solve_sor
from tensorveil.solvers.task import Baseline, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor.entries import MemoryEntries
from tests import dense_matrix as dense


def planted(shape: Any = (60, 45), rank: int = 3, share: float = 0.5, noise: float = 0.1, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    mask = rng.random(shape) < share
    Y = np.where(mask, truth + noise * rng.standard_normal(shape), 0.0)
    # Solvers scale values to unit variance; the dense forms get them scaled.
    return truth, Y / np.sqrt(np.mean(Y[mask] ** 2)), mask


def solve(
    solver: Any,
    settings: Any,
    Y: Any,
    mask: Any,
    rank: Any,
    threads: int = 1,
    dtype: Any = np.float64,
    seed: int = 0,
    baseline: Baseline = "none",
) -> Any:
    columns = np.ascontiguousarray(np.argwhere(mask).T.astype(np.int32))
    task = Task(
        entries=MemoryEntries(columns=columns, values=Y[mask].astype(dtype), shape=Y.shape),
        ranks=(rank, rank), core=False, baseline=baseline, dtype=np.dtype(dtype), threads=threads, seed=seed,
    )  # fmt: skip
    watch = Watch(iterations=settings.sweeps, tol=settings.tol, patience=5)
    solution = solver(task, settings, watch)
    return solution.factors[0] @ solution.factors[1].T, watch.history


@pytest.mark.parametrize("shape", [(60, 45), (50, 50), (20, 90)])
@pytest.mark.parametrize("penalty", [None, 0.02, 0.5, 100.0])
@pytest.mark.parametrize("multiplier", [False, True])
@pytest.mark.parametrize("as_given", [False, True])
def test_dlnm_qr_is_the_dense_iteration(shape: tuple[int, ...], penalty: Any, multiplier: bool, as_given: bool) -> None:
    _, Y, mask = planted(shape)
    settings = DLNMQR(
        sweeps=15, tol=-1.0, penalty=penalty, growth=1.1, multiplier=multiplier, as_given=as_given
    )  # fmt: skip
    got, history = solve(solve_dlnm_qr, settings, Y, mask, 4)
    want = dense.dlnm_qr(Y, mask, 4, 15, penalty, 1.1, multiplier)
    if shape[0] < shape[1] and not as_given:  # a wide matrix is transposed first
        want = dense.dlnm_qr(Y.T, mask.T, 4, 15, penalty, 1.1, multiplier).T
    np.testing.assert_allclose(got, want, atol=1e-10)
    assert history[-1].train_error == pytest.approx(np.sqrt(np.mean((Y - want)[mask] ** 2)), rel=1e-10)


def test_both_forms_of_dlnm_qr_end_at_the_same_fit_where_there_is_little_noise() -> None:
    _, Y, mask = planted((90, 70), share=0.6)
    plain, lagged = (
        solve(solve_dlnm_qr, DLNMQR(sweeps=400, tol=-1.0, growth=1.3, multiplier=multiplier), Y, mask, 3)[0]
        for multiplier in (False, True)
    )
    np.testing.assert_allclose(plain, lagged, atol=1e-6)


def test_wide_matrices_and_their_transposes_end_at_the_same_fit() -> None:
    _, Y, mask = planted((60, 100), share=0.6)
    fits = [solve(solve_dlnm_qr, DLNMQR(sweeps=600, tol=-1.0, as_given=g), Y, mask, 3)[0] for g in (False, True)]
    np.testing.assert_allclose(fits[0], fits[1], atol=1e-6)


@pytest.mark.parametrize("shape", [(60, 45), (20, 90)])
@pytest.mark.parametrize("sweeps", [1, 4, 25, 60])
def test_sor_is_the_dense_iteration(shape: tuple[int, ...], sweeps: Any) -> None:
    """Enough sweeps for relaxation to grow, to overshoot and to be reset."""
    _, Y, mask = planted(shape, share=0.35)
    got, _ = solve(solve_sor, SOR(sweeps=sweeps, tol=-1.0), Y, mask, 3)
    want = dense.sor(Y, mask, 3, sweeps)
    if shape[0] < shape[1]:
        want = dense.sor(Y.T, mask.T, 3, sweeps).T
    np.testing.assert_allclose(got, want, atol=1e-9)


def test_sor_undoes_sweeps_that_overshoot() -> None:
    _, Y, mask = planted(share=0.35)
    _, history = solve(solve_sor, SOR(sweeps=60, tol=-1.0), Y, mask, 3)
    errors = np.array([record.train_error for record in history])
    assert np.all(np.diff(errors) <= 0)
    assert np.any(np.diff(errors[:40]) == 0), "no sweep was undone, so the test shows nothing"


def test_altmin_is_least_squares_in_turns() -> None:
    _, Y, mask = planted(share=0.6)
    start = np.linalg.svd(Y)[0][:, :3]
    got, _ = solve(solve_altmin, AltMin(sweeps=40, tol=-1.0, regularization=1e-12), Y, mask, 3)
    np.testing.assert_allclose(got, dense.altmin(Y, mask, 3, 40, start), atol=1e-6)


@pytest.mark.parametrize(
    ("solver", "settings"),
    [(solve_dlnm_qr, DLNMQR()), (solve_sor, SOR()), (solve_altmin, AltMin()), (solve_bayes, Bayes())],
    ids=["dlnm_qr", "sor", "altmin", "bayes"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solvers_recover_and_do_not_depend_on_threads(solver: Any, settings: Any, dtype: Any) -> None:
    if solver is solve_bayes and dtype == np.float32:
        pytest.skip("bayes fits in float64")
    truth, Y, mask = planted((120, 90), noise=0.0)
    truth *= np.sqrt(np.mean(Y[mask] ** 2) / np.mean(truth[mask] ** 2))
    one, history = solve(solver, settings, Y, mask, 3, dtype=dtype)
    assert np.linalg.norm(one - truth) < 0.01 * np.linalg.norm(truth)
    assert len(history) < settings.sweeps
    np.testing.assert_array_equal(solve(solver, settings, Y, mask, 3, threads=2, dtype=dtype)[0], one)


def test_the_three_methods_agree_where_noise_is_small() -> None:
    """They minimise the same squares: what the published comparison of errors measured was what it kept."""
    _, Y, mask = planted((150, 150), rank=4, share=0.4, noise=0.2)
    fits = [
        solve(solver, settings, Y, mask, 4)[0]
        for solver, settings in (
            (solve_dlnm_qr, DLNMQR(sweeps=2000, tol=1e-12)), (solve_sor, SOR(sweeps=2000, tol=1e-12)),
            (solve_altmin, AltMin(sweeps=500, tol=1e-12)),
        )
    ]  # fmt: skip
    for fit in fits[1:]:
        assert np.linalg.norm(fit - fits[0]) < 1e-4 * np.linalg.norm(fits[0])


def test_shrinkage() -> None:
    np.testing.assert_allclose(shrinkage(np.array([4.0, 1.0, 0.5, 0.0]), 1.0), [0.75, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("diagonal", "rank"),
    [
        ([9.0, 8.0, 7.5, 0.01, 0.009, 0.008], 3),
        ([9.0, 8.0, 7.0, 6.0, 5.0, 4.0], None),
        ([9.0, 8.0, 0.0, 0.0], 2),
        ([9.0, 0.1], None),
    ],
)
def test_cliff(diagonal: Any, rank: Any) -> None:
    assert find_cliff(np.array(diagonal)) == rank


@pytest.mark.parametrize(
    ("solver", "rank", "noise"),
    [("bayes", 1, 0.0), ("bayes", 1, 0.1), ("bayes", 4, 0.0), ("bayes", 4, 1.0), ("sor", 5, 0.1), ("sor", 5, 1.0)],
)
def test_automatic_rank(solver: Any, rank: Any, noise: Any) -> None:
    rng = np.random.default_rng(rank)
    truth = rng.standard_normal((400, rank)) @ rng.standard_normal((rank, 300))
    mask = rng.random(truth.shape) < 0.4
    observed = tv.ObservedTensor.from_dense(truth + noise * rng.standard_normal(truth.shape), mask=mask)
    # The cliff that "sor" looks for is only there if it starts from not much more than the rank.
    most = 32 if solver == "bayes" else 10
    fitted = tv.LowRankMatrix("auto", solver=solver, max_rank=most, baseline="none", random_state=0).fit(observed)
    assert fitted.rank_ == rank
    known = tv.LowRankMatrix(rank, solver=solver, baseline="none", random_state=0).fit(observed)
    error, best = (np.linalg.norm(fit.dense() - truth) for fit in (fitted, known))
    assert error <= 1.05 * best + 1e-2 * np.linalg.norm(truth)


def test_rotation_leaves_the_model_as_it_is() -> None:
    """Turning the components changes neither means nor second moments of what is predicted."""
    from tensorveil.kernels.posterior import random_posterior, unpack_triangle
    from tensorveil.solvers import bayes

    rng = np.random.default_rng(0)
    posterior = random_posterior((9, 7), (4, 4), 0.5, rng)
    state = bayes._State(
        posterior=posterior, core=None, center=[rng.standard_normal(4) for _ in range(2)], alpha=[np.ones(4)] * 2,
        beta=None, variance=1.0,
    )  # fmt: skip

    def seen() -> Any:
        means = posterior.factor(0) @ posterior.factor(1).T
        seconds = [unpack_triangle(posterior.second[posterior.rows(m)], 4) for m in (0, 1)]
        centers = [state.center[0] @ posterior.factor(1).T, posterior.factor(0) @ state.center[1]]
        return means, np.einsum("ipq,jpq->ij", *seconds), *centers

    before = seen()
    bayes._rotate(state)
    for got, want in zip(seen(), before, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-10)
    moments = [posterior.moment(m) for m in (0, 1)]
    np.testing.assert_allclose(moments[0], moments[1], atol=1e-10)
    np.testing.assert_allclose(moments[0], np.diag(np.diag(moments[0])), atol=1e-10)


@pytest.mark.parametrize(("scale", "variance"), [(1.0, 3.0), (0.1, 1.0), (2.0, 8.5)])
def test_precisions_are_those_of_laplace_plus_gaussian_noise(scale: Any, variance: Any) -> None:
    """-p'/(r p), with the density p by numerical convolution."""
    precisions = laplace_precisions(scale, variance)
    rest = variance - 2 * scale**2
    u = np.linspace(-60, 60, 400_001) * np.sqrt(variance)
    for place in (50, 120, 400):
        r = place * precisions.step
        parts = np.exp(-np.abs(u) / scale - (r - u) ** 2 / (2 * rest))
        assert precisions.table[place] == pytest.approx(np.sum(parts * (r - u)) / (rest * r * np.sum(parts)), rel=1e-4)


def test_precisions_in_the_limits() -> None:
    gaussian = laplace_precisions(1e-3, 1.0)
    np.testing.assert_allclose(gaussian.table[:300], 1.0, rtol=1e-3)
    pure = laplace_precisions(1.0, 2.0)
    np.testing.assert_allclose(pure.table[100:], 1 / (pure.step * np.arange(100, 2001)), rtol=1e-3)
    assert np.isfinite(pure.table).all()
    assert np.all(np.diff(pure.table) <= 0)


@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_knowing_that_noise_is_laplace_pays(scale: Any) -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((300, 4)) @ rng.standard_normal((4, 250))
    noisy = truth + rng.laplace(0.0, scale, truth.shape)
    observed = tv.ObservedTensor.from_dense(noisy, mask=rng.random(truth.shape) < 0.3)
    errors = [
        np.linalg.norm(
            tv.LowRankMatrix(4, baseline="none", noise_variance=2 * scale**2, noise_law=law, random_state=0)
            .fit(observed)
            .dense()
            - truth
        )
        for law in ("laplace", "gaussian")
    ]
    assert errors[0] < 0.92 * errors[1]


class TestCSVDQR:
    def matrix(self, rank: int = 4) -> Any:
        rng = np.random.default_rng(3)
        return rng.standard_normal((30, rank)) @ rng.standard_normal((rank, 20))

    def test_one_step_is_the_textbook_step(self) -> None:
        X = np.random.default_rng(0).standard_normal((30, 20))
        found = tv.csvd_qr(X, 5, steps=1)
        L, D, R = dense.csvd_qr(X, np.eye(5, 20))
        np.testing.assert_allclose(found.product(), L @ D @ R, atol=1e-10)
        np.testing.assert_allclose(found.L.T @ found.L, np.eye(5), atol=1e-12)
        np.testing.assert_allclose(found.R @ found.R.T, np.eye(5), atol=1e-12)
        assert np.allclose(found.D, np.tril(found.D))
        assert found.error == pytest.approx(np.linalg.norm(X - found.product()), rel=1e-10)

    def test_many_steps_give_the_leading_singular_values(self) -> None:
        X = np.random.default_rng(0).standard_normal((30, 20))
        X += 5 * self.matrix()
        found = tv.csvd_qr(X, 4, steps=60)
        U, s, V = np.linalg.svd(X)
        np.testing.assert_allclose(found.product(), (U[:, :4] * s[:4]) @ V[:4], atol=1e-8)
        np.testing.assert_allclose(np.linalg.svd(found.D)[1], s[:4], rtol=1e-10)

    @pytest.mark.parametrize("kind", [np.asarray, coo_array, aslinearoperator], ids=["dense", "sparse", "operator"])
    def test_kinds_of_matrices(self, kind: Any) -> None:
        X = self.matrix()
        found = tv.csvd_qr(kind(X), 4, steps=1)
        np.testing.assert_allclose(found.product(), X, atol=1e-10)
        assert (found.error is None) == (kind is aslinearoperator)

    def test_it_stops_at_the_tolerance(self) -> None:
        assert tv.csvd_qr(self.matrix(), 4, steps=50, tol=1e-4).steps == 1
        assert tv.csvd_qr(self.matrix(), 2, steps=7, tol=1e-4).steps == 7

    def test_degenerate_matrices(self) -> None:
        zero = tv.csvd_qr(np.zeros((5, 4)), 2)
        assert not zero.product().any()
        np.testing.assert_allclose(tv.csvd_qr(np.ones((5, 4)), 3).product(), np.ones((5, 4)), atol=1e-12)
        whole = np.arange(12).reshape(4, 3)
        np.testing.assert_allclose(tv.csvd_qr(whole, 3).product(), whole, atol=1e-12)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"rank": 21}, r"rank must be a whole number from 1 to the smaller side, 20; got 21"),
            ({"rank": 0}, "rank must be a whole number from 1"),
            ({"rank": True}, "rank must be a whole number from 1"),
            ({"rank": 2, "steps": 0}, "steps must be a whole number of at least 1"),
            ({"rank": 2, "start": np.eye(3, 20)}, r"start must have shape \(rank, columns\), here \(2, 20\)"),
        ],
    )
    def test_bad_arguments(self, options: Any, message: Any) -> None:
        with pytest.raises(tv.InputError, match=message):
            tv.csvd_qr(self.matrix(), **options)

    def test_not_finite(self) -> None:
        with pytest.raises(tv.InputError, match="matrix must be finite"):
            tv.csvd_qr(np.full((4, 4), np.nan), 2)
