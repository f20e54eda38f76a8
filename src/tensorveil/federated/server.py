"""The server: it greets, charges the ledger, asks for every round's sums, and turns them into the next state.

greet -> (secure: shares, opened by all) -> charge -> for every round: ask, check, sum, noise where trusted -> finish
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from tensorveil.completion.charging import tell_charges
from tensorveil.errors import InputError
from tensorveil.federated import wire
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.asking import Incident, Run, Settings
from tensorveil.federated.errors import AbandonedError, RefusedError
from tensorveil.federated.guarantee import guarantee_of
from tensorveil.federated.identity import public_hex
from tensorveil.federated.secure import masking, shamir
from tensorveil.federated.secure.unmasking import unmask_sum
from tensorveil.federated.transport import Transport
from tensorveil.federated.wire import Message
from tensorveil.noise import NoiseSource, SecureSource
from tensorveil.privacy import Guarantee, Ledger
from tensorveil.rounds import Round, State, draw_noise

__all__ = ["Incident", "Outcome", "Settings", "run_server"]

log = logging.getLogger("tensorveil.federated")
Progress = Callable[[int, int, str], None]
GREETING: Final = "greeting"
STRANGERS: Final = 100  # how many greetings that are refused are noted: anybody can come as often as wished


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run gives: the model, its guarantee, and what happened on the way. `tensorveil.write_release` releases it.

    Parameters
    ----------
    model_, guarantee_
        The model that users share, and what it promises.
    state
        The last state, which the model is a function of.
    release_id, ledger
        What the release is called in the ledger that was charged, if there is one.
    incidents
        What was refused, or did not come.
    missing
        By round, the clients that are not in its sums.
    """

    model_: Any
    state: State
    guarantee_: Guarantee
    release_id: str
    ledger: Path | None
    incidents: tuple[Incident, ...]
    missing: Mapping[str, tuple[int, ...]]

    @property
    def plan_(self) -> None:
        """Nothing was planned from the number of entries, which is private in this unit."""

    @property
    def notes_(self) -> tuple[str, ...]:
        """Nothing: rounds decide on nothing by what they measure."""
        return ()

    def confirm(self) -> None:
        """Note in the server's ledger that the release was written."""
        if self.ledger is not None:
            Ledger.open(self.ledger).confirm(self.release_id)


def run_server(
    agreement: Agreement,
    key: Ed25519PrivateKey,
    transport: Transport,
    *,
    ledger: Path | None = None,
    source: NoiseSource | None = None,
    not_private: bool = False,
    settings: Settings | None = None,
    progress: Progress | None = None,
    begin: Callable[[str], None] | None = None,
) -> Outcome:
    """Run an agreement to its end.

    Parameters
    ----------
    agreement, key
        The agreement, and the identity of the server in it.
    transport
        Reaches the clients.
    ledger
        Charged before the first round, except under local trust, where every client has its own.
    source
        Where the trusted server's noise comes from; None uses the operating system's entropy.
    not_private
        True allows a seeded source, for tests. All parties must have said the same, and the guarantee says it too.
    settings
        How long to wait.
    progress
        Called with the rounds done, their total number, and what is being done.
    begin
        Called with the name of the release right before the charge, so that a server that is started again knows it.

    Guarantee: that of `guarantee_of` for the agreement (docs/guarantees.md#federated).
    """
    if public_hex(key) != agreement.server:
        raise InputError("this key is not the server's in the agreement. Is it the right home folder?")
    source = SecureSource() if source is None else source
    if not (source.secure or not_private):
        raise InputError(
            "source must be secure: whoever knows a seed takes the noise off again. In tests add not_private=True."
        )
    guarantee = guarantee_of(agreement, secure_noise=not not_private)
    run = Run(
        agreement=agreement, key=key, transport=transport, settings=settings or Settings(), private=guarantee.private
    )
    tell = progress or (lambda done, total, text: None)
    rounds = agreement.recipe.rounds
    tell(0, len(rounds), "waiting for clients")
    _greet(run)
    if agreement.trust.kind == "secure":
        tell(0, len(rounds), "sharing keys")
        _share(run)
        _deliver(run)
    release_id = str(uuid.uuid4())
    if begin is not None:
        begin(release_id)
    with tell_charges(ledger, lambda: release_id):
        _charge(agreement, guarantee, ledger, release_id)
        with _told_of_the_end(run):
            state, missing = _go_through(run, source, tell)
            model = agreement.recipe.finish(state)
    return Outcome(
        model_=model,
        state=state,
        guarantee_=guarantee,
        release_id=release_id,
        ledger=ledger,
        incidents=tuple(run.incidents),
        missing=missing,
    )


