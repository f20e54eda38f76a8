"""CP completion against SPLATT (its completion code, branch sc16), interleaved, same file, same precision.

SPLATT is not shipped: name built programs in SPLATT_BIN_F32 and SPLATT_BIN_F64. An epoch of SPLATT is a pass and an
evaluation of the loss. Reported: our pass against the epoch, our pass plus a separate loss against the epoch, and for
ALS, where SPLATT prints the time of its modes, pass against pass.
"""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.process import run, work

# About as long as the peer takes for its epochs, so that both meet the same other load.
REPEATS = {"sgd": 20, "als": 8}
VARIABLES = {"float32": "SPLATT_BIN_F32", "float64": "SPLATT_BIN_F64"}


def binary(dtype: str) -> str | None:
    """The built program for a precision, or None."""
    path = os.environ.get(VARIABLES[dtype], "")
    return path if path and Path(path).is_file() else None


def _epochs(output: str) -> list[float]:
    """Seconds of each epoch after the first, from the running clock SPLATT prints."""
    clock = [float(t) for t in re.findall(r"epoch:\s*\d+.*?time:\s*([0-9.eE+-]+)s?", output)]
    return [b - a for a, b in pairwise(clock[1:])]


def peer(path: str, dtype: str, algorithm: str, rank: int, threads: int, epochs: int) -> dict[str, Any]:
    """Run SPLATT for some epochs; seconds per epoch, of its modes (ALS), and peak memory."""
    program = binary(dtype)
    assert program is not None
    command = [
        program, "complete", path, "-a", algorithm, "-r", str(rank), "-t", str(threads), "-i", str(epochs), "--nowrite",
        "--seed=1", "--reg=0.2" if algorithm == "als" else "--reg=0.01", "--step=0.001", "-v", "-v", "--tol=0",
    ]  # fmt: skip
    done = run(command, {"OPENBLAS_NUM_THREADS": "1"}, cwd=str(Path(path).parent))
    modes = [float(t) for t in re.findall(r"mode:\s*\d+.*?time:\s*([0-9.eE+-]+)s?", done.output)]
    epochs_seconds = _epochs(done.output)
    if not epochs_seconds:
        raise RuntimeError(f"no epoch times in SPLATT's output:\n{done.output}")
    return {"epochs": epochs_seconds, "modes": modes, "peak_mb": done.peak_mb}


def compare(path: str, name: str, dtype: str, rank: int, threads: int, rounds: int) -> list[dict[str, Any]]:
    """Alternate the peer and ours, as often as asked; the best of each counts. Returns one record per solver."""
    theirs: dict[str, list[dict[str, Any]]] = {"als": [], "sgd": []}
    ours: dict[str, list[dict[str, Any]]] = {"als": [], "sgd": []}
    for _ in range(rounds):
        for solver in ("als", "sgd"):
            theirs[solver].append(peer(path, dtype, solver, rank, threads, epochs=7))
            ours[solver].append(
                work(solver, path=path, dtype=dtype, rank=rank, threads=threads, repeats=REPEATS[solver])
            )
    # SPLATT prints the time of its modes in ALS, so the pass alone is known there; for SGD only whole epochs are.
    als_pass = min(sum(modes) for run in theirs["als"] for modes in _sweeps(run))
    peer_pass = {"als": als_pass, "sgd": None}
    our_loss = min(t for r in ours["sgd"] for t in r["loss"])
    return [
        _record(name, dtype, solver, theirs[solver], ours[solver], peer_pass[solver], our_loss)
        for solver in ("sgd", "als")
    ]


def _sweeps(run: dict[str, Any]) -> list[list[float]]:
    """Seconds of the modes, one list per sweep after the first."""
    return [run["modes"][k : k + 3] for k in range(3, len(run["modes"]), 3)]


def _record(
    name: str, dtype: str, solver: str, theirs: list[dict[str, Any]], ours: list[dict[str, Any]],
    peer_pass: float | None, our_loss: float,
) -> dict[str, Any]:  # fmt: skip
    passed = min(t for r in ours for t in r["passes"])
    peer_epoch = min(t for r in theirs for t in r["epochs"])
    memory, peer_memory = (max(r["peak_mb"] for r in runs) for runs in (ours, theirs))
    per_round = [min(o["passes"]) / min(t["epochs"]) for o, t in zip(ours, theirs, strict=True)]
    return {
        "problem": name, "dtype": dtype, "solver": solver, "ours": passed, "ours_with_loss": passed + our_loss,
        "peer_pass": peer_pass, "peer_epoch": peer_epoch, "ratio_pass": passed / peer_pass if peer_pass else None,
        "ratio_epoch": passed / peer_epoch, "ratio_with_loss": (passed + our_loss) / peer_epoch,
        "ratio_epoch_each_round": per_round, "memory_mb": memory, "peer_memory_mb": peer_memory,
        "ratio_memory": memory / peer_memory, "build": min(r["build"] for r in ours),
        "rmse": ours[-1]["rmse"],
    }  # fmt: skip
