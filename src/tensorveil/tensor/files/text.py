"""CSV and TSV, also gzipped."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorveil.errors import InputError
from tensorveil.tensor.frames import tensor_to_table
from tensorveil.tensor.observed import ObservedTensor

if TYPE_CHECKING:
    import pyarrow as pa


def read_table(path: Path, delimiter: str, header: bool) -> pa.Table:
    """The file as an Arrow table; an empty field is a null."""
    import pyarrow as pa
    from pyarrow import csv

    table = None
    compression = "gzip" if is_gzip(path) else None
    # Arrow's own message quotes the line at fault.
    failures = suppress(pa.ArrowException, OSError, EOFError, UnicodeError)
    with failures, pa.input_stream(str(path), compression=compression) as stream:
        table = csv.read_csv(
            stream,
            read_options=csv.ReadOptions(autogenerate_column_names=not header),
            parse_options=csv.ParseOptions(delimiter=delimiter),
            convert_options=csv.ConvertOptions(null_values=[""], strings_can_be_null=True),
        )
    if table is None:
        raise InputError(
            "path must be a well-formed CSV or TSV file with the same number of fields in every line. "
            "The file is empty or damaged, or has another format: name it with format=..."
        )
    return table


def is_gzip(path: Path) -> bool:
    """Whether the file is compressed, by its first bytes rather than by its name."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def write_tensor(tensor: ObservedTensor, path: Path, name: str) -> None:
    """Labels (or indices) and the value, with a header line."""
    import pyarrow as pa
    from pyarrow import csv

    table = tensor_to_table(tensor)
    plain = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    delimiter = "\t" if ".tsv" in name.lower() else ","
    options = csv.WriteOptions(delimiter=delimiter)
    with opened(path, name) as file:
        csv.write_csv(pa.table(plain, names=table.column_names), file, options)


def opened(path: Path, name: str) -> Any:
    """The temporary file, compressed if the final name says so."""
    if name.lower().endswith(".gz"):
        return gzip.open(path, "wb", compresslevel=6)
    return path.open("wb")
