"""Tables out: tensors as Arrow, pandas and polars tables, and what a table of ours says about itself."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorveil.errors import InputError, MissingDependencyError
from tensorveil.tensor.given import VALUE
from tensorveil.tensor.labels import to_arrow_labels
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.origin import Origin

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "METADATA",
    "StoredDescription",
    "arrow_to_pandas",
    "arrow_to_polars",
    "stored_description",
    "tensor_to_pandas",
    "tensor_to_polars",
    "tensor_to_table",
]

METADATA = b"tensorveil"


class StoredDescription:
    """What our own tables say about themselves: modes, labels, shape, bounds, and how they came about."""

    def __init__(self, text: bytes) -> None:
        import pyarrow as pa

        try:
            facts = json.loads(text)
            self.facts: dict[str, Any] = facts
            self.value: str = facts["value"]
            self.modes = [
                Mode(name, None if packed is None else _unpack_labels(packed, name), width)
                for name, packed, width in zip(
                    facts["modes"], facts["labels"], facts.get("bins", [None] * len(facts["modes"])), strict=True
                )
            ]
            self.options: dict[str, Any] = {"shape": facts["shape"], "bounds": facts["bounds"]}
            self.origin = Origin.from_json(facts.get("origin", {}))
            self.digest: str | None = facts.get("digest")
        except (ValueError, LookupError, TypeError, OSError, RecursionError, pa.ArrowException):
            self.modes = []  # not here: Arrow's text may hold pieces of memory
        if not self.modes:
            raise InputError("the table's tensorveil description is damaged. Remove it from the schema's metadata.")

    def check(self, columns: Any, values: Any) -> None:
        """Refuse rows that are not those that were described; rows without a value were never written."""
        if self.digest is not None and self.digest != _digest(self.facts, columns, values):
            raise InputError(
                "the table is not the one that its tensorveil description speaks of: it is damaged, or was changed. "
                "Write it again, or name modes and value to read it as any other table."
            )

    def origin_of(self, modes: Sequence[str | Mode] | None, value: str | None) -> Origin:
        """Return how the entries came about, whatever columns are named now.

        Only columns of labels can be numbered anew, by those that are given; indices stay what they are.
        """
        relabelled = (modes, value) != (None, None) and all(mode.labels is not None for mode in self.modes)
        return replace(
            self.origin,
            numbered=self.origin.numbered and not relabelled,
            value_named=self.origin.value_named or value is not None,
        )


def stored_description(schema: pa.Schema) -> StoredDescription | None:
    """Return the description that `to_arrow` left in the schema, if there is one."""
    known = schema.metadata or {}
    if METADATA not in known and any(text.startswith(b'{"value": ') and b'"origin"' in text for text in known.values()):
        return StoredDescription(b"")  # whose name is damaged
    return StoredDescription(known[METADATA]) if METADATA in known else None


def _digest(facts: Mapping[str, Any], columns: Any, values: Any) -> str:
    """Return a digest of everything that a table of ours says: page checksums leave out what describes the pages."""
    stated = {key: item for key, item in facts.items() if key != "digest"}
    found = hashlib.sha256(json.dumps(stated, sort_keys=True).encode())
    for array in (*columns, values):
        found.update(np.ascontiguousarray(array).view(np.uint8).data if len(array) else b"")
    return found.hexdigest()


def _pack_labels(labels: Any) -> str:
    """Return labels as base64 text of a compressed Arrow stream: exact, and safe in any metadata."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    table = pa.table({"labels": to_arrow_labels(labels)})
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def _unpack_labels(text: str, name: str) -> Any:
    import pyarrow as pa

    from tensorveil.tensor.labels import to_numpy_labels

    table = pa.ipc.open_stream(base64.b64decode(text, validate=True)).read_all()
    table.validate(full=True)
    return to_numpy_labels(table.column(0).combine_chunks(), f"column {name!r}")


def tensor_to_table(tensor: ObservedTensor, value: str = VALUE, *, sealed: bool = False) -> pa.Table:
    """Return one column per mode (labels, or indices where there are none) and the value column.

    With ``sealed`` its description holds a digest of all of it: for files, which nobody is to change.
    """
    import pyarrow as pa

    names = [mode.name for mode in tensor.modes]
    if value in names:
        raise InputError(f"value must not be the name of a mode; got {value!r}. Rename the mode with with_modes(...).")
    arrays = []
    for mode, column in zip(tensor.modes, tensor.columns, strict=True):
        if mode.labels is None:
            arrays.append(pa.array(column))
        else:
            coded = pa.DictionaryArray.from_arrays(pa.array(column), to_arrow_labels(mode.labels))
            arrays.append(coded if mode.labels.dtype.kind == "T" else coded.dictionary_decode())
    facts: dict[str, Any] = {
        "value": value,
        "modes": names,
        "labels": [None if mode.labels is None else _pack_labels(mode.labels) for mode in tensor.modes],
        "shape": tensor.shape,
        "bounds": tensor.bounds,
        "origin": tensor.origin.to_json(),
    }
    if any(mode.bins is not None for mode in tensor.modes):
        facts["bins"] = [mode.bins for mode in tensor.modes]
    if sealed:
        facts["digest"] = _digest(facts, tensor.columns, tensor.values)
    table = pa.table([*arrays, pa.array(tensor.values)], names=[*names, value])
    return table.replace_schema_metadata({METADATA: json.dumps(facts).encode()})


def tensor_to_pandas(tensor: ObservedTensor, value: str = VALUE) -> Any:
    """Return a pandas data frame; string labels become categories."""
    return arrow_to_pandas(tensor_to_table(tensor, value))


def tensor_to_polars(tensor: ObservedTensor, value: str = VALUE) -> Any:
    """Return a polars data frame; string labels become categories."""
    return arrow_to_polars(tensor_to_table(tensor, value))


def arrow_to_pandas(table: pa.Table) -> Any:
    """Return an Arrow table as a pandas frame."""
    _require("pandas")
    return table.replace_schema_metadata(None).to_pandas()


def arrow_to_polars(table: pa.Table) -> Any:
    """Return an Arrow table as a polars frame."""
    return _require("polars").from_arrow(table)


def _require(package: str) -> Any:
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingDependencyError(f'{package} is not installed. Run: pip install "tensorveil[frames]"') from None
