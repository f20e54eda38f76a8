"""What this machine can do at most: streaming, gathering rows at random, multiply-adds in registers."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tensorveil.kernels import vector as v
from tensorveil.kernels.padded import aligned_zeros

Array = NDArray[Any]

_STREAM = 4_000_000
_GATHERS = 4_000_000
_LOOPS = 4_000_000
_CHAINS = 10


@njit(nogil=True, cache=True)
def _triad(a: Array, b: Array, c: Array) -> None:
    for i in range(len(a)):
        a[i] = b[i] + 3.0 * c[i]


@njit(nogil=True, cache=True)
def _gather(row: v.Token, table: Array, index: Array) -> Any:
    total = v.zero(row, table)
    for i in range(len(index)):
        total = v.add(total, v.load(row, table, index[i] * table.shape[1]))
    return v.total(total)


@njit(nogil=True, cache=True)
def _multiply_add(chains: v.Token, x: Array, loops: int) -> Any:
    a, b = v.load(chains, x, 0), v.load(chains, x, 0)
    for _ in range(loops):
        a = v.fma(b, a, b)
    return v.total(a)


def _best(tasks: list[Callable[[], Any]], repeats: int = 6) -> float:
    seconds = []
    with ThreadPoolExecutor(len(tasks)) as pool:
        for _ in range(repeats):
            start = time.perf_counter()
            for future in [pool.submit(task) for task in tasks]:
                future.result()
            seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def measure(threads: int, rows: int, width: int) -> dict[str, Any]:
    """Bytes streamed, random rows gathered, and multiply-adds, per second, with this many threads."""
    rng = np.random.default_rng(0)
    streams = [[np.ones(_STREAM) for _ in range(3)] for _ in range(threads)]
    stream = _best([lambda s=s: _triad(*s) for s in streams])
    table = aligned_zeros((rows, width), np.float32)
    indices = [rng.integers(0, rows, _GATHERS) for _ in range(threads)]
    row = v.wide_token(width, table.dtype)
    gather = _best([lambda i=i: _gather(row, table, i) for i in indices])
    x = aligned_zeros((16 * _CHAINS,), np.float32) + np.float32(0.5)
    adds = _best([lambda: _multiply_add(v.token(16, _CHAINS), x, _LOOPS) for _ in range(threads)])
    return {
        "stream_bytes": threads * _STREAM * 24 / stream,
        "row_gathers": threads * _GATHERS / gather,
        "multiply_adds_float32": threads * _LOOPS * _CHAINS * 16 / adds,
    }


def fractions(limits: dict[str, Any], order: int, entries: int, rank: int, sgd: float, als: float) -> dict[str, float]:
    """What our float32 passes reach of each limit (above 1: tiles spare the cache misses of random gathers)."""
    useful = order * entries * (rank * (rank + 1) / 2 + rank * order)
    return {
        "sgd_of_row_gathers": entries * order / sgd / limits["row_gathers"],
        "sgd_of_stream": entries * (4 + 2 * order) / sgd / limits["stream_bytes"],
        "als_of_row_gathers": entries * order * (order - 1) / als / limits["row_gathers"],
        "als_of_multiply_adds": useful / als / limits["multiply_adds_float32"],
    }
