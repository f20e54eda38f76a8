"""Type III on digits: rounds of bounded sums, their sensitivity, what they promise, what they learn."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tensorveil.errors import InputError
from tensorveil.kernels import learning
from tensorveil.learning import (
    AveragedParameters,
    ClassContrasts,
    ClassMeans,
    ClassMoments,
    Directions,
    Network,
    PrivateGradients,
    Samples,
    learn_in_rounds,
    parameters_of,
    predict,
    record_gradients,
    share_out,
    weighted_f1,
)
from tensorveil.learning.contrasts import balance
from tensorveil.local import Basis
from tensorveil.noise import SecureSource, SeededSource
from tensorveil.privacy import epsilon_for
from tests.unit.learning.learning_cases import digits, directions

MLP = Network(kind="mlp", sizes={"inputs": 64, "classes": 10, "hidden": [24]})
LINEAR = Network(kind="mlp", sizes={"inputs": 64, "classes": 10})


def averaged(**changes: Any) -> Any:
    facts: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-5, "most_users": 3, "network": MLP, "users": 3, "epochs": 3}
    return AveragedParameters(**(facts | {"clip": 1.0, "clip_kind": "max", "batch": 16, "rate": 0.005} | changes))


def gradients(**changes: Any) -> Any:
    facts: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-5, "most_users": 10_000, "network": LINEAR, "records": 1347}
    return PrivateGradients(**(facts | {"steps": 15, "clip": 1.0, "rate": 2.0} | changes))


def moments(**changes: Any) -> Any:
    facts = {"epsilon": 4.0, "delta": 1e-5, "most_users": 10_000, "directions": directions(), "classes": 10}
    return ClassMoments(**(facts | changes))


def means(**changes: Any) -> Any:
    facts = {"epsilon": 64.0, "delta": 1e-5, "most_users": 3, "directions": directions(), "classes": 10, "users": 3}
    return ClassMeans(**(facts | {"clip": 1.0} | changes))


def contrasts(**changes: Any) -> Any:
    facts = {"epsilon": 64.0, "delta": 1e-5, "most_users": 3, "directions": directions(), "classes": 10, "users": 3}
    return ClassContrasts(**(facts | changes))


def users() -> Any:
    return share_out(digits().train, 3, 0)


def score(model: Any) -> Any:
    test = digits().test
    found = predict(model, test.x) if isinstance(model, torch.nn.Module) else model.predict(test.x)
    return weighted_f1(test.y, found, 10)


def test_averaging_without_noise_learns_and_with_it_says_what_it_promises() -> None:
    recipe = averaged()
    silent = learn_in_rounds(recipe, users(), None)
    assert score(silent.model) > 0.75
    assert silent.guarantee is None
    promise = learn_in_rounds(recipe, users(), SecureSource()).guarantee
    assert promise is not None
    assert promise.private
    assert (promise.epsilon, promise.delta, str(promise.unit)) == (8.0, 1e-5, "slice:user")
    assert promise.event is not None
    assert epsilon_for(promise.event, 1e-5) <= 8.0
    assert len(promise.composition) == recipe.epochs
    noisy = learn_in_rounds(recipe, users(), SeededSource(0))
    assert score(noisy.model) < 0.4  # three users cannot hide behind each other: nothing is left
    assert noisy.guarantee is not None
    assert not noisy.guarantee.private


def test_bounded_changes_are_averaged_about_the_shared_parameters() -> None:
    recipe = averaged(clip_kind="norm", clip=2.0, epochs=4)
    assert score(learn_in_rounds(recipe, users(), None).model) > 0.75
    first = recipe.start()
    move = recipe.contribute(first, users()[0]) * recipe.step
    assert np.linalg.norm(move) <= recipe.longest * recipe.step < 2.0 * (1 + 1e-5)


@pytest.mark.parametrize("kind", ["max", "norm"])
def test_no_user_moves_a_sum_by_more_than_was_declared(kind: Any) -> None:
    """Neighbours replace all of a user's data; parameters far beyond the bound must not pass it."""
    recipe = averaged(clip_kind=kind, clip=0.02, rate=5.0, epochs=1)
    state = recipe.start()
    everyone = users()
    wild = Samples(x=1e6 * np.ones((30, 8, 8)), y=np.zeros(30, dtype=int), classes=10)
    contributions = [recipe.contribute(state, group) for group in (*everyone, wild)]
    for one in contributions:
        assert np.abs(one).max() <= recipe.longest
        assert 2 * math.sqrt(float((one.astype(object) ** 2).sum())) <= recipe.limit
        for other in contributions:
            assert math.sqrt(float(((one - other).astype(object) ** 2).sum())) <= recipe.limit
    longest = max(math.sqrt(float((one.astype(object) ** 2).sum())) for one in contributions)
    assert 2 * longest > 0.9 * recipe.limit  # or the bound would not have been tried


