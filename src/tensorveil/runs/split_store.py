"""Two stores of one: cells that are held out, and the others, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tensorveil.errors import InputError
from tensorveil.release.folder import check_folder, write_folder
from tensorveil.runs.store import STORE_FILES
from tensorveil.tensor.splits import RandomState, draw_seed, hold_cells, origin_of_cells
from tensorveil.tensor.stored import Part, StoredTensor
from tensorveil.tensor.storing import write_manifest, write_part

__all__ = ["split_store"]


def split_store(
    store: StoredTensor | str | os.PathLike[str],
    train: str | os.PathLike[str],
    held_out: str | os.PathLike[str],
    fraction: float = 0.2,
    random_state: RandomState = None,
    *,
    force: bool = False,
) -> tuple[StoredTensor, StoredTensor]:
    """Hold out about a share of all cells of a store, as `cell_split` does of a tensor; returns both as stores.

    Which of the two an entry belongs to follows from its coordinates and the seed alone: a fit of the first is as
    private as one of the whole, and the same seed holds out the same cells of the entries in memory. One part after the
    other is read and written, in every order that the store has.

    Parameters
    ----------
    store
        The store, or its folder.
    train, held_out
        The folders to make: each appears whole or not at all.
    fraction, random_state
        As for `cell_split`.
    force
        Replace stores that are there.

    >>> import tensorveil as tv
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     tv.synthetic_cp((30, 20), 2, random_state=0).train.write(f"{place}/data.parquet")
    ...     stored = tv.write_store(f"{place}/data.parquet", f"{place}/store", order="mode_0", indices=True)
    ...     train, held_out = tv.split_store(stored, f"{place}/train", f"{place}/test", 0.2, random_state=0)
    ...     train.n_entries + held_out.n_entries == stored.n_entries
    True
    """
    whole = store if isinstance(store, StoredTensor) else StoredTensor.open(store)
    places = [Path(train).absolute(), Path(held_out).absolute()]
    if len({whole.folder, *places}) < 3:
        raise InputError("train and held_out must be two folders, and neither of them the store itself.")
    for place in places:
        check_folder(place, ours=STORE_FILES, force=force)
    seed = draw_seed(random_state)
    hold_cells(np.empty((whole.order, 0), np.int32), fraction, seed)  # refuses a fraction before anything is written
    private = not whole.folder.stat().st_mode & 0o077
    options = {"ours": STORE_FILES, "force": force, "private": private}
    with write_folder(places[0], **options) as one, write_folder(places[1], **options) as other:  # type: ignore[arg-type]
        _fill(whole, (one, other), fraction, seed)
    return StoredTensor.open(places[0]), StoredTensor.open(places[1])


def _fill(whole: StoredTensor, folders: Sequence[Path], fraction: float, seed: np.uint64) -> None:
    """Write both stores, order by order and part by part."""
    orders: list[dict[str, tuple[Part, ...]]] = [{}, {}]
    for mode in whole.orders:
        axis = whole.axis(mode)
        places = [folder / f"by-{axis}" for folder in folders]
        for place in places:
            place.mkdir()
        parts: list[list[Part]] = [[], []]
        for part in whole.parts(mode):
            columns, values = whole.read_columns(mode, part)
            held = hold_cells(columns, fraction, seed)
            for which, mask in enumerate((~held, held)):
                if mask.any():
                    own = parts[which]
                    own.append(
                        write_part(places[which], len(own), whole.column_names, columns[:, mask], values[mask], axis)
                    )
        for which, own in enumerate(parts):
            orders[which][mode] = tuple(own)
    for folder, own_orders in zip(folders, orders, strict=True):
        counts = {sum(part.rows for part in parts) for parts in own_orders.values()}
        assert len(counts) == 1  # the same cells in every order
        origin = origin_of_cells(whole.origin)
        write_manifest(
            folder, replace(whole, folder=folder, n_entries=counts.pop(), origin=origin, orders=own_orders, digest="")
        )
