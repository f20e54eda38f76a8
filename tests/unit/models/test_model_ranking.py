from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorveil.errors import InputError
from tensorveil.models import CPModel
from tensorveil.tensor import Mode, ObservedTensor
from tests.unit.models.model_cases import brute_force, random_model


def test_top_orders_the_slice(kind: Any) -> None:
    model = random_model(kind, (4, 50, 3))
    row = brute_force(model)[1, :, 2]
    ranking = model.top(7, given={0: 1, 2: 2}, along=1)
    np.testing.assert_array_equal(ranking.indices, np.argsort(-row)[:7])
    np.testing.assert_allclose(ranking.values, np.sort(row)[::-1][:7])
    worst = model.top(3, given={0: 1, 2: 2}, along=1, largest=False)
    np.testing.assert_array_equal(worst.indices, np.argsort(row)[:3])


def test_a_mode_that_is_not_given_is_averaged_out(kind: Any) -> None:
    model = random_model(kind, (4, 20, 3))
    mean = brute_force(model)[2].mean(axis=1)
    ranking = model.top(20, given={0: 2}, along=1)
    np.testing.assert_allclose(ranking.values, np.sort(mean)[::-1])


def test_excluded_candidates_do_not_appear(kind: Any) -> None:
    model = random_model(kind, (4, 6, 3))
    everything = model.top(6, given={0: 1, 2: 0}, along=1).indices.tolist()
    seen = ObservedTensor([[1, 2, 0], [1, 3, 0], [1, 4, 1], [0, 5, 0]], [1.0, 2.0, 3.0, 4.0], (4, 6, 3))
    by_tensor = model.top(6, given={0: 1, 2: 0}, along=1, exclude=seen)
    assert by_tensor.indices.tolist() == [i for i in everything if i not in (2, 3)]
    assert len(by_tensor) == 4
    averaged = model.top(6, given={0: 1}, along=1, exclude=seen)
    assert sorted(averaged.indices.tolist()) == [0, 1, 5]
    by_list = model.top(6, given={0: 1, 2: 0}, along=1, exclude=[0, 1])
    assert by_list.indices.tolist() == [i for i in everything if i not in (0, 1)]
    assert len(model.top(6, given={0: 1, 2: 0}, along=1, exclude=[])) == 6


def test_labels_and_bounds_show_in_the_ranking() -> None:
    factors: Any = ([[1.0]], [[3.0], [7.0], [9.0]])
    modes: Any = ("user", Mode("film", ["Alien", "Brazil", "Cube"]))
    model = CPModel(factors=factors, modes=modes, bounds=(1, 5))
    ranking = model.top(2, given={"user": 0}, along="film")
    assert ranking.mode == "film"
    assert ranking.labels is not None
    assert ranking.labels.tolist() == ["Cube", "Brazil"]  # ordered before they are clipped to the bound
    assert ranking.values.tolist() == [5.0, 5.0]


def test_equal_scores_stand_in_index_order() -> None:
    model = CPModel(factors=(np.ones((1, 1)), np.ones((9, 1))))
    assert model.top(4, given={0: 0}, along=1).indices.tolist() == [0, 1, 2, 3]


def test_bad_requests_are_refused(kind: Any) -> None:
    model = random_model(kind)
    with pytest.raises(InputError, match="n must be a whole number of at least 1"):
        model.top(0, given={0: 0}, along=1)
    with pytest.raises(InputError, match="both given and ranked"):
        model.top(1, given={1: 0}, along=1)
    with pytest.raises(InputError, match="outside the ranked mode"):
        model.top(1, given={0: 0}, along=1, exclude=[99])
    with pytest.raises(InputError, match="exclude must be"):
        model.top(1, given={0: 0}, along=1, exclude=["a"])
    with pytest.raises(InputError, match="3 modes"):
        model.top(1, given={0: 0}, along=1, exclude=ObservedTensor([[0, 0]], [1.0]))
