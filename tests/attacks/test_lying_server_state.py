"""A lying server sends a state with a negative spread, to take the bound off one user's contribution."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.federated.errors import RefusedError
from tensorveil.privacy import Budget, Ledger
from tensorveil.rounds import LIMIT, State
from tests.unit.federated.federated_cases import Asking


def lie(asking: Any, spread: float) -> Any:
    """A state of the round of pairs whose spread is negative, and whose other numbers keep residuals finite."""
    recipe = asking.agreement.recipe
    state = recipe.start()
    for this in recipe.rounds:
        if this.name.startswith("pairs"):
            break
        state = recipe.advance(state, np.zeros(this.size, dtype=np.int64))
    covariance = -abs(spread) * np.eye(len(state["taste_covariance"]))
    return State(
        round=state.round, arrays={**state.arrays, "spread": np.array([spread]), "taste_covariance": covariance}
    )


def make_clients(tmp_path: Path) -> Any:
    ledger = tmp_path / "own.ledger"
    Ledger.create(ledger, budget=Budget(epsilon=100, delta=0.01), unit="slice:user", name="own")
    return Asking(tmp_path, "local", sweeps=1, ledger=ledger)


@pytest.mark.parametrize("spread", [-1e-6, -1e-12, -1e-18])
def test_the_lie_is_not_answered(tmp_path: Path, spread: float) -> None:
    asking = make_clients(tmp_path)
    asking.greet()
    state = lie(asking, spread)
    with pytest.raises(RefusedError, match="no honest server"):
        asking.ask(0, "sum", state.round, 0, {"state": asking.state(state)})


@pytest.mark.parametrize("spread", [-1e-6, -1e-12, -1e-18])
def test_even_if_it_were_no_user_would_weigh_more(tmp_path: Path, spread: float) -> None:
    asking = make_clients(tmp_path)
    group = asking.clients[0].data()
    for user in np.unique(group.columns[0]):
        one = group.take(group.columns[0] == user)
        sums = replace(asking.clients[0], data=lambda one=one: one).contribution(lie(asking, spread))
        assert sum(int(number) ** 2 for number in sums) <= LIMIT**2
