"""`tensorveil info FILE`: what is in this file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensorveil.cli.common import common_options, console, print_json, reading_options

if TYPE_CHECKING:
    from tensorveil.tensor import ObservedTensor

# Policies under which a file with flaws can still be described, mildest first.
LENIENT: tuple[dict[str, str], ...] = (
    {},
    {"duplicates": "first"},
    {"missing": "drop"},
    {"duplicates": "first", "missing": "drop"},
)
FLAWS = {
    "duplicates": "some cells are listed more than once: choose --duplicates mean|sum|first|last",
    "missing": "some values or labels are missing: choose --missing drop",
}
EXAMPLES = 3


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@reading_options
@common_options
def info(file: str, as_json: bool, **reading: Any) -> None:
    """Show what FILE holds: modes, labels, entries, density, values.

    FILE is a CSV, TSV, Parquet, FROSTT .tns, NPZ or MATLAB file.

    \b
    Examples:
      tensorveil info ratings.csv
      tensorveil info trips.parquet --modes from,to,hour --value trips
      tensorveil info counts.tns.gz --json
    """
    tensor, flaws = _read_leniently(file, reading)
    facts = describe(tensor) | {"file": file, "bytes": Path(file).stat().st_size, "flaws": flaws}
    if as_json:
        print_json(facts)
    else:
        _show(facts)


def _read_leniently(file: str, reading: dict[str, Any]) -> tuple[ObservedTensor, list[str]]:
    """Read strictly if possible; else leniently, saying which flaws that took."""
    from tensorveil.errors import InputError
    from tensorveil.runs.reading import read_tensor

    first_error: InputError | None = None
    for policies in LENIENT:
        try:
            return read_tensor(file, **(reading | policies)), [FLAWS[name] for name in policies]
        except InputError as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error


def describe(tensor: ObservedTensor) -> dict[str, Any]:
    """Give the facts about a tensor as plain data."""
    import numpy as np

    values = tensor.values.astype(np.float64)
    low, middle, high = np.quantile(values, [0.0, 0.5, 1.0]).tolist()
    return {
        "order": tensor.order,
        "shape": list(tensor.shape),
        "entries": tensor.n_entries,
        "density": tensor.density,
        "bounds": None if tensor.bounds is None else list(tensor.bounds),
        "modes": [_describe_mode(tensor, m) for m in range(tensor.order)],
        "values": {
            "min": low,
            "median": middle,
            "max": high,
            "mean": float(values.mean()),
            "std": float(values.std()),
            "distinct": len(np.unique(values)),
            "dtype": str(tensor.values.dtype),
        },
    }


def _describe_mode(tensor: ObservedTensor, m: int) -> dict[str, Any]:
    import numpy as np

    mode, size = tensor.modes[m], tensor.shape[m]
    counts = np.bincount(tensor.columns[m], minlength=size)
    examples = None if mode.labels is None else [str(label) for label in mode.labels[:EXAMPLES]]
    return {
        "name": mode.name,
        "size": size,
        "labels": _label_kind(mode.labels),
        "examples": examples,
        "entries_per_index": {
            "min": int(counts.min()),
            "median": float(np.median(counts)),
            "max": int(counts.max()),
        },
        "empty": int((counts == 0).sum()),
    }


def _label_kind(labels: Any) -> str | None:
    if labels is None:
        return None
    return {"T": "text", "M": "dates", "m": "durations", "b": "true/false"}.get(labels.dtype.kind, "numbers")


def _show(facts: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    out = console()
    shape = " x ".join(f"{size:,}" for size in facts["shape"])
    out.print(f"[bold]{escape(facts['file'])}[/bold]  {facts['bytes']:,} bytes")
    out.print(f"{shape}, {facts['entries']:,} entries, {facts['density']:.3%} of the cells observed")
    table = Table("mode", "size", "labels", "entries per index", "without entries")
    for mode in facts["modes"]:
        counts = mode["entries_per_index"]
        labels = "none (0-based indices)"
        if mode["labels"]:
            more = ", ..." if mode["size"] > EXAMPLES else ""
            labels = escape(f"{mode['labels']}: {', '.join(mode['examples'])}{more}")
        spread = f"{counts['min']:,} to {counts['max']:,}, median {counts['median']:,g}"
        table.add_row(escape(mode["name"]), f"{mode['size']:,}", labels, spread, f"{mode['empty']:,}")
    out.print(table)
    values = facts["values"]
    out.print(
        f"values ({values['dtype']}): {values['min']:g} to {values['max']:g}, mean {values['mean']:.4g}, "
        f"median {values['median']:g}, standard deviation {values['std']:.4g}, {values['distinct']:,} distinct"
    )
    bounds = facts["bounds"]
    out.print("declared bounds: " + ("none" if bounds is None else f"{bounds[0]:g} to {bounds[1]:g}"))
    for flaw in facts["flaws"]:
        out.print(f"[yellow]note:[/yellow] {flaw}")
    out.print(f"next: tensorveil complete {escape(facts['file'])} --output result", soft_wrap=True)
