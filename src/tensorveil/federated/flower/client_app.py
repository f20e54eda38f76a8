"""A client over Flower: a SuperNode that carries messages, and a loop that answers them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

from tensorveil.errors import TensorveilError
from tensorveil.federated import wire
from tensorveil.federated.client import Client
from tensorveil.federated.errors import AbandonedError, RefusedError
from tensorveil.federated.flower.processes import Channel, listens, require_flower, super_node

__all__ = ["work"]

log = logging.getLogger("tensorveil.federated")
POLL = 0.1  # seconds
LOOK = 0.5  # seconds between two looks whether the server is there
GONE = 20.0  # seconds without a server after which it counts as having left
RESTART = 45.0  # the same, as long as it has not asked about data: it may be started again
LINGER = 60.0  # seconds that a client stays when nothing is left to be asked, so that its last answer is carried on
PATIENCE = 300.0  # seconds to wait for a server that is not there yet
LEFT = (
    "Either the run has ended without this client, or the server was stopped: its log says which, and whether there is "
    "a release. Clients answer no other run of this agreement; for a new run make a new one."
)


def work(client: Client, channel: Channel, logs: Path, *, on_answer: Callable[[str], None] | None = None) -> None:
    """Answer the server's messages until the last round is done, or the server has said that the run is over.

    Parameters
    ----------
    client
        The client that answers.
    channel
        How to reach the server.
    logs
        A folder for Flower's own logs.
    on_answer
        Called with the kind of each question that was answered, to show progress.
    """
    require_flower()
    _await(client, channel)
    with _Presence(channel.address) as presence:
        while not _work_at_a_node(client, channel, presence, logs / "supernode.log", on_answer):
            log.info("the server was started again; joining it as a new node")


def _work_at_a_node(
    client: Client, channel: Channel, presence: _Presence, path: Path, on_answer: Callable[[str], None] | None
) -> bool:
    """Answer what comes by one SuperNode; return True when the run is over, False when another node is needed.

    A SuperLink that was started again does not know the nodes of the one before it, nor do these find out.
    """
    from tensorveil.federated.flower.runtime import CLIENT_TASK, Place, claim, serve_task

    presence.left.clear()
    with super_node(channel, path) as node:
        place = Place(address=node.address, certificates=None, secret=node.secret)
        claimer = place.client()
        served = time.monotonic()
        try:
            while not (_is_done(client) and time.monotonic() - served > LINGER):
                if presence.left.is_set():
                    return _is_over(client, channel)
                if not node.alive:
                    raise AbandonedError(f"the SuperNode has ended; {path} may say why.")
                until = time.monotonic() + 2.0
                while time.monotonic() < until and not presence.left.is_set():
                    token = claim(claimer, CLIENT_TASK)
                    if token is None:
                        time.sleep(POLL)
                    else:
                        question = _Question(
                            fetch=partial(serve_task, place, token),
                            answer=lambda body: _answer(client, body, on_answer),
                        )
                        question.serve(lambda: presence.left.is_set() or not node.alive)
                        served = time.monotonic()
        finally:
            claimer.close()
    return True


class _Presence:
    """Looks, also while a question is being answered, whether somebody listens at the server's address."""

    def __init__(self, address: str) -> None:
        self.left = threading.Event()  # nobody did, twice in a row
        self._address = address
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        missed = 0
        while not self._done.wait(LOOK):
            missed = 0 if listens(self._address) else missed + 1
            if missed >= 2:
                self.left.set()


class _Question:
    """A question that is fetched and answered. It can be left while it is fetched, but not while it is answered.

    A server may leave when a node has heard of its question and not yet got it: Flower would wait for two hours.
    """

    def __init__(
        self, fetch: Callable[[Callable[[bytes], bytes | None]], None], answer: Callable[[bytes], bytes | None]
    ) -> None:
        self._fetch, self._answer = fetch, answer
        self._answering = threading.Lock()
        self._left = False

    def serve(self, is_lost: Callable[[], bool]) -> None:
        """Work on it until it is done, or nobody is there any more; nothing is answered or charged afterwards."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            while thread.is_alive() and not is_lost():
                thread.join(POLL)
        finally:
            with self._answering:
                self._left = True

    def _work(self) -> None:
        try:
            self._fetch(self._answer_unless_left)
        except Exception as error:  # of Flower's, whose text may quote what it carries
            log.warning("a question could not be fetched or answered (%s)", type(error).__name__)

    def _answer_unless_left(self, body: bytes) -> bytes | None:
        with self._answering:
            return None if self._left else self._answer(body)


def _is_done(client: Client) -> bool:
    """Tell whether nothing is left to be asked: all was answered, or the server has said how the run ended."""
    return client.finished or client.told is not None


def _await(client: Client, channel: Channel) -> None:
    """Wait for the server, which may start later than its clients, but not again once it has asked about data."""
    deadline = time.monotonic() + (GONE if client.begun else PATIENCE)
    while not listens(channel.address):
        if time.monotonic() > deadline:
            raise AbandonedError(
                f"nobody listens at {channel.address}. {LEFT}"
                if client.begun
                else f"nobody listens at {channel.address}. Start the server, or check the address."
            )
        time.sleep(0.5)


def _is_over(client: Client, channel: Channel) -> bool:
    """Tell whether the run is over because the server has left. Before anybody has said so that is an error.

    One that was killed may be started again.
    """
    deadline = time.monotonic() + (GONE if client.begun else RESTART)
    while not _is_done(client) and time.monotonic() < deadline:
        if listens(channel.address):
            return False
        time.sleep(0.5)
    if not _is_done(client):
        raise AbandonedError(
            f"the server left without a word. {LEFT}"
            if client.begun
            else "the server left before it had asked this client about data: nothing about them has left. Start both "
            "again; the server says so if the agreement is used up."
        )
    return True


def _answer(client: Client, body: bytes, on_answer: Callable[[str], None] | None) -> bytes | None:
    """Answer, or log why not: the server learns only that it was refused."""
    try:
        reply = client.answer(body)
    except RefusedError as refused:
        log.warning("refused: %s", refused)
        return None
    except TensorveilError as error:
        log.error("no answer: %s", error)
        return None
    except Exception as error:  # whatever a message leads to, the client goes on; its text might quote data
        log.error("no answer: unexpected %s", type(error).__name__)
        return None
    if on_answer is not None:
        on_answer(wire.decode(reply, len(reply)).kind)
    return reply
