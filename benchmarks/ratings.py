"""What ratings gain from more than ratings, without privacy: `python -m benchmarks.ratings [choose | u1 | ml-1m]`.

MovieLens 100K, split u1, and MovieLens 1M, a random tenth held out (seeds 0, 1, 2). Beside the plain fit: which films
were rated (`implicit`), public tables (genres, year; age, gender, occupation), both, and the mean of four starts.
`choose` compares ranks on a tenth of u1's training ratings, and on another split of MovieLens 1M (seed 100); the others
use what it led to. One thread; seconds are of the processor. Results go to benchmarks/results/ratings.jsonl.
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
FILE = RESULTS / "ratings.jsonl"
Split = tuple[tv.ObservedTensor, tv.ObservedTensor]


def read_u1() -> tuple[Split, dict[str, pa.Table]]:
    """Return the split u1 of MovieLens 100K, and its tables."""
    with zipfile.ZipFile(data_folder() / "ml-100k" / "ml-100k.zip") as archive:
        lines = {
            name: archive.read(f"ml-100k/{name}").decode("latin-1").splitlines()
            for name in ("u1.base", "u1.test", "u.item", "u.user")
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
    return (part("u1.base"), part("u1.test")), tables


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


def run(data: str, seed: int, split: Split, tables: dict[str, pa.Table], names: list[str], rank: int) -> Iterator[dict]:
    """Fit with the settings of these names; yield errors of the held-out part."""
    train, test = split
    for name in names:
        start = time.process_time()
        fitted = tv.LowRankMatrix(rank, baseline="biases", threads=1, random_state=seed, **settings(tables)[name])
        fitted.fit(train)
        off = np.clip(fitted.predict(test), 1, 5) - test.values
        row = {"data": data, "seed": seed, "settings": name, "rank": rank}
        yield row | {
            "rmse": round(float(np.sqrt(np.mean(off**2))), 5),
            "sweeps": fitted.n_iter_,
            "seconds": round(time.process_time() - start, 1),
        }


def rows(what: str) -> Iterator[dict]:
    """Yield the rows of one part."""
    if what == "choose":
        (train, _), tables = read_u1()
        parts = random_split(train, 0.1, random_state=100)
        for rank in (8, 16, 32):
            yield from run("u1, a tenth of the training part", 100, (parts[0], parts[1]), tables, ["implicit"], rank)
        for rank in (16, 32):
            yield from run("ml-1m, seed 100", 100, *read_ml_1m(100), ["implicit"], rank)
    elif what == "u1":
        yield from run("u1", 0, *read_u1(), list(settings({})), RANK)
    else:
        for seed in (0, 1, 2):
            yield from run("ml-1m", seed, *read_ml_1m(seed), ["plain", "implicit", "implicit and tables"], RANK)


def main(arguments: list[str]) -> None:
    """Run what was asked for."""
    for what in arguments or ("choose", "u1", "ml-1m"):
        for row in rows(what):
            print(row, flush=True)
            with FILE.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
