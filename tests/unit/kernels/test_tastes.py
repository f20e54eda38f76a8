"""What rounds compute of users: the bits of plain loops, whatever stands side by side, and whoever else is there."""

from typing import Any

import numpy as np
import pytest

from tensorveil.kernels import lanes, ridge, tastes
from tests.unit.kernels import taste_reference as reference

SIZES = (1, 7, 8, 9, 30, ridge.CHUNK + 5)


class Case:
    """Users of several sizes, and a public state with modes of these sizes, traits and bases."""

    def __init__(self, shape: Any, traits: int, ranks: Any, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.pointers = np.append(0, np.cumsum(SIZES))
        n = int(self.pointers[-1])
        self.columns = np.stack([rng.integers(0, size, n) for size in shape]).astype(np.int32)
        self.values, self.weights, self.offset = rng.normal(size=n), rng.uniform(0.5, 1, len(SIZES)), 0.3
        self.biases = [rng.normal(size=size) for size in shape]
        self.traits = [rng.normal(size=(size, traits)) for size in shape]
        self.bases = [rng.normal(size=(size, rank)) for size, rank in zip(shape, ranks, strict=True) if rank]
        self.plain = 1 + traits * len(shape)
        self.tastes = self.plain + (int(np.prod(ranks)) if self.bases else 0)
        root = rng.normal(size=(self.tastes, self.tastes)) / np.sqrt(self.tastes)
        self.P, self.mean = root @ root.T + np.eye(self.tastes), rng.normal(size=self.tastes)
        starts = np.cumsum(shape) - np.array(shape)
        parts = [slice(start, start + size) for start, size in zip(starts, shape, strict=True)]
        self.public = tastes.Public(
            offset=self.offset,
            table=tastes.lay_out_table(
                np.concatenate(self.biases), np.concatenate(self.traits), list(zip(parts, self.bases, strict=False))
            ),
            starts=starts,
            traits=traits,
            ranks=np.array(ranks, dtype=np.int64),
            tastes=self.tastes,
            prior=ridge.lay_out_prior(self.P, self.mean),
        )

    def users(self) -> Any:
        """Yield every user's number, entries, design and target."""
        for i in range(len(SIZES)):
            part = slice(self.pointers[i], self.pointers[i + 1])
            yield i, part, *self.design(part)

    def design(self, part: Any) -> Any:
        public = (self.offset, self.biases, self.traits, self.bases)
        return reference.make_design(self.columns[:, part], self.values[part], *public)

    def sweep(self, mode: int) -> Any:
        out = tastes.leave_one_out(self.pointers, self.columns, self.values, self.weights, self.public, mode)
        return out[:, : self.bases[mode].shape[1]]


CASES = {
    "nothing known": ((5,), 0, (0,)),
    "traits": ((5, 4), 2, (0, 0)),
    "one mode": ((6,), 2, (5,)),
    "two modes": ((6, 4), 2, (3, 2)),
    "as wide as registers": ((6, 4), 1, (7, 3)),
    "three modes": ((6, 4, 3), 2, (3, 2, 1)),
}
LATENT = [name for name, case in CASES.items() if case[2][0]]


@pytest.mark.parametrize("name", CASES)
def test_residuals(name: str) -> None:
    case = Case(*CASES[name])
    out = np.empty(len(case.values))
    tastes.find_residuals(case.pointers, case.columns, case.values, case.public, out)
    for _, part, X, y in case.users():
        w = np.linalg.solve(X.T @ X + case.P, X.T @ y + case.P @ case.mean)
        np.testing.assert_allclose(out[part], y - X @ w, rtol=1e-8, atol=1e-10)
        assert np.array_equal(out[part], reference.find_residuals(X, y, case.P, case.mean))


@pytest.mark.parametrize("name", LATENT)
def test_contributions_to_a_sweep(name: str) -> None:
    case = Case(*CASES[name])
    for mode in range(len(case.bases)):
        out = case.sweep(mode)
        for i, part, X, y in case.users():
            rows = [basis[column] for basis, column in zip(case.bases, case.columns[:, part], strict=True)]
            want = reference.leave_one_out(X, y, case.P, case.mean, case.plain, rows, mode, case.weights[i])
            assert np.array_equal(out[part], want)


def test_leaving_one_out_is_solving_without_it() -> None:
    case = Case(*CASES["two modes"])
    out = case.sweep(1)
    _, part, X, y = list(case.users())[3]
    for p in range(len(y)):
        rest = np.arange(len(y)) != p
        w = np.linalg.solve(X[rest].T @ X[rest] + case.P, X[rest].T @ y[rest] + case.P @ case.mean)
        latent = (w[case.plain :] / np.linalg.norm(w[case.plain :])).reshape(3, 2)
        first = case.bases[0][case.columns[0, part][p]]
        want = case.weights[3] * (y[p] - X[p, : case.plain] @ w[: case.plain]) * (first @ latent)
        np.testing.assert_allclose(out[part][p], want, rtol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_moments_of_standardised_tastes(name: str) -> None:
    case, spread = Case(*CASES[name]), 0.7
    d, root = case.tastes, np.linalg.cholesky(case.P)
    given = case.public._replace(prior=ridge.lay_out_prior(spread * np.eye(d), np.zeros(d)))
    found = [np.empty((len(SIZES), width)) for width in (d, d * (d + 1) // 2, 2)]
    tastes.taste_moments(case.pointers, case.columns, case.values, given, case.mean, root, spread, *found)
    for i, _, X, y in case.users():
        Z = X @ root
        inverse = np.linalg.inv(Z.T @ Z + spread * np.eye(d))
        np.testing.assert_allclose(found[0][i], inverse @ Z.T @ (y - X @ case.mean), rtol=1e-7, atol=1e-9)
        for got, want in zip(found, reference.taste_moments(X, y, case.mean, root, spread), strict=True):
            assert np.array_equal(got[i], want)


def test_ridge_regression_of_every_user() -> None:
    case = Case(*CASES["two modes"])
    X, y = case.design(slice(None))
    out = np.empty((len(SIZES), case.tastes))
    tastes.ridge_users(case.pointers, X, y, case.public.prior, out)
    for i, _, X, y in case.users():
        assert np.array_equal(out[i], reference.solve(X, y, case.P, case.mean)[1])


@pytest.mark.parametrize("wild", [np.nan, np.inf, 1e300, -1e300])
def test_nobody_else_makes_a_difference(wild: float) -> None:
    case = Case(*CASES["two modes"])
    alone = case.sweep(0)
    case.values[case.pointers[3] : case.pointers[4]] = wild
    beside = case.sweep(0)
    same = np.ones(len(alone), dtype=bool)
    same[case.pointers[3] : case.pointers[4]] = False
    assert np.array_equal(alone[same], beside[same])


def test_a_design_that_explains_nothing_has_no_direction() -> None:
    case = Case(*CASES["two modes"])
    case.public.table[:, 4:] = 0.0  # no basis
    independent = ridge.lay_out_prior(np.eye(case.tastes), np.zeros(case.tastes))
    case.public = case.public._replace(prior=independent)
    assert not case.sweep(0).any()  # tastes of zero length stay zero


def test_tables_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        tastes.lay_out_table(np.zeros(5), np.zeros((4, 2)), [])
    with pytest.raises(ValueError, match="broadcast"):
        tastes.lay_out_table(np.zeros(5), np.zeros((5, 2)), [(slice(0, 5), np.zeros((4, 3)))])


def test_widths_are_whole_vectors() -> None:
    assert [lanes.pad_width(count) for count in (0, 1, 8, 9, 16)] == [0, 8, 8, 16, 16]
