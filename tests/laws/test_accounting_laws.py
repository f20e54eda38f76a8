"""Laws that hold for every kind of event: composition, order, rounding, parallel parts, writing and reading."""

import contextlib
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.errors import InputError
from tensorveil.privacy import (
    ZCDP,
    Approximate,
    Budget,
    BudgetExceededError,
    Composed,
    Event,
    Gaussian,
    NonPrivate,
    Parallel,
    Pure,
    Repeated,
    SampledGaussian,
    delta_for,
    epsilon_for,
    event_from_json,
    event_to_json,
    gaussian_mu,
)
from tensorveil.privacy.events import describe_event, has_sampling
from tensorveil.privacy.filters import admit
from tensorveil.privacy.responses import mixture_delta, response_terms

DELTA = 1e-5
# Every kind of event, alone and together with others.
KINDS: dict[str, Event] = {
    "pure": Pure(0.13),
    "gaussian": Gaussian(0.21),
    "zcdp": ZCDP(0.011),
    "approximate": Approximate(0.1, 1e-7),
    "sampled": SampledGaussian(0.7, 0.03),
    "composed": Composed([Pure(0.05), Gaussian(0.1)]),
    "repeated": Repeated(Gaussian(0.07), 3),
    "parallel": Parallel([Pure(0.1), Pure(0.02)]),
    "parallel mixed": Parallel([Gaussian(0.1), Pure(0.02)]),
    "pure with zcdp": Composed([Pure(0.05), ZCDP(0.002)]),
    "not private": NonPrivate(),
    "nothing": Composed([]),
}
SMOOTH = [name for name in KINDS if name not in ("not private", "nothing")]
amount = st.floats(1e-3, 3.0)
leaves = st.one_of(
    amount.map(Pure), amount.map(Gaussian), amount.map(ZCDP), st.builds(Approximate, amount, st.floats(0, 1e-6))
)
events = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(Composed),
        st.lists(inner, min_size=1, max_size=3).map(Parallel),
        st.builds(Repeated, inner, st.integers(0, 5)),
    ),
    max_leaves=6,
)


def needs_library(event: Any) -> None:
    if has_sampling(event):
        pytest.importorskip("dp_accounting")


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("count", [1, 2, 7])
def test_repeating_is_composing_again_and_again(name: str, count: Any) -> None:
    """A known trap: accountants that charge a repeated event once."""
    event = KINDS[name]
    needs_library(event)
    listed = Composed([event] * count)
    nested = event
    for _ in range(count - 1):
        nested = Composed([nested, event])
    expected = epsilon_for(listed, DELTA)
    assert epsilon_for(Repeated(event, count), DELTA) == pytest.approx(expected, rel=1e-12)
    if count > 1:  # alone, parallel parts need not be mixed
        assert epsilon_for(nested, DELTA) == pytest.approx(expected, rel=1e-12)
    assert delta_for(Repeated(event, count), 1.0) == pytest.approx(delta_for(listed, 1.0), rel=1e-9, abs=1e-13)
    assert epsilon_for(Repeated(event, 0), 0.0) == 0.0


@pytest.mark.parametrize("name", SMOOTH)
def test_more_costs_more(name: str) -> None:
    event = KINDS[name]
    needs_library(event)
    costs = [epsilon_for(Repeated(event, count), DELTA) for count in (1, 2, 4, 16)]
    assert costs == sorted(costs)
    assert costs[0] > 0
    assert costs[-1] > 2 * costs[0]


@pytest.mark.parametrize("name", SMOOTH)
def test_sampled_or_not_epsilon_and_delta_agree(name: str) -> None:
    event = KINDS[name]
    needs_library(event)
    epsilon = epsilon_for(event, DELTA)
    assert delta_for(event, epsilon) <= DELTA * (1 + 1e-6)


@settings(max_examples=150)
@given(events, st.floats(1e-9, 0.3), st.floats(0.0, 20.0))
def test_epsilon_and_delta_agree(event: Any, delta: float, epsilon: float) -> None:
    found = epsilon_for(event, delta, method="native")
    if math.isfinite(found):
        assert delta_for(event, found, method="native") <= delta * (1 + 1e-9)
    assert 0 <= delta_for(event, epsilon, method="native") <= 1


@settings(max_examples=100)
@given(events, events, st.floats(1e-9, 0.1))
def test_composition_commutes_and_never_costs_less_than_a_part(first: Any, second: Any, delta: float) -> None:
    together = epsilon_for(Composed([first, second]), delta, method="native")
    assert together == epsilon_for(Composed([second, first]), delta, method="native")
    # 1 %: a few pure events are added up although delta would allow for slightly less
    assert together >= 0.99 * epsilon_for(first, delta, method="native") or together == math.inf


