"""Yes/no at scale: `python -m benchmarks.links_scale [listed]`; writes results/links-scale.json and .svg.

10,000 x 10,000 x 100 cells, of which an eighth, a quarter, a half and all of `listed` (20 million) are listed and hold
1; all others are zeros. Rank 16, loss "bernoulli", one thread. Every size has a process of its own, which makes the
tensor, fits it and tells the peak of its memory, interpreter and data included; seconds of a pass are the processor's,
between the ends of sweeps.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv
from benchmarks.count_data import RESULTS, write_rows

SHAPE, RANK, SHARES, SWEEPS = (10_000, 10_000, 100), 16, (1, 2, 4, 8), 3


def spread_cells(n: int) -> tv.ObservedTensor:
    """Return n different cells, spread over all by multiples of a number that has no divisor in common with theirs."""
    cells = math.prod(SHAPE)
    columns = np.empty((len(SHAPE), n), np.int32)
    for low in range(0, n, 1 << 20):
        high = min(low + (1 << 20), n)
        columns[:, low:high] = np.unravel_index(np.arange(low, high) * 6180339887 % cells, SHAPE)
    return tv.ObservedTensor.from_columns(columns, np.ones(n, np.float32), SHAPE, unlisted="zero")


def measure(n: int) -> None:
    """Make and fit a tensor, and print what it took."""
    import resource

    tensor = spread_cells(n)
    times: list[float] = []
    tv.CP(RANK, loss="bernoulli", sweeps=SWEEPS, random_state=0, threads=1).fit(
        tensor, progress=lambda record: times.append(time.process_time())
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"listed": tensor.n_entries, "seconds": float(np.diff(times).min()), "peak GB": peak}))


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw seconds of a pass and memory by listed cells."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "tensorveil"
    import matplotlib.pyplot as plt

    listed = np.array([row["listed"] for row in rows]) / 1e6
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for axis, key, label in zip(
        axes, ("seconds", "peak GB"), ("CPU seconds of a pass", "peak memory, GB"), strict=True
    ):
        values = np.array([row[key] for row in rows])
        axis.plot(listed, values, "o", color="#1f5fa8")
        line = np.polyfit(listed, values, 1)
        axis.plot([0, listed.max()], np.polyval(line, [0, listed.max()]), color="#888888", linewidth=1)
        axis.set(xlabel="listed cells, millions", ylabel=label, xlim=(0, None), ylim=(0, None))
    figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str]) -> None:
    """Measure every size in a process of its own."""
    if arguments[:1] == ["measure"]:
        measure(int(arguments[1]))
        return
    most = int(arguments[0]) if arguments else 20_000_000
    rows: list[dict[str, Any]] = []
    for share in SHARES:
        command = [sys.executable, "-m", "benchmarks.links_scale", "measure", str(most // share)]
        rows.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        print(rows[-1], flush=True)
    slope = float(np.polyfit(np.log([row["listed"] for row in rows]), np.log([row["seconds"] for row in rows]), 1)[0])
    print(f"seconds of a pass grow with the listed cells to the power {slope:.2f}")
    write_rows("links-scale", rows)
    plot(rows, RESULTS / "links-scale.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
