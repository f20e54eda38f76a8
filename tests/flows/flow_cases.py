"""One small tensor in every kind of file, and the command run on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.cli.main import run
from tensorveil.tensor import Mode, ObservedTensor, write

SHAPE = (12, 9, 4)


def planted_tensor() -> Any:
    """A rank-2 tensor with labels, about 60 % observed, values within (-6, 6)."""
    rng = np.random.default_rng(7)
    factors = [rng.uniform(-1.2, 1.2, size=(size, 2)) for size in SHAPE]
    dense = np.einsum("ir,jr,kr->ijk", *factors) + 1.0
    coords = np.argwhere(rng.random(SHAPE) < 0.6)
    modes = (
        Mode("user", [f"user {i:02d}" for i in range(SHAPE[0])]),
        Mode("film", [100 + 7 * j for j in range(SHAPE[1])]),
        Mode("week", [f"w{k}" for k in range(SHAPE[2])]),
    )
    return ObservedTensor(coords, dense[tuple(coords.T)], SHAPE, modes=modes), dense


def written(folder: Path, ending: Any) -> Any:
    tensor, _ = planted_tensor()
    path = folder / f"tensor{ending}"
    if ending == ".tns":
        tensor = tensor.with_modes(None)
    write(tensor, path)
    return path


def complete(path: Path, output: Any, *options: Any) -> Any:
    """Run `complete` with a quick solver; give the exit code."""
    quick = ["--rank", "2", "--solver", "als", "--sweeps", "20", "--threads", "1"]
    return run(["complete", str(path), "--output", str(output), *quick, *map(str, options)])


def summary_of(folder: Path) -> Any:
    return json.loads((folder / "summary.json").read_text())