def test_gradients_by_record_are_those_of_single_records() -> None:
    data = digits().train.take(slice(0, 7))
    network = MLP.make(3)
    layers = record_gradients(network, data.x, data.y)
    for k in range(len(data)):
        network.zero_grad()
        answer = network(torch.tensor(data.x[k : k + 1], dtype=torch.float32))
        loss: Any = torch.nn.functional.cross_entropy(answer, torch.tensor(data.y[k : k + 1]))
        loss.backward()
        for layer, p in zip(layers, network.parameters(), strict=True):
            assert p.grad is not None
            np.testing.assert_allclose(layer[k], p.grad.numpy(), atol=1e-5)


def sums(**changes: Any) -> Any:
    return moments(products=False, **changes)


@pytest.mark.parametrize("make", [gradients, moments, sums])
def test_no_record_moves_a_sum_by_more_than_was_declared(make: Any) -> None:
    """Neighbours add one record; sums are exact integers, so the difference is that record's contribution."""
    recipe = make(epsilon=1.0)
    state = recipe.start()
    base = digits().train.take(slice(0, 40))
    whole = recipe.contribute(state, base)
    largest = 0.0
    rng = np.random.default_rng(0)
    extras = [*base.x[:3], 1e6 * np.ones((8, 8)), np.full((8, 8), -1.0), rng.normal(size=(8, 8)) * 1e-9]
    for k, extra in enumerate(extras):
        more = Samples(x=np.concatenate([base.x, extra[None]]), y=np.append(base.y, k), classes=10)
        move = (recipe.contribute(state, more) - whole).astype(object)
        norm = math.sqrt(float((move**2).sum()))
        assert norm <= recipe.limit
        assert max(abs(number) for number in move) <= recipe.longest
        largest = max(largest, norm)
    assert largest > 0.99 * recipe.limit * (0.9 if make is gradients else 1)


def test_no_user_moves_means_by_more_than_was_declared() -> None:
    recipe = means(clip=0.3)
    state = recipe.start()
    one_class = Samples(x=digits().train.x[:5], y=np.full(5, 7), classes=10)
    norms = [np.linalg.norm(recipe.contribute(state, group).astype(float)) for group in (*users(), one_class)]
    assert 0.99 * recipe.limit <= 2 * max(norms) <= recipe.limit


def test_no_user_moves_contrasts_or_offsets_by_more_than_was_declared() -> None:
    """Both rounds, whatever the state says: offsets of scores that are far too large, or not numbers, are cut too."""
    recipe = contrasts()
    one_class = Samples(x=digits().train.x[:5], y=np.full(5, 7), classes=10)
    groups = (*users(), one_class)
    first = recipe.start()
    told = learn_in_rounds(recipe, users(), None).state
    rng = np.random.default_rng(0)
    wild = first.after(weights=1e200 * rng.normal(size=first["weights"].shape))
    lost = first.after(weights=np.full(first["weights"].shape, np.nan))
    second = first.after(middle=told["middle"], weights=told["weights"])
    largest = 0.0
    with np.errstate(all="ignore"):
        for state in (first, second, wild, lost):
            for group in groups:
                one = recipe.contribute(state, group)
                assert one.shape == (recipe.rounds[state.round].size,)
                assert np.abs(one).max() <= recipe.rounds[state.round].largest
                norm = math.sqrt(float((one.astype(object) ** 2).sum()))
                assert 2 * norm <= recipe.rounds[state.round].limit
                largest = max(largest, norm)
    assert 2 * largest > 0.99 * recipe.limit


@settings(max_examples=60, deadline=None)
@given(
    x=arrays(np.float64, (6, 5), elements=st.floats(-1e9, 1e9)),
    y=st.lists(st.integers(0, 2), min_size=6, max_size=6),
    weights=arrays(np.float64, (3, 4), elements=st.floats(-1e100, 1e100)),
    middle=arrays(np.float64, 4, elements=st.floats(-1e100, 1e100)),
)
def test_any_user_at_any_state_keeps_the_bound_of_contrasts(x: Any, y: Any, weights: Any, middle: Any) -> None:
    recipe = contrasts(directions=Directions(basis=Basis.dct((5,), 4)), classes=3)
    group = Samples(x=x, y=np.array(y), classes=3)
    first = recipe.start()
    for state in (first, first.after(weights=weights, middle=middle)):
        with np.errstate(all="ignore"):
            one = recipe.contribute(state, group).astype(object)
        assert 4 * (one**2).sum() <= recipe.rounds[state.round].limit ** 2
        assert np.abs(one).max() <= recipe.rounds[state.round].largest


