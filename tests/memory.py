"""The most memory that this process held at once."""

from __future__ import annotations

from pathlib import Path


def read_peak() -> int:
    """In bytes, of this program alone.

    Not `ru_maxrss`: Linux lets a new program start from the peak of the process that started it, here a test worker.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
