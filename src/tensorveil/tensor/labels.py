"""Columns of labels to columns of indices, through Arrow dictionaries.

Labels come out sorted, so that the encoding depends on the set of labels and not on the order of rows.
Only the dictionary is sorted, which is short compared with the column.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor.checks import MAX_SIZE, IntArray
from tensorveil.tensor.modes import trim_label

if TYPE_CHECKING:
    import pyarrow as pa

PARALLEL_ITEMS = 1 << 20


class UnknownLabelError(InputError):
    """A table has labels that are not those of a given mode."""


def encode_column(column: pa.ChunkedArray, where: str, known: NDArray[Any] | None, out: IntArray) -> Any:
    """Write the index of every label into `out`; return the labels (those given, or sorted new ones).

    ``where`` is what errors call the column.
    """
    if column.null_count:
        raise missing_label(where)
    chunks = [chunk for chunk in _as_dictionary(column, where).chunks if len(chunk)]
    if not chunks:
        raise InputError(f"{where} must hold at least one row; got an empty input. Check the source.")
    dictionaries, owner = _distinct_dictionaries(chunks)
    items, maps = _merge(dictionaries)
    if items.null_count:
        raise missing_label(where)
    codes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks]
    if known is not None:
        rank, labels = _known_ranks(items, known, where), known
    else:
        rank, labels = _sorted_ranks(items, _used_items(len(items), maps, codes, owner), where)
    ranks = [rank[places] for places in maps]
    place = 0
    for part, number in zip(codes, owner, strict=True):
        np.take(ranks[number], part, out=out[place : place + len(part)], mode="clip")
        place += len(part)
    if known is not None and out.min() < 0:
        raise UnknownLabelError(
            f"{where} contains a label that the given mode does not know. "
            "Encode with the modes of a tensor that holds all labels, or give the mode by name only."
        )
    return labels


def encode_known(column: pa.ChunkedArray, known: NDArray[Any], out: IntArray) -> bool:
    """Write the index of every label into `out`; return whether all of them are known."""
    try:
        encode_column(column, "labels", known, out)
    except InputError:
        return False
    return True


def _distinct_dictionaries(chunks: list[Any]) -> tuple[list[Any], list[int]]:
    """Return the dictionaries without repetition, and the number of each chunk's dictionary.

    Files hold a few dictionaries for many chunks; equal addresses identify them, without comparing strings.
    """
    numbers: dict[Any, int] = {}
    dictionaries: list[Any] = []
    owner: list[int] = []
    for chunk in chunks:
        items = chunk.dictionary
        buffers = tuple(0 if buffer is None else buffer.address for buffer in items.buffers())
        key = (buffers, items.offset, len(items))
        if key not in numbers:
            numbers[key] = len(dictionaries)
            dictionaries.append(items)
        owner.append(numbers[key])
    return dictionaries, owner


def _merge(dictionaries: list[Any]) -> tuple[Any, list[NDArray[Any]]]:
    """Return all different items, and for each dictionary the places of its items among them."""
    import pyarrow as pa

    if _is_view(dictionaries[0].type):  # as polars writes categories; Arrow cannot sort views
        dictionaries = [items.cast(pa.large_string()) for items in dictionaries]
    workers = min(os.cpu_count() or 1, len(dictionaries))
    if sum(map(len, dictionaries)) < PARALLEL_ITEMS or workers == 1:
        return _merge_group(dictionaries)
    # Groups side by side, then the groups' items, which are few by then.
    cuts = [len(dictionaries) * part // workers for part in range(workers + 1)]
    groups = [dictionaries[cuts[part] : cuts[part + 1]] for part in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        merged = list(pool.map(_merge_group, groups))
    items, tops = _merge_group([found for found, _ in merged])
    return items, [top[places] for top, (_, maps) in zip(tops, merged, strict=True) for places in maps]


def _merge_group(dictionaries: list[Any]) -> tuple[Any, list[NDArray[Any]]]:
    import pyarrow as pa

    encoded = pa.chunked_array(dictionaries).dictionary_encode(null_encoding="encode")
    return encoded.chunk(0).dictionary, [chunk.indices.to_numpy() for chunk in encoded.chunks]


def _used_items(count: int, maps: list[NDArray[Any]], codes: list[NDArray[Any]], owner: list[int]) -> NDArray[np.bool_]:
    """Return which items occur: a categorical column may declare labels that no row uses."""
    flags = [np.zeros(len(places), bool) for places in maps]
    for part, number in zip(codes, owner, strict=True):
        flags[number][part] = True
    used = np.zeros(count, bool)
    for places, flag in zip(maps, flags, strict=True):
        used[places[flag]] = True
    return used


def missing_label(where: str) -> InputError:
    """Return the error for nulls among labels."""
    return InputError(
        f"{where} must not contain missing labels (nulls). Fill them, or pass missing='drop' to leave such rows out."
    ).of("no label")


def _as_dictionary(column: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Dictionary-encode a column unless it is already."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    if types.is_dictionary(column.type):
        return column
    if _is_view(column.type):
        column = column.cast(pa.large_string())
    if types.is_time(column.type):  # of a day, with fractions of seconds only where there are some
        column = pc.replace_substring_regex(column.cast(pa.string()), r"\.0+$", "")
    kind = column.type
    if types.is_floating(kind):
        column = _without_minus_zero(column)
    if not (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
    ):
        if types.is_binary(kind):
            raise InputError(
                f"{where} must hold text to serve as labels; some of it is none in UTF-8. Say how the file is encoded, "
                "e.g. encoding='latin-1'."
            )
        raise InputError(
            f"{where} must hold strings, numbers or dates to serve as labels; got {kind}. "
            "Convert it, or leave it out of modes."
        )
    return column.dictionary_encode()


def _without_minus_zero(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in which minus zero is zero: the two are equal, so they are one label."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_float16(column.type):  # which Arrow cannot compute with
        column = column.cast(pa.float32())
    return pc.if_else(pc.equal(column, 0.0), pa.scalar(0.0, column.type), column)


def _is_view(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string_view(kind))


def _sorted_ranks(dictionary: pa.Array, used: NDArray[np.bool_], where: str) -> tuple[IntArray, NDArray[Any]]:
    """Return the rank of every dictionary item among the labels that occur, and those labels, sorted."""
    import pyarrow.compute as pc

    if len(dictionary) >= MAX_SIZE:
        raise InputError(f"{where} must hold fewer than {MAX_SIZE} different labels.")
    order = pc.array_sort_indices(dictionary).to_numpy()
    order = order[used[order]]
    rank = np.full(len(dictionary), -1, np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    labels = to_numpy_labels(dictionary.take(_indices(order)), where)
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise missing_label(where)
    return rank, labels


def _indices(order: NDArray[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array(order)


def to_arrow_labels(labels: NDArray[Any]) -> pa.Array:
    """Return labels as an Arrow array; text goes by way of Python, because Arrow before 26 cannot read numpy's."""
    import pyarrow as pa

    return pa.array(labels.tolist(), pa.string()) if labels.dtype.kind == "T" else pa.array(labels)


