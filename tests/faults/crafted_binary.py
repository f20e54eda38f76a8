"""Hostile pictures, MATLAB files, HDF5 files and Parquet tables: valid wrappings around what no reader expects."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from typing import Any

import numpy as np

from tests.faults.crafted import NUMBERS, WORDS, change_json, pick, write_json

SIGNATURE = b"\x89PNG\r\n\x1a\n"
BOMB = zlib.compress(bytes(30_000_000), 1)  # of which a comment is made


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def make_png(originals: dict[str, bytes], rng: Any) -> bytes:
    """Write a picture of chunks with right checksums, in odd numbers and orders."""
    wide, high = (
        int(x)
        for x in rng.choice([0, 1, 2, 5, 9, 40, 2**31 - 1, 2**31], 2, p=[0.05, 0.2, 0.2, 0.2, 0.2, 0.11, 0.02, 0.02])
    )
    depth, colour = int(rng.choice([1, 2, 4, 8, 8, 8, 16, 3])), int(rng.choice([0, 2, 3, 4, 6, 1, 7]))
    lace = int(rng.choice([0, 0, 0, 1, 2]))
    head = struct.pack(
        ">IIBBBBB", wide, high, depth, colour, int(rng.choice([0, 0, 0, 1])), int(rng.choice([0, 0, 1])), lace
    )
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(colour, 1)
    line = 1 + (min(wide, 60) * depth * channels + 7) // 8
    rows = b"".join(bytes([int(rng.choice([0, 1, 2, 3, 4, 5]))]) + rng.bytes(line - 1) for _ in range(min(high, 60)))
    rows = pick(rng, [rows, rows, rows, rows[:-1], rows + b"\0", rows[: len(rows) // 2], rows * 3, b""])
    packed = pick(rng, [zlib.compress(rows)] * 4 + [zlib.compress(rows)[:-4], rows, zlib.compress(zlib.compress(rows))])
    odd = [
        chunk(b"PLTE", rng.bytes(int(rng.choice([3, 768, 0, 1, 900])))),
        chunk(b"tRNS", rng.bytes(int(rng.choice([1, 2, 6, 256, 999])))),
        chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(3_000_000))),
        chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(5_000_000))),
        chunk(b"iTXt", b"k\0\1\0\0\0" + BOMB),
        chunk(b"gAMA", rng.bytes(3)),
        chunk(b"pHYs", b""),
        chunk(b"eXIf", rng.bytes(30)),
        chunk(b"acTL", struct.pack(">II", 2**31 - 1, 0)),
        chunk(b"fcTL", rng.bytes(26)),
        chunk(b"fdAT", rng.bytes(9)),
        chunk(b"cHRM", rng.bytes(5)),
        chunk(b"sRGB", b""),
        chunk(b"ABCD", b"x"),
        chunk(b"IEND", b"x"),
        chunk(b"IHDR", head),
        chunk(b"\0\0\0\0", b""),
        chunk(b"tEXt", b"\xff" * 80),
        struct.pack(">I", 2**31 - 1) + b"tEXt",
    ]
    parts = [chunk(b"IHDR", head), chunk(b"PLTE", rng.bytes(768)) if colour == 3 else b""]
    half = len(packed) // 2
    parts += (
        [chunk(b"IDAT", packed)] if rng.integers(2) else [chunk(b"IDAT", packed[:half]), chunk(b"IDAT", packed[half:])]
    )
    for _ in range(int(rng.choice([0, 1, 1, 2]))):
        parts.insert(int(rng.integers(len(parts) + 1)), pick(rng, odd))
    parts += [pick(rng, [chunk(b"IEND", b"")] * 8 + [b"", chunk(b"IEND", b"") + b"tail"])]
    return SIGNATURE + b"".join(parts)


def element(kind: int, content: bytes, rng: Any, order: str = "<") -> bytes:
    """Write an element of a MATLAB file, whose length is now and then another."""
    length = len(content) if rng.random() < 0.93 else int(pick(rng, [0, 1, 8, 2**16, 2**31 - 1, 2**32 - 1]))
    if len(content) <= 4 and rng.random() < 0.5:
        return struct.pack(f"{order}HH", kind & 0xFFFF, min(length, 0xFFFF)) + content.ljust(4, b"\0")
    return struct.pack(f"{order}II", kind, length) + content + bytes(-len(content) % 8)


def make_matrix(rng: Any, order: str, depth: int = 0) -> bytes:
    sizes = [
        int(x)
        for x in rng.choice(
            [0, 1, 2, 3, 4, -1, 2**31 - 1, 65536],
            int(rng.choice([1, 2, 2, 2, 3, 33])),
            p=[0.05, 0.2, 0.3, 0.2, 0.19, 0.02, 0.02, 0.02],
        )
    ]
    count = 1
    for size in sizes:
        count = min(max(count * size, 0), 500)
    kind = int(rng.choice([6, 6, 6, 7, 8, 9, 12, 14, 15, 1, 2, 3, 4, 5, 16, 17, 18, 0, 99]))
    flags = kind | int(rng.choice([0, 0, 0, 0x800, 0x200, 0x400, 0xFF00]))
    numbers = int(rng.choice([9, 9, 9, 1, 2, 3, 5, 7, 12, 14, 15, 0, 77]))
    wide = {9: 8, 1: 1, 2: 1, 3: 2, 5: 4, 7: 4, 12: 8}.get(numbers, 8)
    name = pick(rng, [b"x", b"subs", b"vals", b"size", b"", b"\xff", b"a" * 90, b"x\0y"])
    body = rng.bytes(count * wide) if rng.integers(2) else bytes(count * wide)
    if kind in (1, 2) and depth < 40 and rng.random() < 0.7:
        body = b"".join(
            element(14, make_matrix(rng, order, depth + 1 + int(rng.integers(20))), rng, order) for _ in range(2)
        )
        return _head(flags, sizes, name, rng, order) + body
    return _head(flags, sizes, name, rng, order) + element(numbers, body, rng, order)


def _head(flags: int, sizes: list[int], name: bytes, rng: Any, order: str) -> bytes:
    shape = struct.pack(f"{order}{len(sizes)}i", *sizes)
    first = element(pick(rng, [6] * 20 + [5, 9]), struct.pack(f"{order}II", flags, 0), rng, order)
    return first + element(pick(rng, [5] * 20 + [6, 9]), shape, rng, order) + element(1, name, rng, order)


def make_mat5(originals: dict[str, bytes], rng: Any) -> bytes:
    """Write a version 5 file of elements that are valid one by one."""
    order = pick(rng, ["<", "<", "<", ">"])
    out = b"MATLAB 5.0 MAT-file".ljust(124, b" ") + (b"\0\1IM" if order == "<" else b"\1\0MI")
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        one = element(pick(rng, [14] * 12 + [9, 15, 0, 88]), make_matrix(rng, order), rng, order)
        if rng.random() < 0.4:
            packed = zlib.compress(pick(rng, [one, one, one, one + one, one + bytes(10**6), one[:-3]]))
            one = element(15, pick(rng, [packed] * 5 + [packed[:-2], zlib.compress(packed)]), rng, order)
        out += one
    return out


def make_mat4(originals: dict[str, bytes], rng: Any) -> bytes:
    """Write a version 4 file."""
    out = b""
    for _ in range(int(rng.choice([1, 1, 2]))):
        rows, columns = (
            int(x) for x in rng.choice([1, 2, 3, 0, -1, 2**31 - 1, 46341], 2, p=[0.3, 0.3, 0.2, 0.05, 0.05, 0.05, 0.05])
        )
        code = int(rng.choice([0, 0, 10, 20, 30, 40, 50, 51, 2, 1000, 1050, 4000, 60, 99]))
        name = pick(rng, [b"x\0", b"subs\0", b"\xff\0", b"", b"x" * 5000, b"x"])
        body = rng.bytes(min(max(rows, 0), 9) * min(max(columns, 0), 9) * pick(rng, [8, 8, 8, 4, 2, 1, 16]))
        order = pick(rng, ["<", "<", ">"])
        imaginary, length = int(rng.choice([0, 0, 0, 1, 2])), pick(rng, [len(name)] * 8 + [0, -1, 2**31 - 1])
        out += struct.pack(f"{order}5i", code, rows, columns, imaginary, length) + name + body
    return out


def make_hdf5(originals: dict[str, bytes], rng: Any) -> bytes:
    """Write an HDF5 file of kinds of data and links that MATLAB does not write."""
    import h5py

    out = io.BytesIO()
    with h5py.File(out, "w", userblock_size=pick(rng, [0, 512]), libver=pick(rng, ["earliest", "latest"])) as file:
        name = pick(rng, ["x", "subs", "é", "a b", "#refs#"])
        kind = pick(
            rng,
            ["f8", "f4", "f2", "i8", "u1", "?", "S3", ">f8", h5py.string_dtype(), h5py.ref_dtype, h5py.vlen_dtype("f8"),
             np.dtype([("a", "f8")]), h5py.enum_dtype({"a": 1}), np.dtype(("f8", (2,))), "c16", "V5"],
        )  # fmt: skip
        shape = pick(rng, [(), (0,), (4, 6), (2, 3, 4), (1,) * 32, (2**40, 2), (2**31, 2**31), None, (50_000, 50_000)])
        options: dict[str, Any] = {}
        if shape and shape != (0,) and len(shape) < 9 and rng.integers(2):
            options = {
                "chunks": tuple(min(size, 64) for size in shape),
                "compression": pick(rng, ["gzip", "lzf", None]),
            }
            options |= {"shuffle": bool(rng.integers(2)), "fletcher32": bool(rng.integers(2))}
            options |= {"maxshape": (None,) * len(shape)} if rng.integers(2) else {}
        try:
            data = file.create_dataset(name, shape, dtype=kind, **options)
            small = shape is not None and np.prod([float(size) for size in shape]) < 1000
            if rng.integers(2) and small and not np.dtype(kind).hasobject:  # of objects, h5py itself would die
                data[...] = np.ones(shape, kind)
        except (TypeError, ValueError, OSError, OverflowError):
            file.create_dataset("y", data=np.ones((2, 3)))
        way = int(rng.integers(8))
        if way == 0:
            file["loop"] = h5py.SoftLink("/loop")
        elif way == 1:
            file["away"] = h5py.SoftLink("/nothing")
        elif way == 2:
            file.create_group("g")["self"] = file["/"]
        elif way == 3:
            file["named"] = np.dtype("f8")
        elif way == 4:
            file["far"] = h5py.ExternalLink("/etc/hostname", "/x")
        elif way == 5:
            file.attrs["MATLAB_class"] = np.bytes_("cell")
        elif way == 6:
            file["again"] = file[next(iter(file))]
    content = bytearray(out.getvalue())
    for _ in range(int(rng.choice([0, 0, 1, 3]))):
        content[int(rng.integers(min(len(content), 2000)))] = int(rng.choice([0, 1, 255, 128, 8]))
    return bytes(content)


def _columns(rng: Any, rows: int) -> dict[str, Any]:
    import pyarrow as pa

    kinds = [
        pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(),
        pa.bool_(), pa.date32(), pa.date64(), pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("s"), pa.time32("s"),
        pa.duration("us"), pa.decimal128(38, 10), pa.decimal256(76, -5), pa.null(), pa.list_(pa.int8()),
        pa.string_view(), pa.binary(), pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8()),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.int64()), pa.binary(4), pa.list_(pa.float32(), 2),
    ]  # fmt: skip
    raw = [int(x) for x in rng.integers(0, 5, rows)]
    found: dict[str, Any] = {}
    for name in ("user", "film", "day", "value"):
        column: Any = pa.array(raw, pa.int64())
        if rng.random() < 0.4:
            kind = pick(rng, kinds)
            try:
                column = pa.array([_as_kind(x, kind) for x in raw], kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                column = pa.nulls(rows, kind)
        if rng.random() < 0.1:
            column = pa.array([None if x == 1 else x for x in raw])
        found[name] = column
    return found


def _as_kind(number: int, kind: Any) -> Any:
    import decimal

    import pyarrow as pa

    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view" or "string" in str(kind):
        return pick(np.random.default_rng(number), WORDS[:3] + WORDS[5:])
    if types.is_decimal(kind):
        return decimal.Decimal(number)
    if types.is_binary(kind) or types.is_fixed_size_binary(kind):
        return b"abc\xff"
    if types.is_struct(kind):
        return {"a": number}
    if types.is_list(kind) or types.is_fixed_size_list(kind):
        return [number] * 2
    if types.is_map(kind):
        return [("a", number)]
    return np.float16(number) if types.is_float16(kind) else number


def make_parquet(originals: dict[str, bytes], rng: Any) -> bytes:
    """Write a table of other kinds of columns, with a description that is ours or nearly so."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = _columns(rng, int(rng.choice([0, 1, 7, 60])))
    names = list(columns)
    if rng.random() < 0.15:
        names[int(rng.integers(4))] = str(pick(rng, [w for w in WORDS if w != "\ud800"]))
    table = pa.table(list(columns.values()), names=names)
    if rng.random() < 0.5:
        facts = {"value": "value", "modes": ["user", "film", "day"], "labels": [None] * 3, "shape": [5, 5, 5],
                 "bounds": [-1, 9], "origin": {"duplicates": "keep"}}  # fmt: skip
        facts["labels"] = [_stream(rng) if rng.random() < 0.4 else None for _ in range(3)]
        text = json.dumps(facts).encode()
        table = table.replace_schema_metadata({b"tensorveil": change_json(text, rng) if rng.integers(2) else text})
    out = io.BytesIO()
    try:
        pq.write_table(table, out, use_dictionary=bool(rng.integers(2)), row_group_size=int(rng.choice([1, 3, 100])),
                       compression=pick(rng, ["none", "snappy", "zstd", "gzip", "lz4"]),
                       data_page_version=pick(rng, ["1.0", "2.0"]))  # fmt: skip
    except (pa.ArrowException, NotImplementedError, OSError):
        return originals["t.parquet"]
    return out.getvalue()


