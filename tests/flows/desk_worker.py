"""The desk's worker, but its first noise, drawn after the charge, never comes or cannot be had; or it never begins."""

from __future__ import annotations

import sys
import time
from typing import Any

from tensorveil.desk import worker
from tensorveil.noise import SecureSource
from tests.flows.private_cases import SECRET


def wait(*_: Any) -> None:
    while True:
        time.sleep(0.05)


def fail(*_: Any) -> None:
    raise MemoryError(SECRET)


def die(*_: Any) -> None:
    import os

    os._exit(9)


if __name__ == "__main__":
    what: Any = {"wait": wait, "fail": fail, "die": die, "dawdle": wait}[sys.argv[1]]
    if sys.argv[1] == "dawdle":
        worker.run_asked = what
    else:
        SecureSource.uniform64 = SecureSource.bytes = what  # type: ignore[method-assign]
    sys.exit(worker.main())
