"""Runs that are killed at any moment: nothing is lost or half there, nothing goes uncharged, and the next run works."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EVENTS = """
import json, os, shutil, sys
from pathlib import Path
from tests.faults import killing
here, verbs = Path(sys.argv[1]), sys.argv[2:]
sys.stdout, kept = open(os.devnull, "w"), sys.stdout
killing.prepare(here)
kills, faults = 0, []
for verb in verbs:
    for number in range(1, 60, 2):
        place = here / "place"
        killing.set_up(verb, here, place)
        killed = killing.kill_at_event(killing.commands(here, place)[verb], place, number)
        wrong = killing.check(verb, here, place) if killed else None
        shutil.rmtree(place)
        kills += killed
        if wrong:
            faults.append(f"{verb}, event {number}: {wrong}")
        if not killed:
            break
print(json.dumps({"kills": kills, "faults": faults}), file=kept)
"""


def test_runs_are_killed_before_anything_that_python_announces(tmp_path: Path) -> None:
    command = [sys.executable, "-c", EVENTS, str(tmp_path), "force", "perturb", "aggregate", "budget", "complete",
               "restore"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["faults"] == []
    assert found["kills"] >= 20


VERBS = ["complete", "diagnostics", "force", "perturb", "aggregate", "budget", "federate", "store", "restore", "rounds"]
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace chooses the system call")


@pytest.mark.slow
@needs_strace
@pytest.mark.parametrize("verb", VERBS)
def test_runs_are_killed_at_every_system_call_that_writes(tmp_path: Path, verb: str) -> None:
    command = [sys.executable, "-m", "tests.faults.killing", str(tmp_path), verb]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["faults"] == []
    assert found["kills"] >= 0.7 * found["moments"] > 0  # strace counts the calls of each thread by themselves


@pytest.mark.slow
@needs_strace
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_system_call_that_writes_fails_once(tmp_path: Path, verb: str, error: str) -> None:
    """Runs end with an error or cope with it, say what was charged, leave nothing, and the next one works."""
    most = "40" if verb == "diagnostics" else "1000"
    command = [sys.executable, "-m", "tests.faults.killing", str(tmp_path), verb, most, error]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["faults"] == []
    assert found["failures"] > 10
