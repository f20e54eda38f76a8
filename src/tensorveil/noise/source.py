"""Where random bits come from: AES-256 in counter mode, keyed by the operating system or, for tests, by a seed."""

from __future__ import annotations

import builtins
import hashlib
import os
import threading
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.noise.keyed import NoiseKey, open_stream

REKEY_BYTES: Final = 1 << 30  # far below where counter mode could be distinguished from random bits (about 2**68 bytes)
_STAYS: Final = (
    "a source of noise cannot be copied or sent to another process: whoever computes a task again would draw again. "
    "Draw noise once, where the total is."
)
ZEROS: Final = memoryview(bytes(1 << 18))  # encrypting zeros yields the key stream; one chunk stays in cache


@runtime_checkable
class NoiseSource(Protocol):
    """What a sampler needs: random bits, and whether anybody else could reproduce them."""

    @property
    def secure(self) -> bool:
        """Tell whether the bits may be used for a release."""

    def uniform64(self, n: int) -> NDArray[np.uint64]:
        """Return n independent uniform 64-bit words."""

    def bytes(self, n: int) -> builtins.bytes:
        """Return n independent uniform bytes."""


@runtime_checkable
class KeySource(NoiseSource, Protocol):
    """A source that can also hand out a key, for noise that is drawn by cell, perhaps elsewhere."""

    def make_key(self, words: int) -> NoiseKey:
        """Return a key that is used for so many words, once."""


class _Forks:
    """Counts the forks this process descends from: a process number alone could be reused by a grandchild."""

    count = 0

    @classmethod
    def note(cls) -> None:
        cls.count += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Forks.note)


class _Stream:
    """The key stream of one AES-256 key; not safe to share between threads without a lock."""

    def __init__(self, key: bytes, drawn: int = 0) -> None:
        self._cipher = open_stream(key, drawn)
        self.drawn = drawn

    def fill(self, target: memoryview) -> None:
        for start in range(0, len(target), len(ZEROS)):
            piece = target[start : start + len(ZEROS)]
            self._cipher.update_into(ZEROS[: len(piece)], piece)
        self.drawn += len(target)


def _as_words(target: bytearray) -> NDArray[np.uint64]:
    """Read bytes as words in the same order on every machine, so that a seed means the same everywhere."""
    return np.frombuffer(target, dtype="<u8").astype(np.uint64, copy=False)


def _check_length(n: int) -> int:
    if n < 0:
        raise InputError(f"n must be at least 0; got {n}. Ask for a number of words or bytes to draw.")
    return int(n)


@dataclass(slots=True)
class _Owned:
    """A stream with the process that made it."""

    stream: _Stream
    owner: tuple[int, int]


class SecureSource:
    """Random bits for a release: a fresh key from the operating system per thread, process and gigabyte.

    The object may be shared between threads. After a fork the child draws from a new key, so that parent and child
    never add the same noise. Nothing about the key can be read, saved or set.

    >>> from tensorveil.noise import SecureSource
    >>> SecureSource().uniform64(3).shape
    (3,)
    """

    def __init__(self) -> None:
        self._local = threading.local()

    @property
    def secure(self) -> bool:
        """Always true."""
        return True

    def uniform64(self, n: int) -> NDArray[np.uint64]:
        """Return n independent uniform 64-bit words."""
        words = bytearray(8 * _check_length(n))
        self._fill(memoryview(words))
        return _as_words(words)

    def bytes(self, n: int) -> builtins.bytes:
        """Return n independent uniform bytes."""
        target = bytearray(_check_length(n))
        self._fill(memoryview(target))
        return bytes(target)

    def _fill(self, target: memoryview) -> None:
        for start in range(0, len(target), REKEY_BYTES):
            self._stream().fill(target[start : start + REKEY_BYTES])

    def make_key(self, words: int) -> NoiseKey:
        """Return a new key, from which the noise of so many words is drawn by cell."""
        _check_length(words)
        return NoiseKey(key=os.urandom(32), start=0, aside=os.urandom(32), secure=True)

    def _stream(self) -> _Stream:
        owner = (os.getpid(), _Forks.count)
        held: _Owned | None = getattr(self._local, "held", None)
        if held is None or held.owner != owner or held.stream.drawn >= REKEY_BYTES:
            held = self._local.held = _Owned(_Stream(os.urandom(32)), owner)
        return held.stream

    def __reduce__(self) -> NoReturn:
        raise TypeError(_STAYS)

    def __repr__(self) -> str:
        return "SecureSource()"


class SeededSource:
    """Reproducible bits for tests and studies: anybody who knows the seed can remove the noise, so nothing is private.

    The stream does not depend on how it is split into calls. Threads may share the object, but which thread gets which
    part of the stream then depends on timing.

    >>> from tensorveil.noise import SeededSource
    >>> bool((SeededSource(7).uniform64(4) == SeededSource(7).uniform64(4)).all())
    True
    """

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise InputError(f"seed must be an integer; got {type(seed).__name__}. Try seed=0.")
        self._seed = int(seed)
        self._key = hashlib.sha256(f"tensorveil noise {self._seed}".encode()).digest()
        self._stream = _Stream(self._key)
        self._lock = threading.Lock()

    @property
    def secure(self) -> bool:
        """Always false."""
        return False

    def uniform64(self, n: int) -> NDArray[np.uint64]:
        """Return the next n 64-bit words of the seed's stream."""
        words = bytearray(8 * _check_length(n))
        with self._lock:
            self._stream.fill(memoryview(words))
        return _as_words(words)

    def bytes(self, n: int) -> builtins.bytes:
        """Return the next n bytes of the seed's stream."""
        target = bytearray(_check_length(n))
        with self._lock:
            self._stream.fill(memoryview(target))
        return bytes(target)

    def make_key(self, words: int) -> NoiseKey:
        """Return a key for the next words of the seed's stream, which is gone on with after them."""
        with self._lock:
            start = self._stream.drawn
            aside = hashlib.sha256(f"tensorveil noise {self._seed}, beside {start}".encode()).digest()
            self._stream = _Stream(self._key, start + 8 * _check_length(words))
        return NoiseKey(key=self._key, start=start, aside=aside, secure=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError(_STAYS)

    def __repr__(self) -> str:
        return f"SeededSource({self._seed})"
