"""`tensorveil recommend MODEL --for user`: the best candidates for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensorveil.cli.common import (
    check_tensor,
    common_options,
    console,
    dialect_options,
    escape,
    print_json,
    safe_csv_option,
)

if TYPE_CHECKING:
    from tensorveil.runs.recommend import Recommended

SHOWN = 50  # rows; all of them are in the output


@click.command()
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option("--for", "wanted", required=True, metavar="MODE", help="The mode to recommend for, such as user.")
@click.option("--along", metavar="MODE", help="The mode that is ranked, such as film [default: the only other one].")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many for each.")
@click.option("--users", metavar="LIST", help="Labels with commas between, a file with one per line, or all.")
@click.option(
    "--entries",
    type=click.Path(exists=True),
    callback=check_tensor,
    help="Table of what people have already, which is left out; for a release of unit slice, their own entries. Or a "
    "store of them.",
)
@click.option("--at", multiple=True, metavar="MODE=LABEL", help="Rank at this label, day=monday; otherwise averaged.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Table to write: .csv, .parquet.")
@safe_csv_option
@click.option("--force", is_flag=True, help="Replace OUTPUT if it exists.")
@dialect_options
@common_options
def recommend(
    model: Path,
    wanted: str,
    along: str | None,
    top: int,
    users: str | None,
    entries: str | None,
    at: tuple[str, ...],
    output: Path | None,
    safe_csv: bool,
    force: bool,
    delimiter: str | None,
    decimal: str | None,
    encoding: str | None,
    as_json: bool,
) -> None:
    """Recommend what people do not have yet, by a model that `complete` saved. MODEL is its file or its folder.

    A release of unit slice serves people from their own entries, --entries; without a column of the protected mode they
    are one person's. Recommendations are for their owners alone.

    \b
    Examples:
      tensorveil recommend result --for user --users all --top 5 --output lists.csv
      tensorveil recommend result --for user --along film --at day=monday --entries ratings.csv
      tensorveil recommend release --for user --entries mine.csv
    """
    from tensorveil.runs.recommend import Recommendation, recommend_items
    from tensorveil.tensor.files.dialect import Dialect

    run = Recommendation(
        model=model, wanted=wanted, along=along, n=top, users=_read_users(users), entries=entries,
        at=_split_labels(at), output=output, safe_csv=safe_csv, force=force,
        dialect=Dialect(delimiter=delimiter, decimal=decimal, encoding=encoding),
    )  # fmt: skip
    found = recommend_items(run)
    if as_json:
        print_json(_plain(found.to_json()))
    else:
        _show(found)


def _read_users(text: str | None) -> Any:
    from tensorveil.tensor.files.label_files import read_labels

    if text is None or text == "all":
        return text
    if Path(text).is_file():
        return read_labels(text, "users")
    return [part.strip() for part in text.split(",") if part.strip()]


def _split_labels(texts: tuple[str, ...]) -> dict[str, str]:
    parts = [text.partition("=") for text in texts]
    if not all(name.strip() and sign and label.strip() for name, sign, label in parts):
        raise click.UsageError("--at takes MODE=LABEL, such as --at day=monday.")
    return {name.strip(): label.strip() for name, _, label in parts}


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    rows = [{name: item if isinstance(item, int | float | str) else str(item) for name, item in row.items()}
            for row in facts["recommendations"]]  # fmt: skip
    return facts | {"recommendations": rows}


def _show(found: Recommended) -> None:
    from rich.table import Table

    out = console()
    table = Table(*(escape(name) for name in found.table.column_names))
    for row in found.table.slice(0, SHOWN).to_pylist():
        table.add_row(*(f"{item:.4g}" if isinstance(item, float) else escape(str(item)) for item in row.values()))
    out.print(table)
    if found.table.num_rows > SHOWN:
        out.print(f"and {found.table.num_rows - SHOWN:,} more")
    if found.averaged:
        out.print(f"averaged over all of: {escape(', '.join(found.averaged))} (--at MODE=LABEL holds one)")
    if found.output is not None:
        out.print(f"written: {escape(str(found.output))}", soft_wrap=True)
