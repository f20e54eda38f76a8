"""Types I and II on digits, from perturbing to the score and the guarantee."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from tensorveil.errors import InputError
from tensorveil.learning import (
    Directions,
    Network,
    Samples,
    Training,
    fit_discriminant,
    learn_from_directions,
    majority_f1,
    moments_of_reports,
    predict,
    principal_directions,
    report,
    train,
    train_extractor,
    weighted_f1,
)
from tensorveil.learning.discriminant import Moments
from tensorveil.local import DTLDP, Basis, PrivUnit
from tensorveil.noise import SecureSource, SeededSource
from tests.chance import register
from tests.unit.learning.learning_cases import digits, directions


def score(model: Any, test: Any) -> Any:
    return weighted_f1(test.y, model.predict(test.x), test.classes)


def test_type_one_learns_from_directions_and_says_what_it_promises() -> None:
    data = digits()
    chance = majority_f1(data.train.y, data.test.y, 10)
    found = {}
    for epsilon in (2.0, 8.0, 32.0):
        model, promise = learn_from_directions(data.train, directions(), epsilon=epsilon, source=SeededSource(1))
        found[epsilon] = score(model, data.test)
        assert promise.epsilon == epsilon
        assert promise.delta == 0
        assert str(promise.unit) == "tensor"
        assert not promise.private
        assert "seed" in promise.sentence()
    assert chance < 0.05
    assert found[2.0] > 0.3
    assert found[8.0] > 0.75
    assert found[32.0] > 0.82


def test_the_secure_source_makes_a_private_guarantee_that_names_its_condition() -> None:
    data = digits()
    _, promise = learn_from_directions(data.train, directions(8), epsilon=1.0, source=SecureSource())
    assert promise.private
    assert "classes are public" in promise.sentence()


def test_without_noise_to_speak_of_the_discriminant_is_that_of_clean_rows() -> None:
    data = digits()
    rows = directions()(data.train.x)
    clean = fit_discriminant(moments_of_reports(rows, data.train.y, 10), directions())
    peer = LinearDiscriminantAnalysis().fit(rows, data.train.y).predict(directions()(data.test.x))
    assert score(clean, data.test) > weighted_f1(data.test.y, peer, 10) > 0.9


def test_a_network_learns_from_reports_of_any_mechanism() -> None:
    data = digits()
    mechanism = DTLDP(shape=(8, 8), epsilon=40.0, unit="local entry", bounds=(-1, 1), points=17)
    seen = report(data.train, mechanism, source=SeededSource(2))
    assert str(seen.guarantee.unit) == "local entry"
    plan = Network(kind="mlp", sizes={"inputs": 64, "classes": 10, "hidden": [32]})
    network = train(plan.make(0), seen.samples, Training(epochs=15, batch=32), seed=0)
    assert weighted_f1(data.test.y, predict(network, data.test.x), 10) > 0.85


def test_type_two_features_are_public_bounded_and_learnt_from() -> None:
    data = digits()
    public, private = data.train.take(slice(0, 400)), data.train.take(slice(400, None))
    extractor = train_extractor(public, Training(epochs=6, batch=32, rate=0.003), seed=0, width=4)
    features = extractor(private.x)
    assert features.shape == (len(private), extractor.size)
    assert np.abs(features).max() < 1
    told = principal_directions(extractor(public.x), 16)
    model, promise = learn_from_directions(
        private.with_x(features), told, epsilon=8.0, source=SeededSource(3)
    )  # fmt: skip
    assert str(promise.unit) == "tensor"
    assert weighted_f1(data.test.y, model.predict(extractor(data.test.x)), 10) > 0.6


def test_directions_have_length_one_and_forget_lengths() -> None:
    told = directions(10)
    x = np.random.default_rng(0).uniform(-1, 1, (50, 8, 8))
    rows = told(x)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(told(-1 + 0.3 * (x + 1)), rows, atol=1e-12)
    assert told(np.full((1, 8, 8), -1.0)).tolist() == [[1.0] + [0.0] * 9]
    again = Directions.from_json(told.to_json())
    assert np.array_equal(again(x), rows)


def test_principal_directions_are_those_of_the_public_tensors() -> None:
    rng = np.random.default_rng(1)
    public = 5 + rng.normal(size=(200, 6)) * np.array([9, 4, 1, 0.1, 0.1, 0.1])
    told = principal_directions(public, 2)
    assert abs(told.basis.matrices[0][0, 0]) > 0.98
    with pytest.raises(InputError, match="keep must be between"):
        principal_directions(public, 7)


def test_moments_are_unbiased_under_the_noise_of_privunit() -> None:
    """Second moments of reports, less the noise's own, are those of the rows: PrivUnit's noise is the same all around.

    Along the row itself its variance differs a little from that across. The test is on the sum of squares of all
    deviations of the mean second moment, each known to be normal by the central limit.
    """
    level = register("moments of reports")
    k, n = 6, 200_000
    row = np.zeros(k)
    row[0] = 1.0
    rows = np.broadcast_to(row, (n, k))
    reports = PrivUnit(shape=(k,), epsilon=8.0, unit="tensor", radius=1.0).perturb(rows, source=SeededSource(5))
    found = moments_of_reports(reports, np.arange(n) % 2, 2)
    means = found.means.mean(axis=0)
    z = (means - row) / np.sqrt(found.mean_errors[0] / 2)
    assert stats.chi2.sf(float(z @ z), k) > level
    assert stats.chi2.sf(float(((z + 0.2 / np.sqrt(found.mean_errors[0] / 2)) ** 2).sum()), k) < level
    # 0.05: how far the variance along the row may differ from that across, for this epsilon and dimension.
    assert np.abs(found.seconds.mean(axis=0) - np.outer(row, row)).max() < 0.05


def test_reports_are_checked() -> None:
    data = Samples(x=np.zeros((4, 3)), y=[0, 1, 0, 1], classes=2)
    mechanism = PrivUnit(shape=(3,), epsilon=1.0, unit="tensor", radius=1.0)
    with pytest.raises(InputError, match="one tensor for every tensor"):
        report(data, mechanism, encode=lambda x: x[:2])
    with pytest.raises(InputError, match="at least two of every class"):
        moments_of_reports(np.zeros((3, 2)), [0, 0, 1], 2)
    with pytest.raises(InputError, match="centre must be"):
        Directions(basis=Basis.dct((2,), 1), centre=[1.0, 2.0, 3.0])


def test_shrinking_keeps_what_noise_could_not_have_made() -> None:
    """With a huge error the covariances are one multiple of the identity; with none, each class has its own."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 3000)
    scales = np.where(y[:, None] == 0, [[1.0, 0.2, 0.2]], [[0.2, 0.2, 1.0]])
    rows = rng.normal(size=(6000, 3)) * scales + [3.0, 0, 0]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    moments = moments_of_reports(rows, y, 2)
    sharp = fit_discriminant(moments)
    assert np.abs(sharp.covariances[0] - sharp.covariances[1]).max() > 0.03
    from dataclasses import replace

    blurred = fit_discriminant(replace(moments, second_errors=np.array([1e6, 1e6])))
    for covariance in blurred.covariances:
        np.testing.assert_allclose(covariance, covariance[0, 0] * np.eye(3), atol=1e-12)


def test_classes_of_unequal_size_are_shrunk_alike() -> None:
    """A rare class, of which noise hides more, gets no broader covariance than the others for that."""
    k, noise = 12, np.random.default_rng(4).normal(size=(2, 12, 12))
    errors = np.array([1e-5, 1e-3])
    means = np.zeros((2, k))
    means[:, 0] = [0.5, -0.5]
    spread = np.diag(np.linspace(1.0, 0.01, k))
    spread *= 0.75 / np.trace(spread)
    noisy = spread + np.sqrt(errors)[:, None, None] * (noise + noise.transpose(0, 2, 1)) / np.sqrt(2)
    moments = Moments(
        shares=np.array([0.9, 0.1]), means=means, seconds=noisy + np.einsum("ci,cj->cij", means, means),
        mean_errors=errors, second_errors=errors,
    )  # fmt: skip
    first, second = fit_discriminant(moments).covariances
    np.testing.assert_array_equal(first, second)
