"""Progress bars on stderr; silent where nobody watches."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorveil.solvers.task import Progress, Record


@contextlib.contextmanager
def fit_progress(description: str) -> Iterator[Progress | None]:
    """Yield a callback for ``fit(..., progress=...)``, or None when stderr is not a terminal.

    The bar appears with the first record, so that the block may do other work before the fit.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars
    from rich.console import Console

    display = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[state]}"),
        bars.TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = display.add_task(description, total=None, state="")

    def advance(record: Record) -> None:
        display.start()
        start = f"{description}, start {record.restart + 1}" if record.restart else description
        display.update(
            task, description=start, total=record.iterations, completed=record.iteration, state=describe_record(record)
        )

    try:
        yield advance
    finally:
        display.stop()


@contextlib.contextmanager
def count_progress(description: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a callback that takes what is done and what there is to do, or None when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.TimeRemainingColumn())
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(description, total=None)
        yield lambda done, total: display.update(task, completed=done, total=total)


@contextlib.contextmanager
def step_progress(
    steps: Sequence[str],
) -> Iterator[tuple[Callable[[str], None] | None, Callable[[str, int, int], None] | None]]:
    """Yield what takes the step that begins, and what takes what is counted in it, what is done of that, and all.

    Both are None when stderr is not a terminal.
    """
    if not sys.stderr.isatty():
        yield None, None
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.TimeElapsedColumn())
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task("starting", total=None)
        now = ""

        def begin(step: str) -> None:
            nonlocal now
            now = f"step {steps.index(step) + 1} of {len(steps)}, {step}"
            display.update(task, description=now)

        def advance(what: str, done: int, total: int) -> None:
            display.update(task, description=f"{now}: {done} of {total} {what}", completed=done, total=total)

        yield begin, advance


def describe_record(record: Record) -> str:
    """Return how far a fit has come, in words."""
    state = f"{record.measure} {record.train_error:.4g}"
    if record.validation_error is not None:
        state += f", held out {record.validation_error:.4g}"
    return state
