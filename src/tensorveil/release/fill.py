"""Predictions that go with a release or a result: which cells, and the file that holds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.models import CPModel, TuckerModel
from tensorveil.models.errors import check_coverage
from tensorveil.models.evaluate import predict_columns, predict_intervals
from tensorveil.models.indexing import check_columns
from tensorveil.models.tables import answers_table, cells_table
from tensorveil.release.names import FILLED_FORMATS, filled_name
from tensorveil.rounds import SharedModel
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.files.formats import write_table
from tensorveil.tensor.files.images import check_picture, write_image

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Fill", "write_fill"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Fill:
    """Cells to predict, and the file to write the predictions to.

    Parameters
    ----------
    coords
        (n, order) indices of the cells. In a release they are published, so they must be public: in unit value the
        cells without an entry may be named, in unit entry all cells or cells chosen without looking at the data.
    format
        "parquet", "csv", or "png" for a tensor that is a picture; the file is called ``filled.`` and this.
    value_name
        What the column of predictions is called.
    threads
        How many threads predict; None for all.
    interval
        A share such as 0.9: the table gets columns low and high, between which this share of values is expected. For
        models that know their errors, as private ones of unit "value" do.
    safe_csv
        CSV: whether labels that a spreadsheet would take for formulas get an apostrophe before them.
    asked
        A row for each of the cells, as whoever asked wrote it: predictions are then given in these words.
    """

    coords: Any
    format: str = "parquet"
    value_name: str = "value"
    threads: int | None = None
    interval: float | None = None
    safe_csv: bool = False
    asked: pa.Table | None = None

    def __post_init__(self) -> None:
        if self.format not in FILLED_FORMATS:
            raise InputError(f"format must be one of {', '.join(FILLED_FORMATS)}; got {self.format!r}.")
        if self.interval is not None:
            check_coverage(self.interval)
            if self.format == "png":
                raise InputError("interval needs a table, and a picture has no room for it. Try format='parquet'.")

    @property
    def name(self) -> str:
        """The name of the file."""
        return filled_name(self.format)


def write_fill(
    path: Path, model: CPModel | TuckerModel | SharedModel, fill: Fill, *, observed: ObservedTensor | None = None
) -> None:
    """Predict the cells and write them.

    A picture shows every cell: as observed where ``observed`` says so, which only an open run may pass on, and
    otherwise as predicted.
    """
    if isinstance(model, SharedModel):
        raise InputError("fill: a model for unit 'slice' predicts for nobody without their entries. Leave it out.")
    columns = check_columns(fill.coords, model.shape)
    if fill.format == "png":
        check_picture(model.shape)
        picture = model.dense() if observed is None else observed.to_dense(np.nan)
        if observed is not None:
            picture[tuple(columns)] = predict_columns(model, columns, threads=fill.threads)
        write_image(picture, path)
        return
    bounds = None
    if fill.interval is None:
        values = predict_columns(model, columns, threads=fill.threads)
    else:
        values, low, high = predict_intervals(model, columns, fill.interval, threads=fill.threads)
        bounds = (low, high)
    if fill.asked is not None:
        table = answers_table(fill.asked, values, model.modes, fill.value_name, bounds)
    else:
        table = cells_table(columns, values, model.modes, fill.value_name, bounds)
    write_table(table, path, safe=fill.safe_csv)
