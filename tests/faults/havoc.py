"""Files that are changed without knowing what they mean, after the manner of fuzzers of bytes.

Bits are flipped, numbers of any width are counted up or set to odd ones, stretches are doubled, moved, removed, taken
from another file at the same place; and words that other files hold are put in. Several of these are stacked. All this
happens at some depth: to the file, or to what is compressed in it, in a member of an archive, in a chunk of a picture
or in the footer of a table, around which everything is made right again.
"""

from __future__ import annotations

import gzip
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv
from tests.faults.crafted import join_npy, pick, split_npy
from tests.faults.crafted_binary import chunk
from tests.faults.damage import make_tensor

ODD = (0, 1, -1, 2, 7, 16, 100, 127, 128, 255, 256, 1000, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1,
       2**53, 2**63 - 1, -(2**31), -(2**63))  # fmt: skip
LONGEST = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Dictionary:
    """What other files hold: their bytes, and words and stretches of them."""

    files: tuple[bytes, ...]
    words: tuple[bytes, ...]

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> Dictionary:
        """Collect the words of files: texts, and four or eight bytes that stand at round places."""
        words = {word for content in files.values() for word in re.findall(rb"[A-Za-z0-9_.<|'\"{}:,-]{3,24}", content)}
        for content in files.values():
            words |= {content[at : at + 8] for at in range(0, min(len(content), 512), 8)}
        return cls(files=tuple(files.values()), words=tuple(sorted(words)))


def havoc(content: bytes, known: Dictionary, rng: Any) -> bytes:
    """Return bytes after one to sixteen changes."""
    out = bytearray(content)
    for _ in range(int(rng.choice([1, 1, 2, 4, 8, 16]))):
        out = pick(rng, CHANGES)(out or bytearray(b"\0"), known, rng)[:LONGEST]
    return bytes(out)


def _place(out: bytearray, rng: Any, width: int = 1) -> int:
    """Return a place in a file; more often near its ends, where headers and tables stand."""
    last = max(len(out) - width, 0)
    near = int(rng.integers(min(last, 96) + 1))
    return [near, last - near, int(rng.integers(last + 1)), int(rng.integers(last + 1))][int(rng.integers(4))]


def _flip(out: bytearray, known: Dictionary, rng: Any) -> bytearray:
    out[_place(out, rng)] ^= 1 << int(rng.integers(8))
    return out


def _number(out: bytearray, known: Dictionary, rng: Any) -> bytearray:
    """Count a number of some width up or down, or set it to an odd one."""
    width, order = int(rng.choice([1, 2, 4, 8])), pick(rng, ["little", "big"])
    at = _place(out, rng, width)
    number = int.from_bytes(out[at : at + width], order)
    number = number + int(rng.integers(-35, 36)) if rng.integers(2) else pick(rng, ODD)
    out[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, order)
    return out


def _float(out: bytearray, known: Dictionary, rng: Any) -> bytearray:
    at = _place(out, rng, 8)
    number = float(pick(rng, [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, 5e-324, 1.5, -1.0, 2.0**53]))
    out[at : at + 8] = struct.pack(pick(rng, ["<d", ">d"]), number)
    return out


def _stretch(out: bytearray, rng: Any) -> tuple[int, int]:
    at = _place(out, rng)
    return at, min(at + int(rng.choice([1, 2, 4, 8, 16, 64, 512])), len(out))


def _remove(out: bytearray, known: Dictionary, rng: Any) -> bytearray:
    low, high = _stretch(out, rng)
    del out[low:high]
    return out


def _double(out: bytearray, known: Dictionary, rng: Any) -> bytearray:
    low, high = _stretch(out, rng)
    at = _place(out, rng)
    out[at:at] = out[low:high] * int(rng.choice([1, 1, 2, 30]))
    return out


