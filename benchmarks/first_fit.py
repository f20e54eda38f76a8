"""What the first fit on a machine costs: CPU seconds of fits whose kernels have to be compiled.

    python -m benchmarks.first_fit [SOURCE ...]

Every kind of fit runs in a process of its own with a cache of kernels that is empty at first, so that one does not pay
for another; imports are done before the clock starts. `second` is the same fit again in the same process, `set up` the
first fit of a process whose cache was filled by `tensorveil doctor --warm` alone, as `make setup` leaves it. SOURCE are
`src` folders to compare, by default this one; the kinds take turns, so that all see the same machine.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from itertools import zip_longest
from pathlib import Path

KINDS = {
    "CP bayes": "tv.CP(8, random_state=0).fit(cube)",
    "CP als": "tv.CP(8, solver='als', random_state=0).fit(cube)",
    "CP sgd": "tv.CP(8, solver='sgd', random_state=0).fit(cube)",
    "Tucker": "tv.Tucker(4, random_state=0).fit(cube)",
    "LowRankMatrix": "tv.LowRankMatrix('auto', random_state=0).fit(matrix)",
    "PrivateCP auto, epsilon 1": "tv.PrivateCP(8, epsilon=1.0, **value).fit(cube)",
    "PrivateCP auto, epsilon 20": "tv.PrivateCP(8, epsilon=20.0, **value).fit(cube)",
    "PrivateCP output, epsilon 20": "tv.PrivateCP(8, epsilon=20.0, method='output', **value).fit(cube)",
    "PrivateTucker, epsilon 20": "tv.PrivateTucker(4, epsilon=20.0, **value).fit(cube)",
    "PrivateLowRankMatrix, epsilon 20": "tv.PrivateLowRankMatrix('auto', epsilon=20.0, **value).fit(matrix)",
    "whole users, factors": "UserLevel(8, epsilon=200.0, **users).fit(ratings)",
}

PROGRAM = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import tensorveil as tv
from numba import njit
cube = tv.synthetic_cp((30, 20, 10), 2, random_state=0).train
matrix = tv.synthetic_cp((60, 40), 2, random_state=0).train
ratings = tv.synthetic_cp((400, 20), 2, random_state=0).train.with_modes(("user", "film"))
value = dict(delta=0.0, unit="value", bounds=(-5, 5))
users = dict(delta=1e-6, unit="slice:user", bounds=(-5, 5), shape=ratings.shape)
tv.CP, tv.Tucker, tv.LowRankMatrix, tv.PrivateCP, tv.PrivateTucker, tv.PrivateLowRankMatrix
UserLevel = tv.PrivateCP  # as it was once called
if hasattr(tv, "UserLevelCP"):
    UserLevel, users = tv.UserLevelCP, users | {"method": "factors"}
njit(lambda x: x + 1)(1)  # what Numba itself sets up once in a process
seconds = []
for _ in range(2):
    start = time.process_time()
    eval(sys.argv[1])
    seconds.append(round(time.process_time() - start, 3))
print(json.dumps(seconds))
"""


def measure(kind: str, source: Path, cache: str) -> list[float]:
    """Return the CPU seconds of the first and of the second fit in a new process."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(source), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, KINDS[kind]], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def fill(source: Path, cache: str) -> float | None:
    """Compile the usual kernels into a cache, as set-up does; return the CPU seconds, None where there is no way to."""
    if not (source / "tensorveil" / "runs" / "warm.py").is_file():
        return None
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(source), "PYTHONWARNINGS": "ignore"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "tensorveil", "doctor", "--warm", "--json"]
    subprocess.run(words, env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(*sources: str) -> None:
    """Measure and print a table."""
    folders = [Path(source).resolve() for source in sources or (str(Path(__file__).parents[1] / "src"),)]
    print("| CPU seconds |" + " first | second | set up |" * len(folders))
    print("|---|" + "---|---|---|" * len(folders))
    totals = [[0.0, 0.0, 0.0] for _ in folders]
    with contextlib.ExitStack() as caches:
        filled = [caches.enter_context(tempfile.TemporaryDirectory()) for _ in folders]
        warm = [fill(folder, cache) for folder, cache in zip(folders, filled, strict=True)]
        for kind in KINDS:
            row = []
            for folder, warmed, cache, total in zip(folders, warm, filled, totals, strict=True):
                with tempfile.TemporaryDirectory() as empty:
                    found = measure(kind, folder, empty)
                if warmed is not None:
                    with tempfile.TemporaryDirectory() as copy:  # what one kind adds is not there for the next
                        shutil.copytree(cache, copy, dirs_exist_ok=True)
                        found += measure(kind, folder, copy)[:1]
                total[:] = [a + b for a, b in zip_longest(total, found, fillvalue=math.nan)]
                row += [f"{each:.2f}" for each in found] + [""] * (3 - len(found))
            print(f"| {kind} | {' | '.join(row)} |", flush=True)
    print("| sum |" + "".join(f" {each:.1f} |" if each == each else " |" for total in totals for each in total))
    print(f"`doctor --warm`: {', '.join('none' if each is None else f'{each:.0f} CPU seconds' for each in warm)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
