"""A client: it holds its users' data, answers each question of its server once, and follows only the agreement."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.federated import wire
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.errors import RefusedError
from tensorveil.federated.guarantee import guarantee_of
from tensorveil.federated.home import Home
from tensorveil.federated.identity import load_identity, public_hex, public_key
from tensorveil.federated.recipes import read_state
from tensorveil.federated.secure import masking
from tensorveil.federated.trust import part_deviation
from tensorveil.federated.wire import Message
from tensorveil.noise import NoiseSource, SecureSource, rounded_gaussian
from tensorveil.privacy import Ledger
from tensorveil.rounds import State

__all__ = ["Client"]

log = logging.getLogger("tensorveil.federated")


@dataclass(frozen=True, kw_only=True)
class Client:
    """One party that holds data.

    Parameters
    ----------
    agreement
        The agreement, as this client received it.
    home
        The client's folder, with its identity and its record of what it has answered.
    data
        Returns the group of whole users that the client holds; called only when data are asked for.
    ledger
        The client's own ledger, charged before the first answer about data; "local" trust requires one.
    source
        Where noise comes from; None uses the operating system's entropy.
    not_private
        True takes part in a run that protects nobody: by an agreement without noise, for comparisons, or with a seeded
        source, for tests. The client then says so in its greeting, charges no ledger, and answers no server and no
        peer that does not say the same.
    """

    agreement: Agreement
    home: Path
    data: Callable[[], Any]
    ledger: Path | None = None
    source: NoiseSource | None = None
    not_private: bool = False

    def __post_init__(self) -> None:
        if self.not_private:
            if self.ledger is not None:
                raise InputError(
                    "ledger: no charge makes a run private that is not. Leave the ledger or not_private out."
                )
        elif not self.agreement.trust.noise:
            raise InputError(
                "the agreement adds no noise: exact sums would leave. If these data need no protection, say so with "
                "not_private=True (--noise-off)."
            )
        elif self.source is not None and not self.source.secure:
            raise InputError(
                "source must be secure: whoever knows a seed takes the noise off again. In tests add not_private=True."
            )

    def answer(self, content: bytes) -> bytes:
        """Answer one message, or raise RefusedError, whose text never quotes the message."""
        key = load_identity(self.home)
        me = self._place(key)
        asked = self._check(content, me)
        memory = Home.of(self.home, self.agreement.digest)
        steps = {"hello": self._hello, "share": self._share, "inbox": self._open_inbox, "sum": self._sum}
        steps |= {"unmask": self._unmask, "who": self._who, "end": self._end}
        arrays = steps[asked.kind](asked, me, memory)
        reply = Message(
            kind=asked.kind,
            agreement=asked.agreement,
            run=asked.run,
            round=asked.round,
            sender=me,
            receiver=wire.SERVER,
            arrays=arrays,
        )
        return wire.encode(reply, key)

    def forget(self) -> None:
        """Erase the secrets of a run that was abandoned: with them, what its server has kept could be unmasked."""
        Home.of(self.home, self.agreement.digest).forget()

    @property
    def finished(self) -> bool:
        """Tell whether the last question of the agreement has been answered."""
        step = "unmask" if self.agreement.trust.kind == "secure" else "sum"
        last = len(self.agreement.recipe.rounds) - 1
        return Home.of(self.home, self.agreement.digest).was_answered(f"{step}-{last}")

    @property
    def begun(self) -> bool:
        """Tell whether data have been asked for."""
        return Home.of(self.home, self.agreement.digest).was_begun()

    @property
    def told(self) -> str | None:
        """Return how the run ended by the server's word, "completed" or "abandoned"; None if it has said nothing."""
        return Home.of(self.home, self.agreement.digest).how_it_ended()

    @property
    def release_id(self) -> str | None:
        """Return what the run is called in the client's ledger, once it may have been charged."""
        memory = Home.of(self.home, self.agreement.digest)
        return self._charge_name(memory) if memory.has_name() else None

    def _place(self, key: Ed25519PrivateKey) -> int:
        try:
            return self.agreement.clients.index(public_hex(key))
        except ValueError:
            raise InputError("this client's key is not in the agreement. Is it the right home folder?") from None

    def _check(self, content: bytes, me: int) -> Message:
        """Read a message; refuse it unless the agreed server sent it to this client, about this agreement."""
        message = wire.decode(content, self.agreement.longest_message)
        wire.verify(content, public_key(self.agreement.server))
        if message.agreement != self.agreement.digest:
            raise RefusedError("the message is about another agreement")
        if message.sender != wire.SERVER or message.receiver not in (me, wire.SERVER):
            raise RefusedError("the message is for somebody else")
        if message.receiver == wire.SERVER and message.kind not in ("hello", "who"):
            raise RefusedError("the message has no receiver")
        last = len(self.agreement.recipe.rounds) - 1
        if not (0 <= message.round <= last if message.kind in ("sum", "unmask") else message.round == -1):
            raise RefusedError("there is no such round")
        if self.agreement.trust.kind != "secure" and message.kind in ("share", "inbox", "unmask"):
            raise RefusedError("the agreement has no such step")
        return message

    def _hello(self, asked: Message, me: int, memory: Home) -> dict[str, NDArray[Any]]:
        """Say who is here. For secure sums, begin a run with a new seed, and return the public keys derived from it."""
        wire.expect(asked, wire.PROMISE)
        self._check_promise(asked)
        memory.once(f"hello-{asked.run}")
        memory.forget()  # of a run that never began, or that the server has left for this one
        if memory.was_begun() or memory.how_it_ended() is not None:
            raise RefusedError("the agreement was used up by another run")
        memory.keep("run", asked.run.encode())
        mine = wire.promise(not self.not_private)
        if self.agreement.trust.kind != "secure":
            return mine
        seed = secrets.token_bytes(32)
        memory.keep("seed", seed)
        return {**mine, "published": masking.publish_keys(seed, asked.run, len(self.agreement.recipe.rounds))}

    def _check_promise(self, hello: Message) -> None:
        """Refuse a party that is not private where this one is, or the other way round."""
        if wire.is_private(hello) == self.not_private:
            raise RefusedError("one of the parties says that the run is not private, and the other does not")

    def _share(self, asked: Message, me: int, memory: Home) -> dict[str, NDArray[Any]]:
        """Seal shares for all peers, after checking who they are."""
        self._current(asked, memory)
        everyone = self._peers(asked, me, memory)
        memory.once(f"share-{asked.run}")
        memory.keep("peers", b"".join(everyone))
        rounds, threshold = len(self.agreement.recipe.rounds), self.agreement.trust.threshold
        return {"sealed": masking.seal_shares(memory.recall("seed"), me, everyone, asked.run, rounds, threshold)}

    def _peers(self, asked: Message, me: int, memory: Home) -> list[bytes]:
        """Read what all clients published, each signed with its own key, so that a server cannot insert other keys."""
        trust, rounds = self.agreement.trust, len(self.agreement.recipe.rounds)
        length = masking.published_length(rounds)
        if set(asked.arrays) != {f"hello-{k}" for k in range(trust.clients)}:
            raise RefusedError("the message holds other arrays than it should")
        everyone = []
        for k in range(trust.clients):
            content = wire.text(asked, f"hello-{k}")
            hello = wire.decode(content, self.agreement.longest_message)
            wire.verify(content, public_key(self.agreement.clients[k]))
            facts = (hello.kind, hello.agreement, hello.run, hello.sender)
            if facts != ("hello", self.agreement.digest, asked.run, k):
                raise RefusedError("a peer's greeting is of another run")
            wire.expect(hello, {**wire.PROMISE, "published": ("u1", length)})
            self._check_promise(hello)
            everyone.append(hello.arrays["published"].tobytes())
        if everyone[me] != masking.publish_keys(memory.recall("seed"), asked.run, rounds).tobytes():
            raise RefusedError("this client's own greeting was changed")
        return everyone

    def _current(self, asked: Message, memory: Home, *, ended: bool = False) -> None:
        if memory.recall("run").decode() != asked.run:
            raise RefusedError("the message is of another run")
        if memory.how_it_ended() is not None and not ended:
            raise RefusedError("the run has ended")

    def _who(self, asked: Message, me: int, memory: Home) -> dict[str, NDArray[Any]]:
        """Say who is at this node, as often as asked: so a client that was started again is found."""
        self._current(asked, memory, ended=True)
        return wire.number(wire.read_number(asked))

    def _end(self, asked: Message, me: int, memory: Home) -> dict[str, NDArray[Any]]:
        """Note how the run ended, and erase its secrets: nothing is answered any more."""
        self._current(asked, memory, ended=True)
        completed = wire.read_outcome(asked)
        memory.end("completed" if completed else "abandoned")
        return {}

    def _sum(self, asked: Message, me: int, memory: Home) -> dict[str, NDArray[Any]]:
        """Return this client's sum of one round, in the form that the trust model allows."""
        self._current(asked, memory)
        trust, this = self.agreement.trust, self.agreement.recipe.rounds[asked.round]
        if trust.kind == "secure":
            memory.recall("shares")  # without which no mask could be removed
        state = read_state(self.agreement.recipe, wire.text(asked, "state"), asked.round)
        memory.begin(asked.run)
        self._charge(memory)
        memory.once(f"sum-{asked.round}")
        total = self.contribution(state)
        if trust.kind != "aggregator" and trust.noise:
            source = SecureSource() if self.source is None else self.source
            total = total + rounded_gaussian(part_deviation(this, trust), this.size, source)
        if trust.kind != "secure":
            return {"total": total}
        everyone = self._recall_peers(memory)
        return {"masked": masking.mask_vector(total, memory.recall("seed"), me, everyone, asked.run, asked.round)}

    def contribution(self, state: State) -> NDArray[np.int64]:
        """Return the sum of this client's users, or zeros if it cannot be computed.

        Whether a computation fails may depend on the data, and a lying server chooses the state: no failure may show,
        of whatever kind; running out of memory is one. Recipes leave single users or records out who make it fail, so
        what arrives here are failures of the state. An interrupt is the owner's wish, and no answer.

        A server leaves out sums that are larger than the declared number of users could make them. That there are more
        must not show either, so each number is cut to that size, which takes no two sums further apart.
        """
        recipe = self.agreement.recipe
        this = recipe.rounds[state.round]
        try:
            with np.errstate(all="ignore"):
                found = recipe.contribute(state, self.data())
        except Exception as error:  # its text might quote data
            log.error("the sum of a round could not be computed (%s); zeros are sent", type(error).__name__)
            return np.zeros(this.size, dtype=np.int64)
        most = this.largest * recipe.most_users
        return np.clip(found, -most, most)

    def _open_inbox(self, asked: Message, me: int, memory: Home) -> dict[str, NDArray[Any]]:
        """Open all shares of all peers, and say whose cannot be: before anything is charged, or said about data."""
        self._current(asked, memory)
        n, length = self.agreement.trust.clients, masking.sealed_length(len(self.agreement.recipe.rounds))
        wire.expect(asked, {"inbox": ("u1", n * length)})
        content, everyone = wire.text(asked, "inbox"), self._recall_peers(memory)
        memory.once(f"inbox-{asked.run}")
        inbox = [content[k * length : (k + 1) * length] for k in range(n)]
        opened = masking.open_each(memory.recall("seed"), me, everyone, asked.run, inbox)
        if all(shares is not None for shares in opened):
            memory.keep("shares", b"".join(shares for shares in opened if shares is not None))
        return {"unreadable": np.array([shares is None for shares in opened], dtype=np.uint8)}

    def _recall_peers(self, memory: Home) -> list[bytes]:
        length = masking.published_length(len(self.agreement.recipe.rounds))
        content = memory.recall("peers")
        return [content[k * length : (k + 1) * length] for k in range(self.agreement.trust.clients)]

    def _charge(self, memory: Home) -> None:
        """Charge the client's own ledger before anything is said about its data; local noise requires one.

        A charge covers the answers that this memory keeps from being given twice. Without the memory they could be
        given again, so a new one is charged anew.
        """
        local = self.agreement.trust.kind == "local"
        if self.not_private or (self.ledger is None and not local):
            return
        if self.ledger is None:
            raise InputError("local noise needs the client's own ledger. Make one with: tensorveil budget create")
        ledger, release_id = Ledger.open(self.ledger), self._charge_name(memory)
        # Looked up in every round: only the ledger itself knows whether a charge has succeeded.
        if all(charge.release_id != release_id for charge in ledger.entries()):
            purpose = f"federated run, {self.agreement.trust.kind}"
            ledger.charge(guarantee_of(self.agreement, secure_noise=True), purpose, release_id)

    def _charge_name(self, memory: Home) -> str:
        return f"agreement {self.agreement.digest}, {memory.name_once()}"

    def _unmask(self, asked: Message, me: int, memory: Home) -> dict[str, NDArray[Any]]:
        """Reveal one share of every client, if enough are said to be present; once per round, so never both kinds."""
        self._current(asked, memory)
        trust, rounds = self.agreement.trust, len(self.agreement.recipe.rounds)
        wire.expect(asked, {"present": ("u1", trust.clients)})
        present = asked.arrays["present"] == 1
        if int(present.sum()) < trust.threshold:
            raise RefusedError("more clients are said to be missing than the agreement allows")
        opened = memory.recall("shares")
        memory.once(f"unmask-{asked.round}")
        shares = masking.reveal_shares(opened, present, asked.round, rounds)
        if asked.round == rounds - 1:
            memory.forget()
        return {"shares": shares}