def _move(out: bytearray, known: Dictionary, rng: Any) -> bytearray:
    low, high = _stretch(out, rng)
    at = _place(out, rng, high - low)
    out[at : at + high - low], out[low:high] = out[low:high], out[at : at + high - low]
    return out


def _fill(out: bytearray, known: Dictionary, rng: Any) -> bytearray:
    low, high = _stretch(out, rng)
    out[low:high] = bytes([int(rng.choice([0, 255, 32, 65, 128]))]) * (high - low)
    return out


def _cut(out: bytearray, known: Dictionary, rng: Any) -> bytearray:
    return out[: _place(out, rng)] if rng.integers(3) == 0 else out


def _word(out: bytearray, known: Dictionary, rng: Any) -> bytearray:
    word, at = pick(rng, known.words), _place(out, rng)
    out[at : at + len(word) * int(rng.integers(2))] = word
    return out


def _other(out: bytearray, known: Dictionary, rng: Any) -> bytearray:
    """Put what another file holds at the same place, or the whole rest of it."""
    other, at = pick(rng, known.files), _place(out, rng)
    length = int(rng.choice([8, 64, 512, LONGEST]))
    out[at : at + length] = other[at : at + length]
    return out


def _digits(out: bytearray, known: Dictionary, rng: Any) -> bytearray:
    """Change a number that is written in digits."""
    found = list(re.finditer(rb"-?[0-9][0-9.eE+-]*", bytes(out[:4096])))
    if found:
        low, high = pick(rng, found).span()
        out[low:high] = pick(rng, [b"0", b"-1", b"1e999", b"NaN", b"18446744073709551616", b"0.1", b"7", b"", b"1e-9"])
    return out


CHANGES: list[Callable[[bytearray, Dictionary, Any], bytearray]] = [
    _flip, _flip, _flip, _number, _number, _number, _float, _remove, _double, _move, _fill, _cut, _word, _word, _other,
    _digits, _digits,
]  # fmt: skip


# Depth.


def change_deeply(content: bytes, known: Dictionary, rng: Any) -> bytes:
    """Change a file at some depth; at the surface one time in three."""
    if rng.integers(3):
        for begins, change in DEPTHS:
            if content.startswith(begins):
                return change(content, known, rng)
    return havoc(content, known, rng)


def _in_gzip(content: bytes, known: Dictionary, rng: Any) -> bytes:
    return gzip.compress(havoc(gzip.decompress(content), known, rng), 1, mtime=0)


def _in_archive(content: bytes, known: Dictionary, rng: Any) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    chosen, out = pick(rng, sorted(members)), io.BytesIO()
    members[chosen] = change_deeply(members[chosen], known, rng)
    with zipfile.ZipFile(out, "w", pick(rng, [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def _in_npy(content: bytes, known: Dictionary, rng: Any) -> bytes:
    """Change the header or the numbers, whose lengths stay right."""
    header, body = split_npy(content)
    if rng.integers(2) and body:
        return join_npy(header, havoc(body, known, rng)[: len(body)].ljust(len(body), b"\0"))
    return join_npy(havoc(header.encode("latin-1"), known, rng)[:60_000].decode("latin-1"), body)


def _in_png(content: bytes, known: Dictionary, rng: Any) -> bytes:
    chunks, at = [], 8
    while at < len(content):
        length = int.from_bytes(content[at : at + 4])
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + length]))
        at += length + 12
    chosen = int(rng.integers(len(chunks)))
    kind, data = chunks[chosen]
    if kind == b"IDAT" and rng.integers(2):
        data = zlib.compress(havoc(zlib.decompress(data), known, rng))
    else:
        data = havoc(data, known, rng)
    chunks[chosen] = (kind, data)
    return content[:8] + b"".join(chunk(kind, data) for kind, data in chunks)


