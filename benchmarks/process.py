"""Run a command and know its peak memory.

The starting process must stay small: a child's peak counts its parent's size at the moment it was started. So this
module and its callers import no numerical library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Finished:
    output: str
    seconds: float
    peak_mb: float


def run(command: list[str], environment: dict[str, str] | None = None, cwd: str | None = None) -> Finished:
    """Run to the end; raise with the output if it fails."""
    start = time.perf_counter()
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=os.environ | (environment or {}),
    )
    assert child.stdout is not None
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with code {child.returncode}:\n{output}")
    return Finished(output=output, seconds=time.perf_counter() - start, peak_mb=usage.ru_maxrss / 1024)


def work(task: str, **arguments: Any) -> dict[str, Any]:
    """Run one task of benchmarks.worker in a process of its own; returns its result with its peak memory."""
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = one if task != "cmfrec" else {"OPENBLAS_NUM_THREADS": "1"}
    done = run([sys.executable, "-m", "benchmarks.worker", task, json.dumps(arguments)], environment)
    result: dict[str, Any] = json.loads(done.output.strip().splitlines()[-1])
    return result | {"peak_mb": done.peak_mb}
