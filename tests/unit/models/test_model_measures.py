"""Measures against their definitions, written out."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorveil as tv
from tensorveil.models import measures

SCORED = st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(1, 3)), min_size=2, max_size=25).filter(
    lambda rows: len({row[0] for row in rows}) == 2
)


@settings(max_examples=40, deadline=None)
@given(rows=SCORED)
def test_auc_counts_pairs(rows: Any) -> None:
    truth, scores, weights = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    won, total = 0.0, 0.0
    for i, j in itertools.product(range(len(rows)), repeat=2):
        if truth[i] and not truth[j]:
            weight = weights[i] * weights[j]
            won += weight * ((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
            total += weight
    assert measures.auc(truth, scores, weights) == pytest.approx(won / total)


@settings(max_examples=40, deadline=None)
@given(rows=SCORED)
def test_average_precision_adds_up_over_thresholds(rows: Any) -> None:
    truth, scores, weights = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    found, last = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        above = scores >= threshold
        recall = np.sum(weights[above] * truth[above]) / np.sum(weights * truth)
        found += (recall - last) * np.sum(weights[above] * truth[above]) / np.sum(weights[above])
        last = recall
    assert measures.average_precision(truth, scores, weights) == pytest.approx(found)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 12))
def test_rankings_are_those_of_sorting_everything(seed: Any, k: Any) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.permutation(9).astype(float)
    positives = rng.choice(9, rng.integers(1, 9), replace=False)
    order = np.argsort(-scores)[:k]
    hits = [place for place, candidate in enumerate(order) if candidate in positives]
    best = min(k, len(positives))
    assert measures.recall_at(scores, positives, k) == pytest.approx(len(hits) / best)
    gain = sum(1 / np.log2(place + 2) for place in hits) / sum(1 / np.log2(place + 2) for place in range(best))
    assert measures.ndcg_at(scores, positives, k) == pytest.approx(gain)
    others = [score for candidate, score in enumerate(scores) if candidate not in positives]
    ranks = [1 + sum(score > scores[p] for score in others) for p in positives]
    assert measures.rank_of(scores, positives).tolist() == ranks


def test_calibration_compares_means_by_weight() -> None:
    predicted = np.linspace(0, 1, 1000)
    found = measures.calibration((predicted > 0.5).astype(float), predicted, bins=2)
    assert found.found == pytest.approx((0.0, 1.0), abs=1e-9)
    assert found.predicted == pytest.approx((0.25, 0.75), abs=1e-3)
    assert found.error == pytest.approx(0.25, abs=1e-3)
    assert measures.calibration(predicted, predicted).error == pytest.approx(0.0, abs=1e-12)


def test_a_model_is_evaluated_over_all_cells_but_those_excluded() -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((20, 12)) < 0.3).astype(float)
    tensor = tv.ObservedTensor(np.argwhere(x), np.ones(int(x.sum())), shape=x.shape, unlisted="zero")
    train, test = tv.random_split(tensor, 0.3, random_state=0)
    model = tv.LowRankMatrix(2, loss="bernoulli", random_state=0, sweeps=10).fit(train).model_
    found = tv.evaluate(model, test, exclude=train, along="mode_1", k=3)
    free = np.ones(x.shape, bool)
    free[tuple(train.columns)] = False
    probability, truth = model.dense()[free], x[free]
    assert found.cells == free.sum()
    assert not found.sampled
    deviance = -2 * np.mean(truth * np.log(probability) + (1 - truth) * np.log(1 - probability))
    assert found.deviance == pytest.approx(deviance)
    assert found.auc == pytest.approx(measures.auc(truth, probability))
    assert found.rmse == pytest.approx(np.sqrt(np.mean((probability - truth) ** 2)))
    assert (found.mean_predicted, found.mean_found) == pytest.approx((probability.mean(), truth.mean()))
    recalls, ranks = [], []
    for row in range(20):
        held = test.columns[1][test.columns[0] == row]
        candidates = np.where(free[row], model.dense()[row], -np.inf)
        if len(held):
            recalls.append(np.isin(np.argsort(-candidates)[:3], held).sum() / min(3, len(held)))
            rest = np.delete(candidates, held)
            ranks += [1 + np.sum(rest > candidates[each]) for each in held]
    ranking = found.ranking
    assert ranking is not None
    assert (ranking.rows, ranking.links) == (len(recalls), len(ranks))
    assert ranking.recall == pytest.approx(np.mean(recalls))
    assert ranking.mrr == pytest.approx(np.mean(1 / np.array(ranks)))
    assert ranking.hits == pytest.approx(np.mean(np.array(ranks) <= 3))
    with pytest.raises(tv.InputError, match="held_out must have the shape of the model"):
        tv.evaluate(model, tv.ObservedTensor([[0, 1]], [1.0], shape=(2, 2)))


def test_large_tensors_are_evaluated_on_a_sample_that_stands_for_all() -> None:
    rng = np.random.default_rng(1)
    columns = np.stack([rng.integers(0, size, 5000) for size in (3000, 2000)])
    tensor = tv.ObservedTensor(columns.T, np.ones(5000), (3000, 2000), duplicates="first", unlisted="zero")
    model = tv.CPModel(factors=(np.full((3000, 1), 0.01), np.full((2000, 1), 0.1)))
    found = tv.evaluate(model, tensor)
    assert found.sampled
    assert found.mean_found == pytest.approx(tensor.n_entries / 6e6, rel=1e-6)
    assert found.mean_predicted == pytest.approx(0.001)


@pytest.mark.parametrize("loss", ["poisson", "bernoulli", "gamma"])
def test_saved_models_keep_link_and_loss(tmp_path: Any, loss: Any) -> None:
    rng = np.random.default_rng(2)
    values = {"poisson": rng.poisson(2.0, 24), "bernoulli": rng.integers(0, 2, 24), "gamma": rng.gamma(2, 1, 24)}[loss]
    tensor = tv.ObservedTensor(np.argwhere(np.ones((4, 3, 2))), values.astype(float))
    for nonnegative in (False, True):
        model = tv.CP(2, loss=loss, nonnegative=nonnegative, random_state=0, sweeps=5).fit(tensor).model_
        model.save(tmp_path / "model.npz")
        again = tv.load_model(tmp_path / "model.npz")
        assert (again.link, again.loss) == (model.link, loss)
        assert np.array_equal(again.dense(), model.dense())
    own = tv.Loss(
        name="own",
        value=lambda x, m: (m - x) ** 2,
        gradient=lambda x, m: 2 * (m - x),
        link=type(model.link)(name="cube", mean=lambda m: m**3, linear=np.cbrt),
    )
    fitted = tv.CP(1, loss=own, random_state=0, sweeps=3).fit(tensor)
    with pytest.raises(tv.InputError, match="a model with the link 'cube' cannot be saved"):
        fitted.save(tmp_path / "own.npz")
