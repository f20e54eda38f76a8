"""Read damaged files one after the other, and say what went wrong: run as a process of its own, which may die.

python -m tests.faults.fuzz_reading FOLDER PER_FILE SEED [GIGABYTES]
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv
from tests.faults.damage import cases, make_tensor, readers_of
from tests.faults.judging import read_hdf5_here
from tests.memory import read_peak

SECONDS = 20
# Files of ours that hold checksums: what is read from them is what was written, or nothing is read.
SEALED = ("t.parquet", "t.mat", "t.png", "t.tns.gz", "t.csv.gz")
# Files that hold digests besides: even where checksums are made right again, a change is found.
DIGESTS = ("t.npz", "m.npz", "k.npz")
# Texts that ways of damaging put into files, and that no message may hold.
QUOTES = ("99999999999999999999", "1e400", "\x00")


def run(folder: Path, per_file: int, seed: int) -> dict[str, Any]:
    good, bad = folder / "good", folder / "bad"
    good.mkdir(exist_ok=True)
    bad.mkdir(exist_ok=True)
    faults: list[str] = []
    counts = {"files": 0, "reads": 0, "refused": 0, "read": 0, "slowest": 0.0}
    known: dict[str, Any] = {}
    for case in cases(good, per_file, seed):
        name, number, content = case.name, case.number, case.content
        path = bad / name
        path.write_bytes(content)
        counts["files"] += 1
        for verb, read in readers_of(name).items():
            print(name, number, verb, file=sys.stderr, flush=True)
            counts["reads"] += 1
            started = time.perf_counter()
            signal.alarm(SECONDS)
            try:
                found = read(path)
            except tv.InputError as error:
                counts["refused"] += 1
                if any(quote in str(error) for quote in QUOTES):
                    faults.append(f"{name} {number} {verb}: quoted")
            except BaseException as error:
                faults.append(f"{name} {number} {verb}: {type(error).__name__}")
                (folder / f"kept-{number}-{name}").write_bytes(content)
            else:
                counts["read"] += 1
                sealed = name in DIGESTS or (name in SEALED and not case.resealed)
                if sealed and verb in ("read", "load_model"):
                    original = known.setdefault(name, read(good / name))
                    if not same(original, found):
                        faults.append(f"{name} {number} {verb}: changed")
                        (folder / f"kept-{number}-{name}").write_bytes(content)
            finally:
                signal.alarm(0)
            counts["slowest"] = max(counts["slowest"], time.perf_counter() - started)
    return {**counts, "peak_bytes": read_peak(), "faults": faults}


def same(one: Any, other: Any) -> bool:
    """Tell whether two things that were read are the same."""
    if isinstance(one, tv.ObservedTensor):
        return (
            one.shape == other.shape
            and one.bounds == other.bounds
            and one.modes == other.modes
            and np.array_equal(one.columns, other.columns)
            and np.array_equal(one.values, other.values)
        )
    if hasattr(one, "factors"):
        return len(one.factors) == len(other.factors) and all(map(np.array_equal, one.factors, other.factors))
    return bool(np.array_equal(one.values, other.values))


if __name__ == "__main__":
    if len(sys.argv) > 4:
        most = int(float(sys.argv[4]) * 1e9)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    assert make_tensor(labels=False) is not None
    read_hdf5_here()
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
