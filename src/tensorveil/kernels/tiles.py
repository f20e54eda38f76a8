"""Tiles: the order in which stochastic gradient descent visits the entries.

Threads. Every mode is cut into T parts of about equal numbers of entries. A block is one part of every mode. The T
blocks (t, t + d1, t + d2, ...) of a stratum (d1, d2, ...) share no row in any mode, so T threads may work on them
at once without races, and the result depends on T but never on timing.

Caches. Parts of the largest modes are cut further, so that the factor rows of one tile stay near the processor.
Entries are shuffled within their tile once; tiles and strata are shuffled anew for every pass.

Legend
    m, p, q         mode; entry in the order given; entry in the order of the layout
    s, t            stratum; thread, which is also the part of the first mode that it works on
    part, piece     which of the T parts of a mode a row lies in, and which tile of that part
    key             per row of a mode, what it adds to the number of its tile: the sum over modes is the tile
    local, bases    number of a row within its tile; first row of every tile, (order, tiles)
    first           where a mode's stretch of ``key`` and ``local`` begins
    positions       (stretches, tiles) where each stretch puts its next entry of a tile; see kernels/sorting.py

Tiles are numbered block by block, and within a block piece by piece, so that a block is a range of tiles. Coordinates
are kept relative to their tile, which lets 16 bits do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.sorting import below, count_column, next_random, permute, start_positions
from tensorveil.kernels.threads import ranges, thread_count, workers

Array = NDArray[Any]

# Rows of one tile may take this much of a core's own second-level cache, per tiled mode. Smaller tiles of a sparse
# tensor would not use a row often enough to pay for fetching it.
_TILE_BYTES = 256 * 1024
# A tile with fewer entries than this costs more to enter than its locality saves.
_MIN_ENTRIES = 8192
# A thread with fewer entries than this per block costs more to start than it saves.
_MIN_BLOCK = 1024
_UINT16 = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """Entries in the order of their tiles; see :func:`build_tiles`.

    ``coords[m, p] + bases[m, tile]`` is the coordinate of entry ``p`` in mode ``m``; the entries of a tile are
    ``starts[tile]:starts[tile + 1]``; ``blocks[s, t]`` lists the first and the end tile of thread t in stratum s.
    """

    shape: tuple[int, ...]
    threads: int
    seed: int
    coords: Array
    values: Array
    starts: Array
    bases: Array
    blocks: Array

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(a.nbytes for a in (self.coords, self.values, self.starts, self.bases, self.blocks))

    def schedule(self, pass_index: int) -> list[list[Array]]:
        """Return for every stratum, in this pass's order, the tiles of every thread in this pass's order."""
        strata = len(self.blocks)
        key = int(next_random(np.uint64(self.seed)) ^ next_random(np.uint64(pass_index + 1)))
        order = permute(strata, np.uint64(key))
        return [
            [
                int(first) + permute(int(end - first), np.uint64((key + 1 + s * self.threads + t) % (1 << 64)))
                for t, (first, end) in enumerate(self.blocks[s])
            ]
            for s in order.tolist()
        ]


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """Where every row of every mode belongs: lookup tables, all modes one behind the other."""

    first: Array  # where a mode's table starts
    key: Array  # what a row adds to the number of its tile
    local: Array  # the row's number within its tile
    bases: Array  # (order, tiles): first row of the tile
    blocks: Array  # (strata, threads, 2): first and end tile


def build_tiles(
    columns: Array,
    values: Array,
    shape: tuple[int, ...],
    rank_bytes: int,
    threads: int | None = None,
    seed: int = 0,
    dtype: DTypeLike | None = None,
    tile_bytes: int = _TILE_BYTES,
    tile_entries: int = _MIN_ENTRIES,
) -> Tiles:
    """Arrange entries for :func:`cp_sgd_pass` and :func:`tucker_sgd_pass`.

    ``columns`` is (order, n) of integers; ``rank_bytes`` the bytes of one padded factor row; ``threads`` the number
    of threads a pass will use (less if a mode is too small). ``tile_bytes`` bounds the rows of a tile per tiled mode,
    ``tile_entries`` is the least number of entries worth a tile. The result is a pure function of the arguments.
    """
    asked = thread_count(threads)
    counts = _row_counts(columns, shape, asked)
    used = _usable_threads(asked, shape, columns.shape[1])
    pieces = _pieces(shape, columns.shape[1], rank_bytes, used, tile_bytes, tile_entries)
    plan = _plan(counts, shape, pieces, used)
    small = plan.local.max(initial=0) < _UINT16
    coords = np.empty(columns.shape, dtype=np.uint16 if small else np.int32)
    target = np.empty(columns.shape[1], dtype=np.dtype(dtype) if dtype is not None else values.dtype)
    starts = _scatter(columns, values, plan, coords, target, asked)
    tiles = Tiles(
        shape=tuple(shape), threads=used, seed=seed, coords=coords, values=target, starts=starts, bases=plan.bases,
        blocks=plan.blocks,
    )  # fmt: skip
    _shuffle(tiles, asked)
    return tiles


def _row_counts(columns: Array, shape: tuple[int, ...], threads: int) -> list[Array]:
    counts = [np.zeros(size, dtype=np.int64) for size in shape]
    with workers(min(threads, len(shape))) as run:
        run([partial(count_column, c, 0, len(c), k) for c, k in zip(columns, counts, strict=True)])
    return counts


def _usable_threads(threads: int, shape: tuple[int, ...], n: int) -> int:
    used = min(threads, *shape)
    # Each block should be worth starting a thread for; the number of blocks grows with the order.
    while used > 1 and used ** len(shape) * _MIN_BLOCK > n:
        used -= 1
    return max(1, used)


def _pieces(
    shape: tuple[int, ...], n: int, rank_bytes: int, threads: int, tile_bytes: int, tile_entries: int
) -> list[int]:
    """Into how many tiles one part of each mode is cut."""
    wanted = [-(-size * rank_bytes // (threads * tile_bytes)) for size in shape]
    # Only the two largest modes: more would leave too few entries per tile.
    tiled = sorted(range(len(shape)), key=lambda m: -shape[m])[:2]
    pieces = [wanted[m] if m in tiled else -(-size // (threads * _UINT16)) for m, size in enumerate(shape)]
    blocks = threads ** len(shape)
    while np.prod(pieces) * blocks * tile_entries > n and max(pieces) > 1:
        largest = int(np.argmax(pieces))
        pieces[largest] = -(-pieces[largest] // 2)
    return pieces


def _plan(counts: list[Array], shape: tuple[int, ...], pieces: list[int], threads: int) -> _Plan:
    order = len(shape)
    per_block = int(np.prod(pieces))
    keys, locals_, edges = [], [], []
    for m in range(order):
        cuts = _cuts(counts[m], threads, pieces[m])
        tile = np.repeat(np.arange(threads * pieces[m]), np.diff(cuts))
        part, piece = np.divmod(tile, pieces[m])
        stride = int(np.prod(pieces[m + 1 :], dtype=np.int64))
        keys.append((part * threads ** (order - 1 - m) * per_block + piece * stride).astype(np.int32))
        locals_.append((np.arange(shape[m]) - cuts[tile]).astype(np.int32))
        edges.append(cuts[:-1])
    bases = np.empty((order, threads**order * per_block), dtype=np.int64)
    grid = np.indices((threads,) * order + tuple(pieces)).reshape(2 * order, -1)
    for m in range(order):
        bases[m] = edges[m][grid[m] * pieces[m] + grid[order + m]]
    first = np.concatenate([[0], np.cumsum(shape)[:-1]]).astype(np.int64)
    blocks = _strata(order, threads, per_block)
    return _Plan(first=first, key=np.concatenate(keys), local=np.concatenate(locals_), bases=bases, blocks=blocks)


def _cuts(counts: Array, threads: int, pieces: int) -> Array:
    """Rows where tiles start, and the end: parts with equal entries, cut into pieces with equal rows."""
    rows = len(counts)
    cumulative = np.concatenate([[0], np.cumsum(counts)])
    targets = cumulative[-1] * np.arange(1, threads) / threads
    inner = np.searchsorted(cumulative, targets)
    # Every part keeps at least one row, so that no block is empty by construction.
    low, high = np.arange(1, threads), rows - np.arange(threads - 1, 0, -1)
    inner = np.maximum.accumulate(np.clip(inner, low, high) - low) + low
    parts = np.concatenate([[0], inner, [rows]])
    starts = [parts[t] + (parts[t + 1] - parts[t]) * np.arange(pieces) // pieces for t in range(threads)]
    return np.concatenate([*starts, [rows]]).astype(np.int64)


def _strata(order: int, threads: int, per_block: int) -> Array:
    shifts = list(itertools.product(range(threads), repeat=order - 1))
    blocks = np.empty((len(shifts), threads, 2), dtype=np.int64)
    for s, shift in enumerate(shifts):
        for t in range(threads):
            block = 0
            for part in (t, *((t + d) % threads for d in shift)):
                block = block * threads + part
            blocks[s, t] = block * per_block, (block + 1) * per_block
    return blocks


def _scatter(columns: Array, values: Array, plan: _Plan, coords: Array, target: Array, threads: int) -> Array:
    n, tiles = columns.shape[1], plan.bases.shape[1]
    stretches = ranges(n, threads)
    positions = np.zeros((len(stretches), tiles), dtype=np.int64)
    starts = np.empty(tiles + 1, dtype=np.int64)
    tables = (plan.first, plan.key)
    with workers(len(stretches)) as run:
        run([partial(_count_tiles, columns, a, b, *tables, positions[t]) for t, (a, b) in enumerate(stretches)])
        start_positions(positions, starts)
        moves: list[Callable[[], None]] = [
            partial(_move, columns, values, a, b, *tables, plan.local, positions[t], coords, target)
            for t, (a, b) in enumerate(stretches)
        ]
        run(moves)
    return starts


def _shuffle(tiles: Tiles, threads: int) -> None:
    n_tiles = len(tiles.starts) - 1
    with workers(threads) as run:
        run(
            [
                partial(_shuffle_tiles, tiles.coords, tiles.values, tiles.starts, a, b, np.uint64(tiles.seed))
                for a, b in ranges(n_tiles, threads)
            ]
        )


@kernel()
def _count_tiles(columns: Array, low: int, high: int, first: Array, keys: Array, counts: Array) -> None:
    for p in range(low, high):
        tile = 0
        for m in range(columns.shape[0]):
            tile += keys[first[m] + columns[m, p]]
        counts[tile] += 1


@kernel()
def _move(
    columns: Array, values: Array, low: int, high: int, first: Array, keys: Array, local: Array, positions: Array,
    coords: Array, target: Array,
) -> None:  # fmt: skip
    for p in range(low, high):
        tile = 0
        for m in range(columns.shape[0]):
            tile += keys[first[m] + columns[m, p]]
        q = positions[tile]
        positions[tile] = q + 1
        for m in range(columns.shape[0]):
            coords[m, q] = local[first[m] + columns[m, p]]
        target[q] = values[p]


@kernel()
def _shuffle_tiles(coords: Array, values: Array, starts: Array, low: int, high: int, seed: np.uint64) -> None:
    """Fisher and Yates within every tile; the draw depends on the entry's place only."""
    key = next_random(seed ^ np.uint64(0x5851F42D4C957F2D))
    for tile in range(low, high):
        start = starts[tile]
        for q in range(starts[tile + 1] - start - 1, 0, -1):
            a, b = start + q, start + below(key, start + q, q + 1)
            for m in range(coords.shape[0]):
                coords[m, a], coords[m, b] = coords[m, b], coords[m, a]
            values[a], values[b] = values[b], values[a]
