"""A progress bar for long fits, on standard error, with time left and the current error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tensorveil.solvers.task import Progress, Record


@contextmanager
def bar(visible: bool, total: int, also: Progress | None = None) -> Iterator[Progress | None]:
    """Yield a callback that moves the bar (if ``visible``) and passes records on to ``also``."""
    if not visible:
        yield also
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as shown:
        job = shown.add_task("starting", total=total)

        def report(record: Record) -> None:
            error = f"training {record.measure} {record.train_error:.4g}"
            if record.validation_error is not None:
                error += f", validation {record.measure} {record.validation_error:.4g}"
            done = record.restart * record.iterations + record.iteration
            shown.update(job, completed=done, description=error)
            if also is not None:
                also(record)

        yield report
        shown.update(job, completed=total)
