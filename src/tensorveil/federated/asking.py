"""The server's side of every question: it signs and asks, waits no longer than is fair, and checks all replies."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from tensorveil.federated import wire
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.errors import RefusedError
from tensorveil.federated.identity import public_key
from tensorveil.federated.transport import Transport
from tensorveil.federated.wire import Message

__all__ = ["Incident", "Run", "Settings"]

log = logging.getLogger("tensorveil.federated")
RETURN: Final = 30.0  # seconds to wait for a client that has left, and without which the run cannot go on
RETURNS: Final = 2  # how often a client that has returned is waited for anew
PROBES: Final = 10  # how often a node that does not answer is asked who it is
CROWD: Final = 256  # how many nodes are asked who they are while a question is on its way
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
    silent: dict[int, int] = field(default_factory=dict)  # client -> questions in a row that it did not answer
    returns: dict[int, int] = field(default_factory=dict)  # client -> how often it was found at a new node
    probes: dict[int, int] = field(default_factory=dict)  # node -> how often it was asked who it is
    absent: tuple[int, ...] = ()  # who did not answer the last question

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

    def accept(self, content: bytes, kind: str, round_: int, client: int, layout: Any) -> Message:
        """Return the reply that a client has signed, if it is as it should be."""
        reply = self.check(content, kind, round_, client)
        wire.expect(reply, layout)
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
        read = self.put(step, kind, round_, arrays, layout, self.places, needed)
        good: dict[int, Message] = {}
        for client in sorted(self.places):
            reply = read.get(client) or RefusedError("no answer")
            if isinstance(reply, Message):
                good[client] = reply
            else:
                self.note(step, client, str(reply))
        self.absent = tuple(client for client in sorted(self.places) if client not in good)
        return good

    def tell_end(self, clients: Collection[int], *, completed: bool) -> None:
        """Tell clients that the run is over, and whether it was completed; wait briefly until they have heard it."""
        self.silent = dict.fromkeys(self.places, 1)
        try:
            self.put("the end", "end", -1, lambda client: wire.outcome(completed), {}, clients, needed=0)
        except Exception as error:  # of the transport; the run has ended all the same
            log.warning("clients could not be told how the run ended (%s)", type(error).__name__)

    def put(
        self,
        step: str,
        kind: str,
        round_: int,
        arrays: Callable[[int], Mapping[str, NDArray[Any]]],
        layout: Any,
        clients: Collection[int],
        needed: int = 1,
    ) -> dict[int, Message | RefusedError]:
        """Put a question to clients; return by client what came, or why it was refused."""

        def accept(content: bytes, client: int) -> Message:
            return self.accept(content, kind, round_, client, layout)

        contents = {client: self.message(kind, round_, client, arrays(client)) for client in sorted(clients)}
        question = Question(run=self, step=step, contents=contents, accept=accept, needed=needed)
        replies = self.transport.exchange(question.begin(), self.settings.timeout, question.look)
        question.end(replies)
        return question.read


@dataclass(kw_only=True)
class Question:
    """A question on its way: to which nodes it went, what was answered, and who is still waited for.

    A client that was started again is at a new node. While a question is on its way, new nodes are asked who they are,
    all at once and without delay to anybody: strangers may be among them, who never answer. Who signs the answer, which
    holds a number drawn for this node alone, is from then on asked there. So whatever nodes there are, a client is
    counted once, and by what it has signed.
    """

    run: Run
    step: str
    contents: Mapping[int, bytes]  # by client
    accept: Callable[[bytes, int], Message]
    needed: int
    read: dict[int, Message | RefusedError] = field(default_factory=dict)  # by client
    owners: dict[int, int] = field(default_factory=dict)  # node -> the client that was asked there
    asked_who: dict[int, bytes] = field(default_factory=dict)  # node -> the number that it was sent
    heard: dict[int, bytes] = field(default_factory=dict)  # node -> its last reply
    back: dict[int, float] = field(default_factory=dict)  # client -> when it returned
    began: float = field(default_factory=lambda: time.monotonic())
    took: float = 0.0  # when the last answer came

    def begin(self) -> dict[int, bytes]:
        """Return what is sent to the nodes at which the clients were last."""
        reachable = set(self.run.transport.nodes())
        self.owners = {self.run.places[c]: c for c in self.contents if self.run.places[c] in reachable}
        return {node: self.contents[client] for node, client in self.owners.items()}

    def look(self, replies: Mapping[int, bytes], waiting: Collection[int]) -> dict[int, bytes] | None:
        """Read what has come; return what is to be sent now, or None if nobody is waited for any more."""
        passed = time.monotonic() - self.began
        more = self.hear(replies, passed)
        reachable = set(self.run.transport.nodes())
        late = [client for client in self.contents if not isinstance(self.read.get(client), Message)]
        enough = len(self.contents) - len(late) >= self.needed
        if all(self.is_given_up(client, passed, reachable, {*waiting, *more}, enough) for client in late):
            return None
        return {**more, **self.ask_who(reachable)}

    def hear(self, replies: Mapping[int, bytes], passed: float) -> dict[int, bytes]:
        """Read the replies that are new; return the question for those who turn out to have returned."""
        more: dict[int, bytes] = {}
        for node, content in replies.items():
            if self.heard.get(node) is content:
                continue
            self.heard[node] = content
            if node in self.owners:
                self.take(self.owners[node], content, passed)
            elif node in self.asked_who:
                client = self.recognise(node, content, passed)
                if client is not None and client in self.contents and not isinstance(self.read.get(client), Message):
                    self.owners[node] = client
                    more[node] = self.contents[client]
        return more

    def take(self, client: int, content: bytes, passed: float) -> None:
        """Read a client's answer; the first one that is valid counts, from whichever node."""
        if isinstance(self.read.get(client), Message):
            return
        self.took = passed
        try:
            self.read[client] = self.accept(content, client)
        except RefusedError as refused:
            self.read[client] = refused

    def ask_who(self, reachable: Collection[int]) -> dict[int, bytes]:
        """Return what asks new nodes who they are."""
        known, probes = {*self.run.places.values(), *self.owners, *self.asked_who}, self.run.probes
        new = [node for node in reachable if node not in known and probes.get(node, 0) < PROBES]
        new = sorted(new, key=lambda node: probes.get(node, 0))[: CROWD - len(self.asked_who)]
        for node in new:
            probes[node] = probes.get(node, 0) + 1
            self.asked_who[node] = secrets.token_bytes(wire.NONCE)
        return {node: self.run.message("who", -1, wire.SERVER, wire.number(self.asked_who[node])) for node in new}

    def recognise(self, node: int, content: bytes, passed: float) -> int | None:
        """Return the client that has signed that it is at a node; from now on it is asked there."""
        try:
            reply = self.run.check(content, "who", -1, None)
            if wire.read_number(reply) != self.asked_who[node]:
                raise RefusedError("the message answers another question")
        except RefusedError as refused:
            log.debug("%s: a node was asked who it is: %s", self.step, refused)  # anybody can come as often as wished
            return None
        client = reply.sender
        self.run.places[client] = node
        self.run.returns[client] = self.run.returns.get(client, 0) + 1
        if self.run.returns[client] <= RETURNS:
            self.back[client] = passed
        log.info("%s: client %d has returned", self.step, client)
        return client

    def is_given_up(
        self, client: int, passed: float, reachable: Collection[int], waiting: Collection[int], enough: bool
    ) -> bool:
        """Tell whether a client that has given no valid answer is waited for no longer."""
        node = self.run.places[client]
        if client in self.read or (node in reachable and node not in waiting):  # it has answered, or refused to
            return True
        if enough:
            return passed > self.patience(client)
        return node not in reachable and passed - self.took > RETURN

    def patience(self, client: int) -> float:
        """Return until when a client is waited for, once the others are enough: a fair time after the last answer."""
        silent = self.run.silent.get(client, 0)
        if silent:
            fair = max(GRACE, self.took) * 0.5 ** (silent - 1)
        else:
            fair = max(self.run.settings.stragglers, SLOWER * self.took)
        if client not in self.back:
            return self.took + fair
        return max(self.took + fair, self.back[client] + max(GRACE, SLOWER * self.took))

    def end(self, replies: Mapping[int, bytes]) -> None:
        """Read what came last, and note who was silent."""
        self.hear(replies, time.monotonic() - self.began)
        for client in self.contents:
            if client in self.read:
                self.run.silent.pop(client, None)
            else:
                self.run.silent[client] = 1 if client in self.back else self.run.silent.get(client, 0) + 1
