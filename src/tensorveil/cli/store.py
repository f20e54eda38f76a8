"""`tensorveil store FILES -o STORE --order user`: put files that may be larger than memory into a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensorveil.cli.common import (
    bin_option,
    common_options,
    console,
    dialect_options,
    escape,
    mark_private,
    print_json,
    split_lists,
    split_named_shape,
    split_names,
)
from tensorveil.cli.private import check_unit

if TYPE_CHECKING:
    from tensorveil.runs.info import DeclaredStore, StoreFacts


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder to make: the store.")
@click.option(
    "--order",
    required=True,
    callback=split_names,
    metavar="MODE[,MODE...]",
    help="Modes to order entries by: for --unit slice:user, user.",
)
@click.option("--unit", callback=check_unit, metavar="value|entry|slice:MODE", help="Private files: what is protected.")
@click.option("--bounds", type=float, nargs=2, metavar="LOW HIGH", help="Where values can lie; needed with --unit.")
@click.option(
    "--private-shape",
    callback=split_named_shape,
    metavar="SIZE,SIZE,...|MODE=SIZE,...",
    help="Private files: declared sizes of the modes that have no --labels.",
)
@click.option(
    "--labels",
    multiple=True,
    callback=split_lists,
    metavar="MODE=FILE[:COLUMN]",
    help="Public list of a mode's labels, film=films.csv; rows with others are left out. Repeatable.",
)
@click.option("--indices", is_flag=True, help="Mode columns without a list hold 0-based indices; otherwise labels.")
@click.option("--modes", callback=split_names, metavar="NAME,NAME,...", help="Columns that are the modes, in order.")
@click.option("--value", help="Column that holds the value [default: 'value', else the last one].")
@click.option("--format", "file_format", help="File format, where the names do not tell it.")
@click.option("--no-header", is_flag=True, help="CSV, TSV: no line of names; columns are f0, f1, ...")
@bin_option
@dialect_options
@click.option(
    "--duplicates",
    type=click.Choice(["error", "mean", "sum", "first", "last"]),
    help="Cells that are listed more than once, without --unit or with --unit value [default: error].",
)
@click.option("--missing", type=click.Choice(["error", "drop"]), help="Entries without a value, without --unit.")
@click.option("--part-rows", type=click.IntRange(min=1), help="About how many rows a part has [default: 2^20].")
@click.option("--force", is_flag=True, help="Replace a store in OUTPUT.")
@common_options
def store(
    files: tuple[Path, ...],
    output: Path,
    order: list[str],
    unit: str | None,
    bounds: tuple[float, float] | None,
    private_shape: tuple[int, ...] | dict[str, int] | None,
    labels: dict[str, str],
    indices: bool,
    modes: list[str] | None,
    value: str | None,
    file_format: str | None,
    no_header: bool,
    bins: dict[str, Any],
    delimiter: str | None,
    decimal: str | None,
    encoding: str | None,
    duplicates: str | None,
    missing: str | None,
    part_rows: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Put FILES, which may be larger than memory, into a store: a folder of sorted parts.

    With --unit the files are private: they are read by the rules of private fits, row by row, only you can read the
    store, and nothing is printed that was not declared. OUTPUT appears when everything is done; if anything fails,
    nothing is left behind.

    \b
    Examples:
      tensorveil store ratings-*.parquet -o STORE --order user --unit slice:user --bounds 1 5 \\
          --indices --private-shape 1000000,50000
      tensorveil store ratings.csv -o STORE --order user --unit slice:user --bounds 1 5 --value rating \\
          --labels film=films.csv --private-shape user=1000000
    """
    from tensorveil.runs.info import DeclaredStore, describe_store
    from tensorveil.runs.lists import read_lists
    from tensorveil.runs.store import write_store
    from tensorveil.tensor.storing import PART_ROWS

    if unit is not None:
        mark_private()
        if bounds is None:
            raise click.UsageError("--unit needs --bounds, which are declared, not read off data. Try --bounds 1 5.")
        if missing is not None or (duplicates is not None and unit != "value"):
            raise click.UsageError("--duplicates and --missing are not for private files, whose rows stay apart.")
    elif private_shape is not None:
        raise click.UsageError("--private-shape declares sizes of private files. Add --unit, or leave it out.")
    lists: dict[str, Any] = {}
    for file in files:
        lists = read_lists(labels, str(file)) or {}
    made = write_store(
        files, output, order=order, unit=unit, bounds=bounds, shape=private_shape, labels=lists or None,
        indices=indices, modes=modes, value=value, format=file_format, header=not no_header, bins=bins,
        delimiter=delimiter, decimal=decimal, encoding=encoding, duplicates=duplicates, missing=missing,
        part_rows=part_rows or PART_ROWS, force=force,
    )  # fmt: skip
    facts: StoreFacts | DeclaredStore = describe_store(made.folder) if unit is None else DeclaredStore.of(made)
    if as_json:
        print_json(facts.to_json())
    elif isinstance(facts, DeclaredStore):
        _show_declared(facts)
    else:
        show_store(facts)


def _show_declared(facts: DeclaredStore) -> None:
    """Print what was declared of a private store."""
    out = console()
    out.print(f"[bold]{escape(facts.folder)}[/bold]  a private store of {', '.join(map(escape, facts.modes))}")
    bounds = "none" if facts.bounds is None else f"{facts.bounds[0]:g} to {facts.bounds[1]:g}"
    out.print(f"ordered by {', '.join(map(escape, facts.orders))}; values: {escape(facts.value)}, bounds {bounds}")
    out.print("how many entries it holds is private: tensorveil info shows it to who can read the store")


def show_store(facts: StoreFacts) -> None:
    """Print what a store's manifest says."""
    from rich.table import Table

    out = console()
    shape = " x ".join(f"{size:,}" for size in facts.shape)
    out.print(f"[bold]{escape(facts.folder)}[/bold]  {facts.bytes:,} bytes, a store")
    out.print(f"{shape}, {facts.entries:,} entries, {facts.density:.3%} of the cells observed")
    table = Table("mode", "size", "labels", "ordered by", "largest part")
    for mode in facts.modes:
        parts = "no" if mode.parts is None else "1 part" if mode.parts == 1 else f"{mode.parts:,} parts"
        largest = "" if mode.largest_part is None else f"{mode.largest_part:,} entries"
        table.add_row(escape(mode.name), f"{mode.size:,}", "yes" if mode.listed else "none", parts, largest)
    out.print(table)
    bounds = "none" if facts.bounds is None else f"{facts.bounds[0]:g} to {facts.bounds[1]:g}"
    out.print(f"values ({facts.dtype}): column {escape(facts.value)}, declared bounds {bounds}")
    megabytes = f"{facts.part_bytes / 1e6:,.0f}" if facts.part_bytes >= 1e6 else "less than 1"
    out.print(f"work on a part takes {megabytes} MB", soft_wrap=True)
