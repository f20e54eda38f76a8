"""Stable parallel counting sort, the one way entries are brought into an order here.

Every thread counts the keys of its own stretch of entries; a running sum over (key, thread) says where each stretch
puts its entries. The result is the stable order whatever the number of threads, and needs no permutation array.

Legend
    p, low, high    entry; the stretch of entries of one thread
    key, t          value of the column that is sorted by; thread
    counts          (threads, keys), turned into first positions in place
    pointers        (keys + 1,) where each key's entries begin
    state, z        64-bit counter and hash (splitmix64), so that draws are functions of seed and place alone
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]


@kernel()
def next_random(state: np.uint64) -> np.uint64:
    """Return the splitmix64 hash of a counter."""
    z = state + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel()
def below(seed: np.uint64, counter: int, bound: int) -> Any:
    """Return a number in range(bound), a pure function of seed and counter (bound below 2**32)."""
    high = next_random(seed + np.uint64(counter)) >> np.uint64(32)
    return np.int64((high * np.uint64(bound)) >> np.uint64(32))


@kernel()
def permute(n: int, seed: int) -> Array:
    """Return a permutation of range(n), a pure function of n and seed."""
    order = np.arange(n)
    key = next_random(np.uint64(seed))
    for i in range(n - 1, 0, -1):
        j = below(key, i, i + 1)
        order[i], order[j] = order[j], order[i]
    return order


@kernel()
def count_column(column: Array, low: int, high: int, counts: Array) -> None:
    """Count the values of one column."""
    for p in range(low, high):
        counts[column[p]] += 1


@kernel()
def start_positions(counts: Array, pointers: Array) -> None:
    """Turn counts[thread, key] into first positions, and fill pointers[key]."""
    running = 0
    for key in range(counts.shape[1]):
        pointers[key] = running
        for t in range(counts.shape[0]):
            mine = counts[t, key]
            counts[t, key] = running
            running += mine
    pointers[counts.shape[1]] = running


@kernel()
def order_by(column: Array, low: int, high: int, positions: Array, order: Array) -> None:
    """Write the numbers of the entries in the order of their column."""
    for p in range(low, high):
        key = column[p]
        order[positions[key]] = p
        positions[key] += 1
