"""Stochastic gradient descent for Tucker; updates as in :mod:`tensorveil.kernels.cp_sgd`, and for the core

    G <- (1 - core_decay) G + step * e * (a (x) b (x) c ...).

One entry at a time this is bound by reading and writing the core. So the entries of a tile are sorted by their row in
one mode, the mode with the fewest rows per tile, and cut into batches of ``BATCH``, visited in a new random order in
every pass. Entries of a batch that share that row, c, are a run. Then

- the core is the one of the batch's start, and moves once per batch: G <- (1 - core_decay)^n G + the n steps;
- c is the one of the run's start, and moves once per run: c <- (1 - decay)^n c + the n steps;
- all other rows and the biases move with every entry, from their values at that time.

With batches of one entry this is the plain method. What is gained: a run contracts the core with c only once,
M = <G, c>, and its steps follow from one small matrix N = sum of step * e * (a (x) b): N (x) c for the core, <G, N>
for c. An entry costs three products with a matrix instead of three with the core.

Every thread works on a copy of the core; the copies are averaged after each stratum, weighted by entries. With more
than three modes b is the Kronecker product of the rows between the first and the shared mode; with two it is 1.

Legend
    a, b, c         rows of the first mode, of those between (their Kronecker product), and of the shared mode
    G               (last, size) the core, for every index z of the shared mode a padded matrix (kernels/tucker_form.py)
    M, T            <G, c>, first by middle, rows padded; and its transpose
    A, B            per entry of a run: step * e * a, and b
    H               <M, a>, what b is multiplied with
    C, N            per run of the batch: c, and the sum of its steps A (x) B
    F, J, P         padded lengths of a, of b, and of the part of b that is kept in registers
    q, first, end, stop   entries of the sorted tile; of a batch; end of a run
    keep, kept      1 - decay, and its power for the entries of a run (core_keep: of the batch)
    tokens          compile-time sizes, numbered as in `tucker_form.core_form`
    spare           a thread's scratch: M, T, A, B, H, C, N
    places, at      where the rows of a tile's first index, and of an entry, begin in ``flat``

Threads work on tiles of one stratum, which share no row (kernels/tiles.py); the core, which all share, is copied.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import blocks as b
from tensorveil.kernels import entries as e
from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.padded import Padded, aligned_zeros, check_types
from tensorveil.kernels.sorting import count_column, next_random, permute, start_positions
from tensorveil.kernels.threads import workers
from tensorveil.kernels.tiles import Tiles
from tensorveil.kernels.tucker import geometry, kron
from tensorveil.kernels.tucker_form import core_form

Array = NDArray[Any]

# Tiles for this kernel (see build_tiles): it sorts a tile in every pass, so a tile should fit the innermost cache.
TILES = {"tile_bytes": 16 * 1024, "tile_entries": 1024}

# Entries between two steps of the core.
BATCH = 16

# Tokens are passed by value, element by element: what is called often has to be inlined, and needs no entry for Python.
inner = kernel(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def tucker_sgd_pass(
    layout: Tiles,
    core: Array,
    factors: Padded,
    biases: tuple[Array, ...] = (),
    offset: float = 0.0,
    step: float = 0.01,
    decay: float = 0.0,
    core_decay: float = 0.0,
    pass_index: int = 0,
) -> float:
    """Visit every entry once, changing ``core``, ``factors`` and ``biases`` in place.

    Returns the sum of the squared errors met on the way, each before its own update. The result is a pure function
    of the arguments.
    """
    check_types(factors, layout.values, biases)
    real, modes = factors.dtype.type, mode_order(layout)
    turned = core.transpose(modes)
    form = core_form(turned.shape, factors.dtype)
    block = form.pack(turned)
    copies = [aligned_zeros((block.size,), factors.dtype) for _ in range(layout.threads)]
    spares = [form.scratch(BATCH) for _ in copies]
    where = geometry(factors, modes)
    data = (form.tokens, layout.coords, layout.values, layout.starts, layout.bases)
    choice = (np.array(modes), _tile_rows(layout)[modes[-1]], batch_key(layout.seed, pass_index))
    model = (factors.arrays, factors.flat, where.origins, where.widths, where.ranks, biases)
    numbers = (real(offset), real(1.0 - decay), real(step), real(1.0 - core_decay))
    total = 0.0
    with workers(layout.threads) as run:
        for stratum in layout.schedule(pass_index):
            tasks = []
            for tiles, mine, spare in zip(stratum, copies, spares, strict=True):
                mine[...] = block.reshape(-1)
                tasks.append(partial(_visit, *data, tiles, *choice, *model, mine, spare, numbers))
            total += sum(run(tasks))
            _average(block, copies, [int((layout.starts[t + 1] - layout.starts[t]).sum()) for t in stratum])
    turned[...] = form.unpack(block)
    return total


def mode_order(layout: Tiles) -> tuple[int, ...]:
    """Return the modes, the one that runs share put last: the one with the fewest rows per tile."""
    rows = _tile_rows(layout)
    shared = min(range(len(rows)), key=lambda m: (rows[m], -m))
    return (*(m for m in range(len(rows)) if m != shared), shared)


def batch_key(seed: int, pass_index: int) -> np.uint64:
    """Return what the order of the batches in a pass is drawn from."""
    return np.uint64(next_random(np.uint64(seed)) ^ next_random(np.uint64(pass_index + 1)))


def _tile_rows(layout: Tiles) -> list[int]:
    """Return the most rows that a tile has, for every mode."""
    edges = [np.append(np.unique(base), size) for base, size in zip(layout.bases, layout.shape, strict=True)]
    return [int(np.diff(edge).max()) for edge in edges]


def _average(block: Array, copies: list[Array], weights: list[int]) -> None:
    """Average the threads' cores, weighted by the entries each has seen."""
    if sum(weights) > 0:
        mixed = sum(w / sum(weights) * c.astype(np.float64) for w, c in zip(weights, copies, strict=True))
        block[...] = np.reshape(mixed, block.shape)


