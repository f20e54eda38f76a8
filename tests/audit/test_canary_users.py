"""A one-run audit of user-level fits with canary users finds nothing; broken bounds are found out by the same audit."""

import functools

import pytest

from tensorveil.audit.catalogue import subjects
from tensorveil.kernels import users as compiled
from users_reference import add_bounded, entry_norms, no_norms

SUBJECT = subjects()["one run/users, biases"]


def test_the_audit_could_have_seen_twice_as_much():
    verdict = SUBJECT.audit(seed=5)
    assert not verdict.violated
    assert verdict.detectable < 4.0


@pytest.mark.parametrize("broken", ["no clip", "linear sums ignored"])
def test_mutants_are_caught(broken, monkeypatch):
    monkeypatch.setattr(compiled, "add_bounded", functools.partial(add_bounded, broken=broken))
    monkeypatch.setattr(compiled, "slice_norms", entry_norms if broken == "linear sums ignored" else no_norms)
    assert SUBJECT.audit(seed=5).violated
