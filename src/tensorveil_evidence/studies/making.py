"""The work behind `tensorveil study`."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tensorveil.errors import DataNotFoundError
from tensorveil.report.pictures import figure_class
from tensorveil.tensor import list_datasets
from tensorveil_evidence.studies.catalogue import find_study, studies
from tensorveil_evidence.studies.publishing import publish
from tensorveil_evidence.studies.running import Progress, run_study
from tensorveil_evidence.studies.store import read_results
from tensorveil_evidence.studies.study import Study

EVERYTHING = "all"
SECONDS_BETWEEN_LINES = 30.0


def listed() -> list[dict[str, Any]]:
    """Describe every study."""
    return [
        {
            "name": study.name,
            "title": study.title,
            "source": study.source,
            "quick_minutes": study.minutes[0],
            "full_minutes": study.minutes[1],
            "dataset": study.dataset,
            "present": _missing(study) is None,
        }
        for study in studies().values()
    ]


def made(
    names: Sequence[str], output: Path, *, quick: bool, redraw: bool, jobs: int, runs: int | None
) -> list[dict[str, Any]]:
    """Run or redraw the studies that are named; 'all' leaves out those whose data are not there."""
    chosen = [find_study(name) for name in names if name != EVERYTHING]
    optional: list[Study] = []
    if EVERYTHING in names:
        optional = [study for study in studies().values() if study not in chosen]
    for study in chosen:
        if not redraw and (missing := _missing(study)) is not None:
            raise DataNotFoundError(missing)
    figure_class()  # if figures cannot be drawn, say so before hours of work
    results = []
    for study in [*chosen, *optional]:
        skipped = None if redraw else _missing(study)
        if skipped is None:
            results.append(_make(study, output, quick=quick, redraw=redraw, jobs=jobs, runs=runs))
        else:
            results.append({"name": study.name, "skipped": skipped, "files": [], "caption": ""})
    return results


def _make(study: Study, output: Path, *, quick: bool, redraw: bool, jobs: int, runs: int | None) -> dict[str, Any]:
    if redraw:
        results = read_results(study, output)
    else:
        output.mkdir(parents=True, exist_ok=True)
        with _progress(study.name) as progress:
            results = run_study(study, output, quick=quick, jobs=jobs, runs=runs, progress=progress)
    files = publish(study, results, output)
    return {
        "name": study.name,
        "skipped": None,
        "quick": results.quick,
        "caption": str(study.caption(results)),
        "core_minutes": round(results.core_minutes, 2),
        "files": [str(path) for path in files],
    }


def _present(dataset: str) -> bool:
    """Tell whether a data set is there: a tensor, or labelled records."""
    for info in list_datasets():
        if info.name == dataset:
            return info.present
    from tensorveil.learning.loaders import samples_present

    return samples_present(dataset)


def _home(dataset: str) -> str | None:
    """Return the address at which a data set can be had."""
    for info in list_datasets():
        if info.name == dataset:
            return info.home
    from tensorveil.learning.loaders import samples_home

    return samples_home(dataset)


def _missing(study: Study) -> str | None:
    """Say which data are not there and how to get them."""
    if study.dataset is None:
        return None
    if _present(study.dataset):
        return None
    return (
        f"study {study.name} needs the dataset {study.dataset}, which is not in the data folder. Get it from "
        f"{_home(study.dataset)}, unpack it, and set TENSORVEIL_DATA to the folder that holds {study.dataset}/."
    )


@contextlib.contextmanager
def _progress(name: str) -> Iterator[Progress]:
    """Give a bar on a terminal, and elsewhere a line now and then: studies are long."""
    if not sys.stderr.isatty():
        yield _Lines(name)
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn(),
               bars.TextColumn("{task.fields[left]}"))  # fmt: skip
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(name, total=None, left="")
        yield lambda done, total, left: display.update(task, completed=done, total=total, left=_left(left))


class _Lines:
    """Prints how far a study is, at most twice a minute, and when it is done."""

    def __init__(self, name: str) -> None:
        self._name, self._last = name, -math.inf

    def __call__(self, done: int, total: int, left: float) -> None:
        now = time.monotonic()
        if done == total or now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            rest = _left(left) if done < total else "done"
            click.echo(f"{self._name}: {done} of {total} cells, {rest}", err=True)


def _left(seconds: float) -> str:
    if math.isnan(seconds):
        return "time left not known yet"
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"
