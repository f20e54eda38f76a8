"""Unit entry on the real tensors that are looked at while methods are designed: `auto` and `gram`, over the constant.

    python -m benchmarks.entries                             every tensor, epsilon 0.3 to 10, three draws: half an hour
    python -m benchmarks.entries --tensors ratings bikes     some of them

Needs TENSORVEIL_DATA. Prints rows of a table: mean over draws of the RMSE on held-out cells, as a share of the
constant's; how many of the held-out values lie within 90 % intervals; the release's own estimate of its RMSE over the
measured one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import tensorveil as tv
from benchmarks.real_tensors import BY_NAME, TENSORS, Problem, load_problem

EPSILONS, RANK = (0.3, 1.0, 3.0, 10.0), 8
OPEN = [tensor.name for tensor in TENSORS if not tensor.aside]


def measure(problem: Problem, bounds: tuple[float, float], method: str, epsilon: float, draw: int) -> list[float]:
    """Return the error over the constant's, the share of values within intervals, and the estimate over the error."""
    private = tv.PrivateCP(
        RANK, epsilon=epsilon, delta=0.0, unit="entry", bounds=bounds, shape=problem.train.shape, method=method,
        noise_seed=100 + draw, random_state=draw, threads=1,
    )  # fmt: skip
    predicted, low, high = private.fit(problem.train).predict(problem.held, interval=0.9)
    constant = float(np.sqrt(np.mean((problem.truth - np.mean(problem.train.values)) ** 2)))
    error = float(np.sqrt(np.mean((predicted - problem.truth) ** 2)))
    inside = float(np.mean((problem.truth >= low) & (problem.truth <= high)))
    return [error / constant, inside, (private.estimated_rmse_ or np.nan) / error]


def write_rows(names: Sequence[str], methods: Sequence[str], draws: int) -> None:
    """Print a row for every tensor and method."""
    for name in names:
        problem, bounds = load_problem(name), BY_NAME[name].bounds
        for method in methods:
            found = np.array([[measure(problem, bounds, method, e, d) for d in range(draws)] for e in EPSILONS])
            error, inside, estimate = np.mean(found, axis=1).T
            columns = [*(f"{each:.3f}" for each in error), _join(inside, 3), _join(estimate, 2)]
            print(f"| {name} | {method} | {' | '.join(columns)} |", flush=True)


def _join(numbers: np.ndarray, digits: int) -> str:
    return ", ".join(f"{number:.{digits}f}" for number in numbers)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.entries", description=__doc__)
    parser.add_argument("--tensors", nargs="*", default=OPEN, choices=OPEN)
    parser.add_argument("--methods", nargs="*", default=["auto", "gram"])
    parser.add_argument("--draws", type=int, default=3)
    options = parser.parse_args()
    write_rows(options.tensors, options.methods, options.draws)


if __name__ == "__main__":
    main()
