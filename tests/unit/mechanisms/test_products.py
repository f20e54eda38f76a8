"""Products of effects: exact where modes multiply, and believed only as far as the values agree."""

from typing import Any

import numpy as np
import pytest

from tensorveil.mechanisms.data import Form, Outcome
from tensorveil.mechanisms.decoder import Effects
from tensorveil.mechanisms.fitting import predict_solution
from tensorveil.mechanisms.pairs import PairEffect
from tensorveil.mechanisms.products import find_products, multiply
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.stage_plan import ONE_WAY, TWO_WAY
from tensorveil.mechanisms.stages import run_stages
from tensorveil.noise import SeededSource
from tensorveil.privacy.gate import PrivateValues
from tensorveil.privacy.private import Private

SHAPE = (14, 12, 10)
BOUNDS = (0.0, 60.0)
COLUMNS = np.argwhere(np.ones(SHAPE)).T.astype(np.int32)
FORM = Form(ranks=(2, 2, 2), core=False, sweeps=20, restarts=1, threads=1, seed=0)


def multiplicative(seed: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """A rank-one tensor of positive numbers with mean 5, and its factors, whose means are 1."""
    rng = np.random.default_rng(seed)
    sides = [rng.gamma(8.0, 1.0, size) for size in SHAPE]
    sides = [side / side.mean() for side in sides]
    return 5.0 * np.einsum("i,j,k->ijk", *sides), sides


def exact_effects(whole: np.ndarray, *, pairs: bool) -> Effects:
    """The effects of a tensor all of whose cells are known."""
    mean = float(whole.mean())
    ones = [whole.mean(axis=tuple(m for m in range(3) if m != mode)) - mean for mode in range(3)]
    effects = Effects(offset=mean, biases=ones)
    for one, other in ((0, 1), (0, 2), (1, 2)) if pairs else ():
        (axis,) = {0, 1, 2} - {one, other}
        both = whole.mean(axis=axis) - mean - ones[one][:, None] - ones[other][None, :]
        left, values, right = np.linalg.svd(both, full_matrices=False)
        rank = len(values)
        effects.pairs[one, other] = PairEffect(
            left=left * values, right=right.T, spread=np.zeros((SHAPE[other], rank, rank)),
            alpha=np.ones(rank), beta=np.ones(rank),
        )  # fmt: skip
    return effects


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("low", [0.0, -20.0])
def test_products_are_exact_where_modes_multiply(pairs: bool, low: float) -> None:
    """Above the lower bound, wherever that is; two-way effects add nothing to those of one mode."""
    whole, _ = multiplicative()
    effects = exact_effects(whole + low, pairs=pairs)
    found = multiply(effects, COLUMNS, (low, low + 60.0))
    np.testing.assert_allclose(found, whole.ravel() + low, rtol=1e-9, atol=1e-9)


def test_products_do_not_depend_on_how_effects_share_the_mean() -> None:
    whole, _ = multiplicative()
    effects = exact_effects(whole, pairs=True)
    moved = Effects(offset=effects.offset - 2.0, biases=[*effects.biases], pairs=effects.pairs)
    moved.biases[1] = moved.biases[1] + 2.0
    np.testing.assert_allclose(multiply(moved, COLUMNS, BOUNDS), multiply(effects, COLUMNS, BOUNDS), rtol=1e-9)


def test_products_take_account_of_where_entries_are() -> None:
    """Of a product whose entries crowd where it is large, the means of indices are no factors; these are found all the
    same, because proportions are fitted in turn."""
    whole, _ = multiplicative()
    chance = whole.ravel() / whole.max()
    seen = COLUMNS[:, np.random.default_rng(0).random(chance.size) < chance]
    effects = exact_effects(whole, pairs=False)
    found = multiply(effects, seen, BOUNDS)
    fitted = effects.at(seen)
    for mode, size in enumerate(SHAPE):
        np.testing.assert_allclose(
            np.bincount(seen[mode], found, size), np.bincount(seen[mode], fitted, size), rtol=0.01
        )


def test_components_say_what_products_say_beyond_the_sum() -> None:
    whole, _ = multiplicative()
    effects = exact_effects(whole, pairs=True)
    factors, beyond = find_products(effects, COLUMNS, BOUNDS, FORM)
    assert [factor.shape[0] for factor in factors] == list(SHAPE)
    expected = whole.ravel() - effects.at(COLUMNS)
    assert np.mean((beyond - expected) ** 2) < 0.05 * np.mean(expected**2)


def test_nothing_multiplies_in_a_constant() -> None:
    factors, beyond = find_products(Effects.constant(SHAPE, 5.0), COLUMNS, BOUNDS, FORM)
    assert not np.any(beyond)
    assert not any(np.any(factor) for factor in factors)


@pytest.mark.parametrize("offset", [0.0, 60.0, -3.0])
def test_effects_that_leave_the_bounds_give_finite_products(offset: float) -> None:
    rng = np.random.default_rng(1)
    effects = Effects(offset=offset, biases=[30.0 * rng.standard_normal(size) for size in SHAPE])
    found = multiply(effects, COLUMNS, BOUNDS)
    assert np.isfinite(found).all()
    assert found.min() >= BOUNDS[0]
    assert found.max() <= BOUNDS[1]


def release(whole: np.ndarray, allowed: Any, epsilon: float = 200.0) -> Outcome:
    values = np.clip(whole.ravel(), *BOUNDS)
    data = PrivateValues(columns=COLUMNS, values=Private(values), shape=SHAPE, bounds=BOUNDS)
    return run_stages(data, FORM, Spend(source=SeededSource(0), epsilon=epsilon), allowed)


def error(whole: np.ndarray, outcome: Outcome) -> float:
    found = np.clip(predict_solution(outcome.solution, COLUMNS, 1), *BOUNDS)
    return float(np.sqrt(np.mean((found - whole.ravel()) ** 2)) / whole.std())


@pytest.mark.parametrize(("allowed", "most"), [([ONE_WAY], 0.6), ([ONE_WAY, TWO_WAY], 0.9)])
def test_tables_of_a_multiplicative_tensor_tell_all_of_it(allowed: Any, most: float) -> None:
    whole, _ = multiplicative()
    outcome = release(whole, allowed)
    assert "products" in {part.name for part in outcome.parts}
    assert any("multiply" in note for note in outcome.notes)
    additive = error(whole, release_without_products(whole, allowed))
    assert error(whole, outcome) < most * additive


def release_without_products(whole: np.ndarray, allowed: Any) -> Outcome:
    from tensorveil.mechanisms import stages

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages._Run, "multiply_effects", lambda run: None)
        return release(whole, allowed)


def test_products_are_not_believed_where_modes_add_up() -> None:
    rng = np.random.default_rng(2)
    a, b, c = (8.0 * rng.random(size) for size in SHAPE)
    whole = a[:, None, None] + b[:, None] + c + 0.5 * rng.standard_normal(SHAPE)
    outcome = release(whole, [ONE_WAY])
    assert not any("multiply" in note for note in outcome.notes)
    assert error(whole, outcome) < 1.1 * error(whole, release_without_products(whole, [ONE_WAY]))
