"""Time per pass against entries and against rank, and Tucker against CP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.process import work

RANKS = (16, 32, 48, 64)


def by_entries(folder: Path, name: str, sizes: tuple[int, ...], threads: int) -> list[dict[str, Any]]:
    """Seconds per pass of both solvers for growing numbers of entries (float32, rank 16)."""
    out = []
    for entries in sizes:
        path = str(folder / f"{name}-{entries}.bin")
        work("make", name=name, path=path, entries=entries)
        out.append({"entries": entries} | _both(path, 16, threads))
        Path(path).unlink()
    return out


def by_rank(path: str, threads: int) -> list[dict[str, Any]]:
    """Seconds per pass of both solvers for growing ranks (float32)."""
    return [{"rank": rank} | _both(path, rank, threads) for rank in RANKS]


def _both(path: str, rank: int, threads: int) -> dict[str, Any]:
    settings = {"path": path, "dtype": "float32", "rank": rank, "threads": threads}
    return {solver: min(work(solver, **settings, repeats=5)["passes"]) for solver in ("sgd", "als")}


def tucker(path: str, dtype: str, threads: int, rounds: int) -> dict[str, Any]:
    """Tucker SGD against CP SGD at rank 8, interleaved."""
    settings = {"path": path, "dtype": dtype, "rank": 8, "threads": threads}
    cp, ours = [], []
    for _ in range(rounds):
        cp.append(min(work("sgd", **settings, repeats=6)["passes"]))
        ours.append(min(work("tucker_sgd", **settings, repeats=3)["passes"]))
    each = [t / c for t, c in zip(ours, cp, strict=True)]
    return {"dtype": dtype, "cp": min(cp), "tucker": min(ours), "ratio": min(ours) / min(cp), "ratio_each_round": each}


def slope(points: list[dict[str, Any]], size: str, solver: str) -> float:
    """Exponent of the time's growth between the smallest and the largest size: 1 means linear."""
    from math import log

    first, last = points[0], points[-1]
    return log(last[solver] / first[solver]) / log(last[size] / first[size])
