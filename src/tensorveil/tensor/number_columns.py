"""Columns of Arrow tables as numbers: values and indices, read openly, or each field by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.tensor import checks
from tensorveil.tensor.cursors import decode_field

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["is_string_view", "read_floats", "read_leniently", "to_floats", "to_indices", "to_numbers"]

_HEXADECIMAL = r"^0[xX][0-9a-fA-F]{1,16}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:inf|infinity|nan)$"


def read_leniently(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as numbers; what is no number becomes a null.

    What a field becomes depends on this field alone: readers of text guess the kind of a whole column, so that a single
    field could otherwise change what all others are taken for.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = pa.types
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kinds.is_integer(column.type) or kinds.is_floating(column.type):
        return column
    if kinds.is_boolean(column.type):
        return column.cast(pa.float64())
    if kinds.is_decimal(column.type):
        return _decimals_to_floats(column)
    if kinds.is_binary(column.type) or kinds.is_large_binary(column.type):  # a field somewhere is no text
        column = pa.chunked_array([[decode_field(field) for field in column.to_pylist()]], pa.large_string())
    if not (kinds.is_string(column.type) or kinds.is_large_string(column.type) or is_string_view(column.type)):
        return pa.chunked_array([pa.nulls(len(column), pa.float64())])
    text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    for number, words in (("1", ["true", "True", "TRUE"]), ("0", ["false", "False", "FALSE"])):
        text = pc.if_else(pc.is_in(text, value_set=pa.array(words, text.type)), number, text)
    # Readers of text know hexadecimal integers, casts to floats do not.
    hexadecimal = pc.if_else(pc.match_substring_regex(text, _HEXADECIMAL), text, None).cast(pa.int64())
    decimal = pc.if_else(pc.match_substring_regex(text, _NUMBER), text, None).cast(pa.float64())
    return pc.coalesce(decimal, hexadecimal.cast(pa.float64(), safe=False))


def _decimals_to_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the nearest floats: by way of text, since a cast rounds by the digits of the longest number there is."""
    import pyarrow as pa

    return column.cast(pa.string()).cast(pa.float64())


def is_string_view(kind: pa.DataType) -> bool:
    """Tell whether a column is of texts as polars lays them out."""
    import pyarrow as pa

    return bool(hasattr(pa.types, "is_string_view") and pa.types.is_string_view(kind))


def read_floats(column: pa.ChunkedArray) -> Any:
    """Return a column as float64, NaN where there is no number; what a field becomes depends on this field alone."""
    return to_floats(read_leniently(column))


def to_floats(column: pa.ChunkedArray) -> Any:
    """Return a column of numbers as float64, NaN where there is none."""
    import pyarrow as pa

    return np.array(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def to_indices(column: pa.ChunkedArray, axis: int, base: int) -> Any:
    """Return a column of indices, 0-based from here on."""
    import pyarrow as pa

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InputError(
            f"coords of mode {axis} must be integers; got {column.type}. Pass labels=True to encode labels."
        )
    array = column.to_numpy()
    if array.dtype.kind == "u":
        array = array.astype(np.float64 if array.dtype.itemsize == 8 else np.int64)
    return checks.whole_numbers(array - base if base else array, axis)


def to_numbers(column: pa.ChunkedArray, where: str) -> Any:
    """Return the value column as a float array that the tensor may own."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(column.type):  # numbers that serve as categories
        column = column.cast(column.type.value_type)
    if types.is_decimal(column.type):
        column = _decimals_to_floats(column)
    elif types.is_boolean(column.type):
        column = column.cast(pa.float64())
    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        raise InputError(
            f"{where} must hold numbers to serve as values; got {column.type}. "
            "Name the value column with value=..., or convert it."
        ).of("no number")
    array = column.to_numpy()
    return array if array.flags.owndata or column.num_chunks > 1 else array.copy()
