"""A fit of many rows with little in each: how much memory it takes in all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FIT = """
import json, sys
import numpy as np
import tensorveil as tv
from tests.memory import read_peak
order, rows = int(sys.argv[1]), 1_000_000
rng, shape = np.random.default_rng(0), (rows, 1000, 50)[:order]
columns = np.stack([np.arange(rows), *(rng.integers(0, size, rows) for size in shape[1:])])
tensor = tv.ObservedTensor.from_columns(columns, rng.normal(size=rows), shape=shape)
model = tv.CP if order == 3 else tv.LowRankMatrix
model(rank=16, solver="bayes", sweeps=3, random_state=0).fit(tensor)
print(json.dumps(read_peak()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3])
def test_a_million_entries_in_as_many_rows(order: int) -> None:
    command = [sys.executable, "-c", FIT, str(order)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) <= 1.2e9
