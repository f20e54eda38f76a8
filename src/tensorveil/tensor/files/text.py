"""CSV and TSV, also gzipped."""

from __future__ import annotations

import gzip
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorveil.errors import InputError
from tensorveil.tensor.files.file_format import Format, Layout
from tensorveil.tensor.frames import table_to_tensor, tensor_to_table
from tensorveil.tensor.observed import ObservedTensor

if TYPE_CHECKING:
    import pyarrow as pa


def is_gzip(path: Path) -> bool:
    """Return whether the file is compressed, by its first bytes rather than by its name."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def open_for_writing(path: Path, name: str) -> Any:
    """Open the temporary file, compressed if the final name says so."""
    if name.lower().endswith(".gz"):
        return gzip.open(path, "wb", compresslevel=6)
    return path.open("wb")


def _load(path: Path, delimiter: str, *, header: bool, text: Collection[str], nulls: Sequence[str] | None) -> pa.Table:
    """Load an Arrow table; ``nulls`` are the fields that count as missing, by default those that Arrow knows."""
    import pyarrow as pa
    from pyarrow import csv

    with pa.input_stream(str(path), compression="gzip" if is_gzip(path) else None) as stream:
        return csv.read_csv(
            stream,
            read_options=csv.ReadOptions(autogenerate_column_names=not header),
            parse_options=csv.ParseOptions(delimiter=delimiter),
            convert_options=csv.ConvertOptions(
                column_types={name: pa.string() for name in text}, null_values=nulls, strings_can_be_null=True
            ),
        )


def _read_tensor(path: Path, delimiter: str, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read a tensor from a table; an empty field is a null."""
    import pyarrow as pa

    table = None
    # Arrow's own message quotes the line at fault.
    with suppress(pa.ArrowException, OSError, EOFError, UnicodeError):
        table = _load(path, delimiter, header=layout.header, text=(), nulls=[""])
    if table is None:
        raise InputError(
            "path must be a well-formed CSV or TSV file with the same number of fields in every line. "
            "The file is empty or damaged, or has another format: name it with format=..."
        )
    return table_to_tensor(
        table, layout.modes, layout.value, labels=layout.labels, index_base=layout.index_base or 0, **options
    )


def _write_tensor(tensor: ObservedTensor, path: Path, name: str, delimiter: str) -> None:
    """Write labels (or indices) and the value, with a header line."""
    from pyarrow import csv

    with open_for_writing(path, name) as file:
        csv.write_csv(_without_dictionaries(tensor_to_table(tensor)), file, csv.WriteOptions(delimiter=delimiter))


def _write_table(table: pa.Table, path: Path, delimiter: str) -> None:
    from pyarrow import csv

    options = csv.WriteOptions(delimiter=delimiter, quoting_style="needed")
    with path.open("wb") as file:
        csv.write_csv(_without_dictionaries(table), file, options)


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Undo dictionary encoding, which Arrow cannot write as text."""
    import pyarrow as pa

    plain = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(plain, names=table.column_names)


def _make_format(name: str, delimiter: str) -> Format:
    return Format(
        name=name,
        endings=(f".{name}", f".{name}.gz"),
        read=lambda path, layout, options: _read_tensor(path, delimiter, layout, options),
        write=lambda tensor, path, final: _write_tensor(tensor, path, final, delimiter),
        read_table=lambda path, *, text: _load(path, delimiter, header=True, text=text, nulls=None),
        write_table=lambda table, path: _write_table(table, path, delimiter),
    )


FORMATS = (_make_format("csv", ","), _make_format("tsv", "\t"))