def _greet(run: Run) -> None:
    """Find out which node is which client; all must come and prove who they are."""
    trust = run.agreement.trust
    layout = _greeting_layout(run.agreement)
    content = run.message("hello", -1, wire.SERVER, wire.promise(run.private))
    deadline = time.monotonic() + run.settings.patience
    greeted: set[int] = set()
    heard: set[int] = set()

    def hear(replies: Mapping[int, bytes]) -> None:
        for node in sorted(replies.keys() - heard):
            heard.add(node)
            _let_in(run, layout, node, replies[node])

    def look(replies: Mapping[int, bytes], waiting: Collection[int]) -> dict[int, bytes] | None:
        hear(replies)
        if len(run.places) == trust.clients or time.monotonic() >= deadline:
            return None
        return greet_new()

    def greet_new() -> dict[int, bytes]:
        new = [node for node in run.transport.nodes() if node not in greeted]
        greeted.update(new)
        return dict.fromkeys(new, content)

    while len(run.places) < trust.clients:
        hear(run.transport.exchange(greet_new(), max(deadline - time.monotonic(), 0.0), look))
        if len(run.places) < trust.clients:
            if time.monotonic() >= deadline:
                raise AbandonedError(
                    f"{len(run.places)} of {trust.clients} clients came; a run begins when all are present. "
                    "Nothing was charged. Start the missing ones, or make a new agreement without them."
                )
            time.sleep(min(0.5, max(0.0, deadline - time.monotonic())))
    if trust.kind == "secure":
        length = masking.published_length(len(run.agreement.recipe.rounds))
        run.published = [
            wire.decode(run.hellos[c], run.agreement.longest_message).arrays["published"].tobytes()
            for c in range(trust.clients)
        ]
        assert all(len(text) == length for text in run.published)


def _let_in(run: Run, layout: Any, node: int, reply: bytes) -> None:
    """Note which client is at a node, if it proves who it is."""
    try:
        hello = _read_hello(run, layout, reply)
        if hello.sender in run.places:
            raise RefusedError("the client is here already")
        run.places[hello.sender], run.hellos[hello.sender] = node, reply
    except RefusedError as refused:
        if len(run.incidents) < STRANGERS:
            run.note(GREETING, -1, str(refused))


def _read_hello(run: Run, layout: Any, reply: bytes) -> Message:
    hello = run.check(reply, "hello", -1, None)
    wire.expect(hello, layout)
    if wire.is_private(hello) != run.private:
        raise RefusedError("one of the parties says that the run is not private, and the other does not")
    return hello


def _greeting_layout(agreement: Agreement) -> dict[str, tuple[str, int]]:
    if agreement.trust.kind != "secure":
        return wire.PROMISE
    return {**wire.PROMISE, "published": ("u1", masking.published_length(len(agreement.recipe.rounds)))}


def _share(run: Run) -> None:
    """Send all keys to all clients, and collect the sealed shares. All must answer, or sums could not be unmasked."""
    n, length = run.agreement.trust.clients, masking.sealed_length(len(run.agreement.recipe.rounds))
    hellos = {f"hello-{c}": np.frombuffer(run.hellos[c], dtype=np.uint8) for c in range(n)}
    replies = run.ask("sharing keys", "share", -1, lambda client: hellos, {"sealed": ("u1", n * length)})
    if len(replies) < n:
        raise AbandonedError(
            f"{len(replies)} of {n} clients shared their keys; all must. Nothing was charged. Start the run again."
        )
    sealed = {c: reply.arrays["sealed"].tobytes() for c, reply in replies.items()}
    for client in range(n):
        run.inboxes[client] = b"".join(sealed[peer][client * length : (client + 1) * length] for peer in range(n))


def _deliver(run: Run) -> None:
    """Deliver the sealed shares. All must be opened before anything is charged, or no sum could be unmasked."""
    n = run.agreement.trust.clients
    replies = run.ask(
        "opening shares",
        "inbox",
        -1,
        lambda client: {"inbox": np.frombuffer(run.inboxes.pop(client), dtype=np.uint8)},
        {"unreadable": ("u1", n)},
    )
    if len(replies) < n:
        raise AbandonedError(
            f"{len(replies)} of {n} clients opened their shares; all must. Nothing was charged. Start the run again."
        )
    flags = {reader: reply.arrays["unreadable"] for reader, reply in replies.items()}
    pairs = [(reader, int(sender)) for reader, found in flags.items() for sender in np.flatnonzero(found)]
    for reader, sender in pairs:
        run.note("opening shares", sender, f"client {reader} says that the shares for it cannot be opened")
    if pairs:
        raise AbandonedError(
            "shares could not be opened: of each two clients that are named above, the one that sent them or the one "
            "that says so is at fault. Nothing was charged. Make a new agreement without it."
        )