def _in_parquet(content: bytes, known: Dictionary, rng: Any) -> bytes:
    """Change the footer, whose length is made right again, or a page."""
    length = int.from_bytes(content[-8:-4], "little")
    pages, footer = content[4 : -8 - length], content[-8 - length : -8]
    if rng.integers(3):
        footer = havoc(footer, known, rng)
    else:
        pages = havoc(pages, known, rng)
    return b"PAR1" + pages + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _in_matlab(content: bytes, known: Dictionary, rng: Any) -> bytes:
    if len(content) < 140 or content[128] != 15:
        return content[:128] + havoc(content[128:], known, rng)
    size = int.from_bytes(content[132:136], "little")
    packed = zlib.compress(havoc(zlib.decompress(content[136 : 136 + size]), known, rng))
    return content[:128] + struct.pack("<II", 15, len(packed)) + packed + content[136 + size :]


DEPTHS: tuple[tuple[bytes, Callable[[bytes, Dictionary, Any], bytes]], ...] = (
    (b"\x1f\x8b", _in_gzip), (b"PK\x03\x04", _in_archive), (b"\x93NUMPY\x01\0", _in_npy), (b"\x89PNG", _in_png),
    (b"PAR1", _in_parquet), (b"MATLAB", _in_matlab),
)  # fmt: skip


# What is changed.


def make_tensors() -> Iterator[tuple[str, Any]]:
    """Yield tensors that differ in all that files can hold."""
    rng = np.random.default_rng(5)
    plain = make_tensor(labels=False)
    yield "numbers", plain
    yield "labels", make_tensor(labels=True)
    yield "none", plain.take(np.zeros(40, bool), may_be_empty=True)
    yield "one", plain.take(np.arange(40) == 3)
    coords = np.stack([rng.permutation(12) % size for size in (12, 3, 4, 2)], axis=1)
    kinds: list[Any] = [
        tv.Mode("when", np.arange(12).astype("datetime64[s]")), tv.Mode("how much", [0.5, 1.5, 2.5]),
        tv.Mode("é", ["", "a,b", 'q"', "l\nine"]), tv.Mode("flag"),
    ]  # fmt: skip
    yield "order 4", tv.ObservedTensor(coords, rng.normal(size=12), shape=(12, 3, 4, 2), modes=kinds)
    matrix = np.stack([rng.permutation(30), rng.integers(0, 9, 30)], axis=1)
    counts = tv.ObservedTensor(matrix, rng.integers(1, 9, 30).astype(float), shape=(30, 9), unlisted="zero")
    yield "counts", counts
    wide = np.stack([rng.permutation(40) % size for size in (40, 2, 2, 2, 2, 2)], axis=1)
    yield "order 6", tv.ObservedTensor(wide, rng.normal(size=40), shape=(40, 2, 2, 2, 2, 2), bounds=(-5, 5))


def make_models() -> Iterator[tuple[str, Any]]:
    """Yield models that differ in all that files can hold."""
    tensors = dict(make_tensors())
    fit: Any = {"sweeps": 2, "random_state": 0}
    yield "biases", tv.CP(2, solver="bayes", **fit).fit(tensors["labels"]).model_
    yield "tucker", tv.Tucker(2, solver="als", **fit).fit(tensors["order 4"]).model_
    yield "poisson", tv.CP(2, loss="poisson", **fit).fit(tensors["counts"]).model_
    yield "matrix", tv.LowRankMatrix(2, solver="als", **fit).fit(tensors["counts"].with_unlisted("unknown")).model_
    private = tv.PrivateCP(1, epsilon=3.0, delta=1e-6, unit="value", bounds=(-9, 9))
    yield "private", private.fit(tensors["numbers"]).model_


def write_corpus(folder: Path) -> dict[str, Path]:
    """Write the files that are changed; those that hold digests come back as they were written, or not at all."""
    folder.mkdir()
    for name, tensor in make_tensors():
        for ending in ("npz", "parquet"):
            tensor.write(folder / f"{name}.{ending}")
    for name, model in make_models():
        model.save(folder / f"model {name}.npz")
    return {path.name: path for path in sorted(folder.iterdir())}
