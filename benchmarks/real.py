"""Private completion of real tensors, unit value: `python -m benchmarks.real run`, `table` or `check`.

`run` adds to `benchmarks/results/real.jsonl` every run that is not in it, a line each, so it may be stopped and started
again; remove the file when a method has changed. A run with a delta for which Laplace noise is chosen all the same is
the run without a delta, bit by bit; if that is in the file, its figures are copied. Tensors that are set aside
(`benchmarks/real_tensors.py`) run with `--aside` only. `table` prints errors and writes them into
docs/explanation/real-data.md, `check` compares them with the goals.

Noise is drawn by the exact samplers from a seeded source, so that figures can be drawn again; nothing here is private.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

import tensorveil as tv
from benchmarks.real_report import BASELINES, KEY, NOISY_TABLE, list_tables, read_rows, state_goals
from benchmarks.real_tensors import BY_NAME, TENSORS, load_problem
from tensorveil.mechanisms.names import BY_UNIT
from tensorveil.mechanisms.planner import plan
from tensorveil.privacy import Budget, Unit
from tensorveil_evidence.studies.reference import rmse

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "real-data.md"
BEGIN, END = "<!-- begin of the tables: python -m benchmarks.real table -->", "<!-- end of the tables -->"
METHODS = ("auto", *BY_UNIT["value"])
EPSILONS, DELTAS, DRAWS = (0.1, 0.3, 1.0, 3.0, 10.0, 20.0), (0.0, 1e-6), 3
RANK = 8
ENTRIES_PER_CELL = 20


# Runs


def list_runs(tensors, methods, epsilons, deltas, draws):
    """Yield the key of every run: first what is not private, then draw by draw."""
    for tensor in tensors:
        for baseline in BASELINES:
            yield tensor, baseline, None, 0.0, 0
    for draw in range(draws):
        for tensor in tensors:
            for epsilon in epsilons:
                yield tensor, NOISY_TABLE, epsilon, 0.0, draw
            for method in methods:
                for delta in deltas:
                    for epsilon in epsilons:
                        yield tensor, method, epsilon, delta, draw


def choose_table(shape, n_entries):
    """Return the modes of the table that has closest to so many entries per cell: two modes, of a matrix one."""
    tables = list(combinations(range(len(shape)), 2 if len(shape) > 2 else 1))
    wanted = n_entries / ENTRIES_PER_CELL
    return min(tables, key=lambda modes: abs(np.log(np.prod([shape[mode] for mode in modes]) / wanted)))


def predict_noisy_table(train, held, bounds, epsilon, rng):
    """Predict by the means of one table's cells: their sums with Laplace noise, their counts public."""
    modes = list(choose_table(train.shape, train.n_entries))
    sizes = [train.shape[mode] for mode in modes]
    cells, asked = (np.ravel_multi_index(columns[modes], sizes) for columns in (train.columns, held.T))
    counts = np.bincount(cells, minlength=np.prod(sizes))
    noise = rng.laplace(scale=(bounds[1] - bounds[0]) / epsilon, size=len(counts))
    sums = np.bincount(cells, train.values, len(counts)) + noise
    means = np.where(counts > 0, sums / np.maximum(counts, 1), sums[counts > 0].sum() / counts.sum())
    return np.clip(means, *bounds)[asked]


def auc(scores, truth):
    """Return how often a one has a higher score than a zero; ties count half."""
    ones = truth > 0.5
    pairs = ones.sum() * (~ones).sum()
    return float((rankdata(scores)[ones].sum() - ones.sum() * (ones.sum() + 1) / 2) / pairs) if pairs else None


def predict_baseline(problem, bounds, method, epsilon, draw):
    """Return predictions for the held-out cells."""
    train, held = problem.train, problem.held
    if method == "constant":
        return np.full(len(held), train.values.mean())
    if method == NOISY_TABLE:
        return predict_noisy_table(train, held, bounds, epsilon, np.random.default_rng(100 + draw))
    fit = tv.CP(RANK, solver=BASELINES[method], threads=1, random_state=0).fit(train)
    return np.clip(fit.predict(held), *bounds)


def complete(problem, bounds, method, epsilon, delta, draw):
    """Return predictions for the held-out cells, and facts about the release: noise, intervals, its own estimate."""
    fit = tv.PrivateCP(
        RANK, epsilon=epsilon, delta=delta, unit="value", bounds=bounds, method=method, threads=1, random_state=draw,
        noise_seed=100 + draw,
    ).fit(problem.train)  # fmt: skip
    if fit.estimated_rmse_ is None:
        return fit.predict(problem.held), {"noise": fit.plan_.noise}
    found, low, high = fit.predict(problem.held, interval=0.9)
    inside = float(np.mean((problem.truth >= low) & (problem.truth <= high)))
    return found, {"noise": fit.plan_.noise, "inside": inside, "estimate": fit.estimated_rmse_}


