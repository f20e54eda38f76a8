"""Private counts and links, unit entry with unlisted zeros: `python -m benchmarks.private_counts [links ...]`.

links   nations and UMLS, standard splits: AUC of held-out links among all cells that are in no split
counts  taxi trips and purchases: four fifths of the events are fitted, Poisson deviance of the others, cell by cell
seen    taggings by user, year and month, once looked at and then used to mend what lost there
aside   reports of crime by month, hour, area and type, and visits of people to pages: looked at once, at the end
tables  how far low-order tables of synthetic tensors are from the true ones; with --peer FILE beside those of a peer

Beside ours are the constant, one-way tables that get the whole budget, the fit without privacy and, for links, tables
of all cells under randomised response and unit value with every cell listed, which protect the same.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import tensorveil as tv
from benchmarks.count_data import DATA, count_problems, listed, relational
from tensorveil.mechanisms import counts as mechanism
from tensorveil.models.measures import auc
from tensorveil.solvers.losses import LOSSES
from tensorveil.tensor.unlisted import known_cells

RESULTS = Path(__file__).parent / "results" / "private-counts.json"
EPSILONS, SEEDS = (1.0, 3.0, 10.0), range(3)
RANKS = {"nations": 8, "umls": 16}
MOST_LISTED = 200_000  # cells of a tensor that are written down for unit value
VALUE = "unit value, every cell listed"
ONLY: list[str] = []  # methods to measure, if not all
THREADS = int(os.environ.get("THREADS", "1"))


def release(tensor: tv.ObservedTensor, rank: int, epsilon: float, high: float, seed: int) -> Any:
    """Fit ours."""
    estimator = tv.PrivateCP(
        rank, epsilon=epsilon, delta=0.0, unit="entry", bounds=(0.0, high), shape=tensor.shape, noise_seed=seed,
        random_state=seed, threads=THREADS,
    )  # fmt: skip
    return estimator.fit(tensor)


def release_ones(*arguments: Any) -> Any:
    """Fit ours, but spend everything on one-way tables."""
    with patch.object(mechanism._Run, "share_twos", lambda *_: {}), patch.object(mechanism, "_MOST_PERTURBED", 0):
        return release(*arguments)


def randomise(tensor: tv.ObservedTensor, rank: int, epsilon: float, high: float, seed: int) -> Any:
    """Flip every cell by randomised response, and fit what is left of the signal."""
    rng, keep = np.random.default_rng(seed), 1.0 / (1.0 + math.exp(-epsilon))
    dense = tensor.to_dense()
    told = np.where(rng.random(dense.shape) < keep, dense, 1.0 - dense)
    unbiased = (told - (1.0 - keep)) / (2.0 * keep - 1.0)
    return tv.CP(rank, random_state=seed, sweeps=30, threads=THREADS).fit(tv.ObservedTensor.from_dense(unbiased))


def release_values(tensor: tv.ObservedTensor, rank: int, epsilon: float, high: float, seed: int) -> Any:
    """Fit unit value with every cell listed, which protects the same, decoded as counts or as yes and no."""
    every = tv.ObservedTensor.from_dense(tensor.to_dense())
    options: dict[str, Any] = {"noise_seed": seed, "random_state": seed, "threads": THREADS}
    options["loss"] = "bernoulli" if high == 1.0 else "poisson"
    return tv.PrivateCP(rank, epsilon=epsilon, delta=0.0, unit="value", bounds=(0.0, high), **options).fit(every)


def chosen(methods: dict[str, Any]) -> Any:
    """Return the methods that are to be measured."""
    return [(name, make) for name, make in methods.items() if not ONLY or name in ONLY]


def of_links() -> list[dict[str, Any]]:
    """Rank held-out links among cells that are in no split."""
    rows: list[dict[str, Any]] = []
    for name, rank in RANKS.items():
        parts = relational(name)
        train, test = parts["train"], parts["test"]
        unknown = np.ones(train.shape, dtype=bool)
        for part in parts.values():
            unknown[tuple(part.columns)] = False

        def judge(fit: Any, test: Any = test, unknown: Any = unknown) -> float:
            scores = fit.model_.dense()
            yes, no = scores[tuple(test.columns)], scores[unknown]
            return auc(np.repeat([1.0, 0.0], [len(yes), len(no)]), np.concatenate([yes, no]))

        plain = tv.CP(32, loss="bernoulli", regularization=0.5, random_state=0, threads=THREADS).fit(train)
        rows.append({"data": name, "method": "without privacy", "auc": [judge(plain)]})
        methods = {"one-way tables": release_ones, "ours": release}
        if math.prod(train.shape) < 100_000:
            methods |= {"randomised response": randomise, VALUE: release_values}
        for method, make in chosen(methods):
            for epsilon in EPSILONS:
                found = [judge(make(train, rank, epsilon, 1.0, seed)) for seed in SEEDS]
                rows.append({"data": name, "method": method, "epsilon": epsilon, "auc": found})
                print(rows[-1], flush=True)
    return rows


def of_counts() -> list[dict[str, Any]]:
    """Predict held-out events."""
    return measure_counts(count_problems(), {name: 1024.0 if "taxi" in name else 64.0 for name in count_problems()})


def measure_counts(problems: dict[str, Any], highs: dict[str, float], rank: int = 16) -> list[dict[str, Any]]:
    """Fit four fifths of the events of count tensors, and predict the others."""
    rows: list[dict[str, Any]] = []
    for name, tensor in problems.items():
        rng = np.random.default_rng(0)
        kept = rng.binomial(tensor.values.astype(int), 0.8).astype(float)
        train = tensor.with_values(kept).take(kept > 0).with_modes([f"m{m}" for m in range(tensor.order)])
        train = tv.ObservedTensor(train.columns.T, train.values, shape=tensor.shape, unlisted="zero")
        rest = tensor.values - kept
        cells = known_cells(tensor.with_values(rest).take(rest > 0))
        poisson, high = LOSSES["poisson"], highs[name]

        def judge(predict: Any, cells: Any = cells, poisson: Any = poisson) -> dict[str, float]:
            raw = np.asarray(predict(cells.columns.T), dtype=np.float64) / 4
            value = poisson.value(cells.values, np.log(np.maximum(raw, 1e-6)))
            weights = cells.weights
            bias = float(np.sum(weights * raw) / np.sum(weights * cells.values) - 1)
            return {"deviance": float(np.sum(weights * value) / weights.sum()), "bias": bias}

        mean = float(kept.sum() / math.prod(tensor.shape))
        rows.append({"data": name, "method": "constant", **judge(lambda at: np.full(len(at), mean))})  # noqa: B023
        plain = tv.CP(
            rank, loss="poisson", nonnegative=True, regularization=1.0, random_state=0, threads=THREADS, sweeps=8
        ).fit(train)
        rows.append({"data": name, "method": "without privacy", **judge(plain.predict)})
        methods = {"one-way tables": release_ones, "ours": release}
        if math.prod(train.shape) <= MOST_LISTED:
            methods[VALUE] = release_values
        for method, make in chosen(methods):
            for epsilon in EPSILONS:
                for seed in SEEDS:
                    start = time.process_time()
                    fit = make(train, rank, epsilon, high, seed)
                    facts = {"data": name, "method": method, "epsilon": epsilon, "seed": seed}
                    seconds = time.process_time() - start
                    rows.append({**facts, **judge(fit.predict), "seconds": seconds, "notes": fit.notes_})
                    print(rows[-1], flush=True)
    return rows


def taggings() -> Any:
    """Return how often a user of Last.fm tagged in a month of the last six years."""
    with np.load(DATA / "tensor-lastfm-2k" / "lastfm_2k.npz") as file:
        users, years, months = file["tag_user"], file["tag_year"], file["tag_month"]
    users, kept = np.unique(users, return_inverse=True)[1], years >= np.unique(years)[-6]
    dense = np.zeros((int(users.max()) + 1, 6, 12))
    np.add.at(dense, (users[kept], years[kept] - np.unique(years)[-6], months[kept] - 1), 1)
    return listed(dense)


def crimes() -> Any:
    """Return how many crimes of a type were reported in an area of Chicago, by month and hour."""
    import pyarrow.parquet as pq

    table = pq.read_table(DATA / "tensor-chicago-crime-2022" / "crimes_2022.parquet")
    date = table["date"].to_numpy(zero_copy_only=False).astype("datetime64[m]").astype(np.int64)
    months = (date.astype("datetime64[m]").astype("datetime64[M]") - np.datetime64("2022-01")).astype(int)
    types = np.unique(table["primary_type"].to_numpy(zero_copy_only=False), return_inverse=True)[1]
    areas = table["community_area"].to_numpy(zero_copy_only=False).astype(float)
    kept = np.isfinite(areas) & (areas >= 1)
    dense = np.zeros((11, 24, 77, int(types.max()) + 1))
    at = (months[kept], (date[kept] // 60) % 24, areas[kept].astype(int) - 1, types[kept])
    np.add.at(dense, at, 1)
    return listed(dense)


def of_visits() -> list[dict[str, Any]]:
    """Fit four fifths of people's visits to pages; rank the others among random cells that nobody is known to visit."""
    with np.load(DATA / "msweb-37k" / "msweb.npz") as file:
        pairs = np.stack([file["train_user"], file["train_area"]], axis=1).astype(np.int64)
    pairs = np.stack([np.unique(column, return_inverse=True)[1] for column in pairs.T], axis=1)
    shape = tuple(int(size) + 1 for size in pairs.max(axis=0))
    rng = np.random.default_rng(0)
    fitted = rng.random(len(pairs)) < 0.8
    other = np.stack([rng.integers(0, size, 200_000) for size in shape], axis=1)
    other = other[~np.isin(other[:, 0] * shape[1] + other[:, 1], pairs[:, 0] * shape[1] + pairs[:, 1])]
    train = tv.ObservedTensor(pairs[fitted], np.ones(int(fitted.sum())), shape=shape, unlisted="zero")

    def judge(fit: Any) -> float:
        yes, no = (np.asarray(fit.predict(cells), dtype=float) for cells in (pairs[~fitted], other))
        return auc(np.repeat([1.0, 0.0], [len(yes), len(no)]), np.concatenate([yes, no]))

    plain = tv.CP(16, loss="bernoulli", regularization=0.5, random_state=0, threads=THREADS).fit(train)
    rows: list[dict[str, Any]] = [{"data": "visits", "method": "without privacy", "auc": [judge(plain)]}]
    for method, make in (("one-way tables", release_ones), ("ours", release)):
        for epsilon in EPSILONS:
            fits = [make(train, 16, epsilon, 1.0, seed) for seed in SEEDS]
            facts = {"data": "visits", "method": method, "epsilon": epsilon, "notes": fits[0].notes_}
            rows.append({**facts, "auc": [judge(fit) for fit in fits]})
            print(rows[-1], flush=True)
    return rows


