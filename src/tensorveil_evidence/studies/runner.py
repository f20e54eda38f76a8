"""Run a study: cells over processes, each kept as soon as it is done; what is done already is not computed again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any

from tensorveil import __version__
from tensorveil.errors import InputError
from tensorveil_evidence.studies.catalogue import find_study
from tensorveil_evidence.studies.store import Done, cells_in_results, find_finished, keep_cell, write_results
from tensorveil_evidence.studies.study import Cell, Results, Row, Study

# One thread of numpy's routines per process, whatever the number of processes: results must not depend on it.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Progress = Callable[[int, int, float], None]


def run_study(
    study: Study, folder: Path, *, quick: bool, jobs: int, runs: int | None = None, progress: Progress | None = None
) -> Results:
    """Compute what is missing, and write the results.

    ``runs`` replaces the study's own number of runs. ``progress`` is told how many cells are done, how many there are,
    and about how many seconds are left.
    """
    cells = list(study.cells(runs or study.runs[not quick], quick))
    digests = [study.digest(cell, __version__) for cell in cells]
    if len(cells) < cells_in_results(study, folder):
        raise InputError(
            f"{folder} holds a larger run of {study.name}, which this one would replace. "
            "Add --redraw to draw that one, or name another folder by --output."
        )
    known = {digest: done for digest, done in find_finished(study, folder).items() if digest in set(digests)}
    missing = [cell for cell, digest in zip(cells, digests, strict=True) if digest not in known]
    clock = _Clock(total=len(cells), done=len(known), jobs=jobs, progress=progress)
    for cell, rows, seconds in _compute_cells(study.name, missing, jobs):
        done = keep_cell(study, folder, cell, rows, seconds)
        known[done.digest] = done
        clock.tick(done)
    return write_results(study, folder, [known[digest] for digest in digests], quick=quick)


class _Clock:
    """Tells how far a run is, and how long the rest takes if it goes on like this."""

    def __init__(self, *, total: int, done: int, jobs: int, progress: Progress | None) -> None:
        self._total, self._done, self._progress = total, done, progress
        self._began, self._fresh, self._jobs = time.perf_counter(), 0, jobs
        if progress is not None and done < total:
            progress(done, total, float("nan"))

    def tick(self, _: Done) -> None:
        self._done, self._fresh = self._done + 1, self._fresh + 1
        if self._progress is not None:
            each = (time.perf_counter() - self._began) / self._fresh
            self._progress(self._done, self._total, each * (self._total - self._done))


def _compute_cells(name: str, cells: Sequence[Cell], jobs: int) -> Iterator[tuple[Cell, list[Row], float]]:
    """Yield cells as they are done, with their rows and seconds; no more are handed out than can be worked on."""
    if not cells:
        return
    waiting = list(reversed(cells))
    # spawn: forked children of a process with threads can hang, and would inherit its numpy.
    with _one_thread_each(), ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin) as pool:
        running: dict[Future[tuple[list[Row], float]], Cell] = {}
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    cell = waiting.pop()
                    running[pool.submit(_work, name, dict(cell.settings))] = cell
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    cell = running.pop(future)
                    yield cell, *future.result()
        except BaseException:
            # Cells that are not finished are lost anyway; do not wait for them.
            for child in active_children():
                child.terminate()
            raise


def _work(name: str, settings: dict[str, Any]) -> tuple[list[Row], float]:
    study = find_study(name)
    began = time.process_time()  # what a cell costs must not depend on what else runs
    return list(study.compute(settings)), time.process_time() - began


def _begin() -> None:
    """Leave quietly when interrupted, and when the parent is gone: an orphan would wait for work for ever."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
