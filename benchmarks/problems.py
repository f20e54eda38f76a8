"""The problems measured, and the one file format shared with the peer."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Problem:
    name: str
    shape: tuple[int, ...]
    entries: int


T2 = Problem(name="T2", shape=(10_000, 5_000, 500), entries=10_000_000)
T3 = Problem(name="T3", shape=(100_000, 20_000, 1_000), entries=20_000_000)
MATRIX = Problem(name="matrix", shape=(10_000, 5_000), entries=5_000_000)
TINY = Problem(name="tiny", shape=(1_000, 500, 50), entries=200_000)
PROBLEMS = {p.name: p for p in (T2, T3, MATRIX, TINY)}


def planted(problem: Problem, seed: int = 0, rank: int = 4) -> tuple[Array, Array]:
    """Uniform coordinates, values of a planted low-rank model plus noise, as (order, n) int32 and float32."""
    rng = np.random.default_rng(seed)
    columns = np.stack([rng.integers(0, s, problem.entries, dtype=np.int32) for s in problem.shape])
    factors = [rng.random((s, rank), dtype=np.float32) for s in problem.shape]
    values = np.empty(problem.entries, dtype=np.float32)
    for low in range(0, problem.entries, 1 << 20):
        part = slice(low, low + (1 << 20))
        product = np.ones((len(columns[0][part]), rank), dtype=np.float32)
        for column, factor in zip(columns, factors, strict=True):
            product *= factor[column[part]]
        values[part] = product.sum(1) + 0.1 * rng.standard_normal(len(product), dtype=np.float32)
    return columns, values


def write_binary(path: Path, problem: Problem, columns: Array, values: Array) -> None:
    """Write SPLATT's binary coordinate format with 32-bit indices and values."""
    with path.open("wb") as out:
        out.write(struct.pack("<iQQ", 0, 4, 4))
        out.write(struct.pack(f"<{len(problem.shape) + 2}I", len(problem.shape), *problem.shape, problem.entries))
        columns.astype(np.uint32).tofile(out)
        values.astype(np.float32).tofile(out)


def read_binary(path: Path, dtype: str) -> tuple[tuple[int, ...], Array, Array]:
    """Read the same file: shape, (order, n) int32 coordinates, values of the wanted type."""
    with path.open("rb") as source:
        source.seek(20)
        (order,) = struct.unpack("<I", source.read(4))
        *shape, n = struct.unpack(f"<{order + 1}I", source.read(4 * (order + 1)))
        columns = np.fromfile(source, dtype=np.int32, count=order * n).reshape(order, n)
        values = np.fromfile(source, dtype=np.float32, count=n).astype(dtype, copy=False)
    return tuple(shape), columns, values
