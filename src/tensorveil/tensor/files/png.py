"""What a PNG file says about itself, checked before a library decodes it: its size, its checksums, its length."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensorveil.errors import InputError
from tensorveil.memory import check_file_memory

__all__ = ["SIGNATURE", "check_png"]

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEPTHS: Final = (1, 2, 4, 8)
_PASSES: Final = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_BYTES: Final = 60  # of memory per value of a tensor, at the most: pixels, a mask, coordinates, values
_PIECE: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class _Header:
    width: int
    height: int
    depth: int
    channels: int
    interlaced: bool

    def length(self) -> int:
        """Return how many bytes the rows are, each with the byte that says how it was filtered."""
        if not self.interlaced:
            return self._rows(self.width, self.height)
        sizes = (
            (-(-(self.width - left) // across), -(-(self.height - top) // down)) for left, top, across, down in _PASSES
        )
        return sum(self._rows(wide, high) for wide, high in sizes if wide > 0 and high > 0)

    def _rows(self, width: int, height: int) -> int:
        return height * (1 + (width * self.depth * self.channels + 7) // 8)


def check_png(path: Path) -> None:
    """Refuse a file that is no PNG picture of up to 8 bits, is damaged or cut short, or would not fit into memory."""
    header: _Header | None = None
    compressed: list[bytes] = []
    kinds: list[bytes] = []
    for kind, content in _chunks(path):
        kinds.append(kind)
        if kind == b"IHDR":
            header = _read_header(content)
            values = header.width * header.height * (3 if header.channels > 2 or header.depth != 8 else 1)
            check_file_memory(_BYTES * values)
        elif kind == b"IDAT":
            compressed.append(content)
    if header is None or kinds[0] != b"IHDR" or kinds.count(b"IHDR") != 1 or kinds[-1] != b"IEND":
        raise _damaged()
    _check_length(compressed, header.length())


def _chunks(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and content of every chunk, whose checksum is right."""
    rest = path.stat().st_size - len(SIGNATURE)
    with path.open("rb") as file:
        if file.read(len(SIGNATURE)) != SIGNATURE:
            raise _damaged()
        while rest > 0:
            head = file.read(8)
            length = int.from_bytes(head[:4])
            if len(head) < 8 or length + 12 > rest:
                raise _damaged()
            check_file_memory(2 * length)
            content, found = file.read(length), file.read(4)
            if found != zlib.crc32(content, zlib.crc32(head[4:])).to_bytes(4):
                raise _damaged()
            rest -= length + 12
            yield head[4:], content
            if head[4:] == b"IEND":
                return
    raise _damaged()


def _read_header(content: bytes) -> _Header:
    if len(content) != 13:
        raise _damaged()
    width, height, depth, colour, compression, filtering, interlaced = struct.unpack(">IIBBBBB", content)
    if depth == 16:
        raise InputError("path must be a PNG picture of 8 bits; this one has 16, half of which would be lost.")
    if depth not in _DEPTHS or colour not in _CHANNELS or compression or filtering or interlaced > 1:
        raise _damaged()
    if not (0 < width < 1 << 31 and 0 < height < 1 << 31):
        raise _damaged()
    return _Header(width=width, height=height, depth=depth, channels=_CHANNELS[colour], interlaced=bool(interlaced))


def _check_length(compressed: list[bytes], wanted: int) -> None:
    """Refuse pictures whose rows are not all there; nothing is kept of them."""
    stream, length = zlib.decompressobj(), 0
    try:
        for piece in compressed:
            while piece:
                length += len(stream.decompress(piece, _PIECE))
                piece = stream.unconsumed_tail
                if length > wanted:
                    raise _damaged()
        length += len(stream.flush())
    except zlib.error:
        raise _damaged() from None
    if length != wanted or not stream.eof:
        raise _damaged()


def _damaged() -> InputError:
    return InputError("path must be a PNG picture of 8 bits, grey or in colour. The file is damaged, or another kind.")
