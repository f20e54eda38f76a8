"""The parameter ``smooth``: what it refuses, in which order rows are neighbours, and what a pair of modes adds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.errors import InputError

NAMES = ("sensor", "day", "hour")
PAIR = ("day", "hour")


def jams(seed: int = 0) -> tuple[tv.ObservedTensor, Any]:
    """Low rank plus events that last: an autoregression along day x hour in every sensor, one of them unruly."""
    rng = np.random.default_rng(seed)
    low = np.einsum("ir,jr,kr->ijk", *(rng.uniform(0.5, 1.5, (size, 2)) for size in (8, 10, 24)))
    events = np.zeros((8, 240))
    for t in range(1, 240):
        events[:, t] = 0.9 * events[:, t - 1] + np.sqrt(1 - 0.81) * rng.standard_normal(8)
    events[3] *= 5
    truth = low + 0.5 * events.reshape(low.shape)
    seen = rng.random(truth.shape) < 0.5
    values = truth[seen] + 0.1 * rng.standard_normal(int(seen.sum()))
    return tv.ObservedTensor(np.argwhere(seen), values, shape=truth.shape, modes=NAMES), truth


def rmse(model: Any, truth: Any) -> float:
    return float(np.sqrt(np.mean((model.dense(clip=False) - truth) ** 2)))


def fit(tensor: Any, smooth: Any, **more: Any) -> tv.CP:
    return tv.CP(2, random_state=0, threads=1, smooth=smooth, **more).fit(tensor)


@pytest.mark.parametrize("more", [{}, {"baseline": "biases"}, {"solver": "als"}], ids=["bayes", "biases", "als"])
def test_a_pair_of_modes_adds_what_lasts(more: Any) -> None:
    tensor, truth = jams()
    plain, both = fit(tensor, None, **more), fit(tensor, {PAIR: "walk"}, **more)
    assert rmse(both, truth) < 0.75 * rmse(plain, truth)
    assert both.model_.remainder is not None
    assert plain.model_.remainder is None


def test_what_lines_share_is_known_where_one_was_not_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    event = rng.standard_normal((5, 24))  # independent from time to time: no line tells of its own gaps
    truth = rng.uniform(1.0, 2.0, (12, 1, 1)) * event
    seen = np.broadcast_to((rng.random((12, 5)) < 0.7)[:, :, None], truth.shape)
    values = truth[seen] + 0.1 * rng.standard_normal(np.count_nonzero(seen))
    tensor = tv.ObservedTensor(np.argwhere(seen), values, shape=truth.shape, modes=("sensor", "day", "hour"))

    def error() -> float:
        model = tv.CP(1, smooth={PAIR: "walk"}, sweeps=10, threads=1, random_state=0).fit(tensor)
        return float(np.sqrt(np.mean((model.dense(clip=False) - truth)[~seen] ** 2)))

    found = error()
    monkeypatch.setattr("tensorveil.solvers.priors.series._EVENTS", 0)
    assert found < 0.3 * error()


def test_several_starts_share_one_look() -> None:
    tensor, truth = jams()
    one = fit(tensor, {PAIR: "walk"})
    three = fit(tensor, {PAIR: "walk"}, restarts=3, keep="mean")
    assert rmse(three, truth) < 1.1 * rmse(one, truth)


def test_tucker_takes_a_pair() -> None:
    tensor, truth = jams()
    plain, both = (tv.Tucker(2, random_state=0, threads=1, smooth=s).fit(tensor) for s in (None, {PAIR: "walk"}))
    assert rmse(both, truth) < 0.75 * rmse(plain, truth)


def test_the_remainder_is_part_of_all_predictions(tmp_path: Path) -> None:
    tensor, _ = jams()
    model = fit(tensor, {PAIR: "walk"}).model_
    dense = model.dense()
    assert model.remainder is not None
    np.testing.assert_allclose(model.predict(np.argwhere(np.ones(dense.shape))), dense.ravel())
    np.testing.assert_allclose(model.slice({"sensor": 3}), dense[3])
    best = model.top(3, given={"day": 1, "hour": 2}, along="sensor")
    assert best.indices.tolist() == np.argsort(-dense[:, 1, 2])[:3].tolist()
    np.testing.assert_allclose(best.values, np.sort(dense[:, 1, 2])[::-1][:3])
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(tv.load_model(tmp_path / "model.npz").dense(), dense)
    new = tv.ObservedTensor([[0, 1, 2], [0, 3, 4]], [1.0, 2.0], shape=(1, 10, 24), modes=NAMES)
    folded = model.fold_in(new, "sensor")
    np.testing.assert_allclose(folded.dense()[:8], dense)
    assert folded.remainder is not None
    assert not folded.remainder[8].any()
    with pytest.raises(InputError, match="include_baseline"):
        model.to_tensorly()


def test_labels_that_are_numbers_settle_the_order() -> None:
    tensor, truth = jams()
    shuffled = np.random.default_rng(1).permutation(24)  # hour shuffled[k] stands at index k
    place = np.argsort(shuffled)
    coords = np.stack([tensor.columns[0], tensor.columns[1], place[tensor.columns[2]]], axis=1)
    modes = ("sensor", "day", tv.Mode("hour", shuffled))
    mixed = tv.ObservedTensor(coords, tensor.values, shape=tensor.shape, modes=modes)
    smooth = {PAIR: "walk", "hour": "walk"}
    straight, turned = rmse(fit(tensor, smooth), truth), rmse(fit(mixed, smooth), truth[:, :, shuffled])
    assert turned < 1.1 * straight


@pytest.mark.parametrize(
    ("smooth", "message"),
    [
        (["day"], "must map modes"),
        ({"day": "spiral"}, '"walk" or "cycle"'),
        ({"week": "walk"}, "mode"),
        ({"day": "walk", 1: "walk"}, "twice"),
        ({("day", "day"): "walk"}, "two modes"),
        ({("sensor", "day", "hour"): "walk"}, "pairs of modes"),
        ({PAIR: "cycle"}, "pairs of modes"),
        ({PAIR: "walk", ("sensor", "day"): "walk"}, "one pair"),
    ],
)
def test_what_is_refused(smooth: Any, message: str) -> None:
    tensor, _ = jams()
    with pytest.raises(InputError, match=message):
        tv.CP(2, smooth=smooth).fit(tensor)


def test_solvers_without_priors_refuse_smooth_modes() -> None:
    tensor, _ = jams()
    with pytest.raises(InputError, match="no meaning for solver"):
        tv.CP(2, solver="sgd", smooth={"day": "walk"}).fit(tensor)
    with pytest.raises(InputError, match='solver="bayes" for Tucker'):
        tv.Tucker(2, solver="als", smooth={"day": "walk"}).fit(tensor)
    matrix = tv.ObservedTensor([[0, 0], [1, 1]], [1.0, 2.0], modes=("a", "b"))
    with pytest.raises(InputError, match="noise_law"):
        tv.LowRankMatrix(noise_law="laplace", noise_variance=1.0, smooth={"a": "walk"}).fit(matrix)
