"""Yes/no at scale: `python -m benchmarks.links_scale [listed]`; writes results/links-scale.json and .svg.

10,000 x 10,000 x 100 cells, of which an eighth, a quarter, a half and all of `listed` (20 million) are listed and hold
1; all others are zeros. Rank 16, loss "bernoulli", one thread. Links are drawn from a planted model of rank 4. Every
size has a process of its own, which makes the tensor, fits it and tells the peak of its memory, the interpreter, the
data and the tensor included; seconds of a pass are the processor's, by the difference of two sweeps.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv
from benchmarks.count_data import RESULTS, write_rows

SHAPE, RANK, SHARES, SWEEPS = (10_000, 10_000, 100), 16, (8, 4, 2, 1), 4


def draw(n: int) -> tv.ObservedTensor:
    """Return n different cells, which come from four groups of rows that belong together."""
    rng = np.random.default_rng(0)
    found = np.empty(0, np.int64)
    while len(found) < n:
        group = rng.integers(4, size=n // 4, dtype=np.int8)
        columns = []
        for size in SHAPE:
            own = rng.random(n // 4, dtype=np.float32) < 0.7
            places = rng.integers(size // 4, size=n // 4, dtype=np.int32) + group * np.int32(size // 4)
            columns.append(np.where(own, places, rng.integers(size, size=n // 4, dtype=np.int32)))
        found = np.union1d(found, np.ravel_multi_index(tuple(columns), SHAPE))
    found = np.delete(found, rng.choice(len(found), len(found) - n, replace=False)) if len(found) > n else found
    columns = np.stack([column.astype(np.int32) for column in np.unravel_index(found, SHAPE)])
    del found
    return tv.ObservedTensor.from_columns(columns, np.ones(n, np.float32), SHAPE, unlisted="zero")


def measure(path: str) -> None:
    """Fit the tensor of a file, and print what it took."""
    import resource

    with np.load(path) as file:
        tensor = tv.ObservedTensor.from_columns(file["columns"], file["values"], SHAPE, unlisted="zero")
    times: list[float] = []
    errors: list[float] = []

    def note(record: Any) -> None:
        times.append(time.process_time())
        errors.append(record.train_error)

    tv.CP(RANK, loss="bernoulli", sweeps=SWEEPS, random_state=0, threads=1).fit(tensor, progress=note)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds = float(np.median(np.diff(times)))
    print(json.dumps({"listed": tensor.n_entries, "seconds": seconds, "peak GB": peak, "deviance": errors}))


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
    import tempfile

    if arguments[:1] == ["measure"]:
        measure(arguments[1])
        return
    most = int(arguments[0]) if arguments else 20_000_000
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for share in SHARES:
            path = f"{folder}/links.npz"
            tensor = draw(most // share)
            np.savez(path, columns=tensor.entries.load().columns, values=tensor.values)
            del tensor
            command = [sys.executable, "-m", "benchmarks.links_scale", "measure", path]
            measure_once = [
                subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(1)
            ]
            rows.append(json.loads(measure_once[0]))
            print(rows[-1], flush=True)
    slope = float(np.polyfit(np.log([row["listed"] for row in rows]), np.log([row["seconds"] for row in rows]), 1)[0])
    print(f"seconds of a pass grow with the listed cells to the power {slope:.2f}")
    write_rows("links-scale", rows)
    plot(rows, RESULTS / "links-scale.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
