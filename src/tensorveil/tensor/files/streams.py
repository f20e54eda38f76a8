"""Bytes of text files: compressed or not, recoded to UTF-8, never more than fits into memory."""

from __future__ import annotations

import codecs
import gzip
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tensorveil.memory import file_too_large, memory_limit

BLOCK = 1 << 24
COPIES = 2  # of a text, or of the table that is made of it, at the same time


def is_gzip(path: Path) -> bool:
    """Return whether the file is compressed, by its first bytes rather than by its name."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


class LimitedStream(io.RawIOBase):
    """What a file holds, uncompressed if it is compressed: no more of it than fits into memory.

    With a ``decoder`` it is its text in UTF-8. What is read in blocks need not be ``limited``.
    """

    def __init__(self, path: Path, decoder: codecs.IncrementalDecoder | None = None, *, limited: bool = True) -> None:
        super().__init__()
        opener: Any = gzip.open if is_gzip(path) else open
        self._file = opener(path, "rb")
        self._left: float = memory_limit() // COPIES if limited else math.inf
        self._decoder = decoder
        self._rest = b""

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        found = int(self._file.readinto(buffer)) if self._decoder is None else self._recode(buffer, self._decoder)
        self._left -= found
        if self._left < 0:
            raise file_too_large()
        return found

    def _recode(self, buffer: Any, decoder: codecs.IncrementalDecoder) -> int:
        chunk = b"x"
        while chunk and not self._rest:
            chunk = self._file.read(len(buffer))
            text = decoder.decode(chunk, not chunk)
            if decoder.errors == "strict" and "\0" in text:
                raise OSError("a zero byte is no text")
            self._rest = text.encode()
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def open_for_reading(
    path: Path, encoding: str | None = None, errors: str = "strict", *, limited: bool = True
) -> IO[bytes]:
    """Open a file that may be compressed, whatever it is called; with an encoding, to read its text in UTF-8."""
    decoder = None if encoding is None else codecs.getincrementaldecoder(encoding)(errors)
    return io.BufferedReader(LimitedStream(path, decoder, limited=limited), BLOCK)


def open_for_writing(path: Path, name: str) -> Any:
    """Open the temporary file, compressed if the final name says so."""
    if name.lower().endswith(".gz"):
        return gzip.open(path, "wb", compresslevel=6)
    return path.open("wb")


def cut_lines(file: Any, *, longest: int | None = None) -> Iterator[bytes]:
    """Yield a file in blocks of whole lines.

    With ``longest`` no more than a few blocks are in memory: of a line that is far longer, and so too long to be read,
    that many bytes are kept.
    """
    rest = b""
    while chunk := file.read(BLOCK):
        cut = chunk.rfind(b"\n") + 1
        if not cut and longest is not None:
            cut = chunk[:-1].rfind(b"\r") + 1
        if cut:
            yield rest + chunk[:cut]
            rest = b""
        rest += chunk[cut:]
        if longest is not None and len(rest) > 2 * BLOCK:
            rest = rest[:longest]
    if rest:
        yield rest
