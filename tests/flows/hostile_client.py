"""A client that answers every round's question for its sum with another kind of harm, or slowly; a process of tests."""

import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.federated import wire
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.client import Client
from tensorveil.federated.flower.client_app import work
from tensorveil.federated.flower.processes import Channel
from tensorveil.federated.identity import load_identity
from tensorveil.tensor import read


class Hostile:
    """Wraps a true client: its set-up is in order, its sums are not."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.sent: list[bytes] = []

    @property
    def finished(self) -> Any:
        return self.client.finished

    @property
    def told(self) -> Any:
        return self.client.told

    @property
    def begun(self) -> Any:
        return self.client.begun

    def answer(self, content: Any) -> Any:
        reply = self.client.answer(content)
        message = wire.decode(reply, len(reply))
        if message.kind != "sum":
            return reply
        self.sent.append(reply)
        return (self.not_a_number, self.wrong_shape, self.replay, self.huge)[message.round % 4](message, reply)

    def not_a_number(self, message: Any, reply: Any) -> Any:
        """Floats, NaN among them, under a header that says so."""
        (name,) = message.arrays
        nan = np.full(len(message.arrays[name]), np.nan).tobytes()
        body = reply[:-64].replace(b'"u8"', b'"f8"').replace(b'"i8"', b'"f8"')
        return self.signed(body[: -len(nan)] + nan)

    def wrong_shape(self, message: Any, reply: Any) -> Any:
        (name,) = message.arrays
        facts = {**vars(message), "arrays": {name: message.arrays[name][:-1]}}
        return wire.encode(wire.Message(**facts), load_identity(self.client.home))

    def replay(self, message: Any, reply: Any) -> Any:
        return self.sent[0]

    def huge(self, message: Any, reply: Any) -> Any:
        return self.signed(reply[:-64] + bytes(100_000_000))

    def signed(self, body: Any) -> Any:
        return body + load_identity(self.client.home).sign(body)


class Slow(Hostile):
    """Wraps a true client, which takes its time for every answer."""

    def __init__(self, client: Any, seconds: float) -> None:
        super().__init__(client)
        self.seconds = seconds

    def answer(self, content: Any) -> Any:
        time.sleep(self.seconds)
        return self.client.answer(content)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    agreement, home, address, *more = sys.argv[1:]
    slow = float(more[1]) if more[:1] == ["--slow"] else 0.0
    group = read(Path(home) / "data.npz")
    own = Path(more[0]) if more and not slow else None
    client = Client(agreement=Agreement.load(agreement), home=Path(home), data=lambda: group, ledger=own)
    hostile: Any = Slow(client, slow) if slow else Hostile(client)
    work(hostile, Channel(address=address), Path(home))
