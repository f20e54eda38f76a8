"""`tensorveil info FILE`: what is in this file."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensorveil.cli.common import (
    ReadingOptions,
    check_tensor,
    common_options,
    console,
    print_json,
    reading_options,
)
from tensorveil.cli.messages import in_shell_words

if TYPE_CHECKING:
    from tensorveil.runs.info import FileFacts
    from tensorveil.runs.models import ModelFacts

FLAWS = {
    "duplicates": "some cells are listed more than once: choose --duplicates mean|sum|first|last",
    "missing": "some values or labels are missing, or values are no numbers: correct them, or choose --missing drop",
}


def check_info(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Accept a file, a store, or a folder that holds a model."""
    from tensorveil.release.names import MODEL

    if path is not None and (Path(path) / MODEL).is_file():
        return path
    return check_tensor(context, parameter, path)


@click.command()
@click.argument("file", type=click.Path(exists=True), callback=check_info)
@reading_options
@common_options
def info(file: str, reading: ReadingOptions, as_json: bool) -> None:
    """Show what FILE holds: modes, labels, entries, density, values.

    FILE is a table (CSV, TSV, JSON lines, Parquet, Arrow, SQLite, DuckDB), FROSTT .tns, NPZ or MATLAB; a store, of
    which the manifest is read alone; or a saved model, or the folder of a result or release: what may be asked of it.

    \b
    Examples:
      tensorveil info ratings.csv
      tensorveil info trips.parquet --modes from,to,hour --value trips
      tensorveil info clicks.csv --modes user,page,time --bin time=week
      tensorveil info umsatz.csv --delimiter ';' --decimal , --encoding latin-1
      tensorveil info counts.tns.gz --json
    """
    from tensorveil.runs.info import describe_file, describe_store
    from tensorveil.runs.models import describe_model, find_model

    if (model := find_model(file)) is not None:
        if reading.given:
            raise click.UsageError("a model knows its labels: leave out the options of reading.")
        known = describe_model(model)
        if as_json:
            print_json(known.to_json())
        else:
            _show_model(known)
        return
    if Path(file).is_dir():
        if reading.given:
            raise click.UsageError("a store knows how its files were read: leave out the options of reading.")
        from tensorveil.cli.store import show_store

        stored = describe_store(file)
        if as_json:
            print_json(stored.to_json())
        else:
            show_store(stored)
        return
    found = describe_file(reading.reading(file))
    flaws = [FLAWS[name] for name in found.flaws]
    if as_json:
        print_json(found.to_json() | {"flaws": flaws})
    else:
        _show(found, flaws, _next(reading, found))


def _show_model(known: ModelFacts) -> None:
    from rich.table import Table

    from tensorveil.cli.common import escape
    from tensorveil.runs.info import EXAMPLES

    out = console()
    out.print(f"[bold]{escape(known.file)}[/bold]  {known.bytes:,} bytes, a model")
    low_high = "none" if known.bounds is None else f"{known.bounds[0]:g} to {known.bounds[1]:g}"
    error = "" if known.estimated_rmse is None else f", RMSE about {known.estimated_rmse:.3g}, as measured under noise"
    out.print(f"{known.model}, rank {known.rank}; predicts {escape(known.predicts)}, bounds {low_high}{error}")
    if known.protects is not None:
        out.print(
            f"protects all entries of one {escape(known.protects)}, and holds nobody's own part: answers need "
            "--entries of a person"
        )
    table = Table("mode", "size", "labels", "bins")
    for mode in known.modes:
        labels = "none (0-based indices)"
        if mode.name == known.protects:
            labels = "people's own"
        elif mode.examples is not None:
            labels = f"{mode.labels}: {', '.join(mode.examples)}{', ...' if mode.size > EXAMPLES else ''}"
        width = f"{mode.bins} s" if isinstance(mode.bins, int) else mode.bins or ""
        table.add_row(escape(mode.name), f"{mode.size:,}", escape(labels), width)
    out.print(table)


def _next(reading: ReadingOptions, found: FileFacts) -> str:
    """Return a command that reads the file in the same way; of policies, one that it needs."""
    from tensorveil.runs.cells import Filling

    flaws, dialect = found.flaws, found.dialect
    words = ["tensorveil", "complete", found.file]
    for option, given in (
        ("--modes", ",".join(reading.modes or ())),
        ("--value", reading.value),
        ("--format", reading.file_format),
        ("--variable", reading.variable),
    ):
        words += [option, given] if given else []
    for mode, place in reading.labels.items():
        words += ["--labels", f"{mode}={place}"]
    for mode, parts in reading.bins.items():
        words += ["--bin", f"{mode}={parts[0]}" + (f":{parts[1]}..{parts[2]}" if len(parts) == 3 else "")]
    for name in ("delimiter", "decimal", "encoding"):
        words += [f"--{name}", "tab" if dialect[name] == "\t" else dialect[name]] if name in dialect else []
    words += ["--indices"] * reading.indices + ["--no-header"] * reading.no_header
    words += ["--duplicates", "mean"] * ("duplicates" in flaws) + ["--missing", "drop"] * ("missing" in flaws)
    words += ["--no-fill"] * (math.prod(found.tensor.shape) > Filling.max_cells)
    return shlex.join([*words, "--output", "result"])


def _show(found: FileFacts, flaws: list[str], then: str) -> None:
    from rich.table import Table

    from tensorveil.cli.common import escape
    from tensorveil.runs.info import EXAMPLES

    out, facts = console(), found.tensor
    shape = " x ".join(f"{size:,}" for size in facts.shape)
    out.print(f"[bold]{escape(found.file)}[/bold]  {found.bytes:,} bytes")
    out.print(f"{shape}, {facts.entries:,} entries, {facts.density:.3%} of the cells observed")
    if found.dialect:
        told = ", ".join(f"{name} {sign!r}" for name, sign in found.dialect.items())
        out.print(f"written with: {escape(told)}")
    table = Table("mode", "size", "labels", "entries per index", "without entries")
    for mode in facts.modes:
        counts = mode.entries_per_index
        labels = "none (0-based indices)"
        if mode.examples is not None:
            more = ", ..." if mode.size > EXAMPLES else ""
            labels = escape(f"{mode.labels}: {', '.join(mode.examples)}{more}")
        spread = f"{counts['min']:,} to {counts['max']:,}, median {counts['median']:,g}"
        table.add_row(escape(mode.name), f"{mode.size:,}", labels, spread, f"{mode.empty:,}")
    out.print(table)
    values = facts.values
    out.print(
        f"values of {escape(values['column'])} ({values['dtype']}): "
        f"{values['min']:g} to {values['max']:g}, mean {values['mean']:.4g}, "
        f"median {values['median']:g}, standard deviation {values['std']:.4g}, {values['distinct']:,} distinct"
    )
    bounds = facts.bounds
    out.print("declared bounds: " + ("none" if bounds is None else f"{bounds[0]:g} to {bounds[1]:g}"))
    costs = "; ".join(f"{solver} {cost}" for solver, cost in found.costs.items())
    out.print(f"a fit of rank 8 takes, roughly and on one core: {costs}", soft_wrap=True)
    for flaw in flaws:
        out.print(f"[yellow]note:[/yellow] {flaw}")
    for note in found.notes:
        out.print(f"[yellow]note:[/yellow] {escape(in_shell_words(note))}", soft_wrap=True)
    out.print(f"next: {escape(then)}", soft_wrap=True)
