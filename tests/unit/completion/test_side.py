"""Tables of features: the prior against dense posteriors, what it is good for, and wrong tables."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tensorveil as tv
from tensorveil.completion.side_table import read_features
from tensorveil.errors import InputError
from tensorveil.kernels.coupled import RowSums
from tensorveil.kernels.posterior import Posterior
from tensorveil.solvers.priors.side import Side

SIZE, RANK, KNOWN, VARIANCE = 6, 2, 3, 0.7
ALPHA, CENTER = np.array([2.0, 0.5]), np.array([0.3, -1.0])


def some_side(rng: np.random.Generator) -> Side:
    return Side(
        features=rng.standard_normal((SIZE, KNOWN)),
        weights=rng.standard_normal((KNOWN, RANK)),
        gamma=np.array([1.0, 2.0, 5.0]),
        spread=np.eye(KNOWN),
    )


def some_posterior(rng: np.random.Generator) -> tuple[Posterior, Any, Any]:
    f = rng.standard_normal((SIZE, RANK))
    roots = 0.3 * rng.standard_normal((SIZE, RANK, RANK))
    spread = roots @ roots.transpose(0, 2, 1)
    low, high = np.tril_indices(RANK)
    second = spread + f[:, :, None] * f[:, None]
    posterior = Posterior(
        shape=(SIZE,), ranks=(RANK,), starts=np.zeros(1, np.int64), mean=f, second=second[:, low, high].copy(),
        bias=np.zeros(SIZE), bias_variance=np.zeros(SIZE),
    )  # fmt: skip
    return posterior, f, spread


def test_rows_are_the_gaussian_posterior_around_what_features_say() -> None:
    rng = np.random.default_rng(0)
    side, designs = some_side(rng), [rng.standard_normal((n, RANK)) for n in (4, 0, 3, 5, 1, 2)]
    values, old = [rng.standard_normal(len(d)) for d in designs], rng.standard_normal(SIZE)
    sums = RowSums(
        gram=np.stack([d.T @ d for d in designs]),
        target=np.stack([d.T @ y for d, y in zip(designs, values, strict=True)]),
        design=np.stack([d.sum(axis=0) for d in designs]),
        value=np.array([y.sum() for y in values]),
        count=np.array([float(len(d)) for d in designs]),
    )
    f, second, b, b_var, logdet = side.solve(sums, CENTER, ALPHA, VARIANCE, 3.0, old)
    total = 0.0
    for i, (d, y) in enumerate(zip(designs, values, strict=True)):
        precision = d.T @ d / VARIANCE + np.diag(ALPHA)
        pull = ALPHA * (CENTER + side.features[i] @ side.weights)
        np.testing.assert_allclose(f[i], np.linalg.solve(precision, d.T @ (y - old[i]) / VARIANCE + pull))
        np.testing.assert_allclose(second[i] - np.outer(f[i], f[i]), np.linalg.inv(precision), atol=1e-12)
        np.testing.assert_allclose(b[i], b_var[i] * np.sum(y - d @ f[i]) / VARIANCE)
        total -= np.linalg.slogdet(precision)[1]
    assert logdet == pytest.approx(total)


def test_evidence_is_the_expected_log_density_of_rows_and_map() -> None:
    rng = np.random.default_rng(1)
    side, (posterior, f, spread) = some_side(rng), some_posterior(rng)
    side.learn(posterior, 0, ALPHA)
    X, expected = side.features, 0.0
    for r in range(RANK):
        off, covariance = f[:, r] - CENTER[r] - X @ side.weights[:, r], side.spread / ALPHA[r]
        square = off @ off + spread[:, r, r].sum() + np.trace(X.T @ X @ covariance)
        expected += 0.5 * (SIZE * np.log(ALPHA[r]) - ALPHA[r] * square + SIZE)
        moment = side.weights[:, r] ** 2 + np.diag(covariance)
        expected += 0.5 * np.sum(np.log(side.gamma * ALPHA[r]) - side.gamma * ALPHA[r] * moment)
        expected += 0.5 * (np.linalg.slogdet(covariance)[1] + KNOWN)
    assert side.evidence(posterior, 0, CENTER, ALPHA) == pytest.approx(expected)


def films(seed: int = 0, noise: float = 0.3) -> tuple[tv.ObservedTensor, Any, pa.Table, Any]:
    """Users by films by weeks; films follow from a genre and a number; the last 10 films have no entries."""
    rng = np.random.default_rng(seed)
    genre, age = rng.integers(0, 3, 60), rng.standard_normal(60)
    rows = np.eye(3)[genre] * 1.5 + np.outer(age, [0.5, -0.5, 1.0]) + 0.1 * rng.standard_normal((60, 3))
    truth = np.einsum("ir,jr,kr->ijk", rng.standard_normal((40, 3)), rows, rng.uniform(0.8, 1.2, (4, 3)))
    seen = rng.random(truth.shape) < 0.06
    seen[:, 50:] = False
    values = truth[seen] + noise * rng.standard_normal(int(seen.sum()))
    modes = ("user", tv.Mode("film", [f"film {j}" for j in range(60)]), "week")
    tensor = tv.ObservedTensor(np.argwhere(seen), values, shape=truth.shape, modes=modes)
    names = ["comedy", "drama", "war"]
    table = pa.table({"film": [f"film {j}" for j in range(60)], "genre": [names[g] for g in genre], "age": age})
    return tensor, truth, table, ~seen


def error(model: Any, truth: Any, cells: Any) -> float:
    return float(np.sqrt(np.mean((model.dense(clip=False) - truth)[cells] ** 2)))


@pytest.mark.parametrize(("solver", "left"), [("bayes", 0.8), ("als", 0.95)])
def test_features_help_and_rows_without_entries_follow_from_them(solver: str, left: float) -> None:
    tensor, truth, table, hidden = films()
    plain, sided = (
        tv.CP(4, solver=solver, random_state=0, threads=1, side=side).fit(tensor) for side in (None, {"film": table})
    )
    assert error(sided, truth, hidden) < left * error(plain, truth, hidden)
    cold = np.s_[:, 50:]
    assert error(sided, truth, cold) < left * error(plain, truth, cold)
    assert error(plain, truth, cold) > 0.9 * truth[cold].std()
    if solver == "bayes":
        bounds = [record.bound for record in sided.history_ if record.bound is not None][4:]
        assert all(b >= a - 1e-5 * abs(a) for a, b in pairwise(bounds))


def test_tucker_takes_features() -> None:
    tensor, truth, table, _ = films()
    sided = tv.Tucker(3, random_state=0, threads=1, side={"film": table}).fit(tensor)
    cold = np.s_[:, 50:]
    assert error(sided, truth, cold) < 0.7 * truth[cold].std()


def test_random_features_cost_next_to_nothing() -> None:
    plain_error, sided_error = 0.0, 0.0
    for seed in range(3):
        tensor, truth, _, hidden = films(seed)
        hidden[:, 50:] = False
        rng = np.random.default_rng(seed)
        noise = {f"x{k}": rng.standard_normal(60) for k in range(5)}
        table = pa.table({"film": [f"film {j}" for j in range(60)], **noise})
        for side in (None, {"film": table}):
            found = error(tv.CP(4, random_state=0, threads=1, side=side).fit(tensor), truth, hidden)
            plain_error, sided_error = plain_error + found * (side is None), sided_error + found * (side is not None)
    assert sided_error < 1.02 * plain_error


def test_columns_become_numbers() -> None:
    modes = ("user", tv.Mode("film", ["a", "b", "c"]))
    tensor = tv.ObservedTensor([[0, 0], [1, 2]], [1.0, 2.0], shape=(2, 3), modes=modes)
    table = pa.table(
        {
            "film": ["c", "a", "unheard of"],
            "year": [1990, 2000, 7],
            "genres": ["War|Drama", None, "War"],
            "kinds": [["x", "y"], ["x"], []],
            "colour": [True, False, None],
        }
    )
    features = read_features(table, tensor, 1)
    assert np.allclose(features.mean(axis=0), 0)
    assert np.allclose((features**2).mean(axis=0), 1)
    assert not features[1].any()  # of film b nothing is told
    np.testing.assert_allclose(features[:, 0], np.sqrt(1.5) * np.array([1, 0, -1]))
    many = pa.table({"film": ["a", "b", "c"], "title": ["the end", "the sea", "sea end"]})
    assert read_features(many, tensor, 1).shape == (3, 3)
    long = tv.ObservedTensor([[0, 0]], [1.0], shape=(1, 100), modes=("user", "film"))
    titles = pa.table({"film": list(range(100)), "title": [f"part {j}" for j in range(100)]})
    assert 1 < read_features(titles, long, 1).shape[1] <= 64


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"movie": ["a"], "year": [1]}, "column of this name"),
        ({"film": ["a", "a"], "year": [1, 2]}, "twice"),
        ({"film": ["a", None], "year": [1, 2]}, "label of mode 'film' is missing"),
        ({"film": ["x", "y"], "year": [1, 2]}, "no label that mode"),
        ({"film": [0, 1], "year": [1, 2]}, "no label that mode"),
        ({"film": ["a", "b"]}, "no column of features"),
        ({"film": ["a", "b"], "year": [5, 5]}, "differs between"),
        ({"film": ["a", "b"], "year": pa.array([None, None], pa.float64())}, "differs between"),
        ({"film": ["a", "b"], "raw": [b"1", b"2"]}, "must hold numbers"),
    ],
)
def test_wrong_tables_are_refused(table: Any, message: str) -> None:
    modes = ("user", tv.Mode("film", ["a", "b", "c"]))
    tensor = tv.ObservedTensor([[0, 0], [1, 2]], [1.0, 2.0], shape=(2, 3), modes=modes)
    with pytest.raises(InputError, match=message):
        tv.CP(1, side={"film": pa.table(table)}).fit(tensor)


def test_where_features_have_no_meaning() -> None:
    tensor, _, table, _ = films()
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"side": table}, "must map modes"),
        ({"side": {"film": table, 1: table}}, "twice"),
        ({"side": {"film": table}, "smooth": {"film": "walk"}}, "both smooth and"),
        ({"side": {"film": table}, "solver": "sgd"}, "no meaning for solver"),
    )
    for settings, message in cases:
        with pytest.raises(InputError, match=message):
            tv.CP(2, **settings).fit(tensor)
