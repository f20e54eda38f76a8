"""Readers are handed damaged files of every kind: each is read, or refused by an error of ours that quotes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("per_file", "seed"), [(30, 11), *(pytest.param(400, seed, marks=pytest.mark.slow) for seed in (12, 13, 14))]
)
def test_damaged_files_are_read_or_refused(tmp_path: Path, per_file: int, seed: int) -> None:
    """A process of its own reads them, in 4 GB of addresses and 20 s each: it must not die."""
    command = [sys.executable, "-m", "tests.faults.fuzz_reading", str(tmp_path), str(per_file), str(seed), "4"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    last = done.stderr.splitlines()[-1:]
    assert done.returncode == 0, f"died at {last}"
    found = json.loads(done.stdout)
    assert found["faults"] == []
    assert found["refused"] > found["read"] > 0