def test_contrasts_are_sent_at_full_length_however_close_classes_lie() -> None:
    rng = np.random.default_rng(1)
    y = np.arange(3000) % 2
    recipe = contrasts(directions=Directions(basis=Basis.dct((12,), 12)), classes=2)
    noise = rng.normal(size=(len(y), 12))
    for far in (0.001, 0.01, 1.0):
        data = Samples(x=1 + far * (np.eye(12)[y] + 0.3 * noise), y=y, classes=2)
        told = recipe.contribute(recipe.start(), data).reshape(3, 12) * 2.0**-20
        assert np.linalg.norm(told[1:]) == pytest.approx(math.sqrt(0.75), abs=1e-4)
        assert (told[1] - told[2]) @ recipe.directions.basis.analyse(np.eye(12)[:1] - np.eye(12)[1:2])[0] > 1.0


def test_a_user_s_first_contribution_is_its_mean_and_contrasts() -> None:
    recipe, group = contrasts(), users()[0]
    rows = directions()(group.x)
    middle = rows.mean(axis=0)
    about = np.stack([rows[group.y == c].mean(axis=0) - middle for c in range(10)])
    expected = np.concatenate([0.5 * middle, (math.sqrt(0.75) * about / np.linalg.norm(about)).reshape(-1)])
    np.testing.assert_allclose(recipe.contribute(recipe.start(), group) * 2.0**-20, expected, atol=1e-6)


def test_offsets_even_out_the_answers() -> None:
    rng = np.random.default_rng(3)
    y = rng.choice(4, 2000, p=[0.4, 0.3, 0.2, 0.1])
    scores = rng.normal(size=(2000, 4)) + np.array([5.0, 0.0, -3.0, 1.0])
    found = np.bincount((scores + balance(scores, y, 4)).argmax(axis=1), minlength=4) / 2000
    np.testing.assert_allclose(found, np.bincount(y) / 2000, atol=0.02)


