"""Hostile files that know their format: parts that are valid by themselves, put together as no program would.

Where `damage.py` flips and cuts bytes, this changes what a format says: declared sizes and kinds, names, places of
parts, nested texts, what lies in another format's place. Checksums are made right again.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
import zlib
from typing import Any

import numpy as np

NUMBERS: list[Any] = [
    0, -1, 1, 2, 3, 7, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**40, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, 10**400,
    0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), -float("inf"),
]  # fmt: skip
WORDS: list[Any] = [
    "", " ", "a", "\x00", "\ud800", "../x", "/etc/passwd", "=1+1", "\x1b[2J", "x" * 5000, "1", "nan", "value", "héé",
    "entry", "slice:user", "proven", "Pure", "\u202e", "{", "index_0", "header.json",
]  # fmt: skip
KINDS = [
    "<f8", ">f8", "<f4", "<f2", "<i8", ">i4", "|i1", "|u1", "<u8", "|b1", "<c16", "<M8[D]", "<m8[s]", "|S3", "<U2",
    "|V8", "|S0", "<U0", "|O", "<f16", "nonsense", "<i3", "<M8", "(2,2)<f8", "<f8,<i4",
]  # fmt: skip
SHAPES = ["()", "(0,)", "(1,)", "(-1,)", "(3, 0)", "(2, 3)", "(9223372036854775807,)", "(4294967296, 4294967296)",
          "(1,) * 40", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", "5", "None", "(2.0,)", "(True,)", "[6]", "(6, '4')"]  # fmt: skip


def pick(rng: Any, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def nested(rng: Any) -> Any:
    """Return something that no field is meant to hold."""
    deep: Any = 1
    for _ in range(int(rng.choice([2, 50, 900]))):
        deep = [deep] if rng.integers(2) else {"event": deep, "kind": "Repeated", "count": 2}
    return pick(rng, [None, True, False, [], {}, [1, 2], {"a": 1}, [[]] * 9, deep, list(range(300))])


def hostile(rng: Any) -> Any:
    return [lambda: pick(rng, NUMBERS), lambda: pick(rng, WORDS), lambda: nested(rng)][int(rng.integers(3))]()


def change_tree(tree: Any, rng: Any) -> Any:
    """Return plain data in which one leaf, key or branch is another."""
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        name, out = pick(rng, sorted(tree)), dict(tree)
        way = rng.random()
        if way < 0.1:
            del out[name]
        elif way < 0.2:
            out[str(pick(rng, WORDS))] = hostile(rng)
        elif way < 0.27:
            out[name] = tree[pick(rng, sorted(tree))]
        else:
            out[name] = change_tree(tree[name], rng)
        return out
    if isinstance(tree, list) and tree and rng.random() < 0.8:
        place, out_list = int(rng.integers(len(tree))), list(tree)
        way = rng.random()
        if way < 0.15:
            del out_list[place]
        elif way < 0.3:
            out_list.insert(place, tree[place])
        else:
            out_list[place] = change_tree(tree[place], rng)
        return out_list
    if isinstance(tree, int | float) and not isinstance(tree, bool) and abs(tree) < 2**53 and rng.random() < 0.3:
        return pick(rng, [tree + 1, -tree, tree * 2, tree / 3, float(tree), str(tree), [tree]])
    return hostile(rng)


def write_json(tree: Any, rng: Any) -> bytes:
    """Write plain data, now and then as a text that no writer makes."""
    text = json.dumps(tree, ensure_ascii=bool(rng.integers(2))).encode(errors="surrogatepass")
    way = rng.random()
    if way < 0.04:
        return b"[" * 100_000 + text
    if way < 0.06:
        return text[:-1] + b', "epsilon": ' + b"9" * 6000 + b"}"
    if way < 0.09:
        return bytes(text.replace(b'"', pick(rng, [b"'", b'\\"', b'"\\u0000', b'"\\ud800']), 1))
    if way < 0.11:
        return b"\xef\xbb\xbf" + text
    if way < 0.13:
        return text.decode(errors="replace").encode("utf-16")
    if way < 0.15:
        return bytes(text + pick(rng, [b"\0", b"{}", b"]", b"\n" * 1000]))
    return text


def change_json(content: bytes, rng: Any) -> bytes:
    return write_json(change_tree(json.loads(content), rng), rng)


# Arrays and archives of arrays.


def split_npy(content: bytes) -> tuple[str, bytes]:
    length = int.from_bytes(content[8:10], "little")
    return content[10 : 10 + length].decode("latin-1"), content[10 + length :]


def join_npy(header: str, body: bytes, version: bytes = b"\1\0") -> bytes:
    text = header.encode("latin-1", "replace")
    size = struct.pack("<H", min(len(text), 65535)) if version == b"\1\0" else struct.pack("<I", len(text))
    return b"\x93NUMPY" + version + size + text + body


def change_npy(content: bytes, rng: Any) -> bytes:
    """Change what an array says about itself, or the numbers in it."""
    header, body = split_npy(content)
    facts = eval(header, {"__builtins__": {}})  # of a file that numpy has just written
    shape, kind, order = repr(facts["shape"]), repr(facts["descr"]), repr(facts["fortran_order"])
    way = int(rng.integers(9))
    if way == 0:
        kind = repr(pick(rng, KINDS))
    elif way == 1:
        shape = pick(rng, SHAPES)
    elif way == 2:
        order = pick(rng, ["True", "1", "None", "'C'"])
    elif way == 3:
        kind = pick(rng, ["[('a', '<f8')]", "[('a', '<f8', (9,))]", "[('', '|O')]", "('<f8', (2,))", "{}", "[]", "1"])
    elif way == 4:
        return join_npy(header, body, pick(rng, [b"\2\0", b"\3\0", b"\4\0", b"\0\0"]))
    elif way == 5:
        body = pick(rng, [body + body, body[:-1], b"", body + bytes(1), body[::-1]])
    elif way == 6 and body:
        item = np.frombuffer(body, np.uint8).copy()
        place = int(rng.integers(max(1, len(item) - 8)))
        item[place : place + 8] = np.frombuffer(struct.pack("<d", pick(rng, [np.nan, np.inf, 1e308, -1.0])), np.uint8)[
            : len(item) - place
        ]
        body = item.tobytes()
    elif way == 7:
        return join_npy(pick(rng, ["{" * 3000, "", "None", header.replace(":", "="), header * 30, "1" * 5000]), body)
    return join_npy(f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, }}\n", body)


def members_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_zip(members: list[tuple[str, bytes]], rng: Any) -> bytes:
    """Write an archive, by one of the kinds of compression that there are."""
    out, kind = io.BytesIO(), pick(rng, [zipfile.ZIP_STORED] * 3 + [zipfile.ZIP_DEFLATED] * 3 + [12, 14])
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, data in members:
            archive.writestr(name or "x", data)
        if rng.random() < 0.05:
            archive.comment = b"PK\5\6" + bytes(18)
    return out.getvalue()


def change_archive(content: bytes, rng: Any) -> bytes:
    """Change members of an archive: their contents, names, number, or what the archive says about them."""
    members = list(members_of(content).items())
    place = int(rng.integers(len(members)))
    name, data = members[place]
    way = int(rng.integers(10))
    if way == 0:
        del members[place]
    elif way == 1:
        members.append(
            (pick(rng, ["extra.npy", "labels_7.npy", "../x.npy", "a/b.npy", "factor_9.npy", "core.npy"]), data)
        )
    elif way == 2:
        other = int(rng.integers(len(members)))
        members[place], members[other] = (name, members[other][1]), (members[other][0], data)
    elif way == 3:
        members[place] = (
            pick(rng, ["index_9.npy", "labels_0.json", "bias_0.npy", "about", "", "é.npy"]),
            data,
        )
    elif way == 4:
        return lie_in_directory(write_zip(members, rng), rng)
    elif name.endswith(".json"):
        members[place] = (name, change_json(data, rng))
    elif name == "about.npy":
        text = np.frombuffer(change_json(split_npy(data)[1], rng), np.uint8)
        members[place] = (name, as_npy(text))
    else:
        members[place] = (name, change_npy(data, rng))
    return write_zip(members, rng)


def unseal(content: bytes) -> bytes:
    """Return an archive of ours without its digests, as anybody can write it: what it holds is read, whatever it is."""
    members = members_of(content)
    if "header.json" in members:
        facts = json.loads(members["header.json"])
        del facts["members"]
        members["header.json"] = json.dumps(facts).encode()
    else:
        facts = json.loads(split_npy(members["about.npy"])[1])
        del facts["members"]
        members["about.npy"] = as_npy(np.frombuffer(json.dumps(facts).encode(), np.uint8))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def as_npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def lie_in_directory(content: bytes, rng: Any) -> bytes:
    """Change sizes, places and kinds in the table of an archive."""
    out, places = bytearray(content), []
    at = content.find(b"PK\1\2")
    while at >= 0:
        places.append(at)
        at = content.find(b"PK\1\2", at + 4)
    if not places:
        return content
    at = pick(rng, places) + pick(rng, [8, 10, 16, 20, 24, 28, 30, 32, 42])
    out[at : at + 4] = struct.pack("<I", pick(rng, [0, 1, 99, 2**16, 2**31 - 1, 2**32 - 1, len(content)]))
    return bytes(out)


# Texts.

FIELDS = [
    "1", "2", "-1", "0", "1e400", "nan", "", " ", "0x1F", "1_000", "1,5", "9" * 400, "+1", "1.", ".5e-3", "ÿ", "\ufeff",
    '"', '""', '"a', 'a"b', "'", "\x00", "\x1b[2J", "true", "2024-01-01", "2024-13-45", "12:61", "1e-5000", "#", "\r",
    "\u2028", "99999999999999999999", "1.0000000000000000000001", "a" * 5000, "NULL", "inf", "-0.0", "１",
]  # fmt: skip


def make_text(originals: dict[str, bytes], rng: Any) -> bytes:
    """Write a table of odd fields: ragged, quoted, in other encodings, with other ends of lines."""
    cut, end = pick(rng, [",", ",", "\t", " ", ";", "|"]), pick(rng, ["\n", "\n", "\r\n", "\r", "\n\n", "\x0b"])
    wide = int(rng.choice([1, 2, 3, 4, 4, 4, 9, 400]))
    header = pick(
        rng, [["user", "film", "day", "value"], ["a", "a", "b", "c"], ["", "b", "c", "d"], ["1", "2", "3", "4"]]
    )
    rows = [header] if rng.random() < 0.8 else []
    for _ in range(int(rng.choice([0, 1, 5, 40]))):
        plain = [str(int(x)) for x in rng.integers(0, 4, wide)]
        if rng.random() < 0.3:
            plain[int(rng.integers(wide))] = pick(rng, FIELDS)
        rows.append(plain + ([pick(rng, FIELDS)] if rng.random() < 0.05 else []))
    text = end.join(cut.join(row) for row in rows) + pick(rng, [end, "", end * 3, '"', "\x1a"])
    coded = text.encode(pick(rng, ["utf-8"] * 6 + ["utf-16", "utf-8-sig", "utf-7"]), "replace")
    return bytes(coded if rng.random() < 0.9 else coded.replace(b"1", pick(rng, [b"\xff", b"\xed\xa0\x80", b"\0"]), 2))


def change_gzip(originals: dict[str, bytes], rng: Any) -> bytes:
    """Write what was compressed anew: in parts, with fields of a header, within itself, with a wrong end."""
    text = make_text(originals, rng) if rng.integers(2) else gzip.decompress(originals["t.csv.gz"])
    packed = gzip.compress(text, 1, mtime=0)
    way = int(rng.integers(8))
    if way == 0:
        return b"".join(gzip.compress(text[k::3], 1) for k in range(3))
    if way == 1:
        return gzip.compress(packed)
    if way == 2:
        return bytes(packed + pick(rng, [b"\0" * 50, b"x", packed[:15], b"\x1f\x8b"]))
    if way == 3:
        return bytes(packed[:-8] + struct.pack("<II", zlib.crc32(text), pick(rng, [0, 2**32 - 1, len(text) + 1])))
    if way == 4:
        flag = int(rng.integers(1, 256))
        return bytes(
            packed[:3] + bytes([flag]) + packed[4:10] + pick(rng, [b"\xff\xff", b"name\0", b"\0\0"]) + packed[10:]
        )
    if way == 5:
        stream = zlib.compressobj(9, zlib.DEFLATED, -15)
        raw = stream.compress(bytes(10**7)) + stream.flush()
        return packed[:10] + raw + struct.pack("<II", zlib.crc32(bytes(10**7)), 10**7)
    if way == 6:
        return bytes(packed[:10] + pick(rng, [b"\6", b"\7", b"\1\0\0\xff\xff", b"\0"]) + packed[11:])
    return packed
