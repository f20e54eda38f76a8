"""What ratings gain from more than ratings, without privacy: `python -m benchmarks.ratings [PART ...]`.

MovieLens 100K, split u1, and MovieLens 1M, a random tenth held out (seeds 0, 1, 2). Beside the plain fit: which films
were rated (`implicit`), public tables (genres, year; age, gender, occupation), both, and the mean of four starts.
`choose` compares ranks on a tenth of u1's training ratings, and on another split of MovieLens 1M (seed 100); `u1` and
`ml-1m` use what it led to. `chosen` and `chosen-1m` choose rank and settings anew on a tenth of each split's own
training ratings, and then fit those and look at the test part once: u1 to u5, and fresh seeds of MovieLens 1M. One
thread; seconds are of the processor. Results go to benchmarks/results/ratings.jsonl.
"""

from __future__ import annotations

import json
import sys
import time
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import tensorveil as tv
from benchmarks.private import RESULTS
from benchmarks.users import data_folder, films, films_table
from tensorveil.tensor import random_split

RANK = 16
# What is compared on a part of the training ratings, and which splits are looked at once after that.
RANKS, SETTINGS = (8, 16), ("implicit", "implicit and tables")
SPLITS, FRESH_SEEDS = ("u1", "u2", "u3", "u4", "u5"), (3, 4, 5)
FILE = RESULTS / "ratings.jsonl"
Split = tuple[tv.ObservedTensor, tv.ObservedTensor]


def read_ml_100k(split: str) -> tuple[Split, dict[str, pa.Table]]:
    """Return one of the splits u1 to u5 of MovieLens 100K, and its tables."""
    with zipfile.ZipFile(data_folder() / "ml-100k" / "ml-100k.zip") as archive:
        lines = {
            name: archive.read(f"ml-100k/{name}").decode("latin-1").splitlines()
            for name in (f"{split}.base", f"{split}.test", "u.item", "u.user")
        }

    def part(name: str) -> tv.ObservedTensor:
        rows = np.array([line.split("\t")[:3] for line in lines[name]], dtype=np.int64)
        return tv.ObservedTensor(rows[:, :2] - 1, rows[:, 2].astype(float), (943, 1682), modes=("user", "film"))

    items = [line.split("|") for line in lines["u.item"]]
    people = [line.split("|") for line in lines["u.user"]]
    genres = [[str(k) for k in range(19) if item[5 + k] == "1"] for item in items]
    years = [float(item[2][-4:]) if item[2] else None for item in items]
    users = {"age": [float(each[1]) for each in people], "gender": [each[2] for each in people]}
    tables = {
        "film": pa.table({"film": range(1682), "genres": genres, "year": years}),
        "user": pa.table({"user": range(943), **users, "work": [each[3] for each in people]}),
    }
    return (part(f"{split}.base"), part(f"{split}.test")), tables


def read_ml_1m(seed: int) -> tuple[Split, dict[str, pa.Table]]:
    """Return a split of MovieLens 1M, and its tables."""
    text = (data_folder() / "ml-1m" / "users.dat").read_text("latin-1")
    people = [line.split("::") for line in text.splitlines()]
    columns = {"gender": [each[1] for each in people], "age": [f"from {each[2]}" for each in people]}
    users = pa.table({"user": range(len(people)), **columns, "work": [f"kind {each[3]}" for each in people]})
    return films(seed), {"film": films_table(), "user": users}


def settings(tables: dict[str, pa.Table]) -> dict[str, dict[str, Any]]:
    """Return what is compared."""
    return {
        "plain": {},
        "implicit": {"implicit": True},
        "tables": {"side": tables},
        "implicit and tables": {"implicit": True, "side": tables},
        "tables of chance": {"side": {name: chance(table) for name, table in tables.items()}},
        "implicit, mean of four": {"implicit": True, "restarts": 4, "keep": "mean"},
    }


def chance(table: pa.Table) -> pa.Table:
    """Return a table of as many rows that says nothing."""
    rng = np.random.default_rng(0)
    name = table.column_names[0]
    return pa.table({name: table[name], **{f"column {k}": rng.standard_normal(len(table)) for k in range(20)}})


def run(
    data: str, seed: int, split: Split, tables: dict[str, pa.Table], names: list[str], rank: int, starts: int = 1
) -> Iterator[dict]:
    """Fit with the settings of these names; yield errors of the held-out part."""
    train, test = split
    more = {"restarts": starts, "keep": "mean"} if starts > 1 else {}
    for name in names:
        start, chosen = time.process_time(), settings(tables)[name] | more
        fitted = tv.LowRankMatrix(rank, baseline="biases", threads=1, random_state=seed, **chosen)
        fitted.fit(train)
        off = np.clip(fitted.predict(test), 1, 5) - test.values
        row = {"data": data, "seed": seed, "settings": name, "rank": rank}
        yield row | {
            "rmse": round(float(np.sqrt(np.mean(off**2))), 5),
            "sweeps": fitted.n_iter_,
            "seconds": round(time.process_time() - start, 1),
        }


def choose_then_fit(data: str, seed: int, split: Split, tables: dict[str, pa.Table], starts: int) -> Iterator[dict]:
    """Choose settings and rank on a tenth of the training ratings; yield the error of their fit, which is seen once."""
    part, held, *_ = random_split(split[0], 0.1, random_state=100)
    tried = [  # with `choose` rank 32 was worse for five times the time
        row
        for rank in RANKS
        for row in run(f"{data}, a tenth of the training part", seed, (part, held), tables, list(SETTINGS), rank)
    ]
    yield from tried
    best = min(tried, key=lambda row: row["rmse"])
    for number in {1, starts}:
        for row in run(data, seed, split, tables, [best["settings"]], best["rank"], number):
            yield row | {"settings": f"chosen: {row['settings']}", "starts": number}


def rows(what: str) -> Iterator[dict]:
    """Yield the rows of one part."""
    if what == "choose":
        (train, _), tables = read_ml_100k("u1")
        parts = random_split(train, 0.1, random_state=100)
        for rank in (8, 16, 32):
            yield from run("u1, a tenth of the training part", 100, (parts[0], parts[1]), tables, ["implicit"], rank)
        for rank in (16, 32):
            yield from run("ml-1m, seed 100", 100, *read_ml_1m(100), ["implicit"], rank)
    elif what == "u1":
        yield from run("u1", 0, *read_ml_100k("u1"), list(settings({})), RANK)
    elif what == "chosen" or what in SPLITS[1:]:
        for name in SPLITS if what == "chosen" else (what,):
            yield from choose_then_fit(name, 0, *read_ml_100k(name), 4)
    elif what == "chosen-1m":
        for seed in FRESH_SEEDS:
            yield from choose_then_fit("ml-1m", seed, *read_ml_1m(seed), 1)
    else:
        for seed in (0, 1, 2):
            yield from run("ml-1m", seed, *read_ml_1m(seed), ["plain", "implicit", "implicit and tables"], RANK)


def main(arguments: list[str]) -> None:
    """Run what was asked for."""
    for what in arguments or ("choose", "u1", "ml-1m", "chosen", "chosen-1m"):
        for row in rows(what):
            print(row, flush=True)
            with FILE.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
