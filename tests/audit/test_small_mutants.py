"""Every small mechanism that leaks is found with default settings, and nothing is found once its leak is closed."""

from typing import Any

import pytest

from tensorveil.audit import audit
from tests.audit.small_mutants import MUTANTS

FOUR = {
    "a raw value amid whole noise",
    "one raw value among a thousand",
    "the sign of one correlation among 200",
    "minus zero",
}


def look(mechanism: Any, mutant: Any, seed: int) -> Any:
    return audit(mechanism, (0, 1), mutant.claim, samples=mutant.samples, batched=True, seed=seed)


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(mutant, id=mutant.name, marks=pytest.mark.slow if mutant.slow else ()) for mutant in MUTANTS],
)
def test_the_leak_is_found(mutant: Any) -> None:
    verdict = look(mutant.leaky, mutant, 0)
    assert verdict.violated, verdict.sentence()
    assert verdict.confidence == 0.999


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_leak_is_found_whatever_the_seed(mutant: Any, seed: int) -> None:
    verdict = look(mutant.leaky, mutant, seed)
    assert verdict.violated, verdict.sentence()


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_nothing_is_found_without_the_leak(mutant: Any) -> None:
    verdict = look(mutant.mended, mutant, 0)
    assert not verdict.violated, verdict.sentence()


def test_there_are_enough_of_them() -> None:
    assert {mutant.name for mutant in MUTANTS} >= FOUR
    others = [mutant for mutant in MUTANTS if mutant.name not in FOUR]
    assert len(others) >= 20
    assert len({mutant.kind for mutant in others}) >= 8


def test_a_single_value_is_named_and_so_is_minus_zero() -> None:
    by_name = {mutant.name: mutant for mutant in MUTANTS}
    rare = by_name["a rare event beyond delta"]
    events = [witness.event for witness in look(rare.leaky, rare, 0).witnesses]
    assert "output 0 is 321" in events
    zero = by_name["minus zero among fifty"]
    events = [witness.event for witness in look(zero.leaky, zero, 0).witnesses]
    assert {"output 31 is 0", "output 31 is -0"} & set(events)