@settings(max_examples=100)
@given(events, st.floats(1e-9, 0.1), st.floats(1.0, 100.0))
def test_a_larger_delta_costs_no_more(event: Any, delta: float, factor: Any) -> None:
    larger = min(delta * factor, 0.9)
    assert epsilon_for(event, larger, method="native") <= epsilon_for(event, delta, method="native") * (1 + 1e-9)


@settings(max_examples=100)
@given(st.lists(events, min_size=1, max_size=4), st.floats(1e-9, 0.1))
def test_parallel_is_the_worst_part(parts: Any, delta: float) -> None:
    worst = max(epsilon_for(part, delta, method="native") for part in parts)
    assert epsilon_for(Parallel(parts), delta, method="native") == worst
    # inside a composition it may cost more than the worst part, never less
    beside = Composed([Parallel(parts), Gaussian(0.01)])
    for part in parts:
        alone = epsilon_for(Composed([part, Gaussian(0.01)]), delta, method="native")
        assert epsilon_for(beside, delta, method="native") >= alone * (1 - 1e-9)


@given(events)
def test_events_come_back_from_json(event: Any) -> None:
    text = json.dumps(event_to_json(event), allow_nan=False)
    assert event_from_json(json.loads(text)) == event
    assert describe_event(event)


@pytest.mark.parametrize("name", KINDS)
def test_kinds_come_back_from_json(name: str) -> None:
    assert event_from_json(json.loads(json.dumps(event_to_json(KINDS[name])))) == KINDS[name]
    assert describe_event(KINDS[name])


@pytest.mark.parametrize(
    "content", [{}, [], {"kind": "other"}, {"kind": "pure"}, {"kind": "composed", "events": 3}, None]
)
def test_foreign_json_is_refused(content: Any) -> None:

    with pytest.raises(InputError, match="event"):
        event_from_json(content)


@settings(max_examples=60)
@given(st.lists(amount.map(Gaussian), min_size=1, max_size=6), st.floats(1e-9, 0.1))
def test_gaussians_compose_as_one(parts: Any, delta: float) -> None:
    mu = math.sqrt(sum(part.mu**2 for part in parts))
    assert epsilon_for(Composed(parts), delta) == pytest.approx(epsilon_for(Gaussian(mu), delta), rel=1e-9)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 3000), min_size=1, max_size=8))
def test_pure_adds_up_in_decimals(thousandths: Any) -> None:
    parts = [Pure(number / 1000) for number in thousandths]
    assert epsilon_for(Composed(parts), 0.0) == sum(thousandths) / 1000


def adaptive_delta(epsilon: float, mu: Any, pure: Any, next_mu: Any) -> Any:
    """Delta of an analyst who sees a mu-GDP release, then takes a pure or a Gaussian one, whichever hurts more."""
    terms = response_terms({pure: 1})
    assert terms is not None
    draws = np.linspace(-9, 9, 2001)
    weights = np.exp(-(draws**2) / 2)
    losses = mu**2 / 2 + mu * draws
    worst = [
        max(mixture_delta(0.0, terms, epsilon - loss), mixture_delta(next_mu, [(0.0, 1.0)], epsilon - loss))
        for loss in losses
    ]
    return float(np.average(worst, weights=weights))


def largest(allowed: Any) -> Any:
    low, high = 0.0, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (1.0, 1e-6), (3.0, 1e-5)])
@pytest.mark.parametrize("share", [0.5, 0.8])
def test_choosing_the_next_release_by_the_last_one_gains_nothing_from_a_ledger(
    epsilon: float, delta: float, share: Any
) -> None:
    budget, limit = Budget(epsilon=epsilon, delta=delta), gaussian_mu(epsilon, delta)
    mu = share * limit
    first = admit(Gaussian(mu), [], "gaussian", budget, None)

    def fits(event: Any) -> Any:
        with contextlib.suppress(BudgetExceededError):
            admit(event, [first], "gaussian", budget, None)
            return True
        return False

    honest = adaptive_delta(epsilon, mu, largest(lambda e: fits(Pure(e))), largest(lambda m: fits(Gaussian(m))))
    assert 0.8 * delta < honest <= delta * (1 + 1e-6)

    # The best bound on what happened in the end is no filter, and this test can tell: delta grows by a fifth or more.
    pure = largest(lambda e: delta_for(Composed([Gaussian(mu), Pure(e)]), epsilon) <= delta)
    assert adaptive_delta(epsilon, mu, pure, math.sqrt(limit**2 - mu**2)) > 1.2 * delta