@kernel()
def _visit(
    tokens: tuple[v.Token, ...], coords: Array, values: Array, starts: Array, bases: Array, tiles: Array, modes: Array,
    rows: int, key: np.uint64, factors: tuple[Array, ...], flat: Array, origins: Array, widths: Array, ranks: Array,
    biases: tuple[Array, ...], G: Array, spare: tuple[Array, ...], numbers: tuple[Any, ...],
) -> float:  # fmt: skip
    most = 0
    for tile in tiles:
        most = max(most, starts[tile + 1] - starts[tile])
    sorted_coords, sorted_values = np.empty((len(modes), most), dtype=coords.dtype), np.empty(most, dtype=values.dtype)
    positions, pointers = np.empty((1, rows), dtype=np.int64), np.empty(rows + 1, dtype=np.int64)
    places, at = np.empty(len(modes), dtype=np.int64), np.empty(len(modes), dtype=np.int64)
    data, total = (sorted_coords, sorted_values, modes, places, widths, ranks, at), 0.0
    for tile in tiles:
        low, high = starts[tile], starts[tile + 1]
        positions[:] = 0
        count_column(coords[modes[-1]], low, high, positions[0])
        start_positions(positions, pointers)
        _sort(coords, values, low, high, modes[-1], positions[0], sorted_coords, sorted_values)
        for m in range(len(modes)):
            places[m] = origins[m] + bases[modes[m], tile] * widths[m]
        base = e.column(factors, bases, tile)
        for batch in permute((high - low + BATCH - 1) // BATCH, next_random(key ^ np.uint64(tile))):
            first = batch * BATCH
            end = min(first + BATCH, high - low)
            total += _batch(tokens, data, base, first, end, factors, flat, biases, G, spare, numbers)
    return total


@kernel()
def _sort(
    coords: Array, values: Array, low: int, high: int, mode: int, positions: Array, sorted_coords: Array,
    sorted_values: Array,
) -> None:  # fmt: skip
    """Copy a tile's entries in the order of their row in one mode, so that they are read in one stream."""
    for p in range(low, high):
        q = positions[coords[mode, p]]
        positions[coords[mode, p]] = q + 1
        for m in range(coords.shape[0]):
            sorted_coords[m, q] = coords[m, p]
        sorted_values[q] = values[p]


@inner
def _batch(
    tokens: tuple[v.Token, ...], data: tuple[Array, ...], base: tuple[int, ...], first: int, end: int,
    factors: tuple[Array, ...], flat: Array, biases: tuple[Array, ...], G: Array, spare: tuple[Array, ...],
    numbers: tuple[Any, ...],
) -> float:  # fmt: skip
    """Visit the entries first:end of the tile.

    Scratch (``spare``): M and its transpose T; of a run, A = step * e * a and B = b of every entry; H for contractions;
    of the batch, C = c and N of every run.
    """
    M, T, A, B, _, C, N = spare
    coords, last, size = data[0], _length(tokens[1]), len(M)
    shared, place = data[2][-1] * coords.shape[1], data[3][-1]
    total, runs, q = 0.0, 0, first
    keep, core_keep = numbers[1], numbers[3]
    while q < end:
        row = v.peek(coords, shared + q)
        stop, kept, at = q + 1, keep, place + np.int64(row) * last
        while stop < end and v.peek(coords, shared + stop) == row:
            stop += 1
            kept *= keep
        # c is kept as it was: the core's step at the end of the batch needs it, and it moves before that.
        v.store(C, runs * last, v.load(tokens[1], flat, at))
        _contract(tokens, G, C, runs * last, M, T, len(T) // _length(tokens[0]))
        total += _entries(tokens, data, base, q, stop, factors, flat, biases, spare, numbers)
        _add_steps(tokens, A, B, stop - q, N, runs * size)
        _move_shared(tokens, G, N, runs * size, flat, at, kept)
        runs += 1
        q = stop
    kept = core_keep
    for _ in range(first + 1, end):
        kept *= core_keep
    _move_core(tokens, G, C, N, runs, size, kept)
    return total


@inner
def _length(token: v.Token) -> int:
    return len(token) * len(token[0])


@inner
def _contract(tokens: tuple[v.Token, ...], G: Array, C: Array, c: int, M: Array, T: Array, middle: int) -> None:
    """M = sum_z c_z G_z, and T its transpose, with rows as long as those of the first mode."""
    panel, first, width = tokens[5], _length(tokens[0]), _length(tokens[2]) * len(tokens[4])
    for x in range(0, len(M), _length(panel)):
        block = v.zero(panel, G)
        for z in range(len(tokens[6])):
            block = v.axpy(v.peek(C, c + z), v.load(panel, G, z * len(M) + x), block)
        v.store(M, x, block)
    for i in range(len(tokens[7])):
        for j in range(middle):
            T[j * first + i] = M[i * width + j]


@inner
def _entries(
    tokens: tuple[v.Token, ...], data: tuple[Array, ...], base: tuple[int, ...], first: int, end: int,
    factors: tuple[Array, ...], flat: Array, biases: tuple[Array, ...], spare: tuple[Array, ...],
    numbers: tuple[Any, ...],
) -> float:  # fmt: skip
    """Visit the entries of a run: update their rows in all but the shared mode, and keep A and B."""
    coords, values, modes, places, widths, ranks, at = data
    M, T, A, B, H, _, _ = spare
    offset, keep, step = numbers[0], numbers[1], numbers[2]
    lead, part = tokens[0], tokens[2]
    F, P = _length(lead), _length(part)
    J = P * len(tokens[4])
    middle, column0, column1 = len(T) // F, modes[0] * coords.shape[1], modes[1] * coords.shape[1]
    place0, place1 = places[0], places[1]
    total = 0.0
    for q in range(first, end):
        k, i0 = (q - first) * J, place0 + np.int64(v.peek(coords, column0 + q)) * F
        i1 = place1 + np.int64(v.peek(coords, column1 + q)) * J
        if len(factors) == 3:
            for j in range(0, J, P):
                v.store(B, k + j, v.load(part, flat, i1 + j))
        else:
            for m in range(len(factors)):
                at[m] = places[m] + np.int64(coords[modes[m], q]) * widths[m]
            kron(flat, at, ranks, 1, len(factors) - 1, B[k:])
        guess = _guess(tokens, M, flat, i0, B, k, H)
        index, a = e.shift(base, e.column(factors, coords, q)), v.load(lead, flat, i0)
        error = v.peek(values, q) - e.sum_at(offset, biases, index) - guess
        gain = step * error
        steps = v.zero(lead, T)
        for j in range(middle):
            steps = v.axpy(v.peek(B, k + j), v.load(lead, T, j * F), steps)
        v.store(A, (q - first) * F, v.scale(gain, a))
        v.store(flat, i0, v.axpy(keep, a, v.scale(gain, steps)))
        if len(factors) == 3:
            for j in range(0, J, P):
                v.store(flat, i1 + j, v.axpy(keep, v.load(part, B, k + j), v.scale(gain, v.load(part, H, j))))
        else:
            _update_middle(flat, at, ranks, H, keep, gain)
        e.blend_at(keep, biases, index, gain)
        total += np.float64(error) * np.float64(error)
    return total


@inner
def _guess(tokens: tuple[v.Token, ...], M: Array, flat: Array, a: int, B: Array, k: int, H: Array) -> Any:
    """H = sum_i a_i M_i; returns <H, b>."""
    part, guess = tokens[2], v.zero(tokens[2], M)
    J = _length(part) * len(tokens[4])
    for j in range(0, J, _length(part)):
        h = v.zero(part, M)
        for i in range(len(tokens[7])):
            h = v.axpy(v.peek(flat, a + i), v.load(part, M, i * J + j), h)
        v.store(H, j, h)
        guess = v.fma(h, v.load(part, B, k + j), guess)
    return v.total(guess)


@inner
def _add_steps(tokens: tuple[v.Token, ...], A: Array, B: Array, count: int, N: Array, n: int) -> None:
    """N = sum_entries A (x) B, some rows at a time."""
    part, some, F = tokens[2], tokens[3], _length(tokens[0])
    P, rows = _length(part), len(some) // len(part)
    J = P * len(tokens[4])
    for i in range(0, len(tokens[7]), rows):
        for j in range(0, J, P):
            block = v.zero(some, N)
            for k in range(count):
                block = b.rank_one(block, A, k * F + i, v.load(part, B, k * J + j))
            v.store(N, n + i * J + j, block)


@inner
def _move_shared(tokens: tuple[v.Token, ...], G: Array, N: Array, n: int, flat: Array, at: int, kept: Any) -> None:
    """c <- kept * c + <G, N>."""
    panel, size = tokens[5], len(G) // len(tokens[6])
    for z in range(len(tokens[6])):
        dot = v.zero(panel, G)
        for x in range(0, size, _length(panel)):
            dot = v.fma(v.load(panel, G, z * size + x), v.load(panel, N, n + x), dot)
        flat[at + z] = kept * flat[at + z] + v.total(dot)


@inner
def _move_core(tokens: tuple[v.Token, ...], G: Array, C: Array, N: Array, runs: int, size: int, kept: Any) -> None:
    """G <- kept * G + sum_runs c (x) N."""
    panel, last = tokens[5], _length(tokens[1])
    for z in range(len(tokens[6])):
        for x in range(0, size, _length(panel)):
            block = v.scale(kept, v.load(panel, G, z * size + x))
            for r in range(runs):
                block = v.axpy(v.peek(C, r * last + z), v.load(panel, N, r * size + x), block)
            v.store(G, z * size + x, block)


@kernel()
def _update_middle(flat: Array, at: Array, ranks: Array, H: Array, keep: Any, gain: Any) -> None:
    """Update the rows of the middle modes from H, the core contracted with the first and the shared row."""
    last = len(ranks) - 1
    old = np.empty((last, ranks.max()), dtype=flat.dtype)
    for m in range(1, last):
        for k in range(ranks[m]):
            old[m, k] = flat[at[m] + k]
            flat[at[m] + k] *= keep
    size = 1
    for m in range(1, last):
        size *= ranks[m]
    for j in range(size):
        for m in range(1, last):
            weight, rest, mine = H[j] * gain, j, 0
            for other in range(last - 1, 0, -1):
                digit = rest % ranks[other]
                rest //= ranks[other]
                if other == m:
                    mine = digit
                else:
                    weight *= old[other, digit]
            flat[at[m] + mine] += weight
