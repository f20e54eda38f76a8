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

    def exchange(self, messages: Any, timeout: float, look: Any = None) -> Any:
        kind = min((wire.decode(content, len(content)).kind for content in messages.values()), default="")
        began, replies = self.clock.now, {}
        waiting = dict(messages)
        self.clock.sleep(1)
        while True:
            passed = self.clock.now - began
            for node, content in list(waiting.items()):
                if node in self.strangers or (kind in self.kinds and node in self.silent):
                    continue
                if node not in self.answers or (kind in self.kinds and passed < self.late.get(node, 0)):
                    continue
                del waiting[node]
                with contextlib.suppress(TensorveilError):
                    replies[node] = self.answers[node](content)
            more = look(replies, set(waiting)) if look is not None else None
            if more is None or passed >= timeout:
                break
            waiting.update(more)
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
    (kind, waited), (last, briefly) = transport.waits[-2:]
    assert (kind, last) == ("sum", "end")
    assert waited == pytest.approx(120, abs=2)
    assert briefly < 10


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


class Leaving(Slow):
    """One client's node leaves after the first round, and another one comes in its place among strangers.

    ``comes`` is how many seconds later; ``lingers`` tells whether the first node still seems to be there.
    """

    def __init__(self, clients: Any, clock: Clock, comes: float = 0, lingers: bool = False, **more: Any) -> None:
        super().__init__(clients, clock, **more)
        self.comes, self.lingers = comes, lingers
        self.gone: Any = None
        self.left = 0.0

    def nodes(self) -> Any:
        if self.gone is not None and 7 not in self.answers and self.clock.now >= self.left + self.comes:
            self.answers[7] = self.gone
            self.strangers = list(range(200, 260))
        return sorted([*super().nodes(), *([2] if self.lingers and 2 not in self.answers else [])])

    def exchange(self, messages: Any, timeout: float, look: Any = None) -> Any:
        replies = super().exchange(messages, timeout, look)
        if self.gone is None and self.waits[-1][0] == "sum":
            self.gone, self.left = self.answers.pop(2), self.clock.now
        return replies


@pytest.mark.parametrize("lingers", [False, True])
@pytest.mark.parametrize("comes", [0, 15])
def test_a_client_that_was_started_again_misses_no_round(
    tmp_path: Path, clock: Clock, comes: float, lingers: bool
) -> None:
    """It is found among strangers that never answer, also while its old node still seems to be there."""
    agreement, key, clients, _, _ = in_process(tmp_path, "aggregator")
    transport = Leaving(clients, clock, comes=comes, lingers=lingers)
    outcome = run_server(agreement, key, transport)
    assert outcome.missing == {}
    assert sum(waited for _, waited in transport.waits) < 15 + comes


def test_a_client_that_comes_too_late_for_a_round_answers_the_next(tmp_path: Path, clock: Clock) -> None:
    agreement, key, clients, _, _ = in_process(tmp_path, "aggregator")
    outcome = run_server(agreement, key, Leaving(clients, clock, comes=24))
    assert outcome.missing == {agreement.recipe.rounds[1].name: (2,)}


def test_a_client_without_which_a_run_cannot_go_on_is_waited_for_when_it_leaves(tmp_path: Path, clock: Clock) -> None:
    for folder, comes in (("back", 25.0), ("gone", 1e9)):
        agreement, key, clients, _, _ = in_process(tmp_path / folder, "secure", n=3)
        began, transport = clock.now, Leaving(clients, clock, comes=comes)
        if comes < 100:
            assert run_server(agreement, key, transport).missing == {}
        else:
            with pytest.raises(TensorveilError, match="more dropped out"):
                run_server(agreement, key, transport)
        assert clock.now - began < 60


def test_who_returns_and_stays_silent_delays_a_run_by_less_than_a_minute(tmp_path: Path, clock: Clock) -> None:
    """A hostile client says every second that it is at a new node now, and answers nothing there."""
    agreement, key, clients, _, _ = in_process(tmp_path, "aggregator", sweeps=8)

    class Moving(Slow):
        def nodes(self) -> Any:
            self.answers[int(1000 + self.clock.now)] = self.only_says_who
            return super().nodes()

        def only_says_who(self, content: bytes) -> Any:
            if wire.decode(content, len(content)).kind == "who":
                return clients[2].answer(content)
            raise TensorveilError("nothing")

    transport = Moving(clients, clock, silent={2})
    outcome = run_server(agreement, key, transport)
    assert set(outcome.missing.values()) == {(2,)}
    healthy = 2 * len(agreement.recipe.rounds)
    assert sum(waited for kind, waited in transport.waits if kind == "sum") < healthy + 60


def test_strangers_do_not_keep_a_client_that_comes_later_from_being_greeted(tmp_path: Path, clock: Clock) -> None:
    agreement, key, clients, _, _ = in_process(tmp_path, "aggregator")

    class Late(Slow):
        def nodes(self) -> Any:
            return [node for node in super().nodes() if node != 2 or self.clock.now > 10]

    transport = Late(clients, clock, strangers=3)
    assert run_server(agreement, key, transport).missing == {}
    assert clock.now < 30