def _known_ranks(dictionary: pa.Array, known: NDArray[Any], where: str) -> IntArray:
    """Return the position of every dictionary item among the known labels, -1 if unknown.

    Text that is not known as it is written may be so as public lists are: trimmed and composed.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    items = to_numpy_labels(dictionary, where)
    if known.dtype.kind == "M" and items.dtype.kind == "T":
        from tensorveil.tensor.instants import to_instants

        instants = to_instants(items.tolist(), known.dtype)
        items = items if instants is None else instants
    if "M" in (known.dtype.kind, items.dtype.kind) and items.dtype.kind == known.dtype.kind:
        kind = np.promote_types(items.dtype, known.dtype)
        items, known = items.astype(kind), known.astype(kind)
    if (items.dtype.kind == "T") != (known.dtype.kind == "T"):
        return np.full(len(items), -1, np.int32)
    try:
        choices = to_arrow_labels(known)
        found = pc.index_in(to_arrow_labels(items).cast(choices.type), value_set=choices)
        if items.dtype.kind == "T" and found.null_count:
            trimmed = pa.array([trim_label(item) for item in items.tolist()], choices.type)
            found = pc.coalesce(found, pc.index_in(trimmed, value_set=choices))
    except pa.ArrowInvalid:
        return np.full(len(items), -1, np.int32)
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), np.int32)


def to_numpy_labels(labels: pa.Array, where: str) -> NDArray[Any]:
    """Return Arrow labels as numpy: strings as StringDType, numbers and dates as they are."""
    import pyarrow as pa

    types = pa.types
    if types.is_string(labels.type) or types.is_large_string(labels.type) or _is_view(labels.type):
        return np.array(labels.to_numpy(zero_copy_only=False), dtype=np.dtypes.StringDType())
    if types.is_timestamp(labels.type) and labels.type.tz is not None:
        labels = labels.cast(pa.timestamp(labels.type.unit))  # numpy has no zones: UTC instants
    array = np.array(labels.to_numpy(zero_copy_only=False))
    if array.dtype.kind == "O":
        raise InputError(f"{where} must hold strings, numbers or dates to serve as labels.")
    return array
