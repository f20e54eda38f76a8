"""A one-run audit of user-level fits with canary users finds nothing; broken bounds are found out by the same audit."""

import functools
from typing import Any

import pytest

from tensorveil.kernels import users as compiled
from tensorveil_evidence.subjects.people import canary_users
from tests.users_reference import add_bounded, entry_norms, no_norms

# Many days, so that entries which add up in a row weigh much more than they would if they stood apart.
SUBJECT, CANARIES = canary_users("many days", sweeps=0, days=100), 600


def test_the_audit_could_have_seen_twice_as_much() -> None:
    verdict = SUBJECT.audit(samples=CANARIES, seed=5)
    assert not verdict.violated
    assert verdict.detectable < 4.0


@pytest.mark.parametrize("broken", ["no clip", "linear sums ignored"])
def test_mutants_are_caught(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "add_bounded", functools.partial(add_bounded, broken=broken))
    monkeypatch.setattr(compiled, "slice_norms", entry_norms if broken == "linear sums ignored" else no_norms)
    assert SUBJECT.audit(samples=CANARIES, seed=5).violated
