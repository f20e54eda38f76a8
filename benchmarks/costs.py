"""What fits cost: CPU time per entry, mode and sweep, for the rough estimates of `tensorveil info` and `plan`.

    python -m benchmarks.costs memory

measures peaks of open fits, each in a process of its own, beside the estimates;

    python -m benchmarks.costs

prints the table that stands in `src/tensorveil/runs/costs.py`. One thread; every kind is fitted once before, so that
nothing compiles while it is measured. Time per entry, mode and sweep is taken for a + b R (sgd) or a + b R^2 (others);
private fits are measured against an open fit by bayes of 100 sweeps on the same entries.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import tensorveil as tv

SHAPE, ENTRIES, RANKS, SWEEPS = (400, 300, 50), 60_000, (4, 16), 4


def planted() -> tv.ObservedTensor:
    """Return a planted tensor."""
    rng = np.random.default_rng(0)
    cells = rng.choice(int(np.prod(SHAPE)), ENTRIES, replace=False)
    coords = np.stack(np.unravel_index(cells, SHAPE), axis=1)
    rows = [rng.normal(size=size) for size in SHAPE]
    values = rows[0][coords[:, 0]] * rows[1][coords[:, 1]] * rows[2][coords[:, 2]] + rng.normal(size=ENTRIES)
    return tv.ObservedTensor(coords, values, SHAPE, modes=("user", "film", "day"), duplicates="keep")


def measure(fit: Callable[[], Any]) -> float:
    """Return the CPU seconds of a second fit."""
    fit()
    start = time.process_time()
    fit()
    return time.process_time() - start


def measure_open(tensor: tv.ObservedTensor, solver: str) -> tuple[float, float]:
    """Return nanoseconds per entry, mode and sweep: those of any rank, and those per component or square of them."""
    power = 1 if solver == "sgd" else 2
    found = []
    for rank in RANKS:
        settings: dict[str, Any] = {"solver": solver, "threads": 1, "random_state": 0, "tol": 0.0}
        few, many = (measure(partial(tv.CP(rank, sweeps=n, **settings).fit, tensor)) for n in (SWEEPS, 3 * SWEEPS))
        found.append((many - few) / (2 * SWEEPS * ENTRIES * len(SHAPE)) * 1e9)
    slope = (found[1] - found[0]) / (RANKS[1] ** power - RANKS[0] ** power)
    return found[0] - slope * RANKS[0] ** power, slope


def measure_private(tensor: tv.ObservedTensor) -> dict[str, float]:
    """Return how many times longer private fits take than an open fit of 100 sweeps."""
    values = tv.ObservedTensor(tensor.coords, tensor.values, SHAPE, modes=tensor.modes)
    promise: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-6, "bounds": (-3, 3), "threads": 1, "random_state": 0}
    open_fit = measure(partial(tv.CP(8, threads=1, random_state=0, sweeps=100, tol=0.0).fit, values))
    fits = {
        "value": partial(tv.PrivateCP(8, unit="value", **promise).fit, values),
        "entry": partial(tv.PrivateCP(8, unit="entry", shape=SHAPE, **promise).fit, tensor),
        "slice": partial(tv.UserLevelCP(8, unit="slice:user", shape=SHAPE, method="factors", **promise).fit, tensor),
    }
    return {unit: measure(fit) / open_fit for unit, fit in fits.items()}


def measure_memory(solver: str, entries: int) -> None:
    """Fit in this process, and print its peak over the estimate."""
    import resource

    from tensorveil.runs.costs import estimate_open

    shape, rank = (100_000, 5_000, 100), 8
    key = np.arange(entries, dtype=np.int64) * (math.prod(shape) // entries)
    columns = np.stack([index.astype(np.int32) for index in np.unravel_index(key, shape)])
    del key
    tensor = tv.ObservedTensor.from_columns(columns, np.random.default_rng(0).uniform(1, 5, entries), shape)
    tv.CP(rank, solver=solver, sweeps=2, tol=0.0, random_state=0, threads=1).fit(tensor)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    estimate = estimate_open(shape, entries, solver=solver, ranks=(rank,) * 3).bytes
    print(f"{solver}, {entries:,} entries: {peak / 1e6:,.0f} MB, estimated {estimate / peak:.2f} of it", flush=True)


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["memory"]:
        if len(sys.argv) > 2:
            measure_memory(sys.argv[2], int(sys.argv[3]))
            return
        for solver, entries in product(("bayes", "als", "sgd"), (1_000_000, 4_000_000)):
            words = [sys.executable, "-m", "benchmarks.costs", "memory", solver, str(entries)]
            subprocess.run(words, check=True)
        return
    warnings.simplefilter("ignore", tv.NoLedgerWarning)
    tensor = planted()
    for solver in ("bayes", "als", "sgd"):
        fixed, slope = measure_open(tensor, solver)
        print(f"{solver}: {fixed:.1f} + {slope:.2f} R{'' if solver == 'sgd' else '^2'} ns", flush=True)
    for unit, times in measure_private(tensor).items():
        print(f"unit {unit}: {times:.2g} times an open fit", flush=True)


if __name__ == "__main__":
    main()
