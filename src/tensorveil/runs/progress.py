"""A progress bar driven by the records of a fit; silent where nobody watches."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorveil.solvers.task import Progress, Record


@contextlib.contextmanager
def fit_progress(description: str) -> Iterator[Progress | None]:
    """Give a callback for ``fit(..., progress=...)``, or None when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars
    from rich.console import Console

    with bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[state]}"),
        bars.TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as display:
        task = display.add_task(description, total=None, state="")

        def advance(record: Record) -> None:
            start = f"{description}, start {record.restart + 1}" if record.restart else description
            display.update(
                task,
                description=start,
                total=record.iterations,
                completed=record.iteration,
                state=state_of(record),
            )

        yield advance


@contextlib.contextmanager
def count_progress(description: str) -> Iterator[Callable[[int, int], None] | None]:
    """Give a callback that takes what is done and what there is to do, or None when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.TimeRemainingColumn())
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(description, total=None)
        yield lambda done, total: display.update(task, completed=done, total=total)


def state_of(record: Record) -> str:
    """Say how the fit stands."""
    state = f"{record.measure} {record.train_error:.4g}"
    if record.validation_error is not None:
        state += f", held out {record.validation_error:.4g}"
    return state
