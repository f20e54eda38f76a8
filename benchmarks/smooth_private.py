"""Private completion with smooth modes beside the same without: `python -m benchmarks.smooth_private run` or `table`.

The tensors with a time mode of `benchmarks.real_tensors`, unit value, `auto`, rank 8, delta 0. What is smooth was said
from what the modes are; hours, weekdays and months of a year are cycles. `run` adds to
benchmarks/results/smooth-private.jsonl what is not in it; with an epsilon and a draw fewer rows: `run 3 0`. Noise is
drawn from a seeded source, as in `benchmarks.real`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import tensorveil as tv
from benchmarks.private import RESULTS
from benchmarks.real_tensors import BY_NAME, load_problem

FILE = RESULTS / "smooth-private.jsonl"
SMOOTH: dict[str, dict[Any, str]] = {
    "speeds": {1: "walk", 2: "walk", (2, 1): "walk"},
    "volumes": {0: "walk", 2: "walk", (2, 0): "walk"},
    "bikes": {2: "cycle", 3: "cycle", 4: "cycle"},
    "trip minutes": {2: "cycle"},
    "sea temperatures": {0: "walk", 1: "walk", 2: "walk"},
    "hourly trips": {2: "walk"},
    "crimes": {0: "walk"},
    "yellow trips": {0: "walk"},
    "fluorescence": {1: "walk", 2: "walk", 3: "walk"},
}
EPSILONS, DRAWS = (1.0, 3.0), (0, 1, 2)
# Draws beyond the first three are run one by one, where those differ much.
MOST_DRAWS = 100


def read() -> dict[tuple, dict]:
    """Return the rows that there are."""
    rows = [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []
    return {(row["tensor"], row["epsilon"], row["draw"], row["smooth"]): row for row in rows}


def measure(tensor: str, epsilon: float, draw: int, smooth: bool) -> dict:
    """Return the error on the cells that are held out, and the release's own estimate over it."""
    problem = load_problem(tensor)
    fitted = tv.PrivateCP(
        8, epsilon=epsilon, delta=0.0, unit="value", bounds=BY_NAME[tensor].bounds, threads=1, random_state=draw,
        noise_seed=100 + draw, smooth=SMOOTH[tensor] if smooth else None,
    ).fit(problem.train)  # fmt: skip
    found = float(np.sqrt(np.mean((fitted.predict(problem.held) - problem.truth) ** 2)))
    key = {"tensor": tensor, "epsilon": epsilon, "draw": draw, "smooth": smooth}
    return key | {"rmse": round(found, 4), "estimate": round(fitted.estimated_rmse_ / found, 3)}


def run(epsilons: tuple[float, ...], draws: tuple[int, ...]) -> None:
    """Measure what the file does not hold."""
    done = read()
    for draw in draws:
        for tensor in SMOOTH:
            for epsilon in epsilons:
                for smooth in (False, True):
                    if (tensor, epsilon, draw, smooth) in done:
                        continue
                    row = measure(tensor, epsilon, draw, smooth)
                    print(row, flush=True)
                    with FILE.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")


def table() -> None:
    """Print mean errors over the draws that have both, and the change with its standard error over draws."""
    rows = read()
    print("| tensor | epsilon | draws | without | with | change |")
    print("|---|---|---|---|---|---|")
    for tensor in SMOOTH:
        for epsilon in EPSILONS:
            draws = [
                d for d in range(MOST_DRAWS) if all((tensor, epsilon, d, smooth) in rows for smooth in (False, True))
            ]
            if draws:
                plain, smooth = (
                    np.array([rows[tensor, epsilon, draw, kind]["rmse"] for draw in draws]) for kind in (False, True)
                )
                mean, doubt = plain.mean(), np.std(smooth - plain, ddof=1) / len(draws) ** 0.5
                change = f"{100 * (smooth.mean() / mean - 1):+.1f} +- {100 * doubt / mean:.1f} %"
                print(f"| {tensor} | {epsilon:g} | {len(draws)} | {mean:.4g} | {smooth.mean():.4g} | {change} |")


def main(arguments: list[str]) -> None:
    """Run what was asked for."""
    what, *rest = arguments or ["table"]
    if what == "table":
        table()
        return
    run((float(rest[0]),) if rest else EPSILONS, (int(rest[1]),) if len(rest) > 1 else DRAWS)


if __name__ == "__main__":
    main(sys.argv[1:])
