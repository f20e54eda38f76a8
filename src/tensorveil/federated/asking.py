"""The server's side of every question: it signs and asks, waits no longer than is fair, and checks all replies."""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from tensorveil.federated import wire
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.errors import RefusedError
from tensorveil.federated.identity import public_key
from tensorveil.federated.transport import Enough, Transport
from tensorveil.federated.wire import Message

__all__ = ["Incident", "Run", "Settings"]

log = logging.getLogger("tensorveil.federated")
RETURN: Final = 20.0  # seconds to wait for a client that may have returned
GRACE: Final = 5.0  # seconds to wait, after the others, for a client that did not answer the last time
SLOWER: Final = 3.0  # how many times as long as the others a client may take that answered the last time


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What only the server decides: how long to wait. It does not change what is computed.

    Parameters
    ----------
    patience
        Seconds to wait until all clients have come.
    timeout
        Seconds to wait for the answers of a round; clients that have not answered by then have dropped out of it.
    stragglers
        Seconds to wait for the last clients once the others have answered, as far as the run can go on without them;
        three times as long as the others took, if that is longer. Who has been silent is asked again in the next round,
        and then waited for only about as long as the others take, and less each time.
    """

    patience: float = 120.0
    timeout: float = 120.0
    stragglers: float = 20.0


@dataclass(frozen=True, kw_only=True)
class Incident:
    """A message that was refused or did not come: in which step, from which client, why. It contains no data."""

    step: str
    client: int
    reason: str


@dataclass(kw_only=True)
class Run:
    """A run in progress: which client is at which node, and what happened."""

    agreement: Agreement
    key: Ed25519PrivateKey
    transport: Transport
    settings: Settings
    private: bool
    name: str = field(default_factory=lambda: secrets.token_hex(16))
    places: dict[int, int] = field(default_factory=dict)  # client -> node
    hellos: dict[int, bytes] = field(default_factory=dict)
    published: list[bytes] = field(default_factory=list)
    inboxes: dict[int, bytes] = field(default_factory=dict)  # sealed shares for a client, until they are delivered
    incidents: list[Incident] = field(default_factory=list)
    tried: set[tuple[int, int]] = field(default_factory=set)  # (client, node) that turned out not to belong together
    silent: dict[int, int] = field(default_factory=dict)  # client -> questions in a row that it did not answer

    def note(self, step: str, client: int, reason: str) -> None:
        """Note what was refused, or did not come."""
        self.incidents.append(Incident(step=step, client=client, reason=reason))
        log.warning("%s, client %d: %s", step, client, reason)

    def message(self, kind: str, round_: int, receiver: int, arrays: Mapping[str, NDArray[Any]]) -> bytes:
        """Return a signed question."""
        facts = Message(
            kind=kind,
            agreement=self.agreement.digest,
            run=self.name,
            round=round_,
            sender=wire.SERVER,
            receiver=receiver,
            arrays=arrays,
        )
        return wire.encode(facts, self.key)

    def check(self, content: bytes, kind: str, round_: int, client: int | None) -> Message:
        """Read a reply, and refuse it unless it answers the question and comes from the client that was asked."""
        reply = wire.decode(content, self.agreement.longest_message)
        sender = reply.sender if client is None else client
        if not 0 <= sender < self.agreement.trust.clients:
            raise RefusedError("the sender is not in the agreement")
        wire.verify(content, public_key(self.agreement.clients[sender]))
        if reply.sender != sender or reply.receiver != wire.SERVER:
            raise RefusedError("the message is from somebody else")
        if (reply.agreement, reply.run) != (self.agreement.digest, self.name):
            raise RefusedError("the message is of another run")
        if reply.kind != kind or reply.round != round_:
            raise RefusedError("the message is of another round")
        return reply

    def ask(
        self,
        step: str,
        kind: str,
        round_: int,
        arrays: Callable[[int], Mapping[str, NDArray[Any]]],
        layout: Any,
        needed: int = 1,
    ) -> dict[int, Message]:
        """Ask all clients, and return the valid replies; everything else is noted, and counts as missing.

        Without as many as are needed the run cannot go on, so they are waited for as long as the settings allow.
        """
        asked = {client: self.message(kind, round_, client, arrays(client)) for client in sorted(self.places)}
        owners = {self.places[client]: client for client in asked}
        reachable = set(self.transport.nodes())
        sent = {self.places[c]: content for c, content in asked.items() if self.places[c] in reachable}
        read: dict[int, Message | RefusedError] = {}

        def is_good(node: int, content: bytes) -> bool:
            client = owners[node]
            if client not in read:
                try:
                    read[client] = self.accept(content, kind, round_, client, layout)
                except RefusedError as refused:
                    read[client] = refused
            return isinstance(read[client], Message)

        replies = self.transport.exchange(sent, self.settings.timeout, self.wait_for_last(set(sent), needed, is_good))
        self.silent = {c: self.silent.get(c, 0) + 1 for c in asked if self.places[c] not in replies}
        for node, content in replies.items():
            is_good(node, content)
        lost = {client: content for client, content in asked.items() if self.places[client] not in reachable}
        returned = self.find_returned(
            step, lost, lambda content, client: self.accept(content, kind, round_, client, layout)
        )
        good: dict[int, Message] = {}
        for client in asked:
            reply = returned.get(client) or read.get(client) or RefusedError("no answer")
            if isinstance(reply, Message):
                good[client] = reply
            else:
                self.note(step, client, str(reply))
        return good

    def wait_for_last(self, nodes: set[int], needed: int, is_good: Callable[[int, bytes], bool]) -> Enough:
        """Return when replies are enough: as many good ones as are needed, and no other one within a fair time."""
        began, came, took = time.monotonic(), 0, 0.0
        silent = {self.places[client]: times for client, times in self.silent.items()}

        def fair(node: int) -> float:
            if node in silent:
                return max(GRACE, took) * 0.5 ** (silent[node] - 1)
            return max(self.settings.stragglers, SLOWER * took)

        def enough(replies: Mapping[int, bytes]) -> bool:
            nonlocal came, took
            passed = time.monotonic() - began
            if len(replies) > came:
                came, took = len(replies), passed
            good = sum(is_good(node, content) for node, content in replies.items())
            return good >= needed and all(passed - took > fair(node) for node in nodes - replies.keys())

        return enough

    def accept(self, content: bytes, kind: str, round_: int, client: int, layout: Any) -> Message:
        """Return the reply that a client has signed, if it is as it should be."""
        reply = self.check(content, kind, round_, client)
        wire.expect(reply, layout)
        return reply

    def find_returned(
        self, step: str, lost: Mapping[int, bytes], accept: Callable[[bytes, int], Message]
    ) -> dict[int, Message]:
        """Look for clients whose node has left among nodes that came later: one that was restarted is a new node.

        Whoever answers has signed the answer, so it does not matter which node carries it. A question is put to each
        new node once per client, and to all of them at the same time: strangers may be among them, who never answer.
        """
        found: dict[int, Message] = {}
        for client, content in lost.items():
            known = set(self.places.values())
            new = [node for node in self.transport.nodes() if node not in known and (client, node) not in self.tried]
            self.tried.update((client, node) for node in new)

            def look(replies: Mapping[int, bytes], client: int = client) -> bool:
                for node, reply in replies.items():
                    with contextlib.suppress(RefusedError):
                        found[client] = accept(reply, client)
                        self.places[client] = node
                        return True
                return False

            wait = min(self.settings.timeout, RETURN)
            if look(self.transport.exchange(dict.fromkeys(new, content), wait, look)):
                log.info("%s: client %d has returned", step, client)
        return found
