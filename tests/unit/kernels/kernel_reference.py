"""The kernels' answers by plain loops, written from the formulas alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np


def problem(shape: tuple[int, ...], n: int, seed: int = 0, dtype: Any = np.float64) -> Any:
    """Random entries; the first row of every mode stays without entries."""
    rng = np.random.default_rng(seed)
    columns = np.stack([rng.integers(1, s, n) for s in shape]).astype(np.int32)
    return columns, rng.normal(size=n).astype(dtype)


def factors(shape: tuple[int, ...], ranks: Any, seed: int = 1, scale: float = 0.5) -> Any:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(s, r)) * scale for s, r in zip(shape, ranks, strict=True)]


def superdiagonal(order: int, rank: Any) -> Any:
    core = np.zeros((rank,) * order)
    core[(np.arange(rank),) * order] = 1.0
    return core


def contract(core: Any, rows: Any, skip: Any = None) -> Any:
    """The core contracted with all rows, or with all but one."""
    out = core
    for m in reversed(range(core.ndim)):
        if m != skip:
            out = np.tensordot(out, rows[m], axes=(m, 0))
    return out


def predict(columns: Any, core: Any, matrices: Any, biases: Any, offset: Any) -> Any:
    out = np.empty(columns.shape[1])
    for p, index in enumerate(columns.T):
        rows = [a[i] for a, i in zip(matrices, index, strict=True)]
        out[p] = offset + sum(b[i] for b, i in zip(biases, index, strict=False)) + contract(core, rows)
    return out


def squared_error(columns: Any, values: Any, core: Any, matrices: Any, biases: Any, offset: Any) -> Any:
    """The sum of squared errors over entries."""
    want = predict(columns, core, [a.astype(float) for a in matrices], [b.astype(float) for b in biases], offset)
    return float(((values.astype(float) - want) ** 2).sum())


def sgd(
    entries: Any,
    core: Any,
    matrices: Any,
    biases: Any,
    offset: Any,
    step: Any,
    decay: Any,
    core_decay: Any,
    *,
    move_core: Any,
) -> Any:
    """One joint step per entry, from old values; changes copies and returns (sse, core, matrices, biases)."""
    core, matrices, biases = core.copy(), [a.copy() for a in matrices], [b.copy() for b in biases]
    total = 0.0
    for index, x in entries:
        rows = [a[i].copy() for a, i in zip(matrices, index, strict=True)]
        constant = offset + sum(b[i] for b, i in zip(biases, index, strict=False))
        error = x - constant - contract(core, rows)
        total += error**2
        steps = [contract(core, rows, skip=m) for m in range(len(rows))]
        if move_core:
            outer = rows[0]
            for row in rows[1:]:
                outer = np.multiply.outer(outer, row)
            core = (1 - core_decay) * core + step * error * outer
        for m, i in enumerate(index):
            matrices[m][i] = (1 - decay) * rows[m] + step * error * steps[m]
            if biases:
                biases[m][i] = (1 - decay) * biases[m][i] + step * error
    return total, core, matrices, biases


def sgd_in_batches(
    batches: Any,
    shared: Any,
    core: Any,
    matrices: Any,
    biases: Any,
    offset: Any,
    step: Any,
    decay: Any,
    core_decay: Any,
) -> Any:
    """As sgd, but the core moves once per batch, and a row of the shared mode once per run of entries that have it."""
    core, matrices, biases = core.copy(), [a.copy() for a in matrices], [b.copy() for b in biases]
    total = 0.0
    for batch in batches:
        new_core = (1 - core_decay) ** len(batch) * core
        for row, run in ((row, list(run)) for row, run in groupby(batch, key=lambda entry: entry[0][shared])):
            new_row = (1 - decay) ** len(run) * matrices[shared][row]
            for entry in run:
                old = matrices[shared][row].copy()
                one = sgd([entry], core, matrices, biases, offset, step, decay, 0.0, move_core=True)
                squared, core_step, matrices, biases = one
                total += squared
                new_core += core_step - core
                new_row += matrices[shared][row] - (1 - decay) * old
                matrices[shared][row] = old
            matrices[shared][row] = new_row
        core = new_core
    return total, core, matrices, biases


def published(
    entries: Any,
    core: Any,
    matrices: Any,
    biases: Any,
    offset: Any,
    step: Any,
    decay: Any,
    core_decay: Any,
    *,
    move_core: Any,
) -> Any:
    """One mode after the other, each from the values then current."""
    core, matrices, biases = core.copy(), [a.copy() for a in matrices], [b.copy() for b in biases]

    def error_at(index: Any, x: Any) -> Any:
        rows = [a[i] for a, i in zip(matrices, index, strict=True)]
        return x - offset - sum(b[i] for b, i in zip(biases, index, strict=False)) - contract(core, rows), rows

    total = 0.0
    for index, x in entries:
        total += error_at(index, x)[0] ** 2
        for m, i in enumerate(index):
            error, rows = error_at(index, x)
            matrices[m][i] = (1 - decay) * rows[m] + step * error * contract(core, rows, skip=m)
            if biases:
                biases[m][i] = (1 - decay) * biases[m][i] + step * error
        if move_core:
            error, rows = error_at(index, x)
            outer = rows[0]
            for row in rows[1:]:
                outer = np.multiply.outer(outer, row)
            core = (1 - core_decay) * core + step * error * outer
    return total, core, matrices, biases


def least_squares(
    columns: Any,
    values: Any,
    core: Any,
    matrices: Any,
    biases: Any,
    offset: Any,
    mode: Any,
    ridge: Any,
    ridge_per_entry: Any,
) -> Any:
    """Rows of one mode (and their biases) by solving each row's ridge regression."""
    rows_out, bias_out = np.zeros_like(matrices[mode]), np.zeros(len(matrices[mode]))
    rank = matrices[mode].shape[1]
    for i in range(len(rows_out)):
        chosen = np.flatnonzero(columns[mode] == i)
        if len(chosen) == 0:
            continue
        design, target = [], []
        for p in chosen:
            index = columns[:, p]
            rows = [a[k] for a, k in zip(matrices, index, strict=True)]
            design.append(contract(core, rows, skip=mode))
            rest = sum(b[k] for m, (b, k) in enumerate(zip(biases, index, strict=False)) if m != mode)
            target.append(values[p] - offset - rest)
        H = np.array(design)
        if biases:
            H = np.c_[H, np.ones(len(H))]
        weight = ridge + ridge_per_entry * len(chosen)
        solution = np.linalg.solve(H.T @ H + weight * np.eye(H.shape[1]), H.T @ np.array(target))
        rows_out[i] = solution[:rank]
        if biases:
            bias_out[i] = solution[rank]
    return rows_out, bias_out


def tile_entries(tiles: Any, schedule: Any) -> Iterator[Any]:
    """(coordinates, value) in the order of a schedule; per stratum and thread."""
    for stratum in schedule:
        for thread in stratum:
            for tile in thread:
                for p in range(tiles.starts[tile], tiles.starts[tile + 1]):
                    yield tuple((tiles.coords[:, p].astype(np.int64) + tiles.bases[:, tile]).tolist()), tiles.values[p]


def tile_batches(tiles: Any, schedule: Any, shared: Any, size: Any, order_of: Any) -> Iterator[Any]:
    """Lists of (coordinates, value): tiles sorted by their rows in one mode and cut; order_of(tile, n) orders them."""
    for stratum in schedule:
        for tile in (tile for thread in stratum for tile in thread):
            entries = list(tile_entries(tiles, [[[tile]]]))
            entries.sort(key=lambda entry: entry[0][shared])
            batches = [entries[k : k + size] for k in range(0, len(entries), size)]
            yield from (batches[k] for k in order_of(tile, len(batches)))
