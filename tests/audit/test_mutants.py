"""Every mutant is found at confidence 0.999, and the same audit finds nothing once it is mended."""

from typing import Any

import pytest

from tensorveil.audit import audit
from tests.audit.mutants import MUTANTS, nothing


def verdict(mutant: Any, patch: Any = None) -> Any:
    if patch is not None:
        mutant.break_it(patch)
    return audit(
        mutant.mechanism, mutant.neighbours, mutant.claim, samples=mutant.samples, confidence=0.999,
        batched=mutant.batched,
    )  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_found(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verdict(mutant, monkeypatch)
    assert found.violated, found.sentence()
    assert found.confidence == 0.999


MENDED = [mutant for mutant in MUTANTS if mutant.break_it is not nothing]


def slow_unless_bulk(mutant: Any) -> Any:
    return pytest.param(mutant, id=mutant.name, marks=() if mutant.batched else pytest.mark.slow)


@pytest.mark.parametrize("mutant", [slow_unless_bulk(mutant) for mutant in MENDED])
def test_without_the_break_nothing_is_found(mutant: Any) -> None:
    found = verdict(mutant)
    assert not found.violated, found.sentence()


def test_there_are_enough_of_them() -> None:
    assert len({mutant.break_it for mutant in MUTANTS}) >= 8
