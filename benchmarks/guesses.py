"""Guesses of `plan` beside what was then achieved: `python -m benchmarks.guesses [slice] [entry] [means] [open]`.

The declared spread and number of entries are the true ones, so that what is measured is the guess and not the
declaration. Errors are about clean values where they are known (planted), else about held-out ones, where the guess
includes the noise of observations. Noise is drawn from seeds; nothing here is private.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

import tensorveil as tv
from benchmarks.private import planted, write
from tensorveil.local import choose
from tensorveil.noise import SeededSource
from tensorveil.runs.plan import PlanRun, plan_budgets
from tensorveil_evidence.studies.reference import rmse

SLICE_EPSILONS = (0.3, 1.0, 3.0, 10.0, 30.0)
ENTRY_EPSILONS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
DELTA = 1e-6
# Name, shape, rank, number of entries.
PLANTED_SLICES = (
    ("planted", (2000, 300), 3, 60_000),
    ("planted", (20_000, 1000), 5, 1_000_000),
    ("planted", (5000, 200, 20), 3, 500_000),
)
REAL_SLICES = (
    ("ml-100k", (1, 5), 8),
    ("ml-1m", (1, 5), 8),
    ("guangzhou", (0, 100), 4),
    ("covid19-serology", (-5, 5), 3),
)
PLANTED_ENTRIES = (
    ((100, 80), 2, 4000),
    ((1000, 500), 2, 100_000),
    ((60, 50, 40), 3, 60_000),
    ((200, 20, 10), 2, 20_000),
    ((943, 1682), 4, 90_000),
    ((300, 40), 1, 10_000),
)


class Case:
    """Training entries, cells to predict, what is true there, and whether that is without noise."""

    def __init__(self, name, train, held, truth, bounds, rank, clean):
        self.name, self.train, self.held, self.truth = name, train, held, truth
        self.bounds, self.rank, self.clean = bounds, rank, clean

    def guess(self, unit, epsilons, delta):
        values = np.clip(np.asarray(self.train.values, dtype=float), *self.bounds)
        run = PlanRun(
            bounds=self.bounds, epsilons=epsilons, delta=delta, unit=unit, shape=self.train.shape,
            entries=self.train.n_entries, rank=self.rank, spread=float(values.std()),
        )  # fmt: skip
        found = plan_budgets(run)
        return {each.epsilon: each.rmse if self.clean else found.held_out(each) for each in found.budgets}


def plant(name, shape, rank, n, seed):
    columns, values, bounds, held, clean = planted("typical", shape, rank, n, seed)
    train = tv.ObservedTensor(columns.T, values, shape=shape)
    return Case(f"{name} {' x '.join(map(str, shape))}", train, held.T, clean, bounds, rank, True)


def load_real(name, bounds, rank, seed):
    known = tv.load_dataset(name)
    values = np.clip(np.asarray(known.values, dtype=float), *bounds)
    order = np.random.default_rng(seed).permutation(known.n_entries)
    held, seen = np.split(order, [known.n_entries // 10])
    coords = np.asarray(known.coords)
    train = tv.ObservedTensor(coords[seen], values[seen], shape=known.shape)
    return Case(name, train, coords[held], values[held], bounds, rank, False)


def compare(case: Case, unit, epsilons, delta, fit) -> Iterator[dict[str, object]]:
    """Yield guess and measured error at every budget."""
    guesses = case.guess(unit, epsilons, delta)
    for epsilon in epsilons:
        errors = [fit(case, epsilon, seed) for seed in (1, 2)]
        actual = float(np.sqrt(np.mean(np.square(errors))))
        yield {
            "tensor": case.name, "rank": case.rank, "epsilon": epsilon, "delta": delta, "guess": guesses[epsilon],
            "actual": actual, "ratio": guesses[epsilon] / actual, "runs": len(errors),
            "constant": float(np.std(case.truth)), "about": "clean" if case.clean else "held-out",
        }  # fmt: skip


def fit_users(case, epsilon, seed):
    train = case.train.with_modes(("user", *(f"mode {m}" for m in range(1, case.train.order))))
    fitted = tv.UserLevelCP(
        case.rank, epsilon=epsilon, delta=DELTA, unit="slice:user", bounds=case.bounds, shape=train.shape, threads=1,
        random_state=seed, noise_seed=seed,
    ).fit(train)  # fmt: skip
    return rmse(fitted.predict_for(train, case.held), case.truth)


def fit_entries(delta):
    def fit(case, epsilon, seed):
        fitted = tv.PrivateCP(
            case.rank, epsilon=epsilon, delta=delta, unit="entry", bounds=case.bounds, shape=case.train.shape,
            threads=1, random_state=seed, noise_seed=seed,
        ).fit(case.train)  # fmt: skip
        return rmse(fitted.predict(case.held), case.truth)

    return fit


def run_slices():
    """Whole users: planted and real tensors."""
    rows = []
    cases = [(plant, case) for case in PLANTED_SLICES] + [(load_real, case) for case in REAL_SLICES]
    for make, case in cases:
        rows += compare(make(*case, 7), "slice:user", SLICE_EPSILONS, DELTA, fit_users)
        write("slice", rows, "guesses")


def run_entries():
    """Single entries: planted tensors, and films."""
    rows = []
    for make, case in [(plant, ("planted", *each)) for each in PLANTED_ENTRIES] + [(load_real, ("ml-100k", (1, 5), 2))]:
        made = make(*case, 7)
        for delta in (0.0, DELTA):
            rows += compare(made, "entry", ENTRY_EPSILONS, delta, fit_entries(delta))
    write("entry", rows, "guesses")


def run_means():
    """Means of local reports of people who all hold the worst tensor."""
    rows = []
    for size in (1, 10, 100):
        for epsilon in (0.5, 2.0, 8.0):
            best = choose((size,), epsilon, "tensor", bounds=(0.0, 1.0)).candidates[0]
            worst, source = best.mechanism.worst_tensor(), SeededSource(size)
            people, draws = 500, max(200, 4000 // size)
            errors = [
                best.mechanism.perturb(np.broadcast_to(worst, (people, size)), source=source).mean(axis=0) - worst
                for _ in range(draws)
            ]
            actual = float(np.sqrt(np.mean(np.square(errors))))
            computed = best.mean_rmse(people)
            rows.append(
                {
                    "entries": size, "epsilon": epsilon, "mechanism": best.name, "people": people, "draws": draws,
                    "computed": computed, "actual": actual, "ratio": computed / actual,
                }
            )  # fmt: skip
    write("means", rows, "guesses")


def run_open():
    """What a fit without privacy leaves of the variance of held-out values: at most that much is their noise."""
    rows = []
    for name, bounds, _ in REAL_SLICES:
        case = load_real(name, bounds, 8, 7)
        fitted = tv.CP(8, baseline="biases", sweeps=30, threads=1, random_state=0).fit(case.train)
        rows.append({"tensor": name, "left": (rmse(fitted.predict(case.held), case.truth) / np.std(case.truth)) ** 2})
    write("open", rows, "guesses")


PARTS = {"slice": run_slices, "entry": run_entries, "means": run_means, "open": run_open}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
