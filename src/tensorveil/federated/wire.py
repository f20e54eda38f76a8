"""Messages as bytes: a short JSON header, plain integer arrays, a signature. They are parsed strictly, never unpickled.

    "TVF1" | header length (4 bytes) | header | arrays, one after the other | Ed25519 signature (64 bytes)

The signature covers everything before it, including the agreement, the run, the round and the receiver, so that no
message can be used twice or elsewhere.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from tensorveil.federated.errors import RefusedError

MAGIC: Final = b"TVF1"
LONGEST_HEADER: Final = 4096
SIGNATURE: Final = 64
SERVER: Final = -1
KINDS: Final = ("hello", "share", "inbox", "sum", "unmask", "who", "end")
DTYPES: Final[dict[str, np.dtype[Any]]] = {"i8": np.dtype("<i8"), "u8": np.dtype("<u8"), "u1": np.dtype("u1")}
FIELDS: Final = {"kind", "agreement", "run", "round", "sender", "receiver", "arrays"}
# Names become parts of file names and of keys: digits only, of a known length.
NAMES: Final = {"agreement": re.compile(r"[0-9a-f]{64}"), "run": re.compile(r"[0-9a-f]{32}")}
NONCE: Final = 16  # bytes of the number by which an answer to "who" is recognised as one to this very question
# In every greeting: whether its sender knows of no reason why the run would not be private.
PROMISE: Final = {"private": ("u1", 1)}


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of a run. ``sender`` and ``receiver`` are places in the roster, or SERVER."""

    kind: str
    agreement: str
    run: str
    round: int
    sender: int
    receiver: int
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)


def encode(message: Message, key: Ed25519PrivateKey) -> bytes:
    """Write and sign a message."""
    layout, parts = [], []
    for name, array in message.arrays.items():
        flat = np.ascontiguousarray(array).reshape(-1)
        kind = f"{flat.dtype.kind}{flat.dtype.itemsize}"
        parts.append(flat.astype(DTYPES[kind], copy=False).tobytes())
        layout.append([name, kind, len(flat)])
    header = {name: getattr(message, name) for name in FIELDS - {"arrays"}} | {"arrays": layout}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    body = b"".join([MAGIC, struct.pack("<I", len(text)), text, *parts])
    return body + key.sign(body)


def decode(content: bytes, longest: int) -> Message:
    """Read a message of at most ``longest`` bytes, and refuse anything else. The signature is not checked here."""
    if len(content) > longest:
        raise RefusedError("the message is too long")
    if len(content) < 8 + SIGNATURE or content[:4] != MAGIC:
        raise RefusedError("these bytes are not a message")
    (size,) = struct.unpack("<I", content[4:8])
    if size > min(LONGEST_HEADER, len(content) - 8 - SIGNATURE):
        raise RefusedError("the header is too long")
    header = _header(content[8 : 8 + size])
    arrays = _arrays(header.pop("arrays"), content[8 + size : -SIGNATURE])
    return Message(**header, arrays=arrays)


def verify(content: bytes, key: Ed25519PublicKey) -> None:
    """Check who signed a message."""
    try:
        key.verify(content[-SIGNATURE:], content[:-SIGNATURE])
    except InvalidSignature:
        raise RefusedError("the signature is wrong") from None


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise RefusedError("the header cannot be read") from None
    if not isinstance(header, dict) or set(header) != FIELDS:
        raise RefusedError("the header has wrong fields")
    numbers = [header[name] for name in ("round", "sender", "receiver")]
    texts = [(pattern, header[name]) for name, pattern in NAMES.items()]
    if (
        header["kind"] not in KINDS
        or any(type(number) is not int or not -1 <= number < 1 << 31 for number in numbers)
        or any(not isinstance(text, str) or not pattern.fullmatch(text) for pattern, text in texts)
    ):
        raise RefusedError("the header has wrong values")
    return header


def _arrays(layout: Any, content: bytes) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    at = 0
    if not isinstance(layout, list):
        raise RefusedError("the arrays are not described")
    for item in layout:
        if not (isinstance(item, list) and len(item) == 3 and all(isinstance(text, str) for text in item[:2])):
            raise RefusedError("an array is not described correctly")
        if item[1] not in DTYPES:
            raise RefusedError("an array has a type that is not allowed")
        name, kind, count = item
        if type(count) is not int or count < 0 or name in arrays:
            raise RefusedError("an array is not described correctly")
        end = at + count * DTYPES[kind].itemsize
        if end > len(content):
            raise RefusedError("an array is cut short")
        arrays[name] = np.frombuffer(content[at:end], dtype=DTYPES[kind])
        at = end
    if at != len(content):
        raise RefusedError("the message has too many bytes")
    return arrays


def promise(private: bool) -> dict[str, NDArray[Any]]:
    """Return the part of a greeting that says whether the run is private."""
    return {"private": np.array([private], dtype=np.uint8)}


def is_private(hello: Message) -> bool:
    """Read what `promise` made."""
    return bool(hello.arrays["private"][0] == 1)


def number(drawn: bytes) -> dict[str, NDArray[Any]]:
    """Return the part of a question who is at a node, and of its answer, that makes the two belong together."""
    return {"number": np.frombuffer(drawn, dtype=np.uint8)}


def read_number(message: Message) -> bytes:
    """Read what `number` made."""
    expect(message, {"number": ("u1", NONCE)})
    return message.arrays["number"].tobytes()


def outcome(completed: bool) -> dict[str, NDArray[Any]]:
    """Return what a client is told at the end of a run: whether the server has completed it, or abandoned it."""
    return {"completed": np.array([completed], dtype=np.uint8)}


def read_outcome(message: Message) -> bool:
    """Read what `outcome` made."""
    expect(message, {"completed": ("u1", 1)})
    return bool(message.arrays["completed"][0] == 1)


def text(message: Message, name: str) -> bytes:
    """Return the bytes of an array that must be in the message."""
    array = message.arrays.get(name)
    if array is None or array.dtype != DTYPES["u1"]:
        raise RefusedError("the message holds other arrays than it should")
    return array.tobytes()


def expect(message: Message, layout: Mapping[str, tuple[str, int]]) -> None:
    """Refuse a message whose arrays are not exactly those of a layout: number type and length."""
    found = {name: (f"{array.dtype.kind}{array.dtype.itemsize}", len(array)) for name, array in message.arrays.items()}
    if found.keys() != layout.keys():
        raise RefusedError("the message holds other arrays than it should")
    for name, (kind, length) in layout.items():
        if found[name][0] != kind:
            raise RefusedError("an array holds another kind of number than it should")
        if found[name][1] != length:
            raise RefusedError("an array has a wrong length")
