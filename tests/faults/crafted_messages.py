"""Hostile messages: signed by whoever is to sign them, and wrong in what they say. Agreements and states, too."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.federated import wire
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.asking import Run
from tensorveil.federated.identity import load_identity
from tensorveil.federated.recipes import read_state
from tensorveil.rounds import State
from tests.faults import crafted
from tests.faults.crafted import pick
from tests.unit.federated.federated_cases import Asking


def sign(body: bytes, key: Any) -> bytes:
    return body + bytes(key.sign(body))


def change_message(content: bytes, key: Any, rng: Any) -> bytes:
    """Change the header or the numbers of a message, and sign it again."""
    body = content[: -wire.SIGNATURE]
    (size,) = struct.unpack("<I", body[4:8])
    header, numbers = body[8 : 8 + size], body[8 + size :]
    way = int(rng.integers(6))
    if way < 3:
        tree = json.loads(header)
        for _ in range(int(rng.choice([1, 1, 2]))):
            tree = crafted.change_tree(tree, rng)
        header = crafted.write_json(tree, rng)
    elif way == 3:
        array = bytearray(numbers)
        for _ in range(int(rng.choice([1, 1, 8]))):
            if array:
                array[int(rng.integers(len(array)))] = int(rng.choice([0, 1, 127, 128, 255]))
        numbers = bytes(array)
    elif way == 4:
        numbers = pick(rng, [numbers * 2, numbers[:-8], b"", numbers + bytes(8), b"\xff" * len(numbers)])
    else:
        size = int(pick(rng, [0, 1, 4096, 2**31, 2**32 - 1]))
        return sign(body[:4] + struct.pack("<I", size) + body[8:], key)
    return sign(body[:4] + struct.pack("<I", len(header)) + header + numbers, key)


def change_state(content: bytes, rng: Any) -> bytes:
    """Change what a state says about its arrays, or its numbers."""
    magic, _, rest = content.partition(b"{")
    head, _, body = rest.partition(b"\n")
    if rng.integers(2):
        return magic + crafted.change_json(b"{" + head, rng) + b"\n" + body
    numbers = np.frombuffer(body, np.uint8).copy()
    place = 8 * int(rng.integers(max(1, len(numbers) // 8)))
    number = pick(rng, [np.nan, np.inf, 1e308, -1e308, 5e-324, -1.0, 1e18])
    numbers[place : place + 8] = np.frombuffer(struct.pack("<d", number), np.uint8)[: len(numbers) - place]
    return magic + b"{" + head + b"\n" + numbers.tobytes()


def message_sources(world: Any) -> dict[str, Any]:
    """Return the sources of messages, states and agreements."""
    from tests.faults.fuzz_crafted import Source

    found: dict[str, Any] = {}
    for trust in ("aggregator", "secure"):
        asking = Asking(world.folder / trust, trust)
        questions, replies = _record(asking, trust)
        found[f"questions, {trust}"] = Source(
            make=_changer(questions, asking.key), names=("m",), judges=(_client(asking),)
        )
        found[f"replies, {trust}"] = Source(
            make=_changer(replies, load_identity(asking.homes[0])), names=("m",), judges=(_server(asking),)
        )
    recipe = asking.agreement.recipe
    start = recipe.start().to_bytes()

    def state(path: Path) -> Any:
        State.from_bytes(path.read_bytes())
        return recipe.contribute(read_state(recipe, path.read_bytes(), 0), asking.clients[0].data())

    agreed = json.dumps(asking.agreement.to_json()).encode()

    def agreement(path: Path) -> Any:
        known = Agreement.load(path)
        return len(known.digest), known.longest_message

    found["states"] = Source(make=lambda _, rng: change_state(start, rng), names=("m",), judges=(state,))
    found["agreements"] = Source(
        make=lambda _, rng: crafted.change_json(agreed, rng), names=("m",), judges=(agreement,)
    )
    return found


def _record(asking: Any, trust: str) -> tuple[list[bytes], list[bytes]]:
    """Go through a run as far as its first sum; keep questions to client 0, and its replies."""
    questions, replies = [], []
    hello = asking.message("hello", -1, wire.SERVER, wire.promise(True))
    steps: list[tuple[str, int, Any]] = []
    if trust == "secure":
        inboxes = asking.share()
        hellos = {f"hello-{k}": text for k, text in enumerate(asking.hellos)}
        for client in range(len(asking.clients)):
            asking.deliver(client, inboxes[client])
        steps = [("share", -1, hellos), ("inbox", -1, {"inbox": np.frombuffer(inboxes[0], np.uint8)})]
        replies += [asking.hellos[0].tobytes()]
    else:
        asking.greet()
        replies += [asking.hellos[0].tobytes()]
    question = asking.message("sum", 0, 0, {"state": asking.state()})
    replies.append(asking.clients[0].answer(question))
    questions = [hello, question, *(asking.message(kind, round_, 0, arrays) for kind, round_, arrays in steps)]
    if trust == "secure":
        present = {"present": np.ones(len(asking.clients), np.uint8)}
        questions.append(asking.message("unmask", 0, 0, present))
    who = asking.message("who", -1, wire.SERVER, wire.number(bytes(wire.NONCE)))
    replies.append(asking.clients[0].answer(who))
    end = asking.message("end", -1, 0, {"completed": np.ones(2, np.uint8)})  # a valid one would end all the others
    return [*questions, who, end], replies


def _changer(messages: list[bytes], key: Any) -> Any:
    return lambda originals, rng: change_message(pick(rng, messages), key, rng)


def _client(asking: Any) -> Any:
    def judge(path: Path) -> Any:
        asking.clients[0].answer(path.read_bytes())

    return judge


def _server(asking: Any) -> Any:
    """Return what a server does with a reply: whatever arrives is refused or good, and never ends the run."""
    nothing: Any = None
    run = Run(
        agreement=asking.agreement, key=asking.key, transport=nothing, settings=nothing, private=True, name="ab" * 16
    )
    size = asking.agreement.recipe.rounds[0].size
    kind = "masked" if asking.agreement.trust.kind == "secure" else "total"

    def judge(path: Path) -> Any:
        content = path.read_bytes()
        if b'"hello"' in content[:300]:
            run.check(content, "hello", -1, None)
        elif b'"who"' in content[:300]:
            wire.read_number(run.check(content, "who", -1, None))
        else:
            run.accept(content, "sum", 0, 0, {kind: ("u8" if kind == "masked" else "i8", size)})

    return judge
