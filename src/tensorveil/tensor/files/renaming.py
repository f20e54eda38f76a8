"""What the system offers to those who rename folders: exchanging two names at once, and locks that die with a run."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

__all__ = ["exchange_names", "hold_lock", "is_held"]

_HERE: Final = -100  # AT_FDCWD
_EXCHANGE: Final = 2  # RENAME_EXCHANGE


def exchange_names(one: Path, other: Path) -> bool:
    """Exchange the names of two folders at one moment; return False where the system cannot."""
    rename: Any = None
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            rename = ctypes.CDLL(None, use_errno=True).renameat2
    if rename is None:
        return False
    return bool(rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), ctypes.c_uint(_EXCHANGE)) == 0)


@contextlib.contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold a folder while the block runs; the system lets go of it when the process ends, however it ends."""
    descriptor = _open(folder)
    try:
        _lock(descriptor)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_held(folder: Path) -> bool:
    """Tell whether a running process holds a folder."""
    descriptor = _open(folder)
    if descriptor is None:
        return False
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


def _open(folder: Path) -> int | None:
    with contextlib.suppress(OSError):
        return os.open(folder, os.O_RDONLY)
    return None


def _lock(descriptor: int | None) -> bool:
    """Take the lock; return False if somebody else has it. A system without locks never has one taken."""
    try:
        import fcntl
    except ImportError:
        return True
    if descriptor is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
