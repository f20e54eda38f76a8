"""From files to a store: a tensor on disk that may be larger than memory."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensorveil.errors import GuessWarning, InputError, LeftOutWarning
from tensorveil.memory import memory_limit
from tensorveil.privacy.reading import read_privately_in_blocks, settle_values
from tensorveil.privacy.unit import Unit
from tensorveil.release.folder import check_folder, write_folder
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.bins import bin_columns, check_bins, known_bins, settle_bins
from tensorveil.tensor.files.dialect import Dialect
from tensorveil.tensor.files.file_format import Layout
from tensorveil.tensor.files.formats import read_blocks
from tensorveil.tensor.files.written import WrittenLabelsError, tell_written
from tensorveil.tensor.lists import settle_lists
from tensorveil.tensor.rows import NothingListedError, keep_listed
from tensorveil.tensor.stored import StoredTensor
from tensorveil.tensor.storing import PART_ROWS, fill_store

__all__ = ["STORE_FILES", "write_store"]

STORE_FILES: Final = ("manifest.json", "labels/*.parquet", "by-*/*.parquet")
_MOST = 1 << 30  # bytes for sorting: more makes fewer runs, and hardly any difference
_SHARE = 4  # of the limit of memory


def write_store(
    files: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    order: Sequence[str | int] | str,
    unit: str | Unit | None = None,
    bounds: Sequence[float] | None = None,
    shape: Sequence[int] | Mapping[str, int] | None = None,
    labels: Mapping[str, Any] | None = None,
    indices: bool = False,
    modes: Sequence[str | Mode] | None = None,
    value: str | None = None,
    format: str | None = None,  # noqa: A002
    header: bool = True,
    bins: Mapping[str, Any] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    duplicates: str | None = None,
    missing: str | None = None,
    part_rows: int = PART_ROWS,
    force: bool = False,
) -> StoredTensor:
    """Write files into a store, which may be larger than memory; the store appears whole or not at all.

    With a ``unit`` the files are private: they are read as `read_privately` reads them, every row by itself, and only
    the owner of the process can read the store. It remembers by which rules it was made, and estimators hold it to
    them as they do a tensor.

    Parameters
    ----------
    files
        One file or several, of the same columns.
    folder
        The store to make.
    order
        The mode, or modes, that entries are to be ordered by. A user-level fit needs the order of its protected mode.
    unit, bounds, shape, labels, indices
        Private files: as for `read_privately`. Others: ``bounds`` refuse values outside; labels that occur are
        numbered as `read` numbers them, in a first pass over the files, and kept in memory.
    modes, value, format, header, bins, delimiter, decimal, encoding
        As for `read`; private files as for `read_privately`.
    duplicates, missing
        Files that are not private, and duplicates in unit value: as for `ObservedTensor`.
    part_rows
        About how many rows a part is to have: no slice of a mode is cut in two.
    force
        Replace a store that is there.

    >>> import tensorveil as tv
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     ratings = tv.synthetic_cp((30, 20), 2, random_state=0).train.with_modes(["user", "film"])
    ...     ratings.write(f"{place}/data.parquet")
    ...     rules = {"unit": "slice:user", "bounds": (0, 1), "shape": (30, 20), "indices": True}
    ...     tv.write_store(f"{place}/data.parquet", f"{place}/store", order="user", **rules).modes
    (Mode('user'), Mode('film'))
    """
    paths = [files] if isinstance(files, str | os.PathLike) else list(files)
    by = [order] if isinstance(order, str | int) else list(order)
    if len({Path(path).resolve() for path in paths}) != len(paths) or not paths:
        raise InputError("files must be one file or several different ones.")
    if part_rows < 1:
        raise InputError("part_rows must be at least 1. Try part_rows=1000000.")
    check_folder(folder, ours=STORE_FILES, force=force)
    reading: dict[str, Any] = {
        "shape": shape, "labels": labels, "indices": indices, "modes": modes, "value": value, "format": format,
        "header": header, "bins": bins, "delimiter": delimiter, "decimal": decimal, "encoding": encoding,
    }  # fmt: skip
    of_values = unit is not None and Unit.parse(unit).kind == "value"
    if unit is None:
        blocks = _read_openly(paths, bounds=bounds, missing=missing, **reading)
        rule: Any = duplicates or "error"
    else:
        if bounds is None:
            raise InputError("bounds must be declared for private files. Try bounds=(1, 5).")
        if missing is not None or (duplicates not in (None, "error") and not of_values):
            raise InputError(
                "duplicates and missing are not for private files: entries that share a cell stay apart, and rows "
                "without a value are left out. Leave them out."
            )
        rule = (duplicates or "error") if of_values else "keep"
        if of_values:
            blocks = _read_values(paths, bounds, **reading)
        else:
            blocks = read_privately_in_blocks(paths, unit=unit, bounds=bounds, **reading)
    staged = write_folder(folder, ours=STORE_FILES, force=force, private=unit is not None)
    with staged as staging, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they may follow the data
        for known in (GuessWarning, LeftOutWarning) if unit is None else (LeftOutWarning,) if of_values else ():
            warnings.simplefilter("always", known)
        memory = min(memory_limit() // _SHARE, _MOST)
        fill_store(staging, blocks, order=by, duplicates=rule, memory=memory, part_rows=part_rows)
    return StoredTensor.open(folder)


def _read_values(
    paths: Sequence[Any],
    bounds: Sequence[float],
    *,
    format: str | None,  # noqa: A002
    **reading: Any,
) -> Iterator[ObservedTensor]:
    """Read files in unit value: by the rules of private runs; positions are public, and numbered as in open files."""
    rules, layout = settle_values(bounds, **reading)
    yield from _read_numbered(paths, format, layout, rules, indices=reading["indices"])


def _read_openly(
    paths: Sequence[Any],
    *,
    bounds: Sequence[float] | None,
    missing: str | None,
    shape: Any,
    labels: Mapping[str, Any] | None,
    indices: bool,
    modes: Sequence[str | Mode] | None,
    value: str | None,
    format: str | None,  # noqa: A002
    header: bool,
    bins: Mapping[str, Any] | None,
    **dialect: str | None,
) -> Iterator[ObservedTensor]:
    layout = Layout(
        modes=modes, value=value, labels=not indices, index_base=None, header=header, variable=None,
        missing_value=math.nan, lists=settle_lists(labels or {}), bins=settle_bins(bins), dialect=Dialect(**dialect),
    )  # fmt: skip
    if isinstance(shape, Mapping):
        raise InputError("shape by name is for private files. Give the sizes in the order of the modes.")
    options = {"bounds": bounds, "shape": shape, "missing": missing}
    rules = {name: given for name, given in options.items() if given is not None}
    yield from _read_numbered(paths, format, layout, rules, indices=indices)


def _read_numbered(
    paths: Sequence[Any],
    format: str | None,  # noqa: A002
    layout: Layout,
    rules: dict[str, Any],
    *,
    indices: bool,
) -> Iterator[ObservedTensor]:
    """Read files in blocks; labels that occur are numbered first, unless modes hold indices."""
    found = None
    while not indices:
        try:
            found = _number_labels([Path(path) for path in paths], format, layout, rules)
            break
        except WrittenLabelsError as error:  # from the beginning, with these labels as text
            layout = replace(layout, texts=(*layout.texts, *error.columns))
            tell_written([*map(repr, error.columns)])
    numbered = replace(layout, modes=found or layout.modes)
    for path in paths:
        for block in read_blocks(Path(path), format, numbered, rules):
            # What was numbered by who occurs stays so, though it looks like a list by now.
            yield block if found is None else block.with_origin(replace(block.origin, numbered=True, listed=False))


def _number_labels(
    paths: Sequence[Path],
    name: str | None,
    layout: Layout,
    rules: dict[str, Any],
) -> list[str | Mode] | None:
    """Pass over all files for the labels that occur, sorted; None where there is nothing to number by them.

    Labels are in memory; entries are not.
    """
    from tensorveil.tensor.files.formats import pick_format, read_guarded
    from tensorveil.tensor.frame_index import drop_index
    from tensorveil.tensor.frames import choose_columns
    from tensorveil.tensor.labels import encode_column
    from tensorveil.tensor.tables_out import stored_description

    seen: dict[str, Any] = {}
    kinds: dict[str, Any] = {}
    names: list[str] = []
    for path in paths:
        picked = pick_format(path, name)
        if picked.cut is None:
            return None
        tables = picked.cut(path, layout, rules)
        while (table := read_guarded(partial(next, tables, None), picked.name)) is not None:
            if layout.modes is None and layout.value is None and stored_description(table.schema) is not None:
                return None  # which brings its own numbering
            table = drop_index(table, layout.modes, layout.value)
            names, _ = choose_columns(table.column_names, layout.modes, layout.value)
            bins = known_bins(layout.modes or (), layout.bins)
            check_bins(bins, names, table.column_names)
            table, ranges = bin_columns(table, bins, lenient=False)
            lists = {**layout.lists, **ranges}
            try:
                table = keep_listed(table, names, lists, quiet=True)  # rows that are left out number nobody
            except NothingListedError:
                continue  # another block may have some; if none has, reading the entries says so
            given = {mode.name for mode in layout.modes or () if isinstance(mode, Mode)}
            for each in names if table.num_rows else ():
                if each in lists or each in given:
                    continue
                column = table.column(each).drop_null()
                if not len(column):
                    continue
                fresh = encode_column(column, f"column {each!r}", None, np.empty(len(column), np.int32))
                if kinds.setdefault(each, fresh.dtype.kind) != fresh.dtype.kind:
                    raise InputError(
                        "labels of a mode must be of one kind in all files and rows: all text, all numbers or all "
                        "dates. Write the files as Parquet, or give public lists of labels."
                    )
                seen[each] = fresh if each not in seen else np.unique(np.concatenate([seen[each], fresh]))
    modes: list[str | Mode] = list(layout.modes or names)
    widths = {name: bins.width for name, bins in layout.bins.items()}
    return [
        Mode.from_trusted(mode, seen[mode], widths.get(mode)) if isinstance(mode, str) and mode in seen else mode
        for mode in modes
    ]