def measure(key):
    """Return the line of one run; what goes wrong is written into it."""
    warnings.filterwarnings("ignore")
    row = dict(zip(KEY, key, strict=True))
    try:
        real, problem = BY_NAME[row["tensor"]], load_problem(row["tensor"])
        began = time.perf_counter()
        method, epsilon, delta, draw = key[1:]
        if method in BASELINES or method == NOISY_TABLE:
            found = predict_baseline(problem, real.bounds, method, epsilon, draw)
            facts = {"noise": "laplace" if method == NOISY_TABLE else None}
        else:
            found, facts = complete(problem, real.bounds, method, epsilon, delta, draw)
        row |= facts | {
            "rmse": float(rmse(found, problem.truth)),
            "bias": float(found.mean() - problem.truth.mean()),
            "auc": auc(found, problem.truth) if real.kind == "yes/no" else None,
            "seconds": round(time.perf_counter() - began, 3),
        }
        if row["method"] == "constant":
            facts = {"shape": problem.train.shape, "entries": problem.train.n_entries}
            row |= facts | {"mean": float(problem.truth.mean())}
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"[:200]
    return row


def choose_noise(key):
    """Return the noise that is chosen for a run of a private method: public facts decide."""
    tensor, method, epsilon, delta, _ = key
    train = load_problem(tensor).train
    chosen = plan(
        shape=train.shape, n_entries=train.n_entries, bounds=BY_NAME[tensor].bounds, ranks=(RANK,) * train.order,
        core=False, budget=Budget(epsilon=epsilon, delta=delta), unit=Unit.value(), method=method,
    )  # fmt: skip
    return chosen.noise


def copy_rows(keys, done):
    """Yield the rows of runs that are in the file without a delta, which they do not use."""
    for key in keys:
        twin = done.get((*key[:3], 0.0, key[4]))
        if key[3] > 0 and twin is not None and choose_noise(key) == twin["noise"] == "laplace":
            yield twin | {"delta": key[3], "copied": True}


def run(keys, path, workers):
    """Run what the file does not hold yet, or holds with an error; add a line for each."""
    drop_cut_line(path)
    done = {tuple(row[name] for name in KEY): row for row in read_rows(path) if "error" not in row}
    missing = [key for key in keys if key not in done]
    copied = list(copy_rows(sorted(missing, key=lambda key: key[0]), done))
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in copied)
    known = {tuple(row[name] for name in KEY) for row in copied}
    missing = [key for key in missing if key not in known]
    print(f"{len(copied)} copied, {len(missing)} runs", flush=True)
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        with path.open("a", encoding="utf-8") as file:
            for future in as_completed([pool.submit(measure, key) for key in missing]):
                row = future.result()
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(*(row[name] for name in KEY), row.get("error") or f"{row['rmse']:.5g}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)


def drop_cut_line(path):
    """Remove a last line that was not written to its end."""
    if path.exists():
        text = path.read_text(encoding="utf-8")
        path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")


# The command


def write_page(text):
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def choose_tensors(names, aside):
    """Return the names of tensors to run; those that are set aside only all at once, and when asked for."""
    if aside:
        return [tensor.name for tensor in TENSORS if tensor.aside]
    usual = [tensor.name for tensor in TENSORS if not tensor.aside]
    if unknown := [name for name in names or () if name not in usual]:
        sys.exit(f"unknown or set aside: {', '.join(unknown)}. Choose from {', '.join(usual)}, or give --aside.")
    return names or usual


def listed(kind):
    return lambda text: [kind(each.strip()) for each in text.split(",")]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS / "real.jsonl")
    verbs = parser.add_subparsers(dest="verb", required=True)
    of_run = verbs.add_parser("run", help="add what was not measured yet to the results")
    which = of_run.add_mutually_exclusive_group()
    which.add_argument("--tensors", type=listed(str), help="names with commas between them")
    which.add_argument("--aside", action="store_true", help="the tensors that are set aside, and no others")
    of_run.add_argument("--methods", type=listed(str), default=METHODS)
    of_run.add_argument("--epsilons", type=listed(float), default=EPSILONS)
    of_run.add_argument("--delta", type=listed(float), default=DELTAS)
    of_run.add_argument("--draws", type=int, default=DRAWS)
    of_run.add_argument("--workers", type=int, default=2)
    for verb, meaning in (("table", "print errors, and write them into the page"), ("check", "evaluate the goals")):
        reading = verbs.add_parser(verb, help=meaning)
        reading.add_argument("--against", type=Path, default=RESULTS / "real-before.jsonl", help="older results")
    options = parser.parse_args(arguments)
    if options.verb == "run":
        if "TENSORVEIL_DATA" not in os.environ:
            sys.exit("The tensors are in the data folder: set TENSORVEIL_DATA to its path.")
        if unknown := [name for name in options.methods if name not in METHODS]:
            sys.exit(f"unknown methods: {', '.join(unknown)}. Choose from {', '.join(METHODS)}.")
        tensors = choose_tensors(options.tensors, options.aside)
        runs = list_runs(tensors, options.methods, options.epsilons, options.delta, options.draws)
        os.environ["OMP_NUM_THREADS"] = "1"  # for the workers, which start afresh
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that workers end too, after what they are at
        run(list(runs), options.results, options.workers)
        return
    rows, before = read_rows(options.results), read_rows(options.against)
    if options.verb == "table":
        text = list_tables(rows)
        write_page(text)
        print(text)
    else:
        print(state_goals(rows, before))


if __name__ == "__main__":
    main()
