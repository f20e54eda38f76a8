"""Readers are handed crafted files and messages: each is read as it was written, or refused by an error of ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("per_source", "seed"), [(3, 21), *(pytest.param(290, seed, marks=pytest.mark.slow) for seed in (22, 23, 24))]
)
def test_crafted_files_are_read_or_refused(tmp_path: Path, per_source: int, seed: int) -> None:
    """A process of its own reads them, in 1.5 GB of addresses beyond its own and 20 s each: it must not die."""
    command = [sys.executable, "-m", "tests.faults.fuzz_crafted", str(tmp_path), str(per_source), str(seed), "1.5"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    last = done.stderr.splitlines()[-1:]
    assert done.returncode == 0, f"died at {last}"
    found = json.loads(done.stdout)
    assert found["faults"] == []
    assert found["peak_bytes"] < 2e9
    assert found["refused"] > found["read"] > 0
    assert found["files"] == per_source * len(found["sources"])
    assert per_source < 290 or found["files"] >= 20_000
