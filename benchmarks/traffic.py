"""Traffic that neighbouring times explain, beside LATC and LRTC-TNN: `python -m benchmarks.traffic [ours | peers] ...`.

Guangzhou's speeds (50 roads, 15 days, 144 intervals of ten minutes) and Portland's volumes (80 sensors, 15 days, 96
quarter hours); zeros are not observed. Hidden: single entries (30, 70, 90 %), or whole days of a sensor (30, 70 %).
Errors are of the hidden cells; seconds are of the processor, one thread.

    python -m benchmarks.traffic peers FOLDER     LATC.ipynb and LRTC-TNN.ipynb of the repository xinychen/transdim
    python -m benchmarks.traffic ours [SETTINGS]  some of: validated, "mean of four", time, plain, modes
    python -m benchmarks.traffic table
    python -m benchmarks.traffic --seed 4 ...     other masks; 0 to 3, 10 and 11 were seen while the method changed
    python -m benchmarks.traffic splits           what a split asks: cells, days of a sensor, sensors, the last days

Of the peers' notebooks the cells that define functions are run, in this process, on the same masks. Each of their
settings is a row; the table takes the best of them by **test error**, as their authors do, and the time of that one
run. Ours has one setting, but that "validated" takes the rank that is best on a quarter of the kept cells, hidden as
the others are; its seconds count that too. The number of threads is set from outside: OPENBLAS_NUM_THREADS=1. Results
go to benchmarks/results/traffic.jsonl.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv
from benchmarks.private import RESULTS
from tensorveil.tensor import block_split, random_split, slice_split, time_split

PATTERNS = (("entries", 0.3), ("entries", 0.7), ("entries", 0.9), ("days", 0.3), ("days", 0.7))
NAMES = {"guangzhou-50": ("road", "day", "slot"), "portland": ("sensor", "day", "slot")}
SEEDS = [0]
RANKS = (6, 10, 20)
FILE = RESULTS / "traffic.jsonl"
# How many neighbouring times LATC looks at, and its weight, as in its notebook.
LAGS = {"guangzhou-50": 6, "portland": 4}
LATC_WEIGHTS = {"guangzhou-50": 10, "portland": 1}
# The published steps are 1e-4 and 1e-5. On tensors of this size a step too small stops at once; both are run.
RHOS = (1e-4, 1e-5)
LRTC_TRUNCATIONS, LATC_TRUNCATIONS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3), (1, 2, 5, 10, 20)

Row = dict[str, Any]


def load(name: str) -> np.ndarray:
    """Return line x day x slot; 0 where nothing is observed."""
    tensor = tv.load_dataset(name, zeros="missing")
    array = np.zeros(tensor.shape)
    array[tuple(tensor.columns)] = tensor.values
    return array.transpose([tensor.axis(mode) for mode in NAMES[name]])


def hide(shape: tuple[int, ...], pattern: str, share: float, seed: int = 0) -> np.ndarray:
    """Return which cells are kept."""
    rng = np.random.default_rng([seed, int(share * 100), pattern == "days"])
    if pattern == "entries":
        return rng.random(shape) >= share
    return np.broadcast_to((rng.random(shape[:2]) >= share)[:, :, None], shape)


def cases() -> Iterator[tuple[Row, np.ndarray, np.ndarray]]:
    """Yield what identifies a case, the whole array and which cells are kept."""
    for seed in SEEDS:
        for name in NAMES:
            array = load(name)
            for pattern, share in PATTERNS:
                case = {"data": name, "hidden": f"{pattern} {share:.0%}", "seed": seed}
                yield case, array, hide(array.shape, pattern, share, seed)


def settings(name: str) -> dict[str, dict]:
    """Return what of ours is compared."""
    _, day, slot = NAMES[name]
    modes = {day: "walk", slot: "walk"}
    time = {"smooth": {**modes, (day, slot): "walk"}}
    mean = time | {"restarts": 4, "keep": "mean", "sweeps": 40}
    validated = mean | {"sweeps": 15, "restarts": 6}
    return {"validated": validated, "mean of four": mean, "time": time, "plain": {}, "modes": {"smooth": modes}}


def choose_rank(train: tv.ObservedTensor, pattern: str, smooth: dict) -> int:
    """Return the rank whose fit of three quarters of the kept cells is best on the fourth; cells or whole days."""
    if pattern == "days":
        part, held = block_split(train, [mode.name for mode in train.modes[:2]], 0.25, random_state=0)
    else:
        part, held = random_split(train, 0.25, random_state=0)
    fits = {rank: tv.CP(rank, smooth=smooth, sweeps=15, threads=1, random_state=0).fit(part) for rank in RANKS}
    return min(RANKS, key=lambda rank: fits[rank].rmse(held))


def run_ours(labels: tuple[str, ...]) -> Iterator[Row]:
    """Fit every case with every one of the settings."""
    small = tv.ObservedTensor(np.argwhere(np.ones((4, 3, 5))), np.arange(60.0), modes=("a", "b", "c"))
    tv.CP(2, smooth={"b": "walk", ("b", "c"): "walk"}, threads=1, sweeps=12, random_state=0).fit(small)
    for case, array, kept in cases():
        known = kept & (array != 0)
        train = tv.ObservedTensor(np.argwhere(known), array[known], shape=array.shape, modes=NAMES[case["data"]])
        for label in labels:
            start = time.process_time()
            chosen = settings(case["data"])[label]
            rank = choose_rank(train, case["hidden"].split()[0], chosen["smooth"]) if label == "validated" else 10
            fitted = tv.CP(rank, **chosen, threads=1, random_state=0).fit(train)
            seconds = time.process_time() - start
            yield case | {"method": label, "rank": rank} | measure(fitted.dense(clip=False), array, kept, seconds)


def run_splits() -> Iterator[Row]:
    """Hide a fifth of each tensor in four ways; compare fits with what is known without a model."""
    for name in NAMES:
        array, (line, day, slot) = load(name), NAMES[name]
        whole = tv.ObservedTensor(np.argwhere(array != 0), array[array != 0], shape=array.shape, modes=NAMES[name])
        ways = {
            "single entries": random_split(whole, 0.2, random_state=0),
            f"days of a {line}": block_split(whole, (line, day), 0.2, random_state=0),
            f"whole {line}s": slice_split(whole, line, 0.2, random_state=0),
            "the last days": time_split(whole, day, 0.2),
        }
        for way, (train, held) in ways.items():
            row: Row = {"data": name, "hidden": way, "constant": spread(held.values - train.values.mean())}
            row["mean of the slot"] = spread(held.values - slot_means(train, slot)[held.columns[2]])
            for label in ("plain", "modes", "time"):
                fitted = tv.CP(10, **settings(name)[label], threads=1, random_state=0).fit(train)
                row[label] = round(fitted.rmse(held), 3)
            yield row


def slot_means(train: tv.ObservedTensor, slot: str) -> np.ndarray:
    """Return the mean of the entries of each slot, over all lines and days."""
    column = train.columns[train.axis(slot)]
    sums = np.bincount(column, weights=train.values, minlength=train.shape[2])
    return sums / np.maximum(np.bincount(column, minlength=train.shape[2]), 1)


def spread(off: np.ndarray) -> float:
    """Return the root mean square."""
    return round(float(np.sqrt(np.mean(off**2))), 3)


def run_peers(folder: Path) -> Iterator[Row]:
    """Run LRTC-TNN and LATC from their notebooks with all of their settings that have not been run."""
    done = {identify(row) for row in read()}
    for method, runs in (("LRTC-TNN", lrtc_runs), ("LATC", latc_runs)):
        space = definitions(folder / f"{method}.ipynb")
        for case, array, kept in cases():
            # line x slot x day, as their unfoldings expect
            whole = np.ascontiguousarray(array.transpose(0, 2, 1))
            sparse = np.where(kept, array, 0.0).transpose(0, 2, 1).copy()
            for setting, call in runs(space, case):
                if (*case.values(), method, setting) in done:
                    continue
                np.random.seed(1000)  # noqa: NPY002 - as in their notebooks
                start = time.process_time()
                with contextlib.redirect_stdout(io.StringIO()):
                    filled = call(whole.copy(), sparse.copy())
                seconds = time.process_time() - start
                row = case | {"method": method, "setting": setting}
                yield row | measure(filled.transpose(0, 2, 1), array, kept, seconds)


def lrtc_runs(space: Row, case: Row) -> Iterator[tuple[str, Callable[..., np.ndarray]]]:
    """Yield runs of LRTC-TNN."""
    for rho in RHOS:
        for theta in LRTC_TRUNCATIONS:
            yield (
                f"rho={rho:g} theta={theta}",
                lambda whole, sparse, r=rho, t=theta: space["LRTC"](whole, sparse, np.ones(3) / 3, r, t, 1e-4, 100),
            )


def latc_runs(space: Row, case: Row) -> Iterator[tuple[str, Callable[..., np.ndarray]]]:
    """Yield runs of LATC."""
    lags, weight = np.arange(1, LAGS[case["data"]] + 1), LATC_WEIGHTS[case["data"]]
    for rho in RHOS:
        for theta in LATC_TRUNCATIONS:
            yield (
                f"c={weight} rho={rho:g} theta={theta}",
                lambda whole, sparse, r=rho, t=theta: space["latc"](
                    whole, sparse, lags, np.ones(3) / 3, r, weight * r, t
                ),
            )


def definitions(notebook: Path) -> Row:
    """Run a notebook's cells that define functions; return what they define."""
    cells = json.loads(notebook.read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    space: Row = {"np": np}
    for source in sources:
        if "def " in source:
            exec(source, space)
    return space


def measure(filled: np.ndarray, array: np.ndarray, kept: np.ndarray, seconds: float) -> Row:
    """Return error and time."""
    hidden = ~kept & (array != 0)
    off = filled[hidden] - array[hidden]
    return {"rmse": round(float(np.sqrt(np.mean(off**2))), 4), "seconds": round(seconds, 2)}


def read() -> list[Row]:
    """Return all rows; of the same run the latest."""
    rows = [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []
    return list({identify(row): row for row in rows}.values())


def identify(row: Row) -> tuple:
    """Return what tells one run from another."""
    return tuple(row.get(name) for name in ("data", "hidden", "seed", "method", "setting"))


def table() -> None:
    """Print the best of each method by test error, and its seconds."""
    best: dict[tuple, Row] = {}
    for row in read():
        key = identify(row)[:4]
        if key not in best or row["rmse"] < best[key]["rmse"]:
            best[key] = row
    methods = list(dict.fromkeys(key[3] for key in best))
    print("| data | hidden | seed |", " | ".join(methods), "|")
    print("|---" * (3 + len(methods)) + "|")
    for case in dict.fromkeys(key[:3] for key in best):
        found = [best.get((*case, method)) for method in methods]
        cells = ["" if row is None else f"{row['rmse']:.3f} ({row['seconds']:.1f} s)" for row in found]
        print("|", " | ".join([*map(str, case), *cells]), "|")


def main(arguments: list[str]) -> None:
    """Run what was asked for."""
    if arguments[:1] == ["--seed"]:
        SEEDS[:] = [int(arguments[1])]
        arguments = arguments[2:]
    what, *rest = arguments or ["table"]
    if what == "table":
        table()
        return
    if what == "splits":
        rows = list(run_splits())
        (RESULTS / "traffic-splits.json").write_text(json.dumps(rows, indent=1) + "\n")
        print(*rows, sep="\n")
        return
    labels = tuple(rest) or ("validated", "mean of four", "time", "plain", "modes")
    found = run_peers(Path(rest[0])) if what == "peers" else run_ours(labels)
    for row in found:
        print(row, flush=True)
        with FILE.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
