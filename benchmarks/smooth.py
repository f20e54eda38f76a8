"""Smooth time on real traffic: `python -m benchmarks.smooth [settings ...]`.

Guangzhou's speeds (50 roads, 15 days, 144 intervals of ten minutes) and Portland's volumes (80 sensors, 15 days, 96
quarter hours); zeros are not observed. Hidden: single entries (30, 70, 90 %), or whole days of a sensor (30, 70 %).
Errors are of the hidden cells, seconds are of the processor, one thread. `hide` gives the masks, so that others' code
can be run on the same ones. Results go to benchmarks/results/smooth-traffic.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import numpy as np

import tensorveil as tv
from benchmarks.private import RESULTS

PATTERNS = (("entries", 0.3), ("entries", 0.7), ("entries", 0.9), ("days", 0.3), ("days", 0.7))
NAMES = {"guangzhou-50": ("road", "day", "slot"), "portland": ("sensor", "day", "slot")}
RANK = 10


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


def settings(name: str) -> dict[str, dict | None]:
    """Return what is compared."""
    _, day, slot = NAMES[name]
    modes = {day: "walk", slot: "walk"}
    return {"plain": None, "modes": modes, "modes and time": {**modes, (day, slot): "walk"}}


def run(name: str, label: str, rank: int) -> Iterator[dict]:
    """Measure all patterns of one tensor with one of the settings."""
    array = load(name)
    for pattern, share in PATTERNS:
        kept = hide(array.shape, pattern, share)
        known, hidden = kept & (array != 0), ~kept & (array != 0)
        train = tv.ObservedTensor(np.argwhere(known), array[known], shape=array.shape, modes=NAMES[name])
        start = time.process_time()
        fitted = tv.CP(rank, smooth=settings(name)[label], threads=1, random_state=0).fit(train)
        seconds = time.process_time() - start
        off = fitted.dense(clip=False)[hidden] - array[hidden]
        row = {"data": name, "hidden": f"{pattern} {share:.0%}", "smooth": label, "rank": rank}
        yield row | {"rmse": round(float(np.sqrt(np.mean(off**2))), 4), "seconds": round(seconds, 2)}


def main(arguments: list[str]) -> None:
    """Run what was asked for, after one small fit that compiles; keep what is there of the rest."""
    small = tv.ObservedTensor(np.argwhere(np.ones((4, 3, 5))), np.arange(60.0), modes=("a", "b", "c"))
    tv.CP(2, smooth={"b": "walk", ("b", "c"): "walk"}, threads=1, sweeps=12, random_state=0).fit(small)
    path = RESULTS / "smooth-traffic.json"
    for label in arguments or ("modes and time", "plain", "modes"):
        for name in NAMES:
            for row in run(name, label, RANK):
                print(row, flush=True)
                rows = json.loads(path.read_text()) if path.exists() else []
                same = ("data", "hidden", "smooth", "rank")
                rows = [old for old in rows if any(old[key] != row[key] for key in same)]
                path.write_text(json.dumps([*rows, row], indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
