"""Messages that are signed by the agreed server and malformed end a client, or reach the names of its files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.federated import wire
from tensorveil.federated.errors import RefusedError
from tests.unit.federated.federated_cases import Asking

MAGIC = b"tensorveil-state-1\n"
DEEP = b"[" * 3000 + b"]" * 3000


def numbers(content: bytes) -> Any:
    return np.frombuffer(content, dtype=np.uint8)


@pytest.mark.parametrize("run", ["a/b", "..", "", "\0", "\ud800", "AB" * 16, "ab" * 17, "ab" * 16 + "\n", "é" * 32])
def test_names_of_runs_are_checked_before_they_are_used(tmp_path: Path, run: str) -> None:
    asking = Asking(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for kind, receiver in (("hello", wire.SERVER), ("share", 0), ("sum", 0)):
        with pytest.raises(RefusedError):
            asking.ask(0, kind, 0 if kind == "sum" else -1, receiver, wire.promise(True), run=run)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "header",
    [
        b'{"round":1e400,"arrays":[]}',
        b'{"round":-1e400,"arrays":[]}',
        b'{"round":NaN,"arrays":[]}',
        b'{"round":"0","arrays":[]}',
        b'{"round":0.0,"arrays":[]}',
        b'{"round":true,"arrays":[]}',
        b'{"round":0,"arrays":[["offset","<f8",[0,1000000000000000000000000000000]]]}',
        b'{"round":0,"arrays":[["offset","<f8",[-1,-1]]]}',
        b'{"round":0,"arrays":[["offset","<f8",[1e400]]]}',
        b'{"round":0,"arrays":7}',
        b'{"round":0,"arrays":[7]}',
        b"[]",
        b"\xff\xfe",
        b"9" * 5000,
        DEEP,
    ],
    ids=lambda text: text[:32].decode("latin-1"),
)
def test_states_that_cannot_be_read_are_refused(tmp_path: Path, header: bytes) -> None:
    asking = Asking(tmp_path, "aggregator")
    asking.greet()
    with pytest.raises(RefusedError):
        asking.ask(0, "sum", 0, 0, {"state": numbers(MAGIC + header + b"\n")})


@pytest.mark.parametrize("field", ["round", "sender", "receiver", "kind", "run", "agreement", "arrays"])
@pytest.mark.parametrize("text", ["1e400", "NaN", "[[]]", '{"a":1}', "null", '"\\ud800"', "9" * 5000 + "1"])
def test_headers_with_anything_in_them_are_refused(tmp_path: Path, field: str, text: str) -> None:
    asking = Asking(tmp_path)
    good = asking.message("hello", -1, wire.SERVER, wire.promise(True))
    size = int.from_bytes(good[4:8], "little")
    facts = json.loads(good[8 : 8 + size]) | {field: "HERE"}
    header = json.dumps(facts).replace('"HERE"', text).encode()
    body = good[:4] + len(header).to_bytes(4, "little") + header + good[8 + size : -wire.SIGNATURE]
    with pytest.raises(RefusedError):
        asking.clients[0].answer(body + asking.key.sign(body))
