"""CPU time of user-level rounds per entry, of several versions of the package in turns.

    python -m benchmarks.sweeps [SOURCE ...] [--cases ml-1m planted "planted matrix"] [--ranks 8 16] [--stop 8]

SOURCE are `src` folders to compare, by default this one; the first is what the others are measured against. Each runs
in one process with one thread and a cache of kernels of its own. They take turns round by round, so that all see the
same machine. No noise is added: every version goes through the states of its own run. `same` says that the sums are
those of the first source, bit by bit. "planted" has three modes, "planted matrix" two.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

PROGRAM = """
import hashlib, json, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import numpy as np
from tensorveil.tensor import ObservedTensor
try:
    from tensorveil.rounds import Recipe
except ImportError:  # as it was once called
    from tensorveil.users import Recipe

case = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
if case["name"] == "ml-1m":
    with np.load(Path(case["data"]) / "ml-1m" / "ratings.npz") as file:
        columns, values = np.stack([file["user"] - 1, file["movie"] - 1]).astype(np.int32), file["rating"] * 1.0
    shape, names, bounds = (6040, 3952), ("user", "film"), (1.0, 5.0)
else:
    # 100 entries per user on average, unevenly: in proportion to the square of a normal number.
    n, users = case["entries"], case["entries"] // 100
    shape, names, bounds = (users, 5000, 50), ("user", "item", "period"), (-3.0, 3.0)
    if case["name"] == "planted matrix":
        shape, names = shape[:2], names[:2]
    weights = rng.standard_normal(users) ** 2
    owners = rng.choice(users, n, p=weights / weights.sum())
    columns = np.stack([owners, *(rng.integers(size, size=n) for size in shape[1:])]).astype(np.int32)
    keys = np.unique(np.ravel_multi_index(tuple(columns), shape))
    columns = np.stack(np.unravel_index(keys, shape)).astype(np.int32)
    factors = [rng.standard_normal((size, 4)) for size in shape]
    values = np.prod([factor[column] for factor, column in zip(factors, columns)], axis=0).sum(axis=1) / 2
    values += rng.standard_normal(len(values))
tensor = ObservedTensor(columns.T, values, shape=shape, modes=names)
recipe = Recipe(shape=shape, modes=names, protect="user", bounds=bounds, epsilon=8.0, delta=1e-6, rank=case["rank"])
people, state = recipe.people(tensor), recipe.start()
print(json.dumps([this.name for this in recipe.rounds] + [len(values)]), flush=True)
for line in sys.stdin:
    start = time.process_time()
    total = recipe.contribute(state, people, threads=1)
    seconds = time.process_time() - start
    if line.strip() == "next":
        state = recipe.advance(state, total)
    print(json.dumps([seconds, hashlib.sha256(total.tobytes()).hexdigest()]), flush=True)
"""


class Version:
    """A version of the package at work on one case, in a process that answers line by line."""

    def __init__(self, source: Path, case: dict[str, Any], cache: str) -> None:
        one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self._child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps(case)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | one | {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(source)},
        )  # fmt: skip
        *self.rounds, self.entries = self._answer()

    def run(self, word: str) -> tuple[float, str]:
        """Compute the present round's sum, and go on to the next one if the word is "next"."""
        assert self._child.stdin is not None
        self._child.stdin.write(word + "\n")
        self._child.stdin.flush()
        seconds, digest = self._answer()
        return seconds, digest

    def end(self) -> None:
        """Let the process end."""
        self._child.communicate()

    def _answer(self) -> Any:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit("a version ended before it answered: its error is above.")
        return json.loads(line)


def compare(
    sources: list[Path], case: dict[str, Any], caches: list[str], repeats: int, stop: int
) -> list[dict[str, Any]]:
    """Return a row per round: median CPU nanoseconds per entry of every source, and whether sums are the first's."""
    versions = [Version(source, case, cache) for source, cache in zip(sources, caches, strict=True)]
    rows = []
    compiled = set()
    for name in versions[0].rounds[:stop]:
        kind = name.partition(" ")[0]
        if kind not in compiled:
            for version in versions:
                version.run("again")
        compiled.add(kind)
        turns = [[version.run(word) for version in versions] for word in ["again"] * (repeats - 1) + ["next"]]
        times = [median(turn[k][0] for turn in turns) / version.entries * 1e9 for k, version in enumerate(versions)]
        digests = [turns[0][k][1] for k in range(len(versions))]
        rows.append({"round": name, "nanoseconds": times, "same": [each == digests[0] for each in digests]})
        figures = " | ".join(f"{each:.0f}" for each in times)
        ratios = " | ".join(f"{each / times[0]:.2f}" for each in times[1:])
        same = " | ".join("same" if each == digests[0] else "" for each in digests[1:])
        print(f"| {case['name']}, rank {case['rank']} | {name} | {figures} | {ratios} | {same} |", flush=True)
    for version in versions:
        version.end()
    return rows


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweeps", description=__doc__)
    parser.add_argument("sources", nargs="*", type=Path, default=[Path(__file__).parents[1] / "src"])
    parser.add_argument("--cases", nargs="*", default=["ml-1m", "planted"])
    parser.add_argument("--ranks", nargs="*", type=int, default=[8, 16])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--stop", type=int, default=100, help="after so many rounds")
    parser.add_argument("--entries", type=int, default=5_000_000)
    options = parser.parse_args()
    data = os.environ.get("TENSORVEIL_DATA", "")
    with tempfile.TemporaryDirectory() as folder:
        caches = [str(Path(folder) / str(k)) for k in range(len(options.sources))]
        for name in options.cases:
            for rank in options.ranks:
                case = {"name": name, "rank": rank, "entries": options.entries, "data": data}
                rows = compare(
                    [each.resolve() for each in options.sources], case, caches, options.repeats, options.stop
                )
                sweeps = [row["nanoseconds"] for row in rows if row["round"].startswith("sweep")]
                middle = [median(each) for each in zip(*sweeps, strict=True)]
                figures = ", ".join(f"{each:.0f}" for each in middle)
                print(f"{name}, rank {rank}: sweeps {figures} ns; ratios {[each / middle[0] for each in middle[1:]]}")


if __name__ == "__main__":
    main()
