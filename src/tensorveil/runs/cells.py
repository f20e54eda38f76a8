"""Which cells a run predicts and writes: those asked for, those that are missing, or all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.privacy import Unit
from tensorveil.release.cells import read_asked
from tensorveil.release.fill import Fill
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.files.images import check_picture
from tensorveil.tensor.keys import sort_entries

__all__ = ["Filling", "choose_cells", "find_missing"]


@dataclass(frozen=True, kw_only=True)
class Filling:
    """What a run is to fill in.

    Parameters
    ----------
    at
        A table of the cells to predict; None for all that are missing.
    format
        "parquet", "csv", or "png" for a tensor that is a picture.
    value_name
        What the column of predictions is called; None for the name of the value column of the data.
    max_cells
        The largest number of cells of a tensor of which all missing ones are filled.
    threads
        How many threads predict; None for all.
    interval
        A share such as 0.9, for columns low and high; in private runs of unit "value".
    safe_csv
        CSV: whether labels that a spreadsheet would take for formulas get an apostrophe before them.
    """

    at: Path | None = None
    format: str = "parquet"
    value_name: str | None = None
    max_cells: int = 20_000_000
    threads: int | None = None
    interval: float | None = None
    safe_csv: bool = False


def choose_cells(
    filling: Filling | None,
    tensor: ObservedTensor,
    *,
    private: Unit | None = None,
    bins: Mapping[str, Any] | None = None,
) -> Fill | None:
    """Choose the cells to predict; a table of cells is put into the same ``bins`` as the tensor was.

    In an open run the cells of a table keep their words and their order. In a private run they are sorted, because the
    order of a list may follow the data, and moments are named by their bins. Where positions are private cells
    are never chosen by what is missing, which would tell what was observed: then all of them are predicted.
    """
    if filling is None:
        return None
    if filling.interval is not None and (private is None or private.kind == "slice"):
        raise InputError(
            "interval is for private runs of units value and entry, which measure their own errors. Leave it out."
        )
    if filling.interval is not None and tensor.unlisted == "zero":
        raise InputError(
            'interval: models of unlisted="zero" say what is expected, and do not know their errors. Leave it out.'
        )
    if filling.format == "png":
        check_picture(tensor.shape)
        named = [
            mode.name for mode in tensor.modes[:2] if mode.labels is not None and mode.labels.dtype.kind not in "iu"
        ]
        if named:
            raise InputError(
                f"a picture has rows and columns of pixels; mode {named[0]!r} has labels of another kind. Write the "
                "filled cells as csv or parquet."
            )
    asked = None
    if filling.at is not None:
        columns, asked = read_asked(filling.at, tensor.modes, tensor.shape, bins)
        if private is not None:
            asked = None
            columns, _ = sort_entries(columns, np.zeros(columns.shape[1]), tensor.shape)
    elif math.prod(tensor.shape) > filling.max_cells:
        raise InputError(
            "the tensor has more cells than max_cells. Name the cells you want with at=FILE, raise max_cells, or write "
            "the model alone with filling=None."
        )
    elif private is None or private.kind == "value":
        columns = find_missing(tensor)
    else:
        columns = np.indices(tensor.shape, dtype=np.int32).reshape(tensor.order, -1)
    return Fill(
        coords=columns.T, format=filling.format, value_name=filling.value_name or tensor.value_name,
        threads=filling.threads, interval=filling.interval, safe_csv=filling.safe_csv,
        asked=asked,
    )  # fmt: skip


def find_missing(tensor: ObservedTensor) -> NDArray[np.int32]:
    """Return the (order, n) coordinates of all cells without an entry, in row-major order."""
    observed = np.zeros(tensor.shape, dtype=bool)
    observed[tuple(tensor.columns)] = True
    missing = np.unravel_index(np.flatnonzero(~observed), tensor.shape)
    return np.stack([index.astype(np.int32) for index in missing])
