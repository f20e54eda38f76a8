"""Tensors of counts and of links, planted and real, that several benchmarks share; and processor seconds."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv

DATA = Path(os.environ.get("TENSORVEIL_DATA", "data"))
RESULTS = Path(__file__).parent / "results"


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return processor seconds and the result."""
    began = time.process_time()
    out = work()
    return time.process_time() - began, out


def write_rows(name: str, rows: list[dict[str, Any]]) -> None:
    """Keep results."""
    (RESULTS / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")


def links(name: str, part: str) -> Any:
    """Read triples as text, (n, 3)."""
    return np.loadtxt(DATA / "relational" / name / f"{part}.txt", dtype=str, delimiter="\t")


def relational(name: str, *, inverse: bool = False) -> dict[str, tv.ObservedTensor]:
    """Return the standard splits as tensors of known links, all else zero.

    With ``inverse`` every relation is there a second time, from tail to head, and so is every link.
    """
    parts = {part: links(name, part) for part in ("train", "valid", "test")}
    every = np.concatenate(list(parts.values()))
    people = sorted({*every[:, 0], *every[:, 2]})
    relations = sorted(set(every[:, 1]))
    names = [*relations, *(f"{relation}, backwards" for relation in relations)] if inverse else relations
    modes = [tv.Mode("head", people), tv.Mode("relation", names), tv.Mode("tail", people)]
    shape = tuple(len(mode.labels) for mode in modes)  # type: ignore[arg-type]
    out = {}
    for part, rows in parts.items():
        columns = np.stack([mode.encode(rows[:, m]) for m, mode in enumerate(modes)], 1)
        if inverse:
            columns = np.concatenate([columns, columns[:, ::-1] + [0, len(relations), 0]])
        out[part] = tv.ObservedTensor(columns, np.ones(len(columns)), shape, modes=modes, unlisted="zero")
    return out


def listed(x: Any) -> tv.ObservedTensor:
    """Return the cells of a dense array that are not zero."""
    coords = np.argwhere(x != 0)
    return tv.ObservedTensor(coords, x[tuple(coords.T)].astype(float), shape=x.shape, unlisted="zero")


def taxi_trips() -> tuple[Any, Any]:
    """Return pick-up zone, drop-off zone, weekday and hour (n, 4) of January's trips, and how many there were."""
    with np.load(DATA / "nyc-taxi-2023-01" / "od_day_hour_counts.npz") as file:
        cells = np.stack([file["pu"] - 1, file["do"] - 1, file["day"] % 7, file["hour"]], 1).astype(np.int64)
        return cells, file["count"].astype(float)


def purchases() -> Any:
    """Return customer, item and month (n, 3) of every line of an invoice."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(DATA / "tensor-online-retail" / "online_retail.parquet")
    bought = table.filter(pc.and_(pc.greater(table["quantity"], 0), pc.is_valid(table["customer"])))
    month = pc.add(pc.multiply(pc.year(bought["time"]), 12), pc.month(bought["time"]))
    columns = [bought["customer"], bought["stock_code"].combine_chunks().indices, month]
    return np.stack([np.unique(np.asarray(column), return_inverse=True)[1] for column in columns], 1)


def crimes() -> Any:
    """Return weekday, hour, area and type (n, 4) of every report."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(DATA / "tensor-chicago-crime-2022" / "crimes_2022.parquet")
    date = table["date"]
    columns = [pc.day_of_week(date), pc.hour(date), table["community_area"], pc.cast(table["primary_type"], "string")]
    return np.stack([np.unique(np.asarray(column), return_inverse=True)[1] for column in columns], 1)


def count_problems() -> dict[str, tv.ObservedTensor]:
    """Return real counts, all cells that are not listed being zero."""
    taxi, trips = taxi_trips()
    retail = purchases()
    options: dict[str, Any] = {"duplicates": "sum", "unlisted": "zero"}
    return {
        "taxi, zone x zone x weekday x hour": tv.ObservedTensor(taxi, trips, **options),
        "retail, customer x item x month": tv.ObservedTensor(retail, np.ones(len(retail)), **options),
    }


def busiest(columns: Any, counts: Any, keep: dict[int, int]) -> Any:
    """Return a dense tensor of the indices of some modes that have the largest totals."""
    columns = columns.copy()
    shape = [int(size) for size in columns.max(axis=0) + 1]
    chosen = np.ones(len(columns), bool)
    for mode, most in keep.items():
        best = np.argsort(-np.bincount(columns[:, mode], counts), kind="stable")[:most]
        place = np.full(shape[mode], -1)
        place[best] = np.arange(len(best))
        columns[:, mode] = place[columns[:, mode]]
        chosen &= columns[:, mode] >= 0
        shape[mode] = len(best)
    x = np.zeros(shape)
    np.add.at(x, tuple(columns[chosen].T), counts[chosen])
    return x
