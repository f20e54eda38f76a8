"""Private selection: what it measures, what it charges and promises, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.completion import selection
from tensorveil.errors import CHARGED
from tensorveil.mechanisms.comparison import compare_models
from tensorveil.mechanisms.spend import Spend
from tensorveil.models import CPModel, TuckerModel
from tensorveil.noise import SeededSource
from tensorveil.privacy import Budget, Ledger, Unit, epsilon_for
from tensorveil.privacy.gate import admit, declare
from tensorveil.tensor.splits import cell_split

SHAPE = (20, 15, 4)


@pytest.fixture(scope="module")
def tensor() -> Any:
    return tv.synthetic_cp(SHAPE, 2, random_state=0).train


def make(estimator: Any = tv.PrivateCP, rank: Any = 2, **changes: Any) -> Any:
    options = {"epsilon": 2.0, "delta": 0.0, "unit": "value", "bounds": (-0.5, 1.5), "sweeps": 10, "restarts": 1}
    return estimator(rank, **(options | changes))


def make_entry(rank: int, **changes: Any) -> Any:
    return make(rank=rank, unit="entry", shape=SHAPE, **changes)


def choose(candidates: Any, tensor: Any, **changes: Any) -> Any:
    return tv.choose_privately(candidates, tensor, **({"epsilon": 4.0, "delta": 0.0, "random_state": 0} | changes))


@pytest.mark.parametrize("kind", ["value", "entry"])
@pytest.mark.parametrize("pure", [True, False])
def test_errors_are_those_of_the_models(tensor: Any, kind: str, pure: bool) -> None:
    """With next to no noise they are the mean squared errors, also of models that leave the bounds."""
    rng = np.random.default_rng(0)
    factors = tuple(rng.standard_normal((size, 2)) for size in SHAPE)
    biases = tuple(rng.standard_normal(size) for size in SHAPE)
    facts: dict[str, Any] = {"factors": factors, "offset": 0.5, "bounds": (-0.5, 1.5)}
    models: list[CPModel | TuckerModel] = [
        CPModel(**facts),
        CPModel(**facts, biases=biases),
        TuckerModel(**facts, core=rng.standard_normal((2, 2, 2))),
    ]
    unit = Unit.parse(kind)
    data = admit(tensor, declare(tensor, unit=unit, bounds=(-0.5, 1.5), shape=SHAPE))
    spend = Spend(source=SeededSource(0), **{"epsilon" if pure else "mu": 1e6})
    found = compare_models(data, models, spend)
    values = np.clip(tensor.values, -0.5, 1.5)
    expected = [np.mean((model.predict(tensor.coords) - values) ** 2) for model in models]
    np.testing.assert_allclose(found.mean_squares, expected, atol=max(8 * found.noise, 1e-5))
    assert 0 < found.noise < 1e-4
    assert 0 < found.difference_noise < 1e-4


@pytest.mark.parametrize("kind", ["value", "entry"])
def test_the_stated_noise_is_the_noise(tensor: Any, kind: str) -> None:
    data = admit(tensor, declare(tensor, unit=Unit.parse(kind), bounds=(-0.5, 1.5), shape=SHAPE))
    models = [CPModel(factors=tuple(np.zeros((s, 1)) for s in SHAPE), offset=c, bounds=(-0.5, 1.5)) for c in (0.0, 1.0)]
    found = [compare_models(data, models, Spend(source=SeededSource(seed), mu=1.0)) for seed in range(400)]
    drawn = np.array([each.mean_squares for each in found])
    np.testing.assert_allclose(drawn.std(axis=0), found[0].noise, rtol=0.2)
    np.testing.assert_allclose(np.diff(drawn).std(), found[0].difference_noise, rtol=0.2)


def test_the_better_candidate_wins_where_the_budget_allows_it(tensor: Any) -> None:
    candidates = [make(rank=1, method="mean", epsilon=50.0), make(rank=2, method="input", epsilon=500.0)]
    found = choose(candidates, tensor, epsilon=550.0)
    assert found.best_ == 1
    assert found.errors_[1] < found.errors_[0]
    held = cell_split(tensor, 0.2, 0).held_out
    assert found.errors_[1] == pytest.approx(found.estimator_.rmse(held), rel=0.1)
    assert found.model_.rank == 2


def test_mixed_noise_is_counted_together(tensor: Any) -> None:
    """Laplace and Gaussian fits, CP and Tucker: all of it within the promise."""
    candidates = [
        make(method="mean", epsilon=0.1, delta=1e-7),
        make(method="margins", epsilon=0.2, delta=1e-7),
        make(method="gradient", epsilon=1.0, delta=1e-7),
        make(tv.PrivateTucker, method="output", epsilon=1.0, delta=1e-7),
    ]
    found = choose(candidates, tensor, epsilon=4.0, delta=1e-6)
    guarantee = found.guarantee_
    assert guarantee.private
    assert (guarantee.epsilon, guarantee.delta) == (4.0, 1e-6)
    assert 3.5 < epsilon_for(guarantee.event, 1e-6) <= 4.0
    assert "guarantees.md#selection" in guarantee.proof
    assert "4 candidates" in guarantee.mechanism


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_whole_is_charged_once_and_confirmed(tensor: Any, tmp_path: Path, delta: float) -> None:
    budget = Budget(epsilon=10.0, delta=2 * delta)
    ledger = Ledger.create(tmp_path / "ledger", budget=budget, unit="value", name="ratings")
    found = choose(
        [make(rank=rank, delta=delta / 2) for rank in (1, 2)], tensor, ledger=tmp_path / "ledger", delta=delta
    )
    (charge,) = ledger.entries()
    assert charge.release_id == found.estimator_.release_id_
    assert ledger.spent().epsilon <= 4.0
    tv.write_release(found, tmp_path / "release")
    (charge,) = ledger.entries()
    assert charge.confirmed is not None
    assert tv.load_release(tmp_path / "release")[1] == found.guarantee_


def test_a_failure_after_the_charge_says_so(tensor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.create(tmp_path / "l", budget=Budget(epsilon=10.0, delta=0.0), unit="value", name="ratings")

    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(selection, "compare_models", fail)
    with pytest.raises(MemoryError) as raised:
        choose([make(), make()], tensor, ledger=ledger)
    assert raised.value.__notes__[0].startswith(CHARGED)
    assert ledger.spent().epsilon == 4.0


def test_unit_entry_takes_whatever_comes() -> None:
    """Entries outside the shape, several in a cell, or none at all: no error tells of them."""
    coords = np.array([[0, 0, 0], [0, 0, 0], [19, 14, 3], [0, 0, 9]])
    candidates = [make_entry(1), make_entry(2)]
    for kept in range(len(coords) + 1):
        whole = tv.ObservedTensor(coords, np.full(4, 7.0), shape=(30, 30, 30), duplicates="keep")
        found = choose(candidates, whole.take(slice(kept), may_be_empty=True))
        assert np.isfinite(found.errors_).all()
        assert all(mode.labels is None for mode in found.model_.modes)
        assert "positions" not in " ".join(found.guarantee_.public)


@pytest.mark.parametrize("count", [1, 2, 17, 100])
def test_one_entry_moves_no_other_between_the_parts(tensor: Any, count: int) -> None:
    whole, fewer = cell_split(tensor, 0.3, 1), cell_split(tensor.take(slice(count)), 0.3, 1)
    held = set(map(tuple, whole.held_out.coords.tolist()))
    assert {tuple(cell) in held for cell in fewer.held_out.coords.tolist()} <= {True}
    assert not {tuple(cell) in held for cell in fewer.train.coords.tolist()} & {True}
    assert len(fewer.train) + len(fewer.held_out) == count


@pytest.mark.parametrize(
    ("candidates", "changes", "message"),
    [
        ([], {}, "candidates must be a list of PrivateCP"),
        ([tv.CP(2)], {}, "candidates must be a list of PrivateCP"),
        (
            [tv.UserLevelCP(2, epsilon=1.0, delta=1e-6, unit="slice:mode_0", bounds=(0, 1), shape=SHAPE)],
            {},
            "whole users",
        ),
        ([make(ledger="somewhere")], {}, "ledger must be None in every candidate"),
        ([make(noise_seed=1)], {}, "noise_seed must be None in every candidate"),
        ([make(), make(bounds=(0, 1))], {}, "unit, bounds and shape must be the same"),
        ([make(), make_entry(2)], {}, "unit, bounds and shape must be the same"),
        ([make(), make(), make()], {}, r"together cost epsilon = 6 .* Give each of them epsilon=1\.33"),
        ([make()], {"held_out": 0}, "held_out must lie between 0 and 1"),
        ([make()], {"held_out": 1e-9}, "held_out must leave entries in both parts"),
        ([make()], {"delta": 0.5}, "delta must be"),
        ([make()], {"epsilon": -1.0}, "epsilon must be"),
        ([make()], {"noise_seed": 1, "ledger": "nowhere"}, "noise_seed must be None with a ledger"),
    ],
)
def test_refusals_name_rule_and_remedy(tensor: Any, candidates: Any, changes: Any, message: str) -> None:
    with pytest.raises(tv.InputError, match=message):
        choose(candidates, tensor, **changes)


def test_seeded_noise_is_not_private(tensor: Any, tmp_path: Path) -> None:
    found = choose([make(), make()], tensor, noise_seed=0)
    assert not found.guarantee_.private
    with pytest.raises(tv.InputError, match="not private"):
        tv.write_release(found, tmp_path / "release")
