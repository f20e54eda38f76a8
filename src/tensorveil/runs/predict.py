"""Predictions of a saved model, from a table of cells to a table of answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorveil.errors import InputError
from tensorveil.models import load_model
from tensorveil.models.evaluate import predict_columns, predict_intervals
from tensorveil.models.tables import answers_table
from tensorveil.release.cells import find_cells, read_asked
from tensorveil.release.names import model_file
from tensorveil.rounds.shared import SharedModel, is_shared
from tensorveil.runs.people import read_people
from tensorveil.tensor.files.dialect import PLAIN, Dialect
from tensorveil.tensor.files.formats import write_table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Predicted", "PredictionRun", "predict_cells"]


@dataclass(frozen=True, kw_only=True)
class PredictionRun:
    """What is to be predicted.

    Parameters
    ----------
    model
        A model's file, or the folder of a result or a release.
    at
        A table of cells: one column per mode, with labels (or 0-based indices where there are none).
    output
        The table to write: .csv, .tsv or .parquet.
    entries
        For a model of unit slice: a file of a person's own entries, or of several people's, whom a column of the
        protected mode tells apart.
    bins
        Modes whose columns hold moments, and the bins that the model knows: {"time": "day"}, as its data were read.
    value_name
        What the column of predictions is called; None for the name of the values that the model was fitted to.
    interval
        A share such as 0.9: the table gets columns low and high, between which this share of values is expected. For
        models that know their errors, as releases of unit "value" do.
    safe_csv
        Whether texts of a CSV or TSV file that a spreadsheet would take for formulas get an apostrophe before them.
    force
        Whether an existing output may be replaced.
    dialect
        How CSV and TSV files are written, where that is not to be detected.
    """

    model: Path
    at: Path
    output: Path
    entries: str | os.PathLike[str] | None = None
    bins: Mapping[str, Any] = field(default_factory=dict)
    value_name: str | None = None
    interval: float | None = None
    safe_csv: bool = False
    force: bool = False
    dialect: Dialect = PLAIN


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Where the predictions are, and how many there are."""

    output: Path
    predictions: int

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return {"output": str(self.output), "predictions": self.predictions}


def predict_cells(run: PredictionRun) -> Predicted:
    """Predict the cells that are asked for and write them, whole or not at all."""
    if run.output.exists() and not run.force:
        raise InputError(f"output: {run.output} already exists. Choose another name, or add force=True.")
    path = model_file(run.model)
    table = (_predict_for_people if is_shared(path) else _predict)(run, path)
    write_table(table, run.output, safe=run.safe_csv)
    return Predicted(output=run.output, predictions=table.num_rows)


def _predict(run: PredictionRun, model: Path) -> pa.Table:
    if run.entries is not None:
        raise InputError(f"entries: {run.model} is a whole model and needs none. Leave it out.")
    fitted = load_model(model)
    columns, asked = read_asked(run.at, fitted.modes, fitted.shape, run.bins, run.dialect)
    name = run.value_name or fitted.value_name
    if run.interval is None:
        return answers_table(asked, predict_columns(fitted, columns), fitted.modes, name)
    values, low, high = predict_intervals(fitted, columns, run.interval)
    return answers_table(asked, values, fitted.modes, name, (low, high))


def _predict_for_people(run: PredictionRun, model: Path) -> pa.Table:
    """Predict with the part that everybody shares and the part that follows from people's own entries."""
    if run.interval is not None:
        raise InputError("interval: a release of unit slice does not know its errors. Leave it out.")
    if run.entries is None:
        raise InputError(
            f"{run.model} holds nobody's own part: predictions for a person need the person's entries. "
            "Add entries=FILE."
        )
    shared = SharedModel.load(model)
    people = read_people(run.entries, run.at, shared, run.bins, run.dialect)
    columns = find_cells(people.asked, people.modes, people.entries.shape, run.at.name)
    predictions = shared.predict_for(people.entries, columns.T)
    return answers_table(people.written, predictions, people.modes, run.value_name or shared.value_name)
