"""Run compiled functions side by side: plain threads, because the kernels release the interpreter's lock.

Threads own what they write: ranges of rows or of entries, or a copy each that is added up afterwards in a fixed order.
Nothing is locked. Numba's own parallel mode would compile several times slower and is not safe after a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray


def thread_count(threads: int | None) -> int:
    """Return the number of threads to use: as asked, or every processor this process may use."""
    if threads is not None:
        return threads
    available = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return max(1, len(available))


@contextmanager
def workers(threads: int) -> Iterator[Callable[[Sequence[Callable[[], Any]]], list[Any]]]:
    """Yield a function that runs tasks and returns their results in order; the threads end with the block."""
    if threads <= 1:
        yield lambda tasks: [task() for task in tasks]
        return
    with ThreadPoolExecutor(threads) as pool:
        # The first error is raised only after every task has ended: no kernel may outlive its arrays' owner.
        yield lambda tasks: [future.result() for future in [pool.submit(task) for task in tasks]]


def ranges(n: int, parts: int) -> list[tuple[int, int]]:
    """Cut range(n) into at most ``parts`` non-empty pieces of about equal length."""
    parts = max(1, min(parts, n))
    cuts = [n * k // parts for k in range(parts + 1)]
    return list(pairwise(cuts))


def cut_evenly(pointers: NDArray[Any], parts: int) -> list[tuple[int, int]]:
    """Cut rows into pieces with about equal numbers of entries, given where each row's entries start."""
    rows = len(pointers) - 1
    targets = np.linspace(0, pointers[-1], max(1, min(parts, rows)) + 1)[1:-1]
    cuts = [0, *np.searchsorted(pointers, targets).clip(0, rows).tolist(), rows]
    return [(a, b) for a, b in pairwise(cuts) if b > a]
