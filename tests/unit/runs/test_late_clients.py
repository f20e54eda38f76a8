"""A client that is started when the run is over: its own memory tells it what became of it, if nobody else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tensorveil.errors import CHARGED
from tensorveil.federated import wire
from tensorveil.federated.errors import AbandonedError
from tensorveil.federated.flower import client_app
from tensorveil.federated.flower.processes import Channel, free_port
from tensorveil.privacy import Budget, Ledger
from tensorveil.runs.federate import ClientRun, take_part
from tensorveil.runs.reading import Reading
from tests.unit.federated.federated_cases import Asking, ratings, split_users


@pytest.fixture
def asking(tmp_path: Path) -> Any:
    """A run of three clients with ledgers of their own, of which the first has answered one question about data."""
    made: Any = Asking(tmp_path, "aggregator")
    made.ledger = tmp_path / "own.ledger"
    Ledger.create(made.ledger, budget=Budget(epsilon=5.0, delta=1e-5), unit="slice:user", name="ratings")
    object.__setattr__(made.clients[0], "ledger", made.ledger)
    made.greet()
    made.ask(0, "sum", 0, 0, {"state": made.state()})
    return made


def start_again(asking: Any, tmp_path: Path, client: int = 0) -> Any:
    asking.agreement.save(tmp_path / "agreement.json")
    split_users(ratings(), 3)[client].with_modes(("user", "film", "day")).write(tmp_path / "data.npz")
    return take_part(
        ClientRun(
            agreement=tmp_path / "agreement.json",
            reading=Reading(file=str(tmp_path / "data.npz")),
            home=asking.homes[client],
            channel=Channel(address=f"127.0.0.1:{free_port()}"),
            ledger=asking.ledger,
        )
    )


def test_a_run_that_was_completed_without_it(asking: Any, tmp_path: Path) -> None:
    asking.ask(0, "end", -1, 0, wire.outcome(True))
    done = start_again(asking, tmp_path)
    assert (done.completed, done.finished) == (True, False)


def test_a_run_that_was_abandoned(asking: Any, tmp_path: Path) -> None:
    asking.ask(0, "end", -1, 0, wire.outcome(False))
    with pytest.raises(AbandonedError, match="has abandoned the run") as raised:
        start_again(asking, tmp_path)
    assert any(CHARGED in note for note in raised.value.__notes__)


def test_a_run_in_which_it_has_answered_everything(asking: Any, tmp_path: Path) -> None:
    for number in range(1, len(asking.agreement.recipe.rounds)):
        state = asking.agreement.recipe.start()
        for earlier in range(number):
            assert earlier == state.round
            state = asking.agreement.recipe.advance(state, asking.clients[1].contribution(state))
        asking.ask(0, "sum", number, 0, {"state": asking.state(state)})
    done = start_again(asking, tmp_path)
    assert (done.completed, done.finished) == (False, True)
    assert len(Ledger.open(asking.ledger).entries()) == 1


@pytest.mark.parametrize(("client", "words"), [(0, "either the run has ended"), (1, "start the server")])
def test_a_server_that_is_not_there(
    asking: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: int, words: str
) -> None:
    """Only a client that was asked about data has a reason to believe that the run is over."""
    monkeypatch.setattr(client_app, "GONE", 0.0)
    monkeypatch.setattr(client_app, "PATIENCE", 0.0)
    with pytest.raises(AbandonedError, match="nobody listens") as raised:
        start_again(asking, tmp_path, client)
    assert words in str(raised.value).lower()
    assert bool(getattr(raised.value, "__notes__", [])) == (client == 0)
