"""Accuracy of private completion: `python -m benchmarks.private [reference] [movielens] [large] [grid] [overhead]`.

Noise is drawn by the exact samplers from a seeded source, so that figures can be drawn again; nothing here is private.
Every table holds the constant predictor and, where it is cheap, a well-solved fit without privacy.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np

import tensorveil as tv
from tensorveil.mechanisms import fitting as mechanism_fitting
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.data import Form
from tensorveil.mechanisms.planner import plan
from tensorveil.mechanisms.spend import Spend
from tensorveil.models import CPModel
from tensorveil.noise import Noisy, SecureSource, SeededSource
from tensorveil.privacy import Budget, Unit, gaussian_mu
from tensorveil.privacy.gate import PrivateValues
from tensorveil.privacy.private import Private
from tensorveil_evidence.studies.reference import CONSTANT, FIT_LINE, PROVEN_BOUNDS, Reference, rmse

WORKERS = int(os.environ.get("WORKERS", "2"))
RESULTS = Path(__file__).parent / "results"
REFERENCE_EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)


def write(name, rows, subject="private"):
    (RESULTS / f"{subject}-{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    heads = list(rows[0])
    print(f"\n### {name}\n\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        cells = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values())
        print("| " + " | ".join(cells) + " |", flush=True)


def in_parallel(function, cases):
    with ProcessPoolExecutor(WORKERS) as pool:
        return list(pool.map(function, cases, chunksize=1))


# The reference case


def reference_case(case):
    kind, seed, epsilon = case
    problem = Reference(kind, seed, panel=kind)
    if epsilon is None:
        errors = {row.method: row.value for row in problem.lines()}
        return errors[CONSTANT], errors[FIT_LINE]
    (row,) = problem.run_proven(["ours, auto"], [epsilon])
    return row.value, row.note


def reference(seeds=20):
    """20 x 20 x 20, rank 3, half missing, signal-to-noise ratio 1; error against clean held-out values."""
    rows = []
    for kind in ("cp", "tucker"):
        known = in_parallel(reference_case, [(kind, seed, None) for seed in range(seeds)])
        constant, open_fit = (float(np.mean(column)) for column in zip(*known, strict=True))
        for epsilon in REFERENCE_EPSILONS:
            found = in_parallel(reference_case, [(kind, seed, epsilon) for seed in range(seeds)])
            errors = [error for error, _ in found]
            rows.append(
                {
                    "model": kind,
                    "epsilon": epsilon,
                    "chosen": found[0][1],
                    "mean RMSE": float(np.mean(errors)),
                    "sd": float(np.std(errors)),
                    "constant": constant,
                    "of the constant's": float(np.mean(errors)) / constant,
                    "not private": open_fit,
                    "seeds": seeds,
                }
            )
    write("reference", rows)


# MovieLens


def movielens_case(case):
    split, epsilon, delta, seed = case
    train = tv.load_dataset("ml-100k", part=f"{split}.base")
    test = tv.load_dataset("ml-100k", part=f"{split}.test")
    if epsilon is None:
        return rmse(train.values.mean(), test.values), "constant"
    fit = tv.PrivateCP(
        10, epsilon=epsilon, delta=delta, unit="value", bounds=(1, 5), threads=1, random_state=seed,
        noise_seed=2000 + seed,
    ).fit(train)  # fmt: skip
    return fit.rmse(test), fit.plan_.method


def movielens(seeds=5):
    """Ratings, user x film, rating scale, method="auto"; pure epsilon and delta 1e-6."""
    rows = []
    for delta in (0.0, 1e-6):
        for epsilon in (1.0, 2.0, 5.0, 10.0):
            row = {"epsilon": epsilon, "delta": delta}
            for split in ("ua", "ub"):
                found = in_parallel(movielens_case, [(split, epsilon, delta, seed) for seed in range(seeds)])
                errors = [error for error, _ in found]
                row |= {"chosen": found[0][1], split: float(np.mean(errors)), f"{split} sd": float(np.std(errors))}
                row[f"{split} constant"] = movielens_case((split, None, None, None))[0]
            rows.append(row | {"draws": seeds})
    write("movielens", rows)


# Planted tensors of many shapes


@lru_cache(maxsize=4)
def planted(family, shape, rank, n, seed):
    """Return train columns, values, bounds, held-out columns and their clean values.

    "cp": equal components, signal-to-noise ratio 1, scaled to [0, 1] before noise. "typical": of the variance a quarter
    are biases, 35 % interactions whose components fall in strength, the rest noise; bounds five deviations wide.
    """
    if family == "cp":
        problem = tv.synthetic_cp(shape, rank, n_entries=int(n / 0.9), held_out=0.1, random_state=seed)
        train, held = problem.train, problem.held_out
        return train.columns, train.values, PROVEN_BOUNDS, held.columns, problem.clean_at(held.coords)
    rng = np.random.default_rng(seed)
    columns = np.stack([rng.integers(size, size=int(n / 0.9)) for size in shape]).astype(np.int32)
    columns = np.unique(columns, axis=1)
    biases = [rng.standard_normal(size) for size in shape]
    clean = sum(bias[column] for bias, column in zip(biases, columns, strict=True)) * np.sqrt(0.25 / len(shape))
    factors = [rng.standard_normal((size, rank)) for size in shape]
    products = np.prod([factor[column] for factor, column in zip(factors, columns, strict=True)], axis=0)
    strength = 1.0 / np.arange(1, rank + 1)
    clean += products @ np.sqrt(0.35 * strength / strength.sum())
    values = clean + np.sqrt(0.4) * rng.standard_normal(len(clean))
    held = rng.random(len(clean)) < 0.1
    return columns[:, ~held], values[~held], (-5.0, 5.0), columns[:, held], clean[held]


def planted_error(case):
    """Return the error of one method with one kind of noise on one planted tensor."""
    family, shape, rank, n, seed, epsilon, delta, method, noise = case
    columns, values, bounds, held, clean = planted(family, shape, rank, n, seed)
    data = PrivateValues(
        columns=np.ascontiguousarray(columns),
        values=Private(np.clip(values.astype(float), *bounds)),
        shape=shape,
        bounds=bounds,
    )
    source = SeededSource(seed + 17)
    spend = (
        Spend(source=source, epsilon=epsilon)
        if noise == "laplace"
        else Spend(source=source, mu=gaussian_mu(epsilon, delta))
    )
    form = Form(ranks=(rank,) * len(shape), core=False, sweeps=100, restarts=2, threads=1, seed=seed)
    began = time.perf_counter()
    solution = METHODS[method].run(data, form, spend).solution
    model = CPModel(factors=solution.factors, offset=solution.offset, biases=solution.biases, bounds=bounds)
    return rmse(model.predict(held.T), clean), time.perf_counter() - began


SHAPES = (
    ((20, 20, 20), 3, 3200),
    ((50, 50, 50), 3, 25_000),
    ((100, 100, 100), 3, 50_000),
    ((100, 100, 100), 5, 200_000),
    ((300, 200, 50), 4, 300_000),
    ((200, 200, 200), 5, 2_000_000),
    ((30, 30, 30, 30), 3, 80_000),
    ((500, 400), 3, 60_000),
    ((1000, 800), 5, 200_000),
    ((2000, 1000), 5, 100_000),
)
EPSILONS = (0.3, 1.0, 3.0, 10.0)
FIXED = ("mean", "margins", "tables", "input", "output", "gradient")
NAMES = ("staged", *FIXED)  # the first is what "auto" runs


def grid_cases(seed, largest, most):
    for family in ("cp", "typical"):
        for shape, rank, n in SHAPES:
            if n > most:
                continue
            if n > 1_000_000 and (family == "typical" or not largest):
                continue  # the largest tensor takes minutes, and has a table of its own
            for epsilon in EPSILONS:
                for delta in (0.0, 1e-6):
                    yield family, shape, rank, n, seed, epsilon, delta


def measure_grid(seed, largest, most):
    """Run every method on every case; with a delta, with both kinds of noise."""
    jobs = [
        (*case[:6], case[6], method, noise)
        for case in grid_cases(seed, largest, most)
        for method in NAMES
        for noise in (("laplace",) if case[6] == 0 else ("gaussian",))
    ]
    found = in_parallel(planted_error, jobs)
    return [
        dict(
            zip(("family", "shape", "rank", "n", "seed", "epsilon", "delta", "method", "noise"), job, strict=True),
            rmse=error,
            seconds=seconds,
        )
        for job, (error, seconds) in zip(jobs, found, strict=True)
    ]


def choices(measured):
    """Compare "auto" with the best fixed method, case by case; errors are means over draws."""
    errors = {}
    for row in measured:
        key = (row["family"], tuple(row["shape"]), row["rank"], row["n"], row["epsilon"])
        errors.setdefault(key, {}).setdefault((row["method"], row["noise"]), []).append(row["rmse"])
    rows = []
    for (family, shape, rank, n, epsilon), draws in errors.items():
        bounds = PROVEN_BOUNDS if family == "cp" else (-5.0, 5.0)
        for delta in (0.0, 1e-6):
            allowed = {key: float(np.mean(found)) for key, found in draws.items() if delta > 0 or key[1] == "laplace"}
            chosen = plan(
                shape=shape, n_entries=n, bounds=bounds, ranks=(rank,) * len(shape), core=False,
                budget=Budget(epsilon=epsilon, delta=delta), unit=Unit.value(),
            )  # fmt: skip
            choice = chosen.method, chosen.noise
            best = min((key for key in allowed if key[0] in FIXED), key=lambda key: allowed[key])
            lost = np.array(draws[choice]) / np.array(draws[best])
            rows.append(
                {
                    "family": family,
                    "shape": " x ".join(map(str, shape)),
                    "entries": n,
                    "rank": rank,
                    "epsilon": epsilon,
                    "delta": delta,
                    "chosen": ", ".join(choice),
                    "best": ", ".join(best),
                    "RMSE": allowed[choice],
                    "best RMSE": allowed[best],
                    "input": allowed["input", "laplace"],
                    "constant": allowed["mean", "laplace"],
                    "loss": allowed[choice] / allowed[best] - 1.0,
                    "least": float(lost.min()) - 1.0,
                    "most": float(lost.max()) - 1.0,
                    "draws": len(lost),
                }
            )
    return rows


def grid(seeds=3, first=0, most=2_000_000):
    """Does "auto" do well? Planted tensors of ten shapes, four budgets, with and without delta.

    ``grid=3,9`` draws seeds 9, 10, 11: not those that constants were set on. The largest tensor is drawn once.

    Means over draws of data and noise are compared; "least" and "most" are single draws against the method that is best
    on average. ``grid=1,30,3200`` leaves out tensors with more than so many entries.
    """
    measured = []
    for seed in range(first, first + seeds):
        measured += measure_grid(seed, seed == first, most)
        # kept, so that choices can be looked at again without computing
        (RESULTS / "private-grid-runs.json.tmp").write_text(json.dumps(measured))
    rows = choices(measured)
    write("grid", [row | {"first seed": first} for row in rows])
    summarise(rows)


def summarise(rows):
    losses = np.array([row["loss"] for row in rows])
    shares = ", ".join(f"within {most:.0%}: {np.mean(losses <= most):.0%}" for most in (0.01, 0.03, 0.05, 0.10))
    print(f"\n{len(rows)} cases: {shares}; worst {losses.max():.0%}")


def large(seeds=3):
    """200 x 200 x 200, 2 million entries, rank 5, signal-to-noise ratio 1: where central methods overtake input."""
    case = ("cp", (200, 200, 200), 5, 2_000_000)
    rows = []
    for delta, noise in ((0.0, "laplace"), (1e-6, "gaussian")):
        for epsilon in (0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0):
            row = {"epsilon": epsilon, "delta": delta}
            for method in ("mean", "input", "gradient", "output"):
                jobs = [(*case, seed, epsilon, delta, method, noise) for seed in range(seeds)]
                row[method] = float(np.mean([error for error, _ in in_parallel(planted_error, jobs)]))
            rows.append(row | {"seeds": seeds})
    columns, values, _, held, clean = planted(*case, 0)
    tensor = tv.ObservedTensor(columns.T, values, shape=case[1])
    open_fit = rmse(tv.CP(5, random_state=0).fit(tensor).predict(held.T), clean)
    write("large", [row | {"not private (one seed)": open_fit} for row in rows])


# What privacy costs in time


class Noiseless(Spend):
    """Stands in for a spend: the same statistics in plain floating point, without grid and without noise.

    It tells the same variances, so that the same is measured and decoded.
    """

    def split(self, *shares):
        return tuple(Noiseless(source=part.source, epsilon=part.epsilon) for part in super().split(*shares))

    def values(self, values, bounds, square=1.0, *, flags=False):
        return self.tell(values, self.noise_of_values(square), bounds[1] - bounds[0]), None

    def sums(self, values, low, high, groups, n_groups):
        return self.tell(np.bincount(groups, np.clip(values, low, high), minlength=n_groups), self.noise, high - low)

    def linear(self, weights, values, limit, groups, n_groups):
        found = np.stack([np.bincount(groups, w * values, minlength=n_groups) for w in weights.T], axis=1)
        return self.tell(found, self.noise, 2.0 * limit * float(np.sqrt(np.max(np.sum(weights**2, axis=1)))))

    def counts(self, groups, n_groups):
        return self.tell(np.bincount(groups, minlength=n_groups), self.noise, 2.0)

    def pair_products(self, values, limit, groups, counts):
        clipped = np.clip(values, -limit, limit)
        sums, squares = (np.bincount(groups, each, minlength=len(counts)) for each in (clipped, clipped**2))
        total = np.sum((sums**2 - squares)[counts > 1] / (counts[counts > 1] - 1))
        return self.tell(np.array([total]), self.noise, 4.0 * limit**2)

    def tell(self, values, noise, sensitivity):
        return Noisy(values=np.asarray(values, dtype=float), variance=noise * sensitivity**2, source_secure=False)


def overhead(rounds=5, most=2_000_000):
    """Time of each mechanism with secure noise over the same computation without noise, in turns; least of rounds.

    Both fit the same number of sweeps from random starts: noise changes when a fit converges, not what a sweep costs.
    """
    rows = []
    for shape, rank, n in (((100, 100, 100), 5, 200_000), ((943, 1682), 10, 90_000), ((200, 200, 200), 5, 2_000_000)):
        if n > most:
            continue
        columns, values, bounds, _, _ = planted("cp", shape, rank, n, 0)
        data = PrivateValues(
            columns=np.ascontiguousarray(columns),
            values=Private(np.clip(values.astype(float), *bounds)),
            shape=shape,
            bounds=bounds,
        )
        form = Form(ranks=(rank,) * len(shape), core=False, sweeps=50, restarts=1, threads=None, seed=0)
        for method in ("input", "output", "gradient"):
            times = {True: [], False: []}
            for _ in range(rounds):
                for private in (True, False):
                    spend = (Spend if private else Noiseless)(source=SecureSource(), epsilon=5.0)
                    with all_sweeps():
                        began = time.perf_counter()
                        METHODS[method].run(data, form, spend)
                        times[private].append(time.perf_counter() - began)
            rows.append(
                {
                    "shape": " x ".join(map(str, shape)),
                    "entries": n,
                    "method": method,
                    "seconds": min(times[True]),
                    "without noise": min(times[False]),
                    "ratio": min(times[True]) / min(times[False]),
                }
            )
    write("overhead", rows)


@contextmanager
def all_sweeps():
    """Let fits run all their sweeps, from random starts."""
    original = mechanism_fitting.Bayes
    mechanism_fitting.Bayes = lambda **settings: original(**(settings | {"tol": -1.0, "start": "random"}))
    try:
        yield
    finally:
        mechanism_fitting.Bayes = original


PARTS = {"reference": reference, "movielens": movielens, "large": large, "grid": grid, "overhead": overhead}


def main(names):
    warnings.filterwarnings("ignore")
    for name in names or PARTS:
        part, _, argument = name.partition("=")
        if part not in PARTS:
            sys.exit(f"unknown part; choose from {', '.join(PARTS)}")
        PARTS[part](*[int(each) for each in argument.split(",") if each])


if __name__ == "__main__":
    main(sys.argv[1:])
