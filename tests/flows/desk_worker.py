"""The desk's worker, but its first noise, which is drawn after the charge, never comes or cannot be had."""

from __future__ import annotations

import sys
import time
from typing import Any

from tensorveil.desk.worker import main
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
    what: Any = {"wait": wait, "fail": fail, "die": die}[sys.argv[1]]
    SecureSource.uniform64 = SecureSource.bytes = what  # type: ignore[method-assign]
    sys.exit(main())
