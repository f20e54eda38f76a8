"""What a store holds of the modes, or of the people, that a model or a table names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.stored import Part, StoredTensor

__all__ = ["check_same_modes", "overlapping_parts", "take_people"]


def check_same_modes(stored: StoredTensor, modes: Sequence[Mode], *, but: int | None = None) -> None:
    """Refuse a store that is not numbered as a model is; the labels of the mode ``but`` may differ."""
    alike = [mode.name for mode in stored.modes] == [mode.name for mode in modes] and all(
        m == but or own == mode for m, (own, mode) in enumerate(zip(stored.modes, modes, strict=True))
    )
    if not alike:
        raise InputError(
            "store: its modes, or their labels, are not those of the model. Give the files that it was made of, or a "
            "store that was read by the same lists of labels."
        )


def overlapping_parts(stored: StoredTensor, mode: str, wanted: NDArray[Any] | None) -> Iterator[Part]:
    """Yield the parts of a mode's order that may hold some of the ``wanted`` indices, which ascend; None for all."""
    for part in stored.parts(mode):
        if wanted is None or np.searchsorted(wanted, part.first) < np.searchsorted(wanted, part.last, side="right"):
            yield part


def take_people(stored: StoredTensor, mode: str, wanted: NDArray[Any]) -> ObservedTensor:
    """Return the entries of some indices of a mode, in memory; only the parts that may hold them are read."""
    axis = stored.axis(mode)
    columns, values = [np.empty((stored.order, 0), np.int32)], [np.empty(0, stored.dtype)]
    for part in overlapping_parts(stored, mode, wanted):
        read = stored.read_columns(mode, part)
        kept = np.isin(read[0][axis], wanted)
        columns.append(read[0][:, kept])
        values.append(read[1][kept])
    return ObservedTensor.from_columns(
        np.concatenate(columns, axis=1), np.concatenate(values), stored.shape, modes=stored.modes, duplicates="keep"
    )
