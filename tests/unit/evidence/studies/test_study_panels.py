"""Panels on colour images, flows and features of MobileNet: their forms, on made-up records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorveil.errors import DataNotFoundError, InputError, MissingDependencyError
from tensorveil.learning import Samples
from tensorveil.learning.loaders import Parts
from tensorveil_evidence.studies.catalogue import find_study
from tensorveil_evidence.studies.jobs import StudyRequest, make_studies
from tensorveil_evidence.studies.learning import cases, mobilenet, names
from tensorveil_evidence.studies.learning.sizes import FEATURES, ROUNDS

RNG = np.random.default_rng(0)


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the data sets: classes that differ in brightness, or in the level of the first feature."""

    def load(name: str) -> Parts:
        classes, shape = (3, (23,)) if name == "tor-vpn" else (10, (3, 32, 32))
        made = []
        for count in (120, 60):
            y = np.arange(count) % classes
            noise = RNG.normal(size=(count, *shape))
            x = noise + 8 if name == "tor-vpn" else np.clip(20 * y.reshape(-1, 1, 1, 1) + 30 + 9 * noise, 0, 255)
            if name == "tor-vpn":
                x[:, 0] += 6 * y
            made.append(Samples(x=x if name == "tor-vpn" else x.astype(np.uint8), y=y, classes=classes))
        return Parts(train=made[0], test=made[1], bounds=(-50.0, 50.0) if name == "tor-vpn" else (0.0, 255.0))

    monkeypatch.setattr(cases, "load_parts", load)


def sizes_of(table: Any, name: str) -> dict[str, Any]:
    return {**table[name], "train": 120, "test": 60, "epochs": 2}


def brightness(images: Any) -> Any:
    """In place of MobileNet: one of its features says how bright an image is."""
    out = np.full((len(images), mobilenet.SIZE), -0.9)
    level = np.rint((images.mean(axis=(1, 2, 3)) - 30) / 20).astype(int)
    out[np.arange(len(images)), np.clip(level, 0, 9)] = 1.0
    return out


def test_colour_images_are_features_of_the_public_network(records: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "extract_features", brightness)
    case = cases.colour_rounds("svhn-11k", 0, {**sizes_of(ROUNDS, "svhn-11k"), "epochs": 60})
    assert case.network.sizes == {"inputs": mobilenet.SIZE, "classes": 10, "hidden": [64]}
    rows = case.rows(case.test.x)
    assert rows.shape == (60, mobilenet.SIZE)
    assert rows.min() == pytest.approx(0.3)  # as the network gives them, from 0 to 6
    assert rows.max() == pytest.approx(6.0)
    assert case.small_rows(case.test.x).shape == (60, 64)
    clean = [row for row in case.lines() if row.method == names.CLEAN]
    assert (clean[0].value or 0.0) > 0.8
    (printed,) = [row for row in case.run_published("MVG", (1e4,)) if row.panel == names.NOMINAL]
    assert printed.status == "claimed"
    (adaptive,) = case.gradients("DPHSGD", (1e6,), names.NOMINAL)
    assert adaptive.status == "refuted"
    assert (adaptive.value or 0.0) > 0.8


def test_flows_have_the_papers_network_and_public_scales(records: None) -> None:
    case = cases.flow_rounds("tor-vpn", 0, {**sizes_of(ROUNDS, "tor-vpn"), "epochs": 8})
    assert case.network.sizes["hidden"] == [256, 256, 256, 128]
    assert case.network.sizes["dropout"] == 0.3
    np.testing.assert_allclose(case.rows(np.array([[8.0, 16.0, 0.0]])), [[0.0, 1.0, -1.0]])
    (moments,) = [row for row in case.run_ours(names.MOMENTS, (1000.0,)) if row.panel == names.RECORD]
    assert (moments.value or 0.0) > 0.6


def test_features_of_colour_images_are_those_of_the_public_network(
    records: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "extract_features", brightness)
    case, alone = cases.feature_case("cifar10-12k", 0, {**sizes_of(FEATURES, "cifar10-12k"), "epochs": 150})
    assert alone is None
    assert case.train.shape == (mobilenet.SIZE,)
    assert case.directions.dimension == FEATURES["cifar10-12k"]["keep"]
    told = case.directions(case.train.x)
    assert told.shape == (120, FEATURES["cifar10-12k"]["keep"])
    assert np.mean(case.learn(case.train) == case.test.y) > 0.8


def test_what_the_network_needs_is_named_and_all_leaves_the_studies_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(mobilenet, "find_weights", lambda: None)
    told = mobilenet.explain_missing()
    assert told in (mobilenet.NO_RUNTIME, mobilenet.NO_WEIGHTS)
    mobilenet.open_network.cache_clear()
    with pytest.raises((DataNotFoundError, MissingDependencyError)):
        mobilenet.open_network()
    assert find_study("yuan-figure-2-svhn").lacks() == told
    assert find_study("yuan-figure-2-mnist").lacks() is None
    with pytest.raises(InputError, match="holds no finished results of any study"):
        make_studies(StudyRequest(names=("all",), output=tmp_path, redraw=True))
    assert not list(tmp_path.iterdir())


def test_the_real_network_tells_images_apart() -> None:
    if mobilenet.explain_missing() is not None:
        pytest.skip("MobileNet's weights, or what runs them, are not here")
    images = np.stack([np.zeros((3, 32, 32)), RNG.integers(0, 256, (3, 32, 32)), np.full((3, 32, 32), 255)])
    found = mobilenet.extract_features(images.astype(np.uint8))
    assert found.shape == (3, mobilenet.SIZE)
    assert -1.0 <= found.min() < found.max() <= 1.0
    np.testing.assert_array_equal(found[1], mobilenet.extract_features(images[1:2].astype(np.uint8))[0])
    assert min(np.abs(found[a] - found[b]).max() for a, b in ((0, 1), (1, 2), (0, 2))) > 0.1
