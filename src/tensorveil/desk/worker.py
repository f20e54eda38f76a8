"""The process that makes one run: a request on standard input, steps and the outcome in JSON on standard output.

It is a process of its own so that it can be interrupted as Ctrl-C interrupts the command: what was charged is said
then, and nothing half-written is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorveil.desk.asked import read_asked, read_spending
from tensorveil.desk.errors import describe_error
from tensorveil.desk.places import Places

__all__ = ["main", "run_asked"]


def run_asked(form: dict[str, Any], places: Places, say: Callable[..., None]) -> dict[str, Any]:
    """Make the run that a form asks for, and say how far it is; return what it has released, all of it public.

    Guarantee: that of `release_privately` (docs/guarantees.md#post-processing).
    """
    from tensorveil.runs.private import release_privately

    run = read_spending(form, places).make_run(read_asked(form, places))
    released = release_privately(
        run,
        tell=lambda step: say(step=step),
        progress=lambda what, done, total: say(rounds=[done, total], counted=what),
    )
    facts = released.to_json()
    return {
        "folder": str(released.output),
        "files": list(released.files),
        "sentence": released.guarantee.sentence(),
        "notes": list(released.notes),
        "rmse": released.estimated_rmse,
        "method": facts["method"],
        "filled": released.filled,
        "release_id": released.release_id,
        "leftovers": [str(path) for path in released.leftovers],
    }


def main() -> int:
    """Read a request, run it, write what became of it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a parent has it ignored
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    sys.unraisablehook = _interrupt_again
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else gets between our lines

    def say(**facts: Any) -> None:
        with contextlib.suppress(OSError):  # a run that has been charged goes on without a listener
            out.write(json.dumps(facts) + "\n")
            out.flush()

    try:
        say(ready=True)  # from here on an interrupt is heard
        asked = json.loads(sys.stdin.readline())
        names = {key: Path(path) for key, path in asked["names"].items()}
        places = Places(root=Path(asked["root"]), uploads=Path(asked["uploads"]), limit=0, names=names)
        done = run_asked(asked["form"], places, say)
        for number in (signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)  # too late: it is released
        say(done=done)
    except KeyboardInterrupt as error:
        say(cancelled=describe_error(error)["notes"])
        return 130
    except Exception as error:
        say(failed=describe_error(error))
        return 1
    return 0


def _interrupt_again(lost: Any) -> None:
    """Interrupt once more where Python has dropped an interrupt: one that came while it collected garbage."""
    if isinstance(lost.exc_value, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 0.01)


if __name__ == "__main__":
    sys.exit(main())
