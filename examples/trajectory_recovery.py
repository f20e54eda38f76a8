"""Recover trajectories with gaps: how far a car would have come, from speeds that are missing for hours.

    TENSORVEIL_DATA=/path/to/data python examples/trajectory_recovery.py

The data are road speeds, not traces of people: 214 roads of Guangzhou, seven days, every ten minutes (Chen, Chen and
He 2018). A trajectory here is that of a car which drives along one road at its measured speed: where it is after t
hours is the sum of the speeds until t. The matrix has a row per road and day and a column per ten minutes. Gaps of two
hours are cut out of every row until 70 % are missing, as where a device was silent; the task is to fill them.

Beside the fits stand the mean of every time of day, and straight lines across each gap. The privacy unit is `value`:
one speed of one road in ten minutes. A car, or a person, that contributes to many speeds is not hidden by this.
"""

from __future__ import annotations

import argparse

import numpy as np

import tensorveil as tv

BOUNDS, BUDGETS = (0.0, 100.0), (1.0, 5.0, 20.0)
GAP, MINUTES = 12, 10


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", type=float, default=0.7, help="share of the speeds to take away")
    options = parser.parse_args()
    speeds = load_speeds()
    seen = with_gaps(speeds.shape, options.missing, np.random.default_rng(0))
    left = np.where(seen, speeds, np.nan)
    observed = tv.ObservedTensor.from_dense(left, modes=["trip", "slot"], bounds=BOUNDS)
    print(f"{len(speeds)} trajectories of {speeds.shape[1]} steps, {1 - seen.mean():.0%} of the steps missing")
    print(f"{'':34} speed, km/h   place at night, km")
    report("mean of the time of day", np.broadcast_to(np.nanmean(left, axis=0), speeds.shape), speeds, seen)
    report("straight lines across gaps", lines(left), speeds, seen)
    plain = tv.LowRankMatrix("auto", random_state=0).fit(observed)
    report(f"low-rank matrix, rank {plain.rank_} found", plain.dense(), speeds, seen)
    for epsilon in BUDGETS[::-1]:
        private = tv.PrivateLowRankMatrix(
            "auto", epsilon=epsilon, delta=0.0, unit="value", bounds=BOUNDS, restarts=1, random_state=0
        ).fit(observed)
        report(f"epsilon {epsilon:g}, {private.plan_.method}", private.dense(), speeds, seen, keep=False)
    print("Private trajectories are the model's alone; the others keep the speeds that were seen.")


def load_speeds() -> np.ndarray:
    """Return (road and day, slot) of the roads and days without missing speeds."""
    roads = tv.load_dataset("guangzhou").to_dense()
    trips = roads.transpose(0, 2, 1).reshape(-1, roads.shape[1])
    return trips[~np.isnan(trips).any(axis=1)]


def with_gaps(shape: tuple[int, int], missing: float, rng: np.random.Generator) -> np.ndarray:
    """Return which steps are seen, after gaps at random places."""
    seen = np.ones(shape, dtype=bool)
    for row in seen:
        while row.mean() > 1 - missing:
            start = rng.integers(1 - GAP, shape[1])
            row[max(start, 0) : start + GAP] = False
    return seen


def lines(left: np.ndarray) -> np.ndarray:
    """Fill every row by straight lines between what was seen before and after."""
    steps = np.arange(left.shape[1])
    rows = [np.interp(steps, steps[~np.isnan(row)], row[~np.isnan(row)]) for row in left]
    return np.array(rows)


def report(name: str, estimate: np.ndarray, speeds: np.ndarray, seen: np.ndarray, keep: bool = True) -> None:
    """Print the error of the missing speeds, and of the distance covered until midnight."""
    error = np.sqrt(np.mean((estimate - speeds)[~seen] ** 2))
    path = np.where(seen, speeds, estimate) if keep else estimate
    distance = (path - speeds).sum(axis=1) * MINUTES / 60
    print(f"  {name:32} {error:11.2f} {np.sqrt(np.mean(distance**2)):20.1f}")


if __name__ == "__main__":
    main()
