"""`tensorveil predict MODEL --at FILE -o OUT`: predictions of a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tensorveil.cli.common import (
    bin_option,
    check_tensor,
    common_options,
    console,
    dialect_options,
    escape,
    print_json,
    safe_csv_option,
)


@click.command()
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--at",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Table of cells: one column per mode, with labels (or 0-based indices where there are none).",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Table to write: .csv, .tsv or .parquet.",
)
@click.option(
    "--entries",
    type=click.Path(exists=True),
    callback=check_tensor,
    help="For a release of unit slice: a person's own entries, or several people's, told apart by a column. Or a "
    "store of them.",
)
@bin_option
@click.option("--value", help="Name of the column of predictions; by default that of the value column of the data.")
@click.option(
    "--interval",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Also low and high, between which this share of values is expected, such as 0.9: releases of unit value.",
)
@safe_csv_option
@click.option("--force", is_flag=True, help="Replace OUTPUT if it exists.")
@dialect_options
@common_options
def predict(
    model: Path,
    at: Path,
    output: Path,
    entries: str | None,
    bins: dict[str, Any],
    value: str | None,
    interval: float | None,
    safe_csv: bool,
    force: bool,
    delimiter: str | None,
    decimal: str | None,
    encoding: str | None,
    as_json: bool,
) -> None:
    """Predict the cells listed in a table with a model that `complete` saved. MODEL is its file or its folder.

    A release of unit slice holds nobody's own part: --entries brings it, and the answers are for its owner alone.

    \b
    Example:
      tensorveil predict result/model.npz --at questions.csv --output answers.csv
      tensorveil predict release --interval 0.9 --at questions.csv --output answers.csv
      tensorveil predict release --entries mine.csv --at questions.csv --output answers.csv
    """
    from tensorveil.runs.predict import PredictionRun, predict_cells
    from tensorveil.tensor.files.dialect import Dialect

    run = PredictionRun(
        model=model, at=at, output=output, entries=entries, bins=bins, value_name=value, interval=interval,
        safe_csv=safe_csv, force=force, dialect=Dialect(delimiter=delimiter, decimal=decimal, encoding=encoding),
    )  # fmt: skip
    found = predict_cells(run)
    if as_json:
        print_json(found.to_json())
    else:
        console().print(f"predictions: {found.predictions:,}, written to {escape(str(output))}", soft_wrap=True)
