"""LLAGP, DPHSGD, MVG layer by layer, noise on the last average, and the paper's sizes, on small networks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from tensorveil.learning import Network, Samples, record_gradients
from tensorveil.privacy.gdp import gdp_epsilon
from tensorveil_evidence.published import DPHSGD
from tensorveil_evidence.published.gradients import clipped_sum
from tensorveil_evidence.studies.catalogue import find_study, list_studies
from tensorveil_evidence.studies.learning import cases, descents, glove, names
from tensorveil_evidence.studies.learning.mechanisms import DELTA, ByLayer, worth
from tensorveil_evidence.studies.learning.sizes import PAPER_SIZES, ROUNDS
from tensorveil_evidence.studies.study import PAPER_SIZE

NETWORK = Network(kind="mlp", sizes={"inputs": 5, "classes": 3, "hidden": [4]})
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 5)), RNG.integers(3, size=30)


@pytest.mark.parametrize("clip", [0.05, 1.0, 100.0])
def test_sums_of_bounded_gradients_need_no_gradient_of_a_record(clip: float) -> None:
    network = NETWORK.make(1)
    found = descents.linear_gradients(network, X, Y)
    weights, offsets, last, shifts = record_gradients(network, X, Y)
    for each, w, b in zip(found, (weights, last), (offsets, shifts), strict=True):
        whole = np.concatenate([w, b[:, :, None]], axis=2).astype(np.float64)
        np.testing.assert_allclose(each.norms, np.linalg.norm(whole.reshape(30, -1), axis=1), rtol=1e-5)
        np.testing.assert_allclose(each.clipped_sum(clip), clipped_sum(whole, clip), atol=1e-5)


def test_curvatures_are_the_mean_size_of_the_hessians_diagonal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descents, "PROBES", 2000)
    network = NETWORK.make(1)
    layers = descents.linear_layers(network)
    inputs, labels = torch.from_numpy(X.astype(np.float32)), torch.from_numpy(Y)

    def loss(weight: Any, bias: Any) -> Any:
        hidden = torch.relu(layers[0](inputs))
        return torch.nn.functional.cross_entropy(hidden @ weight.T + bias, labels)

    differentiate: Any = torch.autograd.functional.hessian
    exact = differentiate(loss, (layers[1].weight.detach(), layers[1].bias.detach()))
    of_weights = torch.diagonal(exact[0][0].reshape(12, 12))
    diagonal = torch.cat([of_weights, torch.diagonal(exact[1][1])]).abs().mean()
    found = descents.curvatures(network, X, Y, np.random.default_rng(2))
    assert found[1] == pytest.approx(float(diagonal), rel=0.1)
    assert found[0] > 0


def test_thresholds_from_private_records_tell_of_one_record() -> None:
    """DPHSGD's noise is as large as its threshold: read off private records, it tells neighbours apart.

    One record of 40 more makes the layer flat at its own weights. With 1 as claimed for that step, the event that the
    noise is small must be at most e times as likely plus delta; it is nearly certain here and all but impossible there.
    """
    wide = Network(kind="mlp", sizes={"inputs": 400, "classes": 2})
    start, now = wide.make(0), wide.make(0)
    with torch.no_grad():
        now_layer = descents.linear_layers(now)[0]
        now_layer.weight.zero_()
        now_layer.weight[0, 0] = 20.0
    quiet = np.zeros((4, 400))
    loud = np.concatenate([quiet, np.full((1, 400), 5.0)])  # steep at the start, flat where its first feature counts
    clips = []
    for x in (quiet, loud):
        first, second = (
            descents.curvatures(each, x, np.zeros(len(x), dtype=np.int64), np.random.default_rng(3))
            for each in (start, now)
        )
        rule = DPHSGD(clip_norm=1.0, clip_range=(0.1, 2.0), noise_multiplier=2.0, layers=1, steps=1)
        clips.append(rule.thresholds(first, second)[0])
    assert clips[1] > 1.5 * clips[0]
    size, middle = 802, (2.0 * math.sqrt(clips[0] * clips[1])) ** 2
    # Noise beside the sum, whose norm is at most 5 thresholds, in the 801 directions across it.
    small_here = chi2(size - 1).cdf(size * middle / (2.0 * clips[0]) ** 2)
    small_there = chi2(size - 1).cdf(size * middle / (2.0 * clips[1]) ** 2)
    claimed = gdp_epsilon(0.5, DELTA)
    assert math.log((small_here - DELTA) / max(small_there, 1e-300)) > 5 * claimed


def test_gradients_learn_where_there_is_next_to_no_noise() -> None:
    y = np.arange(600) % 3
    train = Samples(x=np.eye(3)[y] + 0.1 * np.random.default_rng(1).normal(size=(600, 3)), y=y, classes=3)
    plan = Network(kind="mlp", sizes={"inputs": 3, "classes": 3, "hidden": [8]})
    for method in ("LLAGP", "DPHSGD", names.RELEASED):
        for budget, least in ((1e6, 0.9), (0.01, 0.0)):
            found = descents.descend(
                method, budget, network=plan.make(0), train=train, test=train.x, passes=30, seed=[1, 2]
            )  # fmt: skip
            assert np.mean(found == y) >= least
            assert (np.mean(found == y) > 0.85) == (budget > 1)


def test_mvg_by_layer_has_every_layers_form_and_shares_the_budget() -> None:
    forms = [(4, 5), (4,), (3, 4), (3,)]
    made = ByLayer.make(forms, 8.0, (-1.0, 1.0))
    assert [part.shape for part in made.parts] == forms
    assert sum(part.epsilon for part in made.parts) == pytest.approx(8.0)
    assert sum(part.delta for part in made.parts) == pytest.approx(DELTA)
    assert made.status("tensor") == "claimed"
    draws = np.stack([made.perturb(np.zeros(made.size), random_state=seed) for seed in range(2000)])
    at = 0
    for part in made.parts:
        deviation = draws[:, at : at + part.size].std()
        assert deviation == pytest.approx(part.sigma, rel=0.05)
        at += part.size
    mu = math.sqrt(sum(part.size * (2.0 / part.sigma) ** 2 * 3 for part in made.parts))
    assert worth(made, width=2.0, rounds=3).tensor == pytest.approx(gdp_epsilon(mu, DELTA))
    assert worth(made, width=2.0, rounds=3).entry < worth(made, width=2.0, rounds=3).tensor


def test_noise_on_the_last_average_alone_leaves_the_rounds_before_as_they_are() -> None:
    case = cases.image_rounds("digits", 0, {**ROUNDS["digits"], "train": 200})
    last = replace(case, last_only=True)
    numbers: dict[bool, list[int]] = {False: [], True: []}

    def count(each: Any) -> Any:
        def noised(mean: Any, number: int) -> Any:
            numbers[each.last_only].append(number)
            return mean

        return each._average(noised)

    np.testing.assert_array_equal(count(case), count(last))
    assert numbers == {False: [0, 1, 2], True: [2]}


def test_the_text_network_is_the_papers_and_its_vectors_are_not_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 100)).astype(np.float32)
    network = glove.GloveNetwork(vectors=vectors, hidden=256, layers=2).make(0)
    assert sum(p.numel() for p in network.parameters()) == 2_311_170
    small = glove.GloveNetwork(vectors=vectors, hidden=4, layers=1).make(0).eval()
    words = torch.tensor([[1, 2, 0, 0], [1, 2, 99, -1]])
    both = small(words)
    torch.testing.assert_close(both[0], both[1])  # words that are not known count as padding
    assert not torch.allclose(small(torch.tensor([[2, 1, 0, 0]])), both[:1])


def test_missing_vectors_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glove, "find_vectors", lambda: None)
    assert find_study("yuan-figure-3-imdb").lacks() == glove.NO_VECTORS


def test_every_learning_study_has_the_papers_size() -> None:
    with_it = {name for name, study in list_studies().items() if study.paper_size is not None}
    assert with_it == {name for name in list_studies() if name.startswith("yuan-figure")}
    for name in with_it:
        study, larger = list_studies()[name], find_study(name + PAPER_SIZE)
        assert larger.name == name + PAPER_SIZE
        assert larger.settings["sizes"]["train"] > study.settings["sizes"]["train"]
        assert larger.settings["sizes"]["epochs"] >= study.settings["sizes"]["epochs"]
        assert larger.name not in list_studies()
    flows = find_study("yuan-figure-3-darknet" + PAPER_SIZE)
    assert flows.dataset == "darknet" == PAPER_SIZES["III", "tor-vpn"][0]
    assert {name: flows.settings["sizes"][name] for name in ("train", "test", "epochs", "rate")} == {
        "train": 113_184, "test": 28_297, "epochs": 25, "rate": 0.001
    }  # fmt: skip


def test_images_at_the_papers_size_go_through_convolutions() -> None:
    sizes = {"train": 60, "test": 30, "keep": 4, "hidden": 8, "width": 4, "epochs": 1}
    case = cases.image_case("digits", 0, sizes)
    assert set(np.unique(case.learn(case.train))) <= set(range(10))
