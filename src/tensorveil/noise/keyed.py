"""Noise by cell: bits that follow from a key and a cell's number, so that a task that is run again draws the same.

Where every value gets noise of its own, values may be in many places, and whoever computes a part twice must not draw
twice. The bits of a cell are therefore those that stand at its place in the key stream of AES-256 in counter mode:
whoever has the key can compute any stretch of it, in any order, as often as needed, and always gets the same answer.

The key is made for one purchase, by the process that buys: from the operating system's bits, or from a seed for tests.
It is not kept, and no second statistic is ever drawn with it (docs/guarantees.md#keyed-noise).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

__all__ = ["CELLS", "NoiseKey", "answer_by_cell", "open_stream"]

Ints = NDArray[np.int64]
# Answers of so many cells: of a block's places, numbered from its first cell, and a source of bits for them.
Answer = Callable[[Ints, Any], Ints]

CELLS: Final = 1 << 16  # of a block; samplers draw the words of so many at once
_ASIDE: Final = 1 << 40  # bytes that a block may use beside its cells' words, which is next to never


@dataclass(frozen=True, repr=False)
class NoiseKey:
    """A stretch of a key stream, and beside it a second one for the few draws that need more bits than their words.

    Whoever has it can remove the noise: it goes to those who hold the values, and nowhere else.
    """

    key: builtins.bytes
    start: int
    aside: builtins.bytes
    secure: bool

    def __repr__(self) -> str:
        return "<key of noise>"

    def open(self, block: int, words: int) -> _BlockSource:
        """Return the bits of a block of cells, of which every cell has so many words."""
        size = 8 * words * CELLS
        own, aside = open_stream(self.key, self.start + size * block), open_stream(self.aside, _ASIDE * block)
        return _BlockSource(own, size, aside, secure=self.secure)


class _BlockSource:
    """The bits of one block: those of its cells first, then others."""

    def __init__(self, own: Any, size: int, aside: Any, *, secure: bool) -> None:
        self._own, self._size, self._aside, self._secure = own, size, aside, secure
        self._opened = False

    @property
    def secure(self) -> bool:
        """Tell whether the bits may be used for a release."""
        return self._secure

    def uniform64(self, n: int) -> NDArray[np.uint64]:
        """Return n words: the first time those of the cells, in their order; after that, others."""
        return np.frombuffer(self.bytes(8 * n), dtype="<u8").astype(np.uint64, copy=False)

    def bytes(self, n: int) -> builtins.bytes:
        """Return n bytes, likewise."""
        if self._opened:
            return bytes(self._aside.update(bytes(n)))
        assert n <= self._size  # or it would run into the next block's
        self._opened = True
        return bytes(self._own.update(bytes(n)))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a source of noise cannot be copied or sent to another process.")


def open_stream(key: builtins.bytes, place: int) -> Any:
    """Return the key stream of AES-256 in counter mode from a byte on, as an encryptor of zeros."""
    stream = Cipher(algorithms.AES256(key), modes.CTR((place // 16).to_bytes(16, "big"))).encryptor()
    stream.update(bytes(place % 16))
    return stream


def answer_by_cell(answer: Answer, places: Ints, key: NoiseKey, words: int, first: int, total: int) -> Ints:
    """Return the answers of some cells, from number ``first`` on, of ``total`` in all; ``words`` is per cell.

    Every block is drawn as a whole, with zeros for cells that are elsewhere. Which bits an answer uses depends on the
    bits alone, never on a place, so these zeros change nothing, and any cut gives every cell the same answer.
    """
    out = np.empty(len(places), dtype=np.int64)
    at, last = first, first + len(places)
    while at < last:
        block = at // CELLS
        begin, end = block * CELLS, min((block + 1) * CELLS, total)
        to = min(end, last)
        whole = np.zeros(end - begin, dtype=np.int64)
        whole[at - begin : to - begin] = places[at - first : to - first]
        out[at - first : to - first] = answer(whole, key.open(block, words))[at - begin : to - begin]
        at = to
    return out
