"""A user whose entries make the computation fail is told from the answer: no answer, or zeros for everybody."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.privacy import Budget, Ledger
from tensorveil.rounds import sums
from tensorveil.rounds.sums import Parts
from tests.unit.federated.federated_cases import Asking, ratings

FAILURES = [ValueError, IndexError, RuntimeError, MemoryError, ZeroDivisionError, np.linalg.LinAlgError, TypeError]


def ask_locally(tmp_path: Path) -> Any:
    ledger = tmp_path / "own.ledger"
    Ledger.create(ledger, budget=Budget(epsilon=100, delta=0.01), unit="slice:user", name="own")
    return Asking(tmp_path, "local", ledger=ledger)


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_answered_like_anything_else(tmp_path: Path, failure: Any) -> None:
    asking = ask_locally(tmp_path)

    def fail() -> Any:
        raise failure("entry 17 of Ada is too large")

    asking.clients[0] = replace(asking.clients[0], data=fail)
    asking.greet()
    reply = asking.ask(0, "sum", 0, 0, {"state": asking.state()})
    assert len(reply.arrays["total"]) == asking.agreement.recipe.rounds[0].size
    assert np.std(reply.arrays["total"]) > 0  # noise is added all the same


def test_an_interrupt_is_none(tmp_path: Path) -> None:
    asking = ask_locally(tmp_path)

    def stop() -> Any:
        raise KeyboardInterrupt

    asking.clients[0] = replace(asking.clients[0], data=stop)
    asking.greet()
    with pytest.raises(KeyboardInterrupt):
        asking.ask(0, "sum", 0, 0, {"state": asking.state()})


@pytest.mark.parametrize("failure", FAILURES)
def test_whoever_fails_takes_nobody_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Any) -> None:
    """The sum moves by one user's contribution, as it does without any failure."""
    recipe, data = ask_locally(tmp_path).agreement.recipe, ratings()
    victim = 7
    without = recipe.contribute(recipe.start(), data.take(data.columns[0] != victim))
    original = sums.sum_bounded

    def sum_failing(people: Any, rows: Any, width: int, own: int, reach: float, parts: Any, threads: Any) -> Any:
        def fail(piece: Any) -> Parts:
            if victim in piece.ids:
                raise failure("this user cannot be computed")
            return parts(piece)  # type: ignore[no-any-return]

        return original(people, rows, width, own, reach, fail, threads)

    monkeypatch.setattr("tensorveil.rounds.counts.sum_bounded", sum_failing)
    assert np.array_equal(recipe.contribute(recipe.start(), data), without)
