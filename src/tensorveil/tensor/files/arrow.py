"""Arrow IPC files, which are also Feather: tables whose columns say by themselves of what kind they are."""

from __future__ import annotations

import struct
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorveil.errors import InputError
from tensorveil.memory import check_file_memory
from tensorveil.tensor.files.file_format import Format, Layout
from tensorveil.tensor.frames import table_to_tensor
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.tables_out import tensor_to_table

if TYPE_CHECKING:
    import pyarrow as pa

BEGIN = 8  # bytes before the stream of messages, of which a file consists
DICTIONARY, BATCH = 2, 3


def _load(path: Path) -> pa.Table:
    """Load a table of which no more is unpacked than fits, and whose every cell is valid.

    The messages are read in their order, as they were compared with the limit, and not where the file's end says that
    they stand.
    """
    import pyarrow as pa

    check_file_memory(path.stat().st_size)
    total = 0
    with pa.memory_map(str(path)) as source:
        source.seek(BEGIN)
        for message in pa.ipc.MessageReader.open_stream(source):
            total += _unpacked_bytes(message.metadata.to_pybytes(), message.body)
            check_file_memory(2 * total)
        source.seek(BEGIN)
        with pa.ipc.open_stream(source) as reader:
            table = reader.read_all()
    flat = [name for name in table.column_names if not pa.types.is_nested(table.schema.field(name).type)]
    table = table.select(flat)
    table.validate(full=True)
    return table


def _unpacked_bytes(metadata: bytes, body: pa.Buffer | None) -> int:
    """Return how many bytes a message's buffers declare, which are compressed by themselves (Arrow's Message.fbs)."""
    message = int.from_bytes(metadata[:4], "little")
    kind_at, header = _field(metadata, message, 1), _table(metadata, message, 2)
    kind = metadata[kind_at] if kind_at else 0
    if kind == DICTIONARY and header:
        header = _table(metadata, header, 1)
    if kind not in (DICTIONARY, BATCH) or not header or body is None:
        return 0
    buffers, packed = _table(metadata, header, 2), _field(metadata, header, 3) != 0
    if not buffers or not packed:
        return int(body.size)
    found = 0
    for number in range(struct.unpack_from("<I", metadata, buffers)[0]):
        start, size = struct.unpack_from("<qq", metadata, buffers + 4 + 16 * number)
        if size:
            declared = struct.unpack_from("<q", body, start)[0]
            found += size if declared < 0 else declared
    return found


def _field(metadata: bytes, table: int, number: int) -> int:
    """Return where a field of a flatbuffer's table stands; 0 if it is left out."""
    names = table - struct.unpack_from("<i", metadata, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", metadata, names)[0]:
        return 0
    offset = struct.unpack_from("<H", metadata, names + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _table(metadata: bytes, table: int, number: int) -> int:
    """Return where a table or vector begins that a field points to; 0 if it is left out."""
    at = _field(metadata, table, number)
    return at + struct.unpack_from("<I", metadata, at)[0] if at else 0


def read_tensor(path: Path, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read a tensor from a table."""
    return table_to_tensor(
        _load(path), layout.modes, layout.value, labels=layout.labels, index_base=layout.index_base or 0, sealed=True,
        lists=layout.lists, owners=layout.owners, bins=layout.bins, **options,
    )  # fmt: skip


def write_tensor(tensor: ObservedTensor, path: Path, name: str) -> None:
    """Write labels (or indices) and the value; shape, bounds and label order go into the schema's metadata."""
    write_table(tensor_to_table(tensor, tensor.value_name, sealed=True), path)


def read_table(path: Path, *, text: Collection[str]) -> pa.Table:
    """Read all columns; the file itself says which of them are text."""
    import pyarrow as pa

    table = _load(path)
    plain = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(plain, names=table.column_names)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table, not compressed."""
    import pyarrow as pa

    if len(set(table.column_names)) != len(table.column_names):
        raise InputError("columns must have different names. Rename the repeated one.")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


FORMAT = Format(
    name="arrow",
    endings=(".arrow", ".feather", ".ipc"),
    magic=(b"ARROW1",),
    read=read_tensor,
    write=write_tensor,
    read_table=read_table,
    write_table=write_table,
)
