"""Reading 10 million rows of Parquet with three text columns into an observed tensor, against polars.

    python -m benchmarks.reading

polars reads the file and encodes the text columns as categories; ours also sorts the labels, looks for duplicates and
non-finite values, and builds the tensor. Both take turns, warmed up; the least of all repeats counts.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import tensorveil as tv

ROWS, REPEATS = 10_000_000, 5
SIZES = {"user": 10_000, "film": 5_000, "week": 500}


def write_file(path):
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, np.prod(list(SIZES.values())), ROWS + ROWS // 100))
    cells = rng.permutation(cells)[:ROWS]
    columns = dict(zip(SIZES, np.unravel_index(cells, tuple(SIZES.values())), strict=True))
    names = {name: np.array([f"{name}-{k:06d}" for k in range(size)]) for name, size in SIZES.items()}
    frame = pl.DataFrame({name: names[name][columns[name]] for name in SIZES} | {"value": rng.random(ROWS)})
    frame.write_parquet(path)


def with_polars(path):
    frame = pl.read_parquet(path)
    return frame.with_columns([pl.col(name).cast(pl.Categorical).to_physical() for name in SIZES])


def seconds(run, path):
    began = time.perf_counter()
    run(path)
    return time.perf_counter() - began


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_file(path)
        with_polars(path), tv.read(path)
        pairs = [(seconds(tv.read, path), seconds(with_polars, path)) for _ in range(REPEATS)]
    ours, theirs = (min(column) for column in zip(*pairs, strict=True))
    result = {"rows": ROWS, "ours": ours, "polars": theirs, "ratio": ours / theirs, "pairs": [a / b for a, b in pairs]}
    (Path(__file__).parent / "results" / "reading.json").write_text(json.dumps(result, indent=1) + "\n")
    print(
        f"ours {ours:.2f} s, polars {theirs:.2f} s, ratio {ours / theirs:.2f}; each pair",
        *(f"{a / b:.2f}" for a, b in pairs),
    )


if __name__ == "__main__":
    main()
