"""What is timed, one task per process: python -m benchmarks.worker TASK JSON-ARGUMENTS prints one JSON object."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems import PROBLEMS, Problem, planted, read_binary, write_binary


def _times(step: Callable[[int], Any], repeats: int) -> list[float]:
    """Seconds of each repeat after one unmeasured run (which compiles or loads the compiled code)."""
    step(0)
    out = []
    for k in range(1, repeats + 1):
        start = time.perf_counter()
        step(k)
        out.append(time.perf_counter() - start)
    return out


def _start(shape: tuple[int, ...], rank: int, dtype: str) -> Any:
    from tensorveil.kernels.padded import pad

    rng = np.random.default_rng(1)
    return pad([rng.random((s, rank), dtype=np.float32) * (2 / rank) ** (1 / len(shape)) for s in shape], dtype)


def make(name: str, path: str, entries: int | None = None, seed: int = 0) -> dict[str, Any]:
    problem = PROBLEMS[name]
    problem = Problem(name=name, shape=problem.shape, entries=entries or problem.entries)
    write_binary(Path(path), problem, *planted(problem, seed))
    return {"entries": problem.entries}


def sgd(path: str, dtype: str, rank: int, threads: int, repeats: int) -> dict[str, Any]:
    from tensorveil.kernels.cp_sgd import cp_sgd_pass
    from tensorveil.kernels.predict import cp_predict
    from tensorveil.kernels.tiles import build_tiles

    shape, columns, values = read_binary(Path(path), dtype)
    factors = _start(shape, rank, dtype)
    begin = time.perf_counter()
    layout = build_tiles(columns, values, shape, factors.arrays[0][0].nbytes, threads, 0, dtype)
    build = time.perf_counter() - begin
    passes = _times(lambda k: cp_sgd_pass(layout, factors, (), 0.0, 2e-3, 2e-5, k), repeats)

    def mean_square() -> float:
        return float(np.mean((values - cp_predict(columns, factors, threads)).astype(np.float64) ** 2))

    loss = _times(lambda k: mean_square(), 2)
    rmse = mean_square() ** 0.5
    return {"passes": passes, "loss": loss, "build": build, "rmse": rmse}


def als(path: str, dtype: str, rank: int, threads: int, repeats: int) -> dict[str, Any]:
    from tensorveil.kernels.cp_als import cp_als_mode
    from tensorveil.kernels.rows import build_all_rows

    shape, columns, values = read_binary(Path(path), dtype)
    factors = _start(shape, rank, dtype)
    begin = time.perf_counter()
    rows = build_all_rows(columns, values, shape, dtype, threads)
    build = time.perf_counter() - begin
    residual = [0.0]

    def sweep(_: int) -> None:
        for m in range(len(shape)):
            residual[0] = cp_als_mode(rows[m], factors, m, (), 0.0, 0.2, 0.0, threads)

    passes = _times(sweep, repeats)
    return {"passes": passes, "build": build, "rmse": (residual[0] / len(values)) ** 0.5}


def tucker_sgd(path: str, dtype: str, rank: int, threads: int, repeats: int) -> dict[str, Any]:
    from tensorveil.kernels.tiles import build_tiles
    from tensorveil.kernels.tucker_sgd import TILES, tucker_sgd_pass

    shape, columns, values = read_binary(Path(path), dtype)
    factors = _start(shape, rank, dtype)
    core = np.random.default_rng(2).random((rank,) * len(shape)).astype(dtype) * 0.1
    layout = build_tiles(columns, values, shape, factors.arrays[0][0].nbytes, threads, 0, dtype, **TILES)
    passes = _times(lambda k: tucker_sgd_pass(layout, core, factors, (), 0.0, 2e-4, 2e-6, 0.0, k), repeats)
    return {"passes": passes}


def cmfrec(path: str, dtype: str, rank: int, threads: int, repeats: int) -> dict[str, Any]:
    """Time per iteration of cmfrec's explicit ALS: the difference of a long and a short fit."""
    import pandas as pd

    from cmfrec import CMF

    _, columns, values = read_binary(Path(path), dtype)
    frame = pd.DataFrame({"UserId": columns[0], "ItemId": columns[1], "Rating": values})

    def fit(iterations: int) -> float:
        model = CMF(
            k=rank, lambda_=0.2, method="als", use_cg=False, niter=iterations, nthreads=threads, user_bias=False,
            item_bias=False, center=False, use_float=dtype == "float32", finalize_chol=False, verbose=False,
            precompute_for_predictions=False,
        )  # fmt: skip
        start = time.perf_counter()
        model.fit(frame)
        return time.perf_counter() - start

    fit(1)
    extra = 6
    return {"passes": [(fit(1 + extra) - fit(1)) / extra for _ in range(repeats)]}


def machine(threads: int, rows: int = 15_500, width: int = 16) -> dict[str, Any]:
    from benchmarks.machine import measure

    return measure(threads, rows, width)


def fractions(limits: dict[str, Any], order: int, entries: int, rank: int, sgd: float, als: float) -> dict[str, Any]:
    from benchmarks import machine as module

    return dict(module.fractions(limits, order, entries, rank, sgd, als))


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    t.__name__: t for t in (make, sgd, als, tucker_sgd, cmfrec, machine, fractions)
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
