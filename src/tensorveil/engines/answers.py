"""What a task says of itself: a code, because texts of errors travel into logs, and may hold data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorveil.tensor.stored import StoreError

__all__ = ["CHANGED", "FAILED", "MEMORY", "MISSING", "OK", "UNLIKE", "UNSOUND", "VERSION", "catch_codes"]

OK, MISSING, CHANGED, UNSOUND, MEMORY, FAILED, VERSION, UNLIKE = range(8)
_CODES: Final = {"missing": MISSING, "changed": CHANGED, "unsound": UNSOUND}


def catch_codes(work: Callable[[], bytes]) -> bytes:
    """Return what work gives, or the code of what went wrong."""
    try:
        return work()
    except StoreError as error:
        return bytes([_CODES[error.problem]])
    except MemoryError:
        return bytes([MEMORY])
    except Exception:
        return bytes([FAILED])
