"""Messages: what is written is read back; whatever else arrives is refused, and nothing but refused."""

import json
import struct
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from tensorveil.federated import wire
from tensorveil.federated.errors import RefusedError
from tensorveil.federated.wire import Message

KEY = Ed25519PrivateKey.generate()
FACTS: dict[str, Any] = {"kind": "sum", "agreement": "a" * 64, "run": "b" * 32, "round": 2, "sender": 1, "receiver": -1}


def message(**arrays: Any) -> Any:
    return Message(**FACTS, arrays=arrays)


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.integers(0, 2**64 - 1)), st.binary())
def test_round_trip(signed: Any, unsigned: Any, text: Any) -> None:
    arrays: dict[str, Any] = {
        "i": np.array(signed, dtype=np.int64),
        "u": np.array(unsigned, dtype=np.uint64),
        "b": np.frombuffer(text, dtype=np.uint8),
    }
    content = wire.encode(message(**arrays), KEY)
    wire.verify(content, KEY.public_key())
    read = wire.decode(content, len(content))
    assert {name: getattr(read, name) for name in FACTS} == FACTS
    for name, array in arrays.items():
        assert np.array_equal(read.arrays[name], array)
        assert read.arrays[name].dtype == array.dtype


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(content: Any) -> None:
    with pytest.raises(RefusedError):
        wire.decode(content, 1000)


@given(st.data())
def test_a_changed_byte_is_refused(data: Any) -> None:
    content = bytearray(wire.encode(message(total=np.arange(5)), KEY))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RefusedError):
        read_signed(bytes(content))


def read_signed(content: Any) -> None:
    wire.decode(content, len(content))
    wire.verify(content, KEY.public_key())


@given(st.integers(0, 400))
def test_a_message_cut_short_is_refused(length: Any) -> None:
    content = wire.encode(message(total=np.arange(40)), KEY)
    with pytest.raises(RefusedError):
        wire.decode(content[: min(length, len(content) - 1)], len(content))


def packed(header: Any, body: Any = b"") -> Any:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return b"TVF1" + struct.pack("<I", len(text)) + text + body + bytes(64)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "obey"}, "wrong values"),
        ({"round": 1.5}, "wrong values"),
        ({"round": True}, "wrong values"),
        ({"sender": -2}, "wrong values"),
        ({"run": "x" * 65}, "wrong values"),
        ({"more": 1}, "wrong fields"),
        ({"arrays": [["total", "f8", 0]]}, "type that is not allowed"),
        ({"arrays": [["total", "O8", 0]]}, "type that is not allowed"),
        ({"arrays": [["total", ["i8"], 0]]}, "not described correctly"),
        ({"arrays": [["total", "i8", -1]]}, "not described correctly"),
        ({"arrays": [["total", "i8", 1 << 60]]}, "cut short"),
        ({"arrays": [["total", "i8", 0], ["total", "i8", 0]]}, "not described correctly"),
        ({"arrays": {"total": "i8"}}, "not described"),
    ],
)
def test_headers_that_lie_are_refused(change: Any, reason: Any) -> None:
    with pytest.raises(RefusedError, match=reason):
        wire.decode(packed({**FACTS, "arrays": [], **change}), 10_000)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([*FACTS, "arrays"]), JSON, st.binary(max_size=40))
def test_any_value_of_any_field_is_read_or_refused(name: str, value: Any, body: Any) -> None:
    try:
        read = wire.decode(packed({**FACTS, "arrays": [], name: value}, body), 10_000)
    except RefusedError:
        return
    assert isinstance(read.round, int)
    assert sum(array.nbytes for array in read.arrays.values()) == len(body)


def test_deep_and_long_headers_are_refused() -> None:
    with pytest.raises(RefusedError, match="too long"):
        wire.decode(packed(b"[" * 100_000), 1_000_000)
    with pytest.raises(RefusedError, match="cannot be read"):
        wire.decode(packed(b"[" * 4000), 10_000)
    with pytest.raises(RefusedError, match="too many"):
        wire.decode(packed({**FACTS, "arrays": []}, b"more"), 10_000)


def test_limits_and_layouts() -> None:
    content = wire.encode(message(total=np.arange(5)), KEY)
    with pytest.raises(RefusedError, match="too long"):
        wire.decode(content, len(content) - 1)
    read = wire.decode(content, len(content))
    wire.expect(read, {"total": ("i8", 5)})
    for layout, reason in (
        ({"total": ("i8", 6)}, "wrong length"),
        ({"total": ("u8", 5)}, "kind of number"),
        ({"other": ("i8", 5)}, "other arrays"),
    ):
        with pytest.raises(RefusedError, match=reason):
            wire.expect(read, layout)


def test_floats_have_no_form_on_the_wire() -> None:
    with pytest.raises(KeyError):
        wire.encode(message(total=np.array([np.nan])), KEY)
