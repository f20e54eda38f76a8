"""Guo's matrix completion as printed: its noise, its claim, what it refuses, and the law its tables show."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special
from sklearn.base import clone

import tensorveil as tv
from tensorveil.privacy import Guarantee
from tensorveil_evidence.published import MatrixPerturbation, ReleaseRefusedError, explain
from tensorveil_evidence.published.noise import uniform_times_exponential, uniform_times_exponential_density
from tests import chance
from tests import dense_matrix as dense

COUNT = 40_000


def distribution(x: Any) -> Any:
    """The recipe's distribution function at scale 1, by integrating its density in closed form."""
    u = 2 * np.abs(x)
    half = 0.5 * (u * special.exp1(np.maximum(u, 1e-300)) + 1 - np.exp(-u))
    return 0.5 + np.sign(x) * half


def test_the_recipe_follows_the_density_derived_for_it() -> None:
    sample = uniform_times_exponential(np.random.default_rng(1), COUNT, 0.7)
    edges = np.concatenate([-np.geomspace(1.5, 1e-3, 20), np.geomspace(1e-3, 1.5, 20)])
    counts = np.bincount(np.searchsorted(edges, sample), minlength=len(edges) + 1)

    def law(factor: Any) -> Any:
        return np.diff(np.concatenate([[0.0], distribution(edges / (0.7 * factor)), [1.0]]))

    chance.assert_fits("recipe of matrix noise", counts, law)
    chance.assert_second_moment("recipe of matrix noise, variance", sample, 0.7**2 / 6)


def test_density_and_variance() -> None:
    total = 2 * integrate.quad(lambda x: uniform_times_exponential_density(x, 0.7), 0, np.inf)[0]
    second = 2 * integrate.quad(lambda x: x**2 * uniform_times_exponential_density(x, 0.7), 0, np.inf)[0]
    assert total == pytest.approx(1.0, abs=1e-9)
    assert second == pytest.approx(0.7**2 / 6, rel=1e-9)
    points = np.array([0.01, 0.3, 2.0])
    steps = 1e-6 * points
    slope = (distribution(points + steps) - distribution(points - steps)) / (2 * steps)
    np.testing.assert_allclose(slope, uniform_times_exponential_density(points, 1.0), rtol=1e-6)


def test_no_finite_epsilon_holds() -> None:
    """The loss between values 0 and 1 at nominal epsilon 1: unbounded at the value itself, twice epsilon far away."""

    def loss(x: Any) -> Any:
        return np.log(uniform_times_exponential_density(x, 1.0) / uniform_times_exponential_density(x - 1.0, 1.0))

    near = loss(10.0 ** -np.array([1.0, 10.0, 100.0, 300.0]))
    assert np.all(np.diff(near) > 0.9)
    assert near[-1] > 8.0
    assert loss(-300.0) == pytest.approx(2.0, abs=0.01)


def test_the_delta_that_epsilon_one_would_need() -> None:
    """The smallest delta with (1, delta): the integral of what exceeds e times the other density."""

    def excess(x: Any) -> Any:
        return max(
            float(uniform_times_exponential_density(x, 1.0) - np.e * uniform_times_exponential_density(x - 1.0, 1.0)),
            0.0,
        )

    delta = integrate.quad(excess, -40, 0, limit=200)[0] + integrate.quad(excess, 0, 1, limit=200, points=[0.5])[0]
    assert delta == pytest.approx(0.751, abs=0.001)


@pytest.fixture(scope="module")
def planted() -> Any:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((90, 3)) @ rng.standard_normal((3, 80))
    mask = rng.random(truth.shape) < 0.5
    return truth, mask, tv.ObservedTensor.from_dense(truth, mask=mask)


def fit(tensor: Any, solver: str = "dlnm_qr", epsilon: float = 1.0, **options: Any) -> Any:
    settings = {"sweeps": 40, "random_state": 3, "verbose": False, **options}
    return MatrixPerturbation(3, epsilon=epsilon, solver=solver, **settings).fit(tensor)


@pytest.mark.parametrize("solver", ["dlnm_qr", "dlnm_qr, multiplier", "sor"])
def test_it_is_the_dense_method_on_perturbed_values(planted: Any, solver: Any) -> None:
    truth, mask, tensor = planted
    kind, _, more = solver.partition(", ")
    found = fit(tensor, kind, epsilon=2.0, sensitivity=3.0, **({"multiplier": True} if more else {}))
    rng = np.random.default_rng(3)
    rng.integers(2**62)
    noise = uniform_times_exponential(np.random.default_rng(int(rng.integers(2**62))), tensor.n_entries, 1.5)
    np.testing.assert_allclose(found.perturbed_, tensor.values + noise)
    Y = np.zeros(truth.shape)
    Y[mask] = found.perturbed_
    scale = np.sqrt(np.mean(found.perturbed_**2))
    if kind == "dlnm_qr":
        want = dense.dlnm_qr(Y / scale, mask, 3, 40, None, 1.1, bool(more))
    else:
        want = dense.sor(Y / scale, mask, 3, 40)
    np.testing.assert_allclose(found.model_.dense(), scale * want, atol=1e-8)
    kept = found.complete(tensor)
    np.testing.assert_array_equal(kept[mask], found.perturbed_)
    np.testing.assert_allclose(kept[~mask], (scale * want)[~mask], atol=1e-8)
    assert found.n_iter_ == 40


@pytest.mark.parametrize("solver", ["dlnm_qr", "sor", "altmin"])
def test_errors_are_proportional_to_one_over_epsilon(planted: Any, solver: Any) -> None:
    truth, _, tensor = planted
    errors = [np.linalg.norm(fit(tensor, solver, e, sweeps=200).model_.dense() - truth) * e for e in (2.0, 5.0, 10.0)]
    assert max(errors) < 1.1 * min(errors)


def test_what_it_says_and_refuses(planted: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensor = planted[2]
    found = fit(tensor, epsilon=2.5, verbose=True)
    guarantee = found.guarantee_
    assert (guarantee.status, guarantee.private, guarantee.epsilon) == ("refuted", False, 2.5)
    text = explain(guarantee)
    assert text.startswith("NOT PRIVATE")
    for words in ("Claimed: epsilon-differential privacy by Laplace noise", "no finite epsilon", "E1(2|x|/beta)/beta"):
        assert words in text
    assert "would have been" not in text
    assert text in capsys.readouterr().err
    assert Guarantee.from_json(json.dumps(guarantee.to_json())) == guarantee
    for write in (found.save, found.write_release, found.model_.save):
        with pytest.raises(ReleaseRefusedError, match="write no release"):
            write(tmp_path / "release")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be a finite number above 0"),
        ({"sensitivity": 0.0}, "sensitivity must be a finite number above 0"),
        ({"solver": "bayes"}, 'solver must be one of "dlnm_qr", "sor", "altmin"'),
        ({"solver": "sor", "multiplier": True}, 'multiplier must be True or False, and belongs to solver="dlnm_qr"'),
        ({"sweeps": 0}, "sweeps must be a whole number of at least 1"),
    ],
)
def test_bad_arguments(planted: Any, options: Any, message: Any) -> None:
    with pytest.raises(tv.InputError, match=message):
        fit(planted[2], **options)
    with pytest.raises(tv.InputError, match="rank must be at most the smaller side"):
        MatrixPerturbation(81, epsilon=1.0).fit(planted[2])


def test_clone() -> None:
    original = MatrixPerturbation(4, epsilon=1.0, solver="sor")
    assert clone(original).get_params() == original.get_params()
