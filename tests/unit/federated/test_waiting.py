"""How long a server waits: for all clients, not for strangers, and once for a client that is silent."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from tensorveil.errors import TensorveilError
from tensorveil.federated import asking, server, wire
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
    """A transport that takes a second to ask, and waits for nodes that answer late or never, as long as it is told to.

    ``silent`` nodes never answer a question of ``kinds``, ``late`` ones after so many seconds.
    """

    def __init__(self, clients: Any, clock: Clock, silent: Any = (), strangers: int = 0, late: Any = None) -> None:
        self.answers = {node: client.answer for node, client in enumerate(clients)}
        self.clock, self.silent, self.strangers = clock, silent, [100 + n for n in range(strangers)]
        self.late: dict[int, float] = late or {}
        self.kinds = {"share", "inbox", "sum", "unmask"}
        self.waits: list[tuple[str, float]] = []

    def nodes(self) -> Any:
        return sorted([*self.answers, *self.strangers])

    def exchange(self, messages: Any, timeout: float, enough: Any = None) -> Any:
        kind = min((wire.decode(content, len(content)).kind for content in messages.values()), default="")
        began, replies = self.clock.now, {}
        waiting = dict(messages)
        self.clock.sleep(1)
        while True:
            passed = self.clock.now - began
            for node, content in list(waiting.items()):
                if node in self.strangers or (kind in self.kinds and node in self.silent):
                    continue
                if kind in self.kinds and passed < self.late.get(node, 0):
                    continue
                del waiting[node]
                with contextlib.suppress(TensorveilError):
                    replies[node] = self.answers[node](content)
            if not waiting or passed >= timeout or (enough is not None and enough(replies)):
                break
            self.clock.sleep(1)
        self.waits.append((kind, self.clock.now - began))
        return replies


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (asking, server):
        monkeypatch.setattr(module, "time", made)
    return made


def test_a_greeting_does_not_wait_for_strangers(tmp_path: Path, clock: Clock) -> None:
    agreement, key, clients, _, _ = in_process(tmp_path, "aggregator")
    transport = Slow(clients, clock, strangers=3)
    outcome = run_server(agreement, key, transport)
    assert outcome.missing == {}
    assert max(waited for _, waited in transport.waits) <= 2


@pytest.mark.parametrize("silent", [{2}, {1, 2}])
def test_a_silent_client_delays_a_run_once(tmp_path: Path, clock: Clock, silent: Any) -> None:
    agreement, key, clients, _, _ = in_process(tmp_path, "aggregator")
    transport = Slow(clients, clock, silent=silent)
    outcome = run_server(agreement, key, transport)
    rounds = [waited for kind, waited in transport.waits if kind == "sum"]
    assert 20 < rounds[0] <= 22
    assert len(rounds) >= 3
    assert 5 < rounds[1] <= 7
    assert sum(rounds) < 50
    assert set(outcome.missing.values()) == {tuple(sorted(silent))}


def test_a_run_waits_longer_for_clients_that_it_cannot_do_without(tmp_path: Path, clock: Clock) -> None:
    """Fewer than must answer end the run, and the charge stays: the last ones are waited for as long as may be."""
    agreement, key, clients, _, _ = in_process(tmp_path, "secure", drop_outs=1)
    transport = Slow(clients, clock, silent={1, 2})
    transport.kinds = {"sum", "unmask"}
    with pytest.raises(TensorveilError, match="must"):
        run_server(agreement, key, transport)
    kind, waited = transport.waits[-1]
    assert kind == "sum"
    assert waited == pytest.approx(120, abs=2)


def test_a_client_may_take_three_times_as_long_as_the_others(tmp_path: Path, clock: Clock) -> None:
    agreement, key, clients, _, _ = in_process(tmp_path, "aggregator")
    transport = Slow(clients, clock, late={0: 40, 1: 20, 2: 100})
    outcome = run_server(agreement, key, transport)
    assert outcome.missing == {}
    assert next(waited for kind, waited in transport.waits if kind == "sum") == pytest.approx(100, abs=2)


def test_a_run_of_which_all_are_silent_waits_for_all(tmp_path: Path, clock: Clock) -> None:
    agreement, key, clients, _, _ = in_process(tmp_path, "aggregator")
    transport = Slow(clients, clock, silent={0, 1, 2})
    with pytest.raises(TensorveilError):
        run_server(agreement, key, transport)


def test_new_nodes_are_asked_at_the_same_time(tmp_path: Path, clock: Clock) -> None:
    """A client that was started again is found among strangers that never answer."""
    agreement, key, clients, _, _ = in_process(tmp_path, "aggregator")

    class Leaving(Slow):
        def exchange(self, messages: Any, timeout: float, enough: Any = None) -> Any:
            replies = super().exchange(messages, timeout, enough)
            if len(self.waits) == 2:  # after the first round
                self.answers[7] = self.answers.pop(2)
                self.strangers = list(range(200, 260))
            return replies

    transport = Leaving(clients, clock)
    outcome = run_server(agreement, key, transport)
    assert outcome.missing == {}
    assert sum(waited for _, waited in transport.waits) < 60
