"""Out of core: a store that is larger than its memory, user-level fits on it, and the same fit in memory.

    python -m benchmarks.store --entries 20000000 --memory 1GB --folder /tmp/scale
    python -m benchmarks.store --plot

Every stage runs in a process of its own, so that peaks are its own. Values are planted; rows come in random order.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

BATCH = 1 << 20
FILES = 4
PER_USER = 50
ITEMS, DAYS = 20_000, 100
SWEEPS = 5
RESULTS = Path(__file__).parent / "results"


def generate(folder: Path, entries: int) -> None:
    """Write entries, of which the noise-free part has rank 2, in random order into a few files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    users = entries // PER_USER
    u, i, d = (rng.normal(size=(size, 2)).astype(np.float32) for size in (users, ITEMS, DAYS))
    popular = rng.permutation(ITEMS)
    for number in range(FILES):
        with pq.ParquetWriter(folder / f"part{number}.parquet", _schema(), compression="snappy") as writer:
            left = entries // FILES
            while left:
                n = min(left, BATCH)
                a, c = rng.integers(0, users, n, dtype=np.int32), rng.integers(0, DAYS, n, dtype=np.int32)
                b = popular[(ITEMS * rng.random(n) ** 2).astype(np.int64)].astype(np.int32)
                value = np.clip(np.round(3 + 0.5 * (u[a] * i[b] * d[c]).sum(1) + rng.normal(0, 0.7, n)), 1, 5)
                writer.write_table(pa.table([a, b, c, value.astype(np.float32)], schema=_schema()))
                left -= n


def _schema():
    import pyarrow as pa

    kinds = [pa.int32()] * 3 + [pa.float32()]
    return pa.schema(list(zip(("user", "item", "day", "value"), kinds, strict=True)))


def stage(name: str, folder: Path, entries: int, memory: str, method: str, threads: int, engine: str) -> dict:
    """Run one stage here and measure it."""
    import warnings

    import tensorveil as tv
    from tensorveil.memory import set_memory_limit

    warnings.simplefilter("ignore", tv.NoLedgerWarning)
    users = entries // PER_USER
    rules = {"unit": "slice:user", "bounds": (1, 5), "shape": (users, ITEMS, DAYS)}
    files = [folder / f"part{number}.parquet" for number in range(FILES)]
    rank = 4
    fit = tv.UserLevelCP(
        rank, epsilon=4.0, delta=1e-8, method=method, noise_seed=7, random_state=0, threads=threads, **rules
    )
    start, cpu = time.time(), time.process_time()
    if name == "generate":
        generate(folder, entries)
        found = {}
    elif name == "store":
        set_memory_limit(memory)
        stored = tv.write_store(files, folder / "store", order="user", indices=True, force=True, **rules)
        parts = stored.parts("user")
        size = sum(path.stat().st_size for path in (folder / "store").rglob("*.parquet"))
        found = {"parts": len(parts), "bytes_per_entry": size / stored.n_entries}
    elif name == "memory":
        import pyarrow.parquet as pq

        table = pq.read_table(files)
        read = tv.read_privately(table, indices=True, **rules)
        del table
        found = {"read_s": time.time() - start}
        found["digest"] = _digest(fit.fit(read), folder)
    elif name == "orders":
        set_memory_limit(memory)
        order = ["user", "item", "day"]
        shape = (users, ITEMS, DAYS)
        stored = tv.write_store(
            files, folder / "orders", order=order, indices=True, shape=shape, duplicates="first", force=True
        )
        size = sum(path.stat().st_size for path in (folder / "orders").rglob("*.parquet"))
        found = {"bytes_per_entry": size / stored.n_entries, "kept": stored.n_entries}
    elif name.startswith("als"):
        if name == "als":
            set_memory_limit(memory)
            data = tv.StoredTensor.open(folder / "orders")
        else:
            import pyarrow.parquet as pq

            table = pq.read_table(files)
            data = tv.ObservedTensor.from_frame(table, labels=False, shape=(users, ITEMS, DAYS), duplicates="first")
            del table
        opened, used = time.time() - start, time.process_time() - cpu
        als = tv.CP(16, solver="als", sweeps=SWEEPS, tol=0.0, random_state=0, threads=threads).fit(data)
        fitted_s, fitted_cpu = time.time() - start - opened, time.process_time() - cpu - used
        found = {"open_s": opened, "fit_s": fitted_s, "fit_cpu_s": fitted_cpu}
        found["ns_per_entry_and_sweep"] = fitted_s / SWEEPS / data.n_entries * 1e9
        found["error"] = als.history_[-1].train_error
    else:
        set_memory_limit(memory)
        data = tv.StoredTensor.open(folder / ("orders" if name == "users" else "store"))  # in the users' order, both
        found = {"digest": _digest(fit.fit(data, engine=engine), folder)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rounds = len(fit.guarantee_.composition) if hasattr(fit, "guarantee_") else None
    took = {"wall_s": time.time() - start, "cpu_s": time.process_time() - cpu, "peak_MB": peak, "rounds": rounds}
    return {"stage": name, "entries": entries, **took, **found}


def _digest(fitted, folder: Path) -> str:
    import hashlib

    fitted.save(folder / "model.npz")
    return hashlib.sha256((folder / "model.npz").read_bytes()).hexdigest()[:16]


def plot() -> None:
    """Draw what fits and stores took by their entries, from the lines that are kept."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "tensorveil"
    import matplotlib.pyplot as plt

    rows = [json.loads(line) for line in (RESULTS / "store.jsonl").read_text().splitlines()]
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    named = (("orders", "store, three orders", "#888888"), ("als", "als, rank 16, five sweeps", "#1f5fa8"))
    for axis, key, scale, label in (
        (axes[0], "cpu_s", 1.0, "CPU seconds"), (axes[1], "peak_MB", 1e-3, "peak memory, GB"),
    ):  # fmt: skip
        for stage_name, words, colour in named:
            found = sorted((row["entries"] / 1e6, row[key] * scale) for row in rows if row["stage"] == stage_name)
            axis.plot(*zip(*found, strict=True), "o-", color=colour, label=words)
        axis.set(xlabel="entries, millions", ylabel=label, xlim=(0, None), ylim=(0, None))
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(RESULTS / "store.svg", metadata={"Date": None})


def main() -> None:
    """Run the stages one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=20_000_000)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--method", default="factors")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--engine", default="loop")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--plot", action="store_true", help="draw results/store.jsonl and stop")
    parser.add_argument("--stages", default="generate,store,loop,memory")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plot:
        plot()
        return
    options.folder.mkdir(exist_ok=True)
    if options.here:
        print(json.dumps(stage(options.here, options.folder, options.entries, options.memory, options.method,
                               options.threads, options.engine)))  # fmt: skip
        return
    for name in options.stages.split(","):
        words = [sys.executable, "-m", "benchmarks.store", *sys.argv[1:], "--here", name]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        print(done.stdout.strip().splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
