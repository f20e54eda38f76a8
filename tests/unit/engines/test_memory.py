"""Memory does not grow with the number of entries: neither while a store is made nor while it is fitted."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[3]
SHAPE = (100_000, 500)
# Runs in a process of its own, whose peak is its own.
WORK = """
import json, sys
import tensorveil as tv
from tensorveil.memory import set_memory_limit
from tests.memory import read_peak

folder, what = sys.argv[1:]
set_memory_limit("300MB")
rules = {"unit": "slice:user", "bounds": (1, 5), "shape": (100_000, 500)}
if what == "store":
    made = tv.write_store(f"{folder}/rows.parquet", f"{folder}/store", order="user", indices=True, part_rows=200_000, **rules)
else:
    made = tv.StoredTensor.open(f"{folder}/store")
    tv.UserLevelCP(2, epsilon=4, delta=1e-8, method="biases", noise_seed=1, threads=2, **rules).fit(made)
print(json.dumps([read_peak() / 2**20, made.n_entries]))
"""  # noqa: E501 - a script


def write_rows(folder: Path, entries: int) -> None:
    rng = np.random.default_rng(0)
    with pq.ParquetWriter(folder / "rows.parquet", pa.schema([("user", pa.int32()), ("film", pa.int32()),
                                                              ("value", pa.float64())])) as writer:  # fmt: skip
        for _ in range(entries // 500_000):
            columns: list[Any] = [rng.integers(0, size, 500_000, dtype=np.int32) for size in SHAPE]
            writer.write_table(pa.table([*columns, rng.uniform(1, 5, 500_000)], schema=writer.schema))


def measure(folder: Path, what: str) -> tuple[float, int]:
    words = [sys.executable, "-W", "ignore", "-c", WORK, str(folder), what]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    peak, entries = json.loads(done.stdout.splitlines()[-1])
    return peak, entries


@pytest.mark.slow
@pytest.mark.parametrize("what", ["store", "fit"])
def test_four_times_the_entries_take_the_same_memory(tmp_path: Path, what: str) -> None:
    peaks = []
    for entries in (3_000_000, 12_000_000):
        folder = tmp_path / str(entries)
        folder.mkdir()
        write_rows(folder, entries)
        peak, _ = measure(folder, "store")
        if what == "fit":
            peak, found = measure(folder, "fit")
            assert found == entries
        peaks.append(peak)
    # In memory nine million entries more are 144 MB as they are, and several times that in a fit.
    assert peaks[1] - peaks[0] < 40, peaks
