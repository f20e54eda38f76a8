"""How long a server waits: for all clients, not for strangers, and once for a client that is silent."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from tensorveil.errors import TensorveilError
from tensorveil.federated import server as waiting
from tensorveil.federated import wire
from tensorveil.federated.server import run_server
from tests.unit.federated.federated_cases import in_process


class Clock:
    """Time that passes when somebody waits for it."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Slow:
    """A transport that takes a second to ask, and waits for nodes that do not answer, as long as it is told to."""

    def __init__(self, clients: Any, clock: Clock, silent: Any = (), strangers: int = 0) -> None:
        self.answers = {node: client.answer for node, client in enumerate(clients)}
        self.clock, self.silent, self.strangers = clock, silent, [100 + n for n in range(strangers)]
        self.waits: list[tuple[str, float]] = []

    def nodes(self) -> Any:
        return sorted([*self.answers, *self.strangers])

    def exchange(self, messages: Any, timeout: float, enough: Any = None) -> Any:
        kinds = {wire.decode(content, len(content)).kind for content in messages.values()}
        began, replies, missing = self.clock.now, {}, False
        for node, content in messages.items():
            if node in self.strangers or (node in self.silent and "hello" not in kinds):
                missing = True
                continue
            with contextlib.suppress(TensorveilError):
                replies[node] = self.answers[node](content)
        self.clock.sleep(1)
        while missing and self.clock.now < began + timeout and not (enough is not None and enough(replies)):
            self.clock.sleep(1)
        self.waits.append((min(kinds, default=""), self.clock.now - began))
        return replies


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(waiting, "time", made)
    return made


def test_a_greeting_does_not_wait_for_strangers(tmp_path: Path, clock: Clock) -> None:
    agreement, server, clients, _, _ = in_process(tmp_path, "aggregator")
    transport = Slow(clients, clock, strangers=3)
    outcome = run_server(agreement, server, transport)
    assert outcome.missing == {}
    assert max(waited for _, waited in transport.waits) <= 2


@pytest.mark.parametrize("silent", [{2}, {1, 2}])
def test_a_silent_client_delays_a_run_once(tmp_path: Path, clock: Clock, silent: Any) -> None:
    agreement, server, clients, _, _ = in_process(tmp_path, "aggregator")
    transport = Slow(clients, clock, silent=silent)
    outcome = run_server(agreement, server, transport)
    rounds = [waited for kind, waited in transport.waits if kind == "sum"]
    assert rounds[0] >= 120
    assert len(rounds) >= 3
    assert max(rounds[1:]) <= 10
    assert set(outcome.missing.values()) == {tuple(sorted(silent))}


def test_a_run_of_which_all_are_silent_waits_for_all(tmp_path: Path, clock: Clock) -> None:
    agreement, server, clients, _, _ = in_process(tmp_path, "aggregator")
    transport = Slow(clients, clock, silent={0, 1, 2})
    with pytest.raises(TensorveilError):
        run_server(agreement, server, transport)


def test_new_nodes_are_asked_at_the_same_time(tmp_path: Path, clock: Clock) -> None:
    """A client that was started again is found among strangers that never answer."""
    agreement, server, clients, _, _ = in_process(tmp_path, "aggregator")

    class Leaving(Slow):
        def exchange(self, messages: Any, timeout: float, enough: Any = None) -> Any:
            replies = super().exchange(messages, timeout, enough)
            if len(self.waits) == 2:  # after the first round
                self.answers[7] = self.answers.pop(2)
                self.strangers = list(range(200, 260))
            return replies

    transport = Leaving(clients, clock)
    outcome = run_server(agreement, server, transport)
    assert outcome.missing == {}
    assert sum(waited for _, waited in transport.waits) < 60
