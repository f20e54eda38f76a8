"""Units, budgets and guarantees: what they accept, how they compare, what they say."""

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorveil.errors import InputError
from tensorveil.privacy import (
    Budget,
    Composed,
    Gaussian,
    Guarantee,
    NonPrivate,
    Part,
    Pure,
    Repeated,
    SampledGaussian,
    Unit,
)
from tensorveil.privacy.exact import at_least, at_most, exactly, root_at_least, show_at_least, show_at_most

UNITS = [Unit.value(), Unit.entry(), Unit.slice("user"), Unit.tensor(), Unit.tensor(differ=3), Unit.local_entry()]
positive = st.floats(1e-9, 1e9)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_units_come_back_from_text(unit: Any) -> None:
    assert Unit.parse(str(unit)) == unit
    assert Unit.parse(unit) is unit
    for words in (unit.neighbours, unit.sentence, unit.protects):
        assert words
        assert words == words.strip()


def test_units_say_their_neighbours() -> None:
    assert Unit.value().neighbours == "replace one value"
    assert Unit.entry().neighbours == "add or remove one entry"
    assert "'user'" in Unit.slice("user").neighbours
    assert Unit.parse("Local_Entry") == Unit.local_entry()
    assert Unit.parse("Tensor: Differ = 3") == Unit.tensor(differ=3) != Unit.tensor()
    assert "up to 1 entry of the owner's tensor was different" in Unit.tensor(differ=1).sentence
    assert [unit.replaces for unit in UNITS] == [True, False, False, True, True, True]


@pytest.mark.parametrize("text", ["person", "", "slice", "slice:", "value:user", "tensor:", "tensor:3", 3, None])
def test_units_refuse(text: Any) -> None:
    with pytest.raises(InputError, match="unit"):
        Unit.parse(text)


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, True, "1", None])
def test_budget_refuses_epsilon(epsilon: float) -> None:
    with pytest.raises(InputError, match="epsilon must be"):
        Budget(epsilon=epsilon, delta=0.0)


@pytest.mark.parametrize("delta", [-1e-9, 1, 2, math.nan, True, None])
def test_budget_refuses_delta(delta: float) -> None:
    with pytest.raises(InputError, match="delta must be"):
        Budget(epsilon=1.0, delta=delta)


def test_budget_has_no_defaults() -> None:
    with pytest.raises(TypeError):
        Budget(epsilon=1.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Budget(1.0, 0.0)  # type: ignore[call-arg]


@given(positive, st.floats(0, 0.4), positive, st.floats(0, 0.4))
def test_budgets_are_partially_ordered(e1: Any, d1: Any, e2: Any, d2: Any) -> None:
    a, b = Budget(epsilon=e1, delta=d1), Budget(epsilon=e2, delta=d2)
    assert (a <= b) == (e1 <= e2 and d1 <= d2) == b.covers(a) == (b >= a)
    assert (a < b) == (a <= b and a != b) == (b > a)
    if (e1 < e2) and (d1 > d2):
        assert not any((a <= b, b <= a, a < b, b < a))
    assert (a + b).covers(a)
    assert a + b == b + a


def test_budgets_add_up_as_decimals() -> None:
    tenth = Budget(epsilon=0.1, delta=1e-7)
    assert tenth + tenth + tenth == Budget(epsilon=0.3, delta=3e-7)
    with pytest.raises(InputError, match="add up to 1"):
        Budget(epsilon=1, delta=0.6) + Budget(epsilon=1, delta=0.6)
    assert str(Budget(epsilon=np.float64(1), delta=1e-5)) == "(epsilon = 1, delta = 1e-5)"
    with pytest.raises(TypeError):
        _ = tenth + 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        _ = tenth <= 1  # type: ignore[operator]


@given(st.fractions(min_value=0, max_value=10**6))
def test_rounding_keeps_its_side(exact: Any) -> None:
    assert exactly(at_least(exact)) >= exact >= exactly(at_most(exact))
    assert exactly(root_at_least(exact)) ** 2 >= exact
    assert math.nextafter(root_at_least(exact), 0) ** 2 <= exact * (1 + 1e-12)


@given(st.floats(1e-12, 1e12), st.integers(2, 6))
def test_shown_numbers_keep_their_side(number: Any, digits: Any) -> None:
    assert float(show_at_least(number, digits)) >= number >= float(show_at_most(number, digits))
    assert float(show_at_least(number, digits)) <= number * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)


def test_shown_numbers() -> None:
    assert [show_at_least(x) for x in (1.0, 0.1, 0, math.inf, 1e-5, 0.99999, 1234567.0)] == [
        "1", "0.1", "0", "infinite", "1e-5", "1", "1235000",
    ]  # fmt: skip


ONE = Pure(1.0)


def guarantee(*, event: Any = ONE, **changes: Any) -> Any:
    facts: dict[str, Any] = {
        "unit": Unit.value(),
        "event": event,
        "delta": 0.0,
        "composition": [Part(name="input", statistic="the values", event=event)],
        "released": ["model"],
        "proof": "docs/guarantees.md#input",
        "secure_noise": True,
        "bounds": (1, 5),
        "mechanism": "input perturbation",
    }
    return Guarantee.prove(**(facts | changes))


def test_the_sentence() -> None:
    assert str(guarantee()) == (
        "Anyone who sees this release learns almost the same whether or not any single value in the data was "
        "different: (epsilon = 1, delta = 0) differential privacy for single values (values lie between 1 and 5). "
        "Public: positions and labels. Proven."
    )
    assert "user" in str(guarantee(unit=Unit.slice("user")))
    assert "between -0.5 and 1234567.25" in str(guarantee(bounds=(-0.5, 1234567.25)))