def test_directions_against_plain_arithmetic() -> None:
    rng = np.random.default_rng(0)
    rows, matrix = rng.normal(size=(50, 7)) * 10.0 ** rng.integers(-300, 300, (50, 1)), rng.normal(size=(7, 4))
    rows[3, 2], rows[4, 1], rows[5] = np.nan, np.inf, 0.0
    out = np.empty((50, 4))
    learning.directions(rows, matrix, out)
    with np.errstate(all="ignore"):
        expected = (rows / np.abs(rows).max(axis=1, keepdims=True)) @ matrix
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    expected[3:6] = [1.0, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(out, expected, atol=1e-13)


def test_no_record_changes_the_integers_of_another() -> None:
    """Whatever else is there, and in whatever order: the sum is that of the records alone."""
    data = digits().train.take(slice(0, 60))
    for recipe in (gradients(network=MLP, steps=1), moments()):
        state = recipe.start()
        alone = sum(recipe.contribute(state, data.take(slice(k, k + 1))) for k in range(len(data)))
        assert np.array_equal(recipe.contribute(state, data), alone)
        assert np.array_equal(recipe.contribute(state, data.take(np.arange(60)[::-1])), alone)


def test_sums_do_not_depend_on_how_records_are_split() -> None:
    recipe = moments()
    state = recipe.start()
    whole = recipe.contribute(state, digits().train)
    assert np.array_equal(whole, sum(recipe.contribute(state, group) for group in users()))


def test_moments_learn_in_one_round_for_single_records() -> None:
    scores = {}
    for epsilon in (1.0, 8.0):
        recipe = moments(epsilon=epsilon)
        scores[epsilon] = score(learn_in_rounds(recipe, users(), SeededSource(1)).model)
    assert scores[1.0] > 0.5
    assert scores[8.0] > 0.8
    hardly = moments(epsilon=1e5)  # next to no noise, and the recipe knows it
    assert score(learn_in_rounds(hardly, users(), SeededSource(1)).model) > 0.95
    promise = learn_in_rounds(recipe, users(), SecureSource()).guarantee
    assert promise is not None
    assert str(promise.unit) == "slice:record"
    assert promise.private


def test_sums_alone_give_the_nearest_mean() -> None:
    recipe = sums(epsilon=8.0)
    assert recipe.size == 10 * 21
    assert score(learn_in_rounds(recipe, users(), SeededSource(1)).model) > 0.7


def test_gradients_learn_in_rounds_for_single_records() -> None:
    recipe = gradients(steps=8)
    assert score(learn_in_rounds(recipe, users(), SeededSource(1)).model) > 0.6


def test_means_of_few_users_need_a_large_epsilon() -> None:
    low, high = means(epsilon=1.0), means(epsilon=256.0)
    assert score(learn_in_rounds(high, users(), SeededSource(2)).model) > 0.4
    assert score(learn_in_rounds(low, users(), SeededSource(2)).model) < 0.4


def test_few_users_need_a_large_epsilon_and_below_it_no_class_is_preferred() -> None:
    high = contrasts(epsilon=256.0)
    assert high.tells
    assert score(learn_in_rounds(high, users(), SeededSource(2)).model) > 0.6
    low = contrasts(epsilon=1.0)
    assert not low.tells
    model = learn_in_rounds(low, users(), SeededSource(2)).model
    answers = np.bincount(model.predict(digits().train.x), minlength=10) / len(digits().train)
    assert 0.07 < answers.min() <= answers.max() < 0.13
    assert np.array_equal(model.predict(digits().test.x[:9]), model.predict(digits().test.x)[:9])


def test_what_contrasts_promise() -> None:
    recipe = contrasts(epsilon=8.0)
    promise = learn_in_rounds(recipe, users(), SecureSource()).guarantee
    assert promise is not None
    assert promise.private
    assert (promise.epsilon, str(promise.unit), len(promise.composition)) == (8.0, "slice:user", 2)
    assert promise.event is not None
    assert epsilon_for(promise.event, 1e-5) <= 8.0


@pytest.mark.parametrize("make", [averaged, gradients, moments, means, contrasts])
def test_recipes_travel_as_plain_data(make: Any) -> None:
    import json

    recipe = make()
    again = type(recipe).from_json(json.loads(json.dumps(recipe.to_json())))
    assert again.rounds == recipe.rounds
    assert again.to_json() == recipe.to_json()
    with pytest.raises(InputError, match="no more and no fewer"):
        type(recipe).from_json({**recipe.to_json(), "more": 1})


def test_the_same_seed_gives_the_same_parameters_for_any_number_of_threads() -> None:
    recipe = averaged(epochs=1)
    before = torch.get_num_threads()
    first = recipe.contribute(recipe.start(), users()[0])
    torch.set_num_threads(2)
    try:
        assert np.array_equal(recipe.contribute(recipe.start(), users()[0]), first)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("make", "change", "words"),
    [
        (averaged, {"clip_kind": "two"}, "clip_kind must be one of max, norm"),
        (averaged, {"clip": 0.0}, "clip must be above 0"),
        (averaged, {"users": 4}, "users must be between 1 and most_users"),
        (averaged, {"epochs": 0}, "epochs and batch must be at least 1"),
        (averaged, {"delta": 0.0}, "delta must be above 0"),
        (gradients, {"momentum": 1.0}, "momentum must be"),
        (gradients, {"steps": 0}, "steps and records"),
        (moments, {"classes": 1}, "classes must be at least 2"),
        (means, {"clip": -1.0}, "clip must be above 0"),
        (contrasts, {"classes": 1}, "classes must be at least 2"),
        (contrasts, {"users": 4}, "users must be between 1 and most_users"),
        (moments, {"most_users": 0}, "most_users must be at least 1"),
    ],
)
def test_recipes_are_checked(make: Any, change: Any, words: Any) -> None:
    with pytest.raises(InputError, match=words):
        make(**change)


def test_plans_are_checked_and_networks_have_their_shapes() -> None:
    with pytest.raises(InputError, match="kind must be one of"):
        Network(kind="tree")
    with pytest.raises(InputError, match="sizes do not fit"):
        Network(kind="mlp", sizes={"leaves": 3}).make(0)
    mobile = Network(kind="mobilenet", sizes={"channels": 3, "classes": 5, "width": 4}).make(0)
    assert mobile(torch.zeros(2, 3, 32, 32)).shape == (2, 5)
    text = Network(kind="bilstm", sizes={"words": 50, "classes": 2, "embedding": 4, "hidden": 3}).make(0)
    x = torch.tensor([[3, 4, 0, 0], [3, 4, 5, 0]])
    assert text(x).shape == (2, 2)
    assert parameters_of(Network(kind="mlp", sizes={"inputs": 2, "classes": 2}).make(1)).shape == (6,)


@pytest.mark.parametrize("make", [averaged, gradients])
def test_a_network_that_does_not_fit_the_records_is_refused(make: Any) -> None:
    """By public facts alone: shape and number of classes."""
    recipe = make()
    for x, classes in ((np.zeros((3, 5)), 10), (np.zeros((3, 8, 8)), 11)):
        with pytest.raises(InputError, match="network must take tensors"):
            recipe.contribute(recipe.start(), Samples(x=x, y=[0, 1, 2], classes=classes))