def of_aside() -> list[dict[str, Any]]:
    """Measure what was kept aside."""
    return [*measure_counts({"crimes": crimes()}, {"crimes": 64.0}), *of_visits()]


def distances(true: Any, drawn: Any) -> dict[str, float]:
    """Return the total variation distance of one-way, two-way and all-way tables, as shares of the true total."""
    order, total = true.ndim, float(true.sum())
    found: dict[str, float] = {}
    for ways in range(1, order + 1):
        each = []
        for modes in combinations(range(order), ways):
            others = tuple(mode for mode in range(order) if mode not in modes)
            each.append(float(np.abs(true.sum(axis=others) - drawn.sum(axis=others)).sum()) / (2.0 * total))
        found[f"{ways}-way"] = float(np.mean(each))
    return found


def of_tables(peer: Path | None) -> list[dict[str, Any]]:
    """Compare tables of synthetic tensors; a peer's draws are NAME-METHOD-EPSILON-SEED.npz with ``coords``."""
    rows: list[dict[str, Any]] = []
    for name, rank in RANKS.items():
        train = relational(name)["train"]
        true = train.to_dense().astype(float)
        for epsilon in EPSILONS:
            for method, make in (("one-way tables", release_ones), ("ours", release)):
                for seed in SEEDS:
                    drawn = tv.synthesise(make(train, rank, epsilon, 1.0, seed), seed=seed).to_dense()
                    facts = {"data": name, "method": method, "epsilon": epsilon, "seed": seed}
                    rows.append({**facts, **distances(true, drawn.astype(float))})
        for file in sorted(peer.glob(f"{name}-*.npz")) if peer else ():
            _, method, epsilon_text, seed_text = file.stem.split("-")
            drawn = np.zeros(true.shape)
            with np.load(file) as content:
                np.add.at(drawn, tuple(content["coords"].T), 1.0)
            facts = {"data": name, "method": method, "epsilon": float(epsilon_text), "seed": int(seed_text)}
            rows.append({**facts, **distances(true, drawn)})
    for row in rows:
        print(row, flush=True)
    return rows


def main() -> None:
    """Measure what was asked for, and keep what was measured before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["links", "counts", "seen", "aside", "tables"])
    parser.add_argument("--peer", type=Path, help="folder of a peer's draws, for tables")
    parser.add_argument("--only", action="append", default=[], help="a method; rows of others are kept as they are")
    given = parser.parse_args()
    ONLY.extend(given.only)
    warnings.simplefilter("ignore")
    parts: dict[str, Callable[[], Any]] = {
        "links": of_links,
        "counts": of_counts,
        "seen": lambda: measure_counts({"taggings": taggings()}, {"taggings": 64.0}, 8),
        "aside": of_aside,
        "tables": lambda: of_tables(given.peer),
    }
    for part in given.parts:
        rows = parts[part]()
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if ONLY:
            rows = [row for row in kept.get(part, []) if row["method"] not in ONLY] + [
                row for row in rows if row["method"] in ONLY
            ]
        RESULTS.write_text(json.dumps(kept | {part: rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