def test_large_epsilons_are_not_praised() -> None:
    three = str(guarantee(event=Gaussian(0.6), delta=1e-6, epsilon=3.0))
    assert "almost the same" not in three
    assert "20.1 times as likely, plus a probability of 1e-6," in three
    assert "weak" not in three
    assert str(guarantee(event=Pure(12.0))).endswith("weak protection.")


def test_the_sentence_names_what_is_protected_what_is_public_and_against_whom() -> None:
    public = ["positions and labels of user, film", "the number of entries"]
    told = {"about": "values of column 'rating'", "public": public, "against": "the server and any one client"}
    assert str(guarantee(**told)) == (
        "Anyone who sees this release learns almost the same whether or not any single value in the data was "
        "different: (epsilon = 1, delta = 0) differential privacy for single values (protected: values of column "
        "'rating'; values lie between 1 and 5). Public: positions and labels of user, film; the number of entries. "
        "Holds against the server and any one client. Proven."
    )
    strong = str(guarantee(**told, event=Pure(5.0)))
    assert strong.startswith("To anyone who sees it, no outcome of this release is more than 149 times")
    assert str(guarantee(event=Pure(5.0))).startswith("To anyone who sees it, no outcome of this release is more than")
    assert "Public: positions and labels; the shape." in str(guarantee(public=["the shape"]))
    assert "Public" not in str(guarantee(unit=Unit.entry()))
    assert guarantee(about="column 'a\n\x1b[31mb'", public=["x\ty"]).about == "column 'a [31mb'"
    assert Guarantee.from_json(json.dumps(guarantee(**told, among=7).to_json())) == guarantee(**told, among=7)


@pytest.mark.parametrize(
    ("changes", "opening"),
    [
        ({"secure_noise": False}, "NOT PRIVATE: the noise was drawn from a seed"),
        ({"status": "refuted"}, "NOT PRIVATE"),
        ({"status": "refuted", "secure_noise": False}, "NOT PRIVATE"),
        ({"status": "claimed", "epsilon": math.inf}, "NOT PROVEN PRIVATE"),
    ],
)
def test_what_is_not_private_says_so_first(changes: Any, opening: Any) -> None:
    bad = dataclasses.replace(guarantee(), **changes)
    assert bad.sentence().startswith(opening)
    assert "do not publish" in bad.sentence()
    assert not bad.private
    assert "Proven." not in bad.sentence()
    assert Guarantee.from_json(json.dumps(bad.to_json(), allow_nan=False)) == bad


def test_guarantees_come_back_from_json() -> None:
    event = Composed([Pure(0.1), Repeated(Gaussian(0.1 + 0.2), 3)])
    original = guarantee(event=event, delta=1e-6, bounds=None, notes=["public grid"])
    content = json.loads(json.dumps(original.to_json(), allow_nan=False))
    assert content["format"] == 1
    assert content["neighbours"] == "replace one value"
    assert Guarantee.from_json(content) == original
    with pytest.raises(InputError, match="another format"):
        Guarantee.from_json(content | {"format": 2})
    del content["digest"]
    assert Guarantee.from_json(content) == original
    for name in ("about", "public", "against", "among", "conditions"):
        del content[name]
    assert Guarantee.from_json(content) == original
    for wrong in ({"bounds": [1]}, {"bounds": "x"}, {"unit": None}, {"composition": [3]}):
        with pytest.raises(InputError):
            Guarantee.from_json(content | wrong)
    del content["proof"]
    with pytest.raises(InputError, match="incomplete"):
        Guarantee.from_json(content)
    with pytest.raises(InputError, match="incomplete"):
        Guarantee.from_json("{")


def test_a_guarantee_promises_no_less_than_it_costs() -> None:
    with pytest.raises(InputError, match="costs more"):
        guarantee(epsilon=0.5)
    with pytest.raises(InputError, match="finite"):
        guarantee(event=NonPrivate())
    with pytest.raises(InputError, match="finite"):
        guarantee(event=Gaussian(1.0))
    assert guarantee(epsilon=2.0).epsilon == 2.0
    assert guarantee(event=Composed([Pure(0.1)] * 10)).epsilon == 1.0
    with pytest.raises(InputError, match="costs more"):
        dataclasses.replace(guarantee(), epsilon=0.5)
    with pytest.raises(InputError, match="must have an event"):
        dataclasses.replace(guarantee(), event=None)
    with pytest.raises(InputError, match="parts"):
        dataclasses.replace(guarantee(), event=Pure(0.5))
    tenths = [Part(name="a", statistic="b", event=Pure(0.1))] * 10
    assert dataclasses.replace(guarantee(), composition=tenths).private


def test_poisson_sampling_is_for_added_or_removed_units() -> None:
    pytest.importorskip("dp_accounting")
    event = Repeated(SampledGaussian(1.0, 0.01), 3)
    with pytest.raises(InputError, match="Poisson"):
        guarantee(event=event, delta=1e-6)
    assert guarantee(event=event, delta=1e-6, unit=Unit.entry()).private


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "maybe"},
        {"unit": "value"},
        {"bounds": (5, 1)},
        {"secure_noise": 1},
        {"epsilon": math.nan},
        {"among": 1.5},
        {"among": True},
        {"composition": ()},
    ],
)
def test_guarantees_refuse(changes: Any) -> None:
    with pytest.raises(InputError):
        dataclasses.replace(guarantee(), **changes)


def test_parts_speak() -> None:
    assert str(guarantee().composition[0]) == "input: the values, epsilon = 1"
