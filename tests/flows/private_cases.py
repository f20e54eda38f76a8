"""Tables with recognisable values, and the command run privately on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.cli.main import run

SECRET = "71828182"  # in the digits of every value
SHAPE = (14, 9)
RELEASE = ["MODEL_CARD.md", "filled.csv", "guarantee.json", "model.npz", "report.html"]
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def write_table(path: Path, *, seed: int = 0, keep: float = 0.6, indices: bool = False, scale: int = 1) -> Any:
    """A user x film table; who rated what depends on `keep` alone, the values on `seed`."""
    seen = np.random.default_rng(5).random(SHAPE) < keep
    seen[:, 0] = seen[0] = True
    digits = np.random.default_rng(seed).integers(1, 5, size=SHAPE)
    name = "{}".format if indices else "u{:02d}".format
    rows = [f"{name(i)},{j},{scale * digits[i, j]}.{SECRET}" for i, j in np.argwhere(seen)]
    path.write_text("user,film,rating\n" + "\n".join(rows) + "\n")
    return path


def complete(path: Path, output: Any, *options: Any, unit: str = "value", epsilon: float = 2) -> Any:
    quick = ["--rank", "2", "--sweeps", "3", "--threads", "1", "--filled-format", "csv"]
    promise = ["--epsilon", epsilon, "--unit", unit, "--bounds", 1, 5, "--value", "rating"]
    entry = ["--indices", "--private-shape", ",".join(map(str, SHAPE))] if unit == "entry" else []
    return run(list(map(str, ["complete", path, "-o", output, *promise, *quick, *entry, *options])))


def new_ledger(path: Path, unit: str = "value", epsilon: float = 3) -> Any:
    budget = ["--epsilon", str(epsilon), "--delta", "0", "--unit", unit, "--name", "ratings"]
    assert run(["budget", "create", str(path), *budget]) == 0
    return path


def names(folder: Path) -> Any:
    return sorted(found.name for found in folder.iterdir())


def assert_nothing_private(folder: Path, *texts: Any) -> None:
    """No digits of a value in any text or file of a folder."""
    for text in texts:
        assert SECRET not in text
    for path in folder.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path.name
            for digit in range(1, 5):
                assert np.float64(f"{digit}.{SECRET}").tobytes() not in path.read_bytes(), path.name
