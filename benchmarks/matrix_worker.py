"""What benchmarks.matrix times and measures, one task per process: python -m benchmarks.matrix_worker TASK JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import tensorveil as tv
from tensorveil.solvers.catalogue import MATRIX_SOLVERS
from tensorveil.solvers.task import Task
from tensorveil.solvers.watch import Watch
from tensorveil_evidence.studies.planted_matrix import RANK, observe, plant, rse

# The tests' dense reference is the dense form that is timed.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
import dense_matrix as dense


def laplace(size, seed, epsilon):
    """True Laplace noise of scale 1 / epsilon: low-rank estimates of every solver, at defaults and after 400 sweeps."""
    truth, mask, rng = plant(size, seed)
    n = int(mask.sum())
    tensor = observe(truth, mask, rng.laplace(0.0, 1.0 / epsilon, n))
    known = {"noise_variance": 2.0 / epsilon**2}
    fits = {
        "bayes": {"rank": RANK, **known},
        "bayes, Laplace law known": {"rank": RANK, **known, "noise_law": "laplace"},
        "bayes, rank auto": {"rank": "auto", **known},
        "bayes, noise unknown": {"rank": RANK},
        **{
            f"{solver}{name}": {"rank": RANK, "solver": solver, **more}
            for solver in ("dlnm_qr", "sor", "altmin")
            for name, more in (("", {}), (", 400 sweeps", {"sweeps": 400, "tol": 0.0}))
        },
    }
    out = {}
    for name, options in fits.items():
        start = time.perf_counter()
        fit = tv.LowRankMatrix(**options, baseline="none", random_state=seed).fit(tensor)
        out[name] = {"rse": rse(fit.dense(), truth), "rank": fit.rank_, "seconds": time.perf_counter() - start}
    free = RANK * (2 * size - RANK)
    limit = np.sqrt(2.0) / epsilon * np.sqrt(free / n) / np.sqrt(np.mean(truth**2))
    return out | {
        "constant": {"rse": rse(np.full_like(truth, tensor.values.mean()), truth)},
        "information limit": {"rse": float(limit)},
    }


def speed(size, seed, sweeps, solver, form, threads, dtype="float64"):
    """Seconds of a whole fit of so many sweeps, ours or the dense form; compilation is not counted."""
    truth, mask, rng = plant(size, seed)
    Y = np.where(mask, truth + rng.laplace(0.0, 0.3, truth.shape), 0.0).astype(dtype)
    tensor = observe(Y, mask)

    task = Task(
        entries=tensor.entries, ranks=(RANK, RANK), core=False, baseline="none",
        dtype=np.dtype(dtype), threads=threads, seed=0,
    )  # fmt: skip
    settings, solve = MATRIX_SOLVERS[solver]

    def ours(sweeps):
        # A tolerance below zero: not even a fit that stands still is stopped before all sweeps are made.
        watch = Watch(iterations=sweeps, tol=-1.0, patience=1)
        solution = solve(task, settings(sweeps=sweeps, tol=-1.0), watch)
        assert len(watch.history) == sweeps
        return solution.factors[0] @ solution.factors[1].T

    def plain(sweeps):
        scale = np.sqrt(np.mean(tensor.values**2))
        if solver == "sor":
            return scale * dense.sor(Y / scale, mask, RANK, sweeps)
        return scale * dense.dlnm_qr(Y / scale, mask, RANK, sweeps, None, 1.1)

    run = ours if form == "ours" else plain
    run(2)
    start, cpu = time.perf_counter(), time.process_time()
    estimate = run(sweeps)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "rse": rse(estimate, truth)}


def scale(rows, columns, per_row, solver, sweeps, threads):
    """A planted float32 matrix with so many entries in every row; seconds of a whole fit, and per sweep."""
    rng = np.random.default_rng(0)
    U, V = (rng.standard_normal((s, RANK), dtype=np.float32) for s in (rows, columns))
    places = np.empty((2, rows * per_row), dtype=np.int32)
    values = np.empty(rows * per_row, dtype=np.float32)
    # One entry at random in each of per_row strata of the columns: all different, and in order.
    stratum = columns // per_row
    for low in range(0, rows, 10_000):
        part = np.arange(low, min(low + 10_000, rows), dtype=np.int32)
        to = slice(low * per_row, (low + len(part)) * per_row)
        draws = rng.integers(0, stratum, (len(part), per_row), dtype=np.int32) + np.arange(per_row) * stratum
        places[0, to], places[1, to] = np.repeat(part, per_row), draws.ravel()
        values[to] = np.einsum("ir,ijr->ij", U[part], V[draws]).ravel()
        values[to] += 0.5 * rng.standard_normal(len(part) * per_row, dtype=np.float32)
    tensor = tv.ObservedTensor.from_columns(places, values, shape=(rows, columns))
    del places, values
    start, cpu = time.perf_counter(), []
    options = {"baseline": "none", "threads": threads, "random_state": 0}
    estimator = tv.LowRankMatrix(RANK, solver=solver, sweeps=sweeps, tol=0.0, **options)
    fit = estimator.fit(tensor, progress=lambda record: cpu.append(time.process_time()))
    seconds = time.perf_counter() - start
    history = [record.seconds for record in fit.history_]
    pairs = rng.integers(0, rows, 200_000), rng.integers(0, columns, 200_000)
    truth = np.einsum("ir,ir->i", U[pairs[0]], V[pairs[1]])
    return {
        "entries": tensor.n_entries,
        "seconds": seconds,
        "sweep": float(np.median(np.diff(history))),
        "cpu": float(np.median(np.diff(cpu))),
        "sweeps": len(history),
        "rse": rse(fit.predict(np.stack(pairs, axis=1)), truth),
    }


TASKS = {task.__name__: task for task in (laplace, speed, scale)}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
