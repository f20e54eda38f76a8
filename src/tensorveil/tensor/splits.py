"""Splits for measuring completion. Both parts keep the full shape, labels and bounds.

random_split   entries at random: how well missing cells are filled in. The usual figure, and the
               kindest: every slice is seen in training.
slice_split    whole indices of a mode: how well new users, items or sensors are served (cold start).
block_split    whole combinations of indices of some modes, such as days of a sensor: how well gaps are filled.
time_split     the latest part of an ordered mode: how well the future is predicted.
k_fold         random_split k times, every entry held out once: figures with an error bar.
cell_split     entries by a rule that looks at their cell alone: adding or removing one moves no other.

All other splits look at all entries: one entry more changes which of the others are held out, so a private fit of a
part would protect nobody in the whole. `Origin.chosen` says so, and units entry and slice refuse such parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.tensor.modes import ordered_indices
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.origin import Origin
from tensorveil.tensor.stored import StoredTensor

RandomState = int | np.random.Generator | None


class Split(NamedTuple):
    """Two parts of one tensor that share no entry."""

    train: ObservedTensor
    held_out: ObservedTensor


def random_split(tensor: ObservedTensor, fraction: float = 0.2, random_state: RandomState = None) -> Split:
    """Hold out a share of the entries, drawn uniformly.

    >>> tensor = ObservedTensor([[i, j] for i in range(10) for j in range(10)], range(100))
    >>> train, held_out = random_split(tensor, 0.2, random_state=0)
    >>> len(train), len(held_out), held_out.shape
    (80, 20, (10, 10))
    """
    _check_in_memory(tensor)
    _check_fraction(fraction)
    count = round(fraction * tensor.n_entries)
    mask = np.zeros(tensor.n_entries, bool)
    mask[np.random.default_rng(random_state).permutation(tensor.n_entries)[:count]] = True
    return _by_mask(tensor, mask, chosen=True)


def cell_split(tensor: ObservedTensor, fraction: float = 0.2, random_state: RandomState = None) -> Split:
    """Hold out about a share of all cells, whether they have entries or not. A part may be empty.

    Which part an entry belongs to follows from its coordinates and the seed: not from other entries, nor their order.
    So a fit of the first part is as private as one of the whole, which cannot be said of `random_split`.
    """
    _check_in_memory(tensor)
    held = hold_cells(tensor.columns, fraction, draw_seed(random_state))
    parts = Split(tensor.take(~held, may_be_empty=True), tensor.take(held, may_be_empty=True))
    origin = origin_of_cells(tensor.origin)
    return Split(*(part.with_origin(origin) for part in parts))


def draw_seed(random_state: RandomState) -> np.uint64:
    """Return the seed by which cells are told apart."""
    return np.uint64(np.random.default_rng(random_state).integers(2**64, dtype=np.uint64))


def hold_cells(columns: NDArray[Any], fraction: float, seed: np.uint64) -> NDArray[np.bool_]:
    """Tell which coordinates (order, n) are held out, each by itself."""
    _check_fraction(fraction)
    mixed = np.full(columns.shape[1], seed)
    for column in columns:
        mixed = _mix_bits(mixed ^ column.astype(np.uint64))
    held: NDArray[np.bool_] = mixed < np.uint64(fraction * 2**64)
    return held


def origin_of_cells(origin: Origin) -> Origin:
    """Return the origin of a part whose cells were held or left by their coordinates alone."""
    # An index that numbers who occurs is no fact about its cell alone.
    return origin.then(Origin(chosen=origin.owners is not None))


def slice_split(
    tensor: ObservedTensor,
    mode: int | str,
    fraction: float | None = None,
    *,
    indices: ArrayLike | None = None,
    random_state: RandomState = None,
) -> Split:
    """Hold out whole indices of a mode: a share of those that have entries, or the ones given."""
    _check_in_memory(tensor)
    axis = tensor.axis(mode)
    column = tensor.columns[axis]
    if (fraction is None) == (indices is None):
        raise InputError("slice_split needs either fraction or indices. Try fraction=0.2.")
    if fraction is not None:
        _check_fraction(fraction)
        present = np.flatnonzero(np.bincount(column, minlength=tensor.shape[axis]))
        count = round(fraction * len(present))
        chosen = np.random.default_rng(random_state).permutation(present)[:count]
    else:
        chosen = np.atleast_1d(np.asarray(indices))
        if chosen.dtype.kind not in "iu" or chosen.min() < 0 or chosen.max() >= tensor.shape[axis]:
            raise InputError("indices must be integers within the size of the mode. Encode labels first.")
    held = np.zeros(tensor.shape[axis], bool)
    held[chosen] = True
    return _by_mask(tensor, held[column], chosen=fraction is not None)


def block_split(
    tensor: ObservedTensor, modes: Sequence[int | str], fraction: float = 0.2, random_state: RandomState = None
) -> Split:
    """Hold out whole blocks: a share of the combinations of indices of some modes that have entries.

    >>> tensor = ObservedTensor(np.argwhere(np.ones((4, 5, 6))), range(120), modes=("sensor", "day", "hour"))
    >>> train, held_out = block_split(tensor, ("sensor", "day"), 0.25, random_state=0)
    >>> len(train), len(held_out)
    (90, 30)
    """
    _check_in_memory(tensor)
    _check_fraction(fraction)
    axes = [tensor.axis(mode) for mode in ([modes] if isinstance(modes, int | str) else modes)]
    if not axes or len(set(axes)) < len(axes):
        raise InputError('modes must name at least one mode, and none twice. Try modes=("sensor", "day").')
    _, block = np.unique(tensor.columns[axes], axis=1, return_inverse=True)
    count = int(block.max()) + 1
    held = np.zeros(count, bool)
    held[np.random.default_rng(random_state).permutation(count)[: round(fraction * count)]] = True
    return _by_mask(tensor, held[block.ravel()], chosen=True)


def time_split(tensor: ObservedTensor, mode: int | str, fraction: float = 0.2) -> Split:
    """Hold out the latest indices of an ordered mode, as many as come closest to the share of entries.

    Numbers and dates among the labels settle the order; otherwise the indices do.
    """
    _check_in_memory(tensor)
    _check_fraction(fraction)
    axis = tensor.axis(mode)
    size = tensor.shape[axis]
    order = ordered_indices(tensor.modes[axis], size)
    counts = np.bincount(tensor.columns[axis], minlength=size)[order]
    present = np.flatnonzero(counts)
    if len(present) < 2:
        raise InputError("mode must have entries at two indices at least to be split in time.")
    # held_if[k]: entries held out if the k-th occupied index and all later ones are; k = 0 leaves no training.
    held_if = np.cumsum(counts[present][::-1])[::-1]
    best = 1 + int(np.argmin(np.abs(held_if[1:] - fraction * tensor.n_entries)))
    held = np.zeros(size, bool)
    held[order[present[best] :]] = True
    return _by_mask(tensor, held[tensor.columns[axis]], chosen=True)


def k_fold(tensor: ObservedTensor, k: int = 5, random_state: RandomState = None) -> Iterator[Split]:
    """Return k splits that hold out every entry exactly once, in random parts of equal size (up to one entry)."""
    _check_in_memory(tensor)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 2:
        raise InputError(f"k must be an integer of at least 2; got {k!r}. Try k=5.")
    if k > tensor.n_entries:
        raise InputError("k must not exceed the number of entries. Try a smaller k.")
    fold = np.arange(tensor.n_entries) % k
    np.random.default_rng(random_state).shuffle(fold)
    return (_by_mask(tensor, fold == part, chosen=True) for part in range(k))


def _mix_bits(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over the whole word, one to one; products wrap around."""
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        words = (words ^ (words >> np.uint64(31))) * np.uint64(factor)
    return words ^ (words >> np.uint64(29))


def _check_fraction(fraction: float) -> None:
    if not isinstance(fraction, int | float | np.number) or not 0 < fraction < 1:
        raise InputError(f"fraction must lie between 0 and 1; got {fraction!r}. Try fraction=0.2.")


def _check_in_memory(tensor: ObservedTensor | StoredTensor) -> None:
    """Refuse a store, which cannot be cut without being written."""
    if isinstance(tensor, StoredTensor):
        raise InputError(
            "splits return parts in memory, and a StoredTensor keeps its entries on disk. Write two stores: "
            "tensorveil.split_store(store, 'train', 'held-out'); or load it, if it fits: stored.load()."
        )


def _by_mask(tensor: ObservedTensor, held: NDArray[np.bool_], *, chosen: bool) -> Split:
    if held.all() or not held.any():
        raise InputError("the split must leave entries in both parts. Choose another fraction or indices.")
    parts = Split(tensor.take(~held), tensor.take(held))
    origin = tensor.origin.then(Origin(chosen=chosen))
    return Split(*(part.with_origin(origin) for part in parts))
