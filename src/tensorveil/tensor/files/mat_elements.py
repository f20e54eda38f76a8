"""MATLAB files of versions 4 and 5, read here: their numeric arrays, and the names of everything else.

Every length is compared with the bytes that are there, and every kind with the table, before anything is taken for
data. Cells, structures, text and sparse matrices are skipped.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.memory import check_file_memory

__all__ = ["NOT_NUMERIC", "read_mat"]

NOT_NUMERIC: Final = None  # what stands for a variable that holds something else than real numbers

# Version 5: kinds of elements, and classes of arrays.
_INT8, _UINT8, _INT16, _UINT16, _INT32, _UINT32, _SINGLE, _DOUBLE, _INT64, _UINT64 = 1, 2, 3, 4, 5, 6, 7, 9, 12, 13
_MATRIX, _COMPRESSED, _UTF8, _UTF16, _UTF32 = 14, 15, 16, 17, 18
_ELEMENTS: Final = {
    _INT8: "i1", _UINT8: "u1", _INT16: "i2", _UINT16: "u2", _INT32: "i4", _UINT32: "u4", _SINGLE: "f4", _DOUBLE: "f8",
    _INT64: "i8", _UINT64: "u8",
}  # fmt: skip
_CLASSES: Final = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
_COMPLEX, _LOGICAL = 0x800, 0x200
_KNOWN_CLASSES: Final = range(1, 19)
_DEFLATE: Final = 1040
_HEADER: Final = 128
_LARGEST_ORDER: Final = 32
# Version 4: kinds of numbers.
_OLD: Final = {0: "f8", 1: "f4", 2: "i4", 3: "i2", 4: "u2", 5: "u1"}

Variables = dict[str, NDArray[Any] | None]


def read_mat(path: Path) -> Variables:
    """Return the arrays of a file by name; None stands for what is no real numeric array."""
    check_file_memory(2 * path.stat().st_size)  # a file of holes is as long as it likes
    content = path.read_bytes()
    if len(content) >= _HEADER and content[126:128] in (b"IM", b"MI") and 0 not in content[:4]:
        return _read_version5(content, "<" if content[126:128] == b"IM" else ">")
    return _read_version4(content)


@dataclass(frozen=True, kw_only=True)
class _Element:
    """One element: its kind, its bytes, and where the next one begins."""

    kind: int
    data: memoryview
    end: int


def _take(content: memoryview, start: int, order: str, *, padded: bool = True) -> _Element:
    """Return the element at a place, if it lies within the content."""
    if start + 8 > len(content):
        raise _damaged()
    kind, length = struct.unpack_from(f"{order}II", content, start)
    if kind >> 16:  # a small element: length and kind in one word, up to four bytes in the next
        kind, length = kind & 0xFFFF, kind >> 16
        if length > 4:
            raise _damaged()
        return _Element(kind=kind, data=content[start + 4 : start + 4 + length], end=start + 8)
    first, last = start + 8, start + 8 + length
    if last > len(content):
        raise _damaged()
    return _Element(kind=kind, data=content[first:last], end=last + (-length % 8 if padded else 0))


def _read_version5(content: bytes, order: str) -> Variables:
    found: Variables = {}
    view, place = memoryview(content), _HEADER
    while place < len(view):
        element = _take(view, place, order, padded=False)
        place = element.end
        if element.kind == _COMPRESSED:
            element = _take(_decompress(element.data, order), 0, order, padded=False)
        if element.kind != _MATRIX:
            raise _damaged()
        name, array = _read_matrix(element.data, order)
        if name in found:
            raise _damaged()
        if name:  # what has no name belongs to other variables
            found[name] = array
    return found


def _decompress(data: memoryview, order: str) -> memoryview:
    """Undo compression, as far as the first tag says that there is something."""
    stream = zlib.decompressobj()
    head = stream.decompress(data, 8)
    if len(head) < 8:
        raise _damaged()
    length = int(struct.unpack_from(f"{order}I", head, 4)[0])
    if length > _DEFLATE * len(data):
        raise _damaged()
    check_file_memory(3 * length)
    rest = stream.decompress(stream.unconsumed_tail, length + 1) if length else b""
    if not stream.eof and len(rest) <= length:
        rest += stream.decompress(stream.unconsumed_tail, 1)
    if len(rest) != length or not stream.eof:  # its checksum, too, is right where the end is reached
        raise _damaged()
    return memoryview(head + rest)


def _read_matrix(data: memoryview, order: str) -> tuple[str, NDArray[Any] | None]:
    """Return the name and the numbers of an array."""
    if not len(data):
        return "", NOT_NUMERIC
    flags = _take(data, 0, order)
    if flags.kind != _UINT32 or len(flags.data) != 8:
        raise _damaged()
    word = struct.unpack_from(f"{order}I", flags.data)[0]
    kind = word & 0xFF
    if kind not in _KNOWN_CLASSES:
        raise _damaged()
    if kind in (17, 18):  # opaque: laid out in another way
        return "", NOT_NUMERIC
    sizes = _take(data, flags.end, order)
    if sizes.kind != _INT32 or len(sizes.data) % 4 or not 2 <= len(sizes.data) // 4 <= _LARGEST_ORDER:
        raise _damaged()
    shape = tuple(struct.unpack(f"{order}{len(sizes.data) // 4}i", sizes.data))
    title = _take(data, sizes.end, order)
    if title.kind not in (_INT8, _UINT8, _UTF8) or min(shape) < 0:
        raise _damaged()
    name = bytes(title.data).decode("ascii")
    if kind not in _CLASSES or word & _COMPLEX:
        return name, NOT_NUMERIC
    numbers = _take(data, title.end, order, padded=False)
    if numbers.kind not in _ELEMENTS or len(data) - numbers.end >= 8:
        raise _damaged()
    array = _make_array(numbers.data, order + _ELEMENTS[numbers.kind], shape)
    return name, array.astype(bool if word & _LOGICAL else _CLASSES[kind])


def _make_array(data: memoryview, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
    if math.prod(shape) * np.dtype(kind).itemsize != len(data):
        raise _damaged()
    check_file_memory(3 * len(data))
    return np.frombuffer(data, kind).reshape(shape, order="F")


def _read_version4(content: bytes) -> Variables:
    found: Variables = {}
    view, place = memoryview(content), 0
    while place < len(view):
        if place + 20 > len(view):
            raise _damaged()
        order = "<" if view[place + 1] == 0 and view[place + 2] == 0 and view[place + 3] == 0 else ">"
        code, rows, columns, imaginary, length = struct.unpack_from(f"{order}5i", view, place)
        machine, zero, numbers, matrix = code // 1000, code // 100 % 10, code // 10 % 10, code % 10
        if machine != (order == ">") or zero or numbers not in _OLD or matrix not in (0, 1, 2):
            raise _damaged()
        if rows < 0 or columns < 0 or imaginary not in (0, 1) or not 1 <= length <= 4096:
            raise _damaged()
        kind = np.dtype(order + _OLD[numbers])
        first = place + 20 + length
        size = rows * columns * kind.itemsize
        place = first + size * (1 + imaginary)
        if place > len(view):
            raise _damaged()
        name = bytes(view[first - length : first]).rstrip(b"\0").decode("ascii")
        if name in found or not name:
            raise _damaged()
        plain = not imaginary and matrix == 0
        array = _make_array(view[first : first + size], kind.str, (rows, columns)) if plain else None
        found[name] = NOT_NUMERIC if array is None else array.astype(kind.newbyteorder("="))
    return found


def _damaged() -> InputError:
    return InputError("path must be a readable MATLAB .mat file. The file is damaged or has another format.")
