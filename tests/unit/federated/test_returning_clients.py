"""A client that was started again is taken back at whichever node signs for it: others come there in its name."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tensorveil.federated import wire
from tensorveil.federated.errors import RefusedError
from tensorveil.federated.identity import load_identity, make_identity
from tensorveil.federated.server import Settings, run_server
from tensorveil.federated.transport import InProcess
from tensorveil.rounds import run_recipe
from tests.unit.federated.federated_cases import Asking, in_process
from tests.unit.federated.test_waiting import Clock, Slow
from tests.unit.federated.test_waiting import clock as clock  # a fixture

HASTE = Settings(patience=0.0, timeout=1.0)
VICTIM, HOSTILE, ELSEWHERE = 2, 1, 9


class Coming(InProcess):
    """After the first sums somebody comes at node 9, and the victim's node leaves, if it is to."""

    def __init__(self, clients: Any, comer: Any, leaves: bool) -> None:
        super().__init__(answers=[self.hear(client) for client in clients])
        self.clients, self.comer, self.leaves = clients, comer, leaves
        self.said: list[bytes] = []

    def hear(self, client: Any) -> Any:
        def answer(content: bytes) -> bytes:
            self.said.append(client.answer(content))
            return self.said[-1]

        return answer

    def nodes(self) -> Any:
        if all(wire.decode(reply, len(reply)).kind != "sum" for reply in self.said):
            return range(len(self.answers))
        return [*(node for node in range(len(self.answers)) if node != VICTIM or not self.leaves), ELSEWHERE]

    def exchange(self, messages: Any, timeout: float, look: Any = None) -> Any:
        answers = {**dict(enumerate(self.answers)), ELSEWHERE: lambda content: self.comer(self, content)}
        return InProcess(answers=cast(Any, answers)).exchange(messages, timeout, look)


def exact(tmp_path: Path, comer: Any, kind: str = "aggregator", *, leaves: bool = True) -> Any:
    """Run without noise with somebody who comes; return the outcome, the agreement and all data."""
    more: Any = {"drop_outs": 1} if kind == "secure" else {}
    agreement, key, clients, _, data = in_process(tmp_path, kind, noise=False, **more)
    return run_server(agreement, key, Coming(clients, comer, leaves), settings=HASTE), agreement, data


def as_victim(content: bytes, key: Any, **changes: Any) -> bytes:
    asked = wire.decode(content, len(content))
    facts = {**vars(asked), "sender": VICTIM, "receiver": wire.SERVER, **changes}
    return wire.encode(wire.Message(**facts), key)


@pytest.mark.parametrize("kind", ["aggregator", "secure"])
def test_nobody_takes_the_place_of_another(tmp_path: Path, kind: str) -> None:
    """Neither by a key of its own, nor by another client's."""
    stranger = make_identity(tmp_path / "stranger")
    asked: list[str] = []

    def comer(here: Any, content: bytes) -> bytes:
        asked.append(wire.decode(content, len(content)).kind)
        return as_victim(content, stranger if len(asked) % 2 else load_identity(here.clients[HOSTILE].home))

    outcome, agreement, _ = exact(tmp_path, comer, kind)
    assert outcome.missing == {this.name: (VICTIM,) for this in agreement.recipe.rounds[1:]}
    assert set(asked) == {"who"}


def test_what_a_client_has_signed_before_proves_nothing_now(tmp_path: Path) -> None:
    """An answer of the victim's to an earlier question of the same kind is played again."""
    asked: list[str] = []
    played: list[bytes] = []

    def comer(here: Any, content: bytes) -> bytes:
        asked.append(wire.decode(content, len(content)).kind)
        if not played:  # as if it had been overheard
            facts = {**vars(wire.decode(content, len(content))), "arrays": wire.number(bytes(wire.NONCE))}
            server = load_identity(tmp_path / "server")
            played.append(here.clients[VICTIM].answer(wire.encode(wire.Message(**facts), server)))
        return played[0]

    outcome, agreement, _ = exact(tmp_path, comer)
    assert outcome.missing == {this.name: (VICTIM,) for this in agreement.recipe.rounds[1:]}
    assert set(asked) == {"who"}


@pytest.mark.parametrize("first", ["old", "new"])
def test_a_client_at_two_nodes_is_counted_once(tmp_path: Path, clock: Clock, first: str) -> None:
    """Both answer every question: two processes with one key, each with a memory of its own."""
    agreement, key, clients, _, data = in_process(tmp_path, "aggregator", noise=False)
    asked: list[str] = []

    def twin(content: bytes) -> Any:
        asked.append(wire.decode(content, len(content)).kind)
        return replace(clients[HOSTILE], home=tmp_path / "twin").answer(content)

    class Doubled(Slow):
        def nodes(self) -> Any:
            if self.waits and ELSEWHERE not in self.answers:
                shutil.copytree(clients[HOSTILE].home, tmp_path / "twin")
                self.answers[ELSEWHERE] = twin
            return super().nodes()

    late = {HOSTILE: 9 if first == "new" else 4, 0: 8}
    outcome = run_server(agreement, key, Doubled(clients, clock, late=late))
    assert {"who", "sum"} <= set(asked)
    assert outcome.missing == {}
    assert outcome.state.to_bytes() == run_recipe(agreement.recipe, [data], None).to_bytes()


def test_a_client_says_who_it_is_to_its_own_server_and_run_alone(tmp_path: Path) -> None:
    asking = Asking(tmp_path, "aggregator")
    number = wire.number(bytes(range(wire.NONCE)))
    with pytest.raises(RefusedError, match="missing"):  # it has joined no run
        asking.ask(0, "who", -1, wire.SERVER, number)
    asking.greet()
    assert asking.ask(0, "who", -1, wire.SERVER, number).arrays["number"].tolist() == list(range(wire.NONCE))
    for question, changes, reason in (
        (("who", -1, wire.SERVER, number), {"run": "cd" * 16}, "another run"),
        (("who", -1, wire.SERVER, number), {"key": make_identity(tmp_path / "other")}, "signature"),
        (("who", 0, wire.SERVER, number), {}, "no such round"),
        (("who", -1, wire.SERVER, {"number": np.zeros(4096, dtype=np.uint8)}), {}, "wrong length"),
    ):
        with pytest.raises(RefusedError, match=reason):
            asking.ask(0, *question, **changes)


def test_the_end_is_the_servers_to_say_and_nothing_is_answered_after_it(tmp_path: Path) -> None:
    asking = Asking(tmp_path, drop_outs=1)
    inboxes = asking.share()
    asking.first(0, inboxes)
    told = wire.outcome(True)
    with pytest.raises(RefusedError, match="signature"):
        asking.ask(0, "end", -1, 0, told, key=load_identity(asking.homes[1]))
    with pytest.raises(RefusedError, match="another run"):
        asking.ask(0, "end", -1, 0, told, run="cd" * 16)
    with pytest.raises(RefusedError, match="no receiver"):
        asking.ask(0, "end", -1, wire.SERVER, told)
    assert [client.told for client in asking.clients] == [None] * 3
    asking.ask(0, "end", -1, 0, told)
    asking.ask(0, "end", -1, 0, wire.outcome(False))  # the first word stands
    assert [client.told for client in asking.clients] == ["completed", None, None]
    with pytest.raises(RefusedError, match="ended"):
        asking.ask(0, "unmask", 0, 0, {"present": np.ones(3, dtype=np.uint8)})
    with pytest.raises(RefusedError, match="used up"):
        asking.ask(0, "hello", -1, wire.SERVER, wire.promise(True), run="cd" * 16)
