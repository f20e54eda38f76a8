"""How much memory may be used: one limit, asked before anything large is read, made or charged for.

Files say how large their contents are, and may lie. Whoever reads one compares what it declares with `memory_limit`
before allocating, so that a small file cannot fill the machine.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tensorveil.errors import FileTooLargeError, InputError, MemoryLimitError

__all__ = [
    "check_file_memory",
    "check_memory",
    "check_table_memory",
    "file_too_large",
    "limit_memory",
    "memory_limit",
    "parse_size",
    "set_memory_limit",
]

_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
TABLE: Final = 3  # bytes that a byte of a table of text takes at least, as columns and as entries
_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)B?\s*", re.IGNORECASE)

_limit: int | None = None


def parse_size(size: str | int) -> int:
    """Return a number of bytes.

    >>> parse_size("1.5 GB"), parse_size("512M"), parse_size(4096)
    (1500000000, 512000000, 4096)
    """
    if isinstance(size, int) and not isinstance(size, bool):
        found = size
    else:
        matched = _SIZE.fullmatch(size) if isinstance(size, str) else None
        found = 0 if matched is None else int(float(matched[1]) * _UNITS[matched[2].upper()])
    if found < 1:
        raise InputError("max_memory must be a number of bytes, such as 4000000000, 4GB or 500MB.")
    return found


def set_memory_limit(size: str | int | None) -> None:
    """Set the limit of this process; None leaves it to what the machine has."""
    global _limit
    _limit = None if size is None else parse_size(size)


@contextlib.contextmanager
def limit_memory(size: str | int | None) -> Iterator[None]:
    """Use another limit within a block.

    >>> import tensorveil as tv
    >>> with limit_memory("2 GB"):
    ...     memory_limit()
    2000000000
    """
    before = _limit
    set_memory_limit(size)
    try:
        yield
    finally:
        set_memory_limit(before)


def memory_limit() -> int:
    """Return how many bytes may be used from now on: the limit that was set, else what the system has to give."""
    return _available() if _limit is None else _limit


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Refuse work that would not fit."""
    if needed > memory_limit():
        raise MemoryLimitError(f"{what} would need more memory than may be used. {remedy} Or raise max_memory.")


def check_file_memory(needed: float) -> None:
    """Refuse a file whose contents would not fit, by the sizes that it declares."""
    if needed > memory_limit():
        raise file_too_large()


def check_table_memory(size: int) -> None:
    """Refuse a table of text whose rows would not fit, by its length, before any of it is read."""
    if TABLE * size > memory_limit():
        raise FileTooLargeError(
            "path must fit into memory: the table's rows need more than may be used. Raise max_memory, or put it into "
            "a store, which is read in parts (write_store)."
        )


def file_too_large() -> FileTooLargeError:
    """Return the error for files that do not fit."""
    return FileTooLargeError(
        "path must fit into memory: by the sizes that the file declares, its contents need more than may be used. "
        "If they are right, raise max_memory or read a part of it; if not, the file is damaged."
    )


def _available() -> int:
    """Return what the system has to give, by whichever rule gives least."""
    return max(0, min(_free_on_machine(), _free_in_group(), _free_in_address_space()))


def _free_on_machine() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1 << 62


def _free_in_group() -> int:
    """Return what a container leaves, if there is one."""
    folder = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):
        most = (folder / "memory.max").read_text(encoding="ascii").strip()
        if most != "max":
            return int(most) - int((folder / "memory.current").read_text(encoding="ascii"))
    return 1 << 62


def _free_in_address_space() -> int:
    """Return what ``ulimit -v`` leaves."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            return most - pages * os.sysconf("SC_PAGE_SIZE")
    return 1 << 62