def _stream(rng: Any) -> str:
    """Write labels as an Arrow stream, of kinds that labels never have, or with changed bytes."""
    import pyarrow as pa

    items: Any = pick(
        rng, [list("abcde"), [1, 2, 3, 4, 5], ["a"] * 5, [], [None] * 5, [[1]] * 5, [1.5, float("nan"), 1, 2, 3]]
    )
    array = pa.array(items)
    if rng.random() < 0.2:
        array = array.dictionary_encode() if not pa.types.is_nested(array.type) else array
    sink = pa.BufferOutputStream()
    schema = pa.schema([("labels", array.type)] * int(rng.choice([1, 1, 1, 2])))
    with pa.ipc.new_stream(sink, schema) as writer:
        for _ in range(int(rng.choice([0, 1, 1, 1, 2]))):
            writer.write_batch(pa.record_batch([array] * len(schema), schema=schema))
    content = bytearray(sink.getvalue().to_pybytes())
    for _ in range(int(rng.choice([0, 1, 2, 4]))):
        place = 4 * int(rng.integers(len(content) // 4))
        number = int(pick(rng, [x for x in NUMBERS if isinstance(x, int) and -(2**31) <= x < 2**32]))
        content[place : place + 4] = struct.pack("<q", number)[:4]
    return base64.b64encode(bytes(content)).decode()


def change_our_parquet(originals: dict[str, bytes], rng: Any) -> bytes:
    """Write our own table anew: one cell, one kind of column or one word of its description is another."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(originals["t.parquet"]))
    known, way = dict(table.schema.metadata), int(rng.integers(5))
    place = int(rng.integers(table.num_columns))
    name, column = table.column_names[place], table.column(place)
    if way == 0:
        known[b"tensorveil"] = change_json(known[b"tensorveil"], rng)
    elif way == 1:
        table = table.slice(int(rng.integers(1, 9)))
    elif way == 2:
        order = rng.permutation(len(column))
        table = table.set_column(place, name, column.take(pa.array(order)))
    elif way == 3:
        items = column.to_pylist()
        items[int(rng.integers(len(items)))] = items[int(rng.integers(len(items)))]
        table = table.set_column(place, name, pa.array(items))
    else:
        known[b"tensorveil"] = write_json(json.loads(known[b"tensorveil"]), rng)
    out = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(known), out)
    return out.getvalue()
