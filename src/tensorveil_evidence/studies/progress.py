"""How far a study is: a bar on a terminal, and elsewhere a line now and then, because studies are long."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Iterator

from tensorveil_evidence.studies.runner import Progress

SECONDS_BETWEEN_LINES = 30.0


@contextlib.contextmanager
def show_progress(name: str) -> Iterator[Progress]:
    """Yield what a run calls with the cells done, the cells there are, and about how many seconds are left."""
    if not sys.stderr.isatty():
        yield ProgressLines(name)
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn(),
               bars.TextColumn("{task.fields[left]}"))  # fmt: skip
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(name, total=None, left="")
        yield lambda done, total, left: display.update(
            task, completed=done, total=total, left=write_time_left(left)
        )  # fmt: skip


class ProgressLines:
    """Prints how far a study is on standard error, at most twice a minute, and when it is done."""

    def __init__(self, name: str) -> None:
        self._name, self._last = name, -math.inf

    def __call__(self, done: int, total: int, left: float) -> None:
        """Print a line, unless the last one was printed just now."""
        now = time.monotonic()
        if done == total or now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            rest = write_time_left(left) if done < total else "done"
            print(f"{self._name}: {done} of {total} cells, {rest}", file=sys.stderr, flush=True)


def write_time_left(seconds: float) -> str:
    """Say in words how long the rest takes."""
    if math.isnan(seconds):
        return "time left not known yet"
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"
