"""Good files of every kind, and seeded ways to damage them."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv

Reader = Callable[[Path], object]


def make_tensor(*, labels: bool) -> Any:
    rng = np.random.default_rng(7)
    cells = rng.choice(6 * 5 * 4, 40, replace=False)
    coords = np.stack(np.unravel_index(cells, (6, 5, 4)), axis=1)
    modes: Any = ["user", "film", "day"]
    if labels:
        days = np.arange("2024-01-01", "2024-01-05", dtype="datetime64[D]")
        modes = [tv.Mode("user", list("abcdéf")), tv.Mode("film", [10, 20, 30, 40, 50]), tv.Mode("day", days)]
    return tv.ObservedTensor(coords, rng.normal(3, 1, 40), shape=(6, 5, 4), bounds=(-9, 9), modes=modes)


def make_files(folder: Path) -> dict[str, Path]:
    """Write one small file of every kind that is read anywhere."""
    plain, labelled = make_tensor(labels=False), make_tensor(labels=True)
    for name in ("t.csv", "t.tsv", "t.csv.gz", "t.tns", "t.tns.gz", "t.npz", "t.parquet", "t.mat"):
        (labelled if name[2:] in ("csv", "npz", "parquet", "csv.gz") else plain).write(folder / name)
    _write_old_matlab(folder)
    rng = np.random.default_rng(8)
    tv.read(_png(folder / "t.png", rng))
    np.save(folder / "a.npy", rng.normal(size=(6, 4)))
    np.savez(folder / "a.npz", values=rng.normal(size=(6, 4)))
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({f"x{k}": rng.normal(size=6) for k in range(4)}), folder / "a.parquet")
    tv.CP(2, solver="als", sweeps=2).fit(labelled).model_.save(folder / "m.npz")
    tv.Tucker(2, solver="als", sweeps=2).fit(plain).model_.save(folder / "k.npz")
    return {path.name: path for path in sorted(folder.iterdir())}


def _png(path: Path, rng: Any) -> Path:
    from PIL import Image

    Image.fromarray(rng.integers(0, 256, (12, 15, 4), dtype=np.uint8), "RGBA").save(path)
    return path


def _write_old_matlab(folder: Path) -> None:
    import h5py
    import scipy.io

    dense = np.arange(24.0).reshape(4, 6)
    scipy.io.savemat(folder / "u.mat", {"x": dense})
    scipy.io.savemat(folder / "o.mat", {"x": dense}, format="4")
    with h5py.File(folder / "h.mat", "w") as file:
        file.create_dataset("x", data=dense, chunks=(2, 3), compression="gzip")


def damage(content: bytes, rng: Any) -> bytes:
    """Damage a file in one of many ways."""
    return WAYS[int(rng.integers(len(WAYS)))](content, rng)


def _flip(content: bytes, rng: Any) -> bytes:
    out = bytearray(content)
    for _ in range(int(rng.choice([1, 1, 1, 2, 8]))):
        out[int(rng.integers(len(out)))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def _cut(content: bytes, rng: Any) -> bytes:
    return content[: int(rng.integers(len(content)))]


def _drop(content: bytes, rng: Any) -> bytes:
    first, last = sorted(rng.integers(len(content), size=2))
    return content[:first] + content[last:]


def _repeat(content: bytes, rng: Any) -> bytes:
    first, last = sorted(rng.integers(len(content), size=2))
    return content[:last] + content[first:]


def _overwrite(content: bytes, rng: Any) -> bytes:
    out, place = bytearray(content), int(rng.integers(len(content)))
    numbers = [0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 0x10000, 1 << 40, (1 << 63) - 1]
    number = numbers[int(rng.integers(len(numbers)))]
    out[place : place + 8] = struct.pack("<Q" if rng.integers(2) else ">Q", number)[: int(rng.choice([2, 4, 8]))]
    return bytes(out)


def _noise(content: bytes, rng: Any) -> bytes:
    place, length = int(rng.integers(len(content))), int(rng.integers(1, 64))
    return content[:place] + bytes(rng.bytes(length)) + content[place + length :]


def _words(content: bytes, rng: Any) -> bytes:
    words = [
        b"nan",
        b"-1",
        b"1e400",
        b"inf",
        b'"',
        b"\n\n",
        b"\xff\xfe",
        b"\0",
        b"99999999999999999999",
        b",",
        b"\t",
        b"{[",
    ]
    place = int(rng.integers(len(content) + 1))
    return content[:place] + words[int(rng.integers(len(words)))] * int(rng.choice([1, 1, 50])) + content[place:]


def _inside(content: bytes, rng: Any) -> bytes:
    """Damage what is compressed, and compress it again with checksums that are right."""
    if content[:2] == b"\x1f\x8b":
        return gzip.compress(damage(gzip.decompress(content) or b"x", rng))
    if content[:4] == b"PK\x03\x04":
        return _inside_archive(content, rng)
    if content[:8] == b"\x89PNG\r\n\x1a\n":
        return _inside_png(content, rng)
    if content[:6] == b"MATLAB" and len(content) > 140 and content[128] == 15:
        inner = damage(zlib.decompress(content[136 : 136 + int.from_bytes(content[132:136], "little")]), rng)
        packed = zlib.compress(inner)
        return content[:128] + struct.pack("<II", 15, len(packed)) + packed
    return _flip(content, rng)


def _inside_archive(content: bytes, rng: Any) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = names[int(rng.integers(len(names)))]
        for name in names:
            data = old.read(name)
            new.writestr(name, damage(data or b"x", rng) if name == chosen else data)
    return out.getvalue()


def _inside_png(content: bytes, rng: Any) -> bytes:
    chunks, place = [], 8
    while place < len(content):
        length = int.from_bytes(content[place : place + 4])
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + length]))
        place += length + 12
    chosen = int(rng.integers(len(chunks)))
    out = [content[:8]]
    for number, (kind, data) in enumerate(chunks):
        if number == chosen:
            data = _flip(data, rng) if data else rng.bytes(4)
        out.append(len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4))
    return b"".join(out)


WAYS: list[Callable[[bytes, Any], bytes]] = [
    _flip, _flip, _cut, _drop, _repeat, _overwrite, _overwrite, _noise, _words, _inside, _inside,
]  # fmt: skip


def readers_of(name: str) -> dict[str, Reader]:
    """Return everything that may be handed a file of this name."""
    found: dict[str, Reader] = {}
    if name.startswith("m") or name.startswith("k"):
        from tensorveil.rounds import SharedModel

        found = {"load_model": tv.load_model, "SharedModel.load": SharedModel.load}
    elif name.startswith("a"):
        from tensorveil.tensor.files.formats import read_array

        found = {"read_array": read_array}
    else:
        from tensorveil.tensor.files.formats import read_table

        found = {"read": tv.read}
        if name.endswith((".csv", ".tsv", ".parquet")):
            found["read_table"] = read_table
            found["read privately"] = lambda path: tv.read(
                path, ["user", "film", "day"], "value", labels=False, shape=(6, 5, 4), bounds=(0, 5),
                missing="drop", out_of_bounds="clip", duplicates="keep", out_of_range="drop",
            )  # fmt: skip
        if name.endswith((".png", ".npz")):
            from tensorveil.tensor.files.formats import read_array

            found["read_array"] = read_array
    return found


@dataclass(frozen=True, kw_only=True)
class Case:
    """A damaged file: the name of the good one, a number, its bytes, and whether checksums were made right again."""

    name: str
    number: int
    content: bytes
    resealed: bool


def cases(folder: Path, per_file: int, seed: int) -> Iterator[Case]:
    """Yield damaged files."""
    for name, path in make_files(folder).items():
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        content = path.read_bytes()
        for number in range(per_file):
            way = WAYS[int(rng.integers(len(WAYS)))]
            yield Case(name=name, number=number, content=way(content, rng), resealed=way is _inside)
