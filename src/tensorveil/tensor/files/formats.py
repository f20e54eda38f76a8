"""The public `read` and `write`, and the table that picks a format by the file's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from tensorveil.errors import InputError
from tensorveil.tensor.files import images, matlab, npz, parquet, text, tns
from tensorveil.tensor.files.atomic import replacing
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.options import FrameOptions

# Endings, longest first where one ends another.
ENDINGS = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "tsv",
    ".tsv.gz": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tns": "tns",
    ".tns.gz": "tns",
    ".npz": "npz",
    ".mat": "mat",
    ".png": "png",
}
FORMATS = ("csv", "tsv", "parquet", "tns", "npz", "mat", "png")


@dataclass(frozen=True, kw_only=True)
class Source:
    """What the caller said about a file's layout."""

    modes: Sequence[str | Mode] | None
    value: str | None
    labels: bool
    index_base: int | None
    header: bool
    variable: str | None
    missing_value: float


def read(
    path: str | Path,
    modes: Sequence[str | Mode] | None = None,
    value: str | None = None,
    format: str | None = None,  # noqa: A002
    *,
    labels: bool = True,
    index_base: int | None = None,
    header: bool = True,
    variable: str | None = None,
    missing_value: float = np.nan,
    **options: Unpack[FrameOptions],
) -> ObservedTensor:
    """Read a tensor from a CSV, TSV, Parquet, FROSTT .tns, NPZ or MATLAB file, or from a PNG picture.

    Parameters
    ----------
    path
        The file. Text formats may be gzipped.
    modes, value
        Mode columns and value column of a table, as in `ObservedTensor.from_frame`; for other formats,
        `modes` names the modes.
    format
        "csv", "tsv", "parquet", "tns", "npz", "mat" or "png"; by default it follows from the file's ending.
    labels
        Tables: True (default) encodes every mode column as labels, integers too; False takes integer
        columns as indices.
    index_base
        The index of the first slice: 0 for tables read with `labels=False`, 1 for .tns and .mat.
    header
        CSV and TSV: whether the first line names the columns; if not, they are called f0, f1, ...
    variable, missing_value
        MATLAB: the variable to read, and the value that marks missing cells of a dense array.
    options
        `shape`, `bounds`, `duplicates`, `missing`, `out_of_bounds`, as for `ObservedTensor`.
    """
    file = Path(path)
    kind = pick_format(file, format)
    if not file.is_file():
        raise InputError("path must be an existing file; there is no file of that name. Check the path.")
    if index_base not in (None, 0, 1):
        raise InputError(f"index_base must be 0 or 1; got {index_base!r}.")
    source = Source(
        modes=modes,
        value=value,
        labels=labels,
        index_base=index_base,
        header=header,
        variable=variable,
        missing_value=missing_value,
    )
    given: dict[str, Any] = dict(options)
    match kind:
        case "csv" | "tsv":
            table = text.read_table(file, "," if kind == "csv" else "\t", source.header)
            return parquet.to_tensor(table, source, given)
        case "parquet":
            return parquet.read_tensor(file, source, given)
        case "tns":
            return tns.read_tensor(file, source, given)
        case "npz":
            return npz.read_tensor(file, source, given)
        case "png":
            return images.read_tensor(file, source, given)
        case _:
            return matlab.read_tensor(file, source, given)


def write(tensor: ObservedTensor, path: str | Path, format: str | None = None) -> None:  # noqa: A002
    """Write a tensor; the file appears complete or not at all."""
    file = Path(path)
    kind = pick_format(file, format)
    if not file.parent.is_dir():
        raise InputError("path must lie in an existing folder. Make the folder first.")
    writers = {
        "csv": text.write_tensor,
        "tsv": text.write_tensor,
        "parquet": parquet.write_tensor,
        "tns": tns.write_tensor,
        "npz": npz.write_tensor,
        "mat": matlab.write_tensor,
        "png": images.write_tensor,
    }
    with replacing(file) as temporary:
        writers[kind](tensor, temporary, file.name)


def pick_format(path: Path, name: str | None) -> str:
    """The format that was named, or the one of the file's ending."""
    if name is not None:
        if name not in FORMATS:
            raise InputError(f"format must be one of {', '.join(FORMATS)}; got {name!r}.")
        return name
    lower = path.name.lower()
    for ending, kind in ENDINGS.items():
        if lower.endswith(ending):
            return kind
    raise InputError(
        "format cannot be told from the file's ending. "
        f"Name it, e.g. format='csv'; the formats are {', '.join(FORMATS)}."
    )