def _charge(agreement: Agreement, guarantee: Guarantee, ledger: Path | None, release_id: str) -> None:
    """Charge the ledger before the first question about data. A crash may lose a release, never a charge."""
    if ledger is not None:
        if agreement.trust.kind == "local":
            raise InputError("with local noise every client has its own ledger; do not give the server one.")
        Ledger.open(ledger).charge(guarantee, f"federated run, {agreement.trust.kind}", release_id)


@contextlib.contextmanager
def _told_of_the_end(run: Run) -> Iterator[None]:
    """Tell clients how the run ends: all of them if it is abandoned, else those who missed its last question."""
    try:
        yield
    except Exception:
        run.tell_end(run.places, completed=False)
        raise
    if run.absent:
        run.tell_end(run.absent, completed=True)


def _go_through(run: Run, source: NoiseSource, tell: Progress) -> tuple[State, dict[str, tuple[int, ...]]]:
    """Go through all rounds; return the last state, and who was missing in which round."""
    recipe, clients = run.agreement.recipe, run.agreement.trust.clients
    rounds = recipe.rounds
    state, missing = recipe.start(), {}
    for number, this in enumerate(rounds):
        tell(number, len(rounds), this.name)
        total, absent = _run_round(run, number, this, state, source)
        state = recipe.advance(state, total)
        if absent:
            missing[this.name] = absent
        log.info("%s done, %d of %d clients", this.name, clients - len(absent), clients)
    tell(len(rounds), len(rounds), "done")
    return state, missing


def _run_round(
    run: Run, number: int, this: Round, state: State, source: NoiseSource
) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """Ask for one round's sums and add them up; return the total and which clients were missing."""
    trust = run.agreement.trust
    content = np.frombuffer(state.to_bytes(), dtype=np.uint8)
    kind = "masked" if trust.kind == "secure" else "total"
    layout = {kind: ("u8" if trust.kind == "secure" else "i8", this.size)}
    needed = trust.threshold if trust.kind == "secure" else 1
    replies = run.ask(this.name, "sum", number, lambda client: {"state": content}, layout, needed)
    vectors = {client: reply.arrays[kind] for client, reply in replies.items()}
    if trust.kind == "secure":
        total = _add_secure(run, number, this, vectors)
    else:
        total = _add_plain(run, this, vectors)
        if trust.kind == "aggregator" and trust.noise:
            total = total + draw_noise(this, source)
    return total, tuple(client for client in range(trust.clients) if client not in vectors)


def _add_plain(run: Run, this: Round, vectors: dict[int, NDArray[Any]]) -> NDArray[np.int64]:
    """Add up sums in plain sight; one that no group of users could have is left out."""
    most = this.largest * run.agreement.recipe.most_users
    if run.agreement.trust.kind == "local":
        most += int(100 * this.limit / this.mu)  # noise beyond a hundred deviations does not occur
    total = np.zeros(this.size, dtype=np.int64)
    for client, vector in list(vectors.items()):
        if int(vector.max()) > most or int(vector.min()) < -most:
            del vectors[client]
            run.note(this.name, client, "a sum is larger than all users together could make it")
        else:
            total += vector
    if not vectors:
        raise AbandonedError("no client answered. What was charged stays charged.")
    return total


def _add_secure(run: Run, number: int, this: Round, vectors: dict[int, NDArray[Any]]) -> NDArray[np.int64]:
    """Add up masked sums, with the help of the clients that answered."""
    trust, n = run.agreement.trust, run.agreement.trust.clients
    _check_enough(len(vectors), trust.threshold)
    present = np.array([client in vectors for client in range(n)], dtype=np.uint8)
    replies = run.ask(
        f"{this.name}, unmasking",
        "unmask",
        number,
        lambda client: {"present": present},
        {"shares": ("u1", n * shamir.SHARE)},
        trust.threshold,
    )
    _check_enough(len(replies), trust.threshold)
    shares = {}
    for holder, reply in replies.items():
        content = reply.arrays["shares"].tobytes()
        shares[holder] = [content[k * shamir.SHARE : (k + 1) * shamir.SHARE] for k in range(n)]
    total = unmask_sum(vectors, shares, run.published, trust.threshold, run.name, number)
    most = this.largest * run.agreement.recipe.most_users + int(100 * this.limit / this.mu)
    if int(total.max()) > most or int(total.min()) < -most:
        raise AbandonedError("a sum is larger than all users together could make it: a client sent a false one.")
    return total


def _check_enough(came: int, threshold: int) -> None:
    if came < threshold:
        raise AbandonedError(
            f"{came} clients answered, but {threshold} must: more dropped out than the agreement allows. "
            "What was charged stays charged; a new run needs a new agreement."
        )
