"""Tables in: pandas, polars, Arrow, and everything that speaks the Arrow stream protocol."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorveil.errors import GuessWarning, InputError, LeftOutWarning, warn
from tensorveil.tensor import checks
from tensorveil.tensor.bins import MOMENTS, NO_MOMENTS, Bins, are_seconds, bin_columns, check_bins, known_bins
from tensorveil.tensor.cursors import fetch_table, is_cursor, text_of_cell
from tensorveil.tensor.frame_index import drop_index
from tensorveil.tensor.given import VALUE, plain_frame
from tensorveil.tensor.labels import encode_column, missing_label
from tensorveil.tensor.lists import NumberOwners, number_owners
from tensorveil.tensor.modes import Mode, near
from tensorveil.tensor.number_columns import is_string_view, read_leniently, to_floats, to_indices, to_numbers
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.origin import Origin
from tensorveil.tensor.rows import keep_listed, numbers_of, read_rows
from tensorveil.tensor.tables_out import stored_description

if TYPE_CHECKING:
    import pyarrow as pa

_MADE_UP = re.compile(r"Unnamed: \d+")  # what pandas calls a column of a CSV file that has no name


class NoValueColumnError(InputError):
    """A table has no column of the name that its values were said to have."""


def as_table(frame: Any, *, lenient: bool = False, by_cell: bool = False) -> pa.Table:
    """Return any data frame as an Arrow table.

    ``lenient`` takes what stands in a column of several kinds as text, field by field, rather than refuse the frame for
    one of them. ``by_cell`` does so in all columns that have no kind of their own: whether there are several kinds in
    one depends on all of its rows.
    """
    import pyarrow as pa

    if is_cursor(frame):
        return fetch_table(frame, lenient=lenient)
    frame = plain_frame(frame)
    if isinstance(frame, pa.Table):
        return _without_views(frame)
    if isinstance(frame, pa.RecordBatch):
        return _without_views(pa.Table.from_batches([frame]))
    failed = False
    try:
        if type(frame).__module__.split(".")[0] == "pandas":
            plain = _without_mixtures(frame, by_cell=by_cell) if lenient else frame
            return pa.Table.from_pandas(plain, preserve_index=False)
        if hasattr(frame, "__arrow_c_stream__"):
            return _without_views(pa.table(frame))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        failed = True  # Arrow's own message quotes the data
    if failed:
        raise InputError(
            "frame must have one kind of data per column: all strings, all numbers or all dates. "
            "Convert the mixed column first."
        )
    raise InputError("frame must be a pandas, polars or Arrow table. For arrays use ObservedTensor(coords, values).")


def _without_views(table: pa.Table) -> pa.Table:
    """Return a table whose texts Arrow can take rows of: not as polars lays them out."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if is_string_view(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(pa.large_string()))
    return table


def _without_mixtures(frame: Any, *, by_cell: bool) -> Any:
    """Return a pandas frame whose columns of objects, or those of them that Arrow cannot hold, are text."""
    import pyarrow as pa

    texts = {}
    for name in frame.columns:
        column = frame[name]
        categories = getattr(column.dtype, "categories", None)
        if by_cell and categories is not None and categories.dtype == object:
            column = column.astype(object)
        if column.dtype != object:
            continue
        try:
            pa.array(column, pa.large_string() if by_cell else None, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            missing = column.isna()
            texts[name] = [None if gone else text_of_cell(each) for each, gone in zip(column, missing, strict=True)]
    return frame.assign(**texts) if texts else frame


def choose_columns(
    names: Sequence[str], modes: Sequence[str | Mode] | None, value: str | None, *, helpful: bool = False
) -> tuple[list[str], str]:
    """Return the names of the mode columns and of the value column.

    A ``helpful`` error names a column that is spelt alike: in private runs, where a header may be a row of data, only
    if all modes are named as columns are.
    """
    if len(set(names)) != len(names):
        if sum(not name.strip() for name in names) > 1:
            raise InputError(
                "several columns have no name: remove what stands above the line of names, such as a title, and "
                "columns that are empty."
            )
        raise InputError("frame must have different column names. Rename the repeated one.")
    if not names:
        raise InputError("frame must have columns: one per mode, and one for the value.")
    asked = value
    helpful = helpful or _are_named(modes, names)
    if value is None:
        chosen = [_name(mode) for mode in modes] if modes is not None else []
        rest = [name for name in names if name not in chosen]
        value = VALUE if VALUE in rest else (rest or names)[-1]
    elif value not in names:
        raise NoValueColumnError(
            f"value must name a column of the frame; there is none called {value!r}. "
            f"{near(value, names, helpful=helpful)}"
        )
    if modes is None:
        picked = [name for name in names if name != value]
    else:
        if isinstance(modes, str | Mode):
            raise InputError("modes must be a list of column names. Try modes=['user', 'item'].")
        picked = [_name(mode) for mode in modes]
        for name in picked:
            if name not in names:
                remedy = near(name, names, helpful=helpful)
                raise InputError(f"modes must name columns of the frame; there is none called {name!r}. {remedy}")
        if len(set(picked)) != len(picked) or value in picked:
            raise InputError("modes must name different columns, and not the value column.")
    if len(picked) == 1 and modes is None:
        raise InputError(
            "frame must have a column for each of two modes or more, and one for the value, for which the last is taken"
            f"{f' ({value!r})' if helpful else ''}. If every row is an event or a link, add a column of ones."
        )
    if modes is None and len(picked) > checks.MAX_ORDER:
        raise InputError(
            f"frame must have a row for each entry: columns for {checks.MIN_ORDER} to {checks.MAX_ORDER} modes and one "
            "for the value. Name those that are modes, modes=['user', 'film']; where the cells of a table are values, "
            "as in a pivot table, try ObservedTensor.from_dense(frame)."
        )
    checks.check_order(len(picked), "modes")
    by_name = [asked, *([] if modes is None else picked)]
    _check_named(names, picked, value, asked=by_name, helpful=helpful)
    return picked, value


def _are_named(modes: Sequence[str | Mode] | None, names: Sequence[str]) -> bool:
    """Tell whether all modes are named as columns are: then the first line holds names, and no data."""
    if modes is None or isinstance(modes, str | Mode):
        return False
    return bool(modes) and all(_name(mode) in names for mode in modes)


def _check_named(
    names: Sequence[str], picked: Sequence[str], value: str, *, asked: Collection[str | None], helpful: bool
) -> None:
    """Refuse columns without a name, and those that pandas has made up one for, unless they were asked for by it."""

    def lacks_name(name: str) -> bool:
        return not name.strip() or (name not in asked and _MADE_UP.fullmatch(name) is not None)

    nameless = [names.index(name) + 1 for name in (*picked, value) if lacks_name(name)]
    if nameless:
        named = [name for name in (*picked, value) if not lacks_name(name)]
        *example, shown = named if helpful and len(named) > 2 else ["user", "item", "rating"]
        raise InputError(
            f"column {nameless[0]} of {len(names)} has no name, as an index that pandas has written along has none. "
            f"Name the columns to read, e.g. modes={example!r} and value={shown!r}, or write the table without it."
        )


def is_open(options: Mapping[str, Any]) -> bool:
    """Tell whether data are read by the rules of an open run; private ones drop what is missing, without a word."""
    return options.get("missing") != "drop"


def _name(mode: str | Mode) -> str:
    return mode.name if isinstance(mode, Mode) else mode


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """What errors call a column: by its name if the caller named it, else by its place.

    A file without a header has its first row taken for names, and an error must not quote a row.
    """

    columns: tuple[str, ...]
    modes: bool
    value: bool

    def mode(self, name: str) -> str:
        return self._column(name, named=self.modes)

    def value_column(self, name: str) -> str:
        return self._column(name, named=self.value or name == VALUE)

    def _column(self, name: str, *, named: bool) -> str:
        return f"column {name!r}" if named else f"column {self.columns.index(name) + 1} of {len(self.columns)}"


def table_to_tensor(
    table: pa.Table,
    modes: Sequence[str | Mode] | None,
    value: str | None,
    *,
    labels: bool,
    index_base: int = 0,
    sealed: bool = False,
    lists: Mapping[str, Mode] | None = None,
    owners: str | None = None,
    number: NumberOwners = number_owners,
    bins: Mapping[str, Bins] | None = None,
    quiet: bool = False,
    **options: Any,
) -> ObservedTensor:
    """Encode the mode columns (each in its own thread) and build the tensor.

    ``sealed`` compares a table with the digest in its description, if there is one. ``lists`` are public lists of
    labels: rows whose label is not on its list are left out. ``owners`` is a mode whose labels only group the rows, and
    ``number`` numbers them: tables that are blocks of one another must share it. ``bins`` are the modes whose moments
    are to be binned; a declared range of bins is a public list. ``quiet`` leaves it to the caller to tell of rows that
    are left out.
    """
    stored = stored_description(table.schema)
    earlier = Origin() if stored is None else stored.origin_of(modes, value)
    own = stored if sealed and modes is None and value is None else None
    if stored is not None and modes is None and value is None:
        modes, options = stored.modes, stored.options | options
        value = stored.value
        if lists:  # which have sizes of their own
            own, options = None, options | {"shape": None}
    table = drop_index(table, modes, value)
    named = value is not None or VALUE in table.column_names
    shown = _Shown(columns=tuple(table.column_names), modes=modes is not None, value=value is not None)
    helpful = is_open(options) or shown.modes  # which are all found, or refused
    names, value = choose_columns(table.column_names, modes, value, helpful=is_open(options))
    if owners is not None and owners not in names:
        remedy = near(owners, names, helpful=shown.modes)
        raise InputError(f"unit must name the mode whose indices are protected; there is no mode {owners!r}. {remedy}")
    lists = {**(lists or {})}
    bins = known_bins([*(modes or ()), *lists.values()], bins or {})
    if bins:
        check_bins(bins, names, table.column_names, helpful=helpful)
        table, more = bin_columns(table, bins, lenient=not is_open(options))
        lists |= more
    given = [lists.get(name, mode) for name, mode in zip(names, names if modes is None else modes, strict=True)]
    if unknown := {*lists} - {*names}:
        remedy = near(min(unknown), names, helpful=helpful)
        raise InputError(f"labels must name modes; there is no mode {min(unknown)!r}. {remedy}")
    table = table.select([*names, value])
    options |= {"value": value, "value_named": named}
    if options.get("missing") == "drop":
        table = table.set_column(len(names), value, read_leniently(table.column(len(names))))
    if options.get("out_of_range") == "drop":
        lacking = [mode for mode in given if labels and isinstance(mode, str) and mode != owners]
        if lacking:
            if lacking[0] in bins:
                raise InputError(
                    f"bins of mode {lacking[0]!r} need a declared range, since those that occur tell who is in the "
                    f"data: bins={{{lacking[0]!r}: ('day', '2024-01-01', '2024-03-31')}}."
                )
            raise InputError(
                f"{shown.mode(lacking[0])} needs a public list of its labels, since those that occur tell who is in "
                "the data: labels={'film': films}. If columns hold 0-based indices instead, add indices=True; if this "
                "one is no mode, name the modes: modes=['user', 'film']."
            )
        numbers = to_floats(table.column(value))
        if own is not None and not index_base:
            own.check(numbers_of(table, given), numbers)
        columns = [table.column(axis) for axis in range(len(names))]
        tensor = read_rows(
            columns, numbers, given, owners=owners, number=number, index_base=index_base, options=options
        )
        return tensor.with_origin(earlier.then(tensor.origin))
    table = keep_listed(table, names, lists, quiet=quiet)  # in unit value too, where positions are public
    table = _without_nulls(table, names, value, options, shown, bins)
    packed = np.empty((len(names), table.num_rows), np.int32)

    def encode(axis: int) -> Mode:
        mode, column = given[axis], table.column(axis)
        known = mode.labels if isinstance(mode, Mode) else None
        width = bins[names[axis]].width if names[axis] in bins else None
        if names[axis] in lists:
            packed[axis] = column.to_numpy()
            return Mode.from_trusted(names[axis], known, width)
        if known is None and (not labels or isinstance(mode, Mode)):
            packed[axis] = to_indices(column, axis, index_base)
            return Mode.from_trusted(names[axis], None)
        found = encode_column(column, shown.mode(names[axis]), known, packed[axis])
        return Mode.from_trusted(names[axis], found, width)

    # Arrow and numpy release the lock in their loops, so columns really run side by side.
    with ThreadPoolExecutor(min(len(names), os.cpu_count() or 1)) as pool:
        encoded = list(pool.map(encode, range(len(names))))
    numbers = to_numbers(table.column(len(names)), shown.value_column(value))
    if not named and is_open(options):
        _doubt_value(value, numbers, encoded)
    # Labels settle the size of their mode; only unlabelled modes need a shape, or their largest index.
    if own is not None:
        own.check(packed, numbers)
    tensor = ObservedTensor.from_columns(packed, numbers, modes=encoded, **options)
    numbered = any(
        mode.labels is not None and not (isinstance(asked, Mode) and asked.labels is not None)
        for mode, asked in zip(encoded, given, strict=True)
    )
    labelled = [mode.name for mode in encoded if mode.labels is not None]
    listed = bool(labelled) and (stored is None or modes is not stored.modes) and not numbered
    return tensor.with_origin(earlier.then(replace(tensor.origin, numbered=numbered, listed=listed)))


def _doubt_value(value: str, numbers: Any, modes: Sequence[Mode]) -> None:
    """Warn of a last column that was taken for the value, if another one is likely to be it."""
    fractions = [
        mode.name
        for mode in modes
        if mode.labels is not None and mode.labels.dtype.kind == "f" and (mode.labels != np.floor(mode.labels)).any()
    ]
    why = "it holds moments in seconds since 1970" if are_seconds(numbers) else None
    if fractions and (numbers == np.floor(numbers)).all():
        why = f"it holds whole numbers, and {fractions[0]!r} holds others"
    if why is not None:
        warn(
            f"the last column, {value!r}, was taken for the value, since none was named, but {why}. Name the columns: "
            "modes=['user', 'film'] and value='rating'.",
            GuessWarning,
        )


def _without_nulls(
    table: pa.Table, names: list[str], value: str, options: dict[str, Any], shown: _Shown, bins: Collection[str]
) -> pa.Table:
    """Settle nulls by the policy on missing entries."""
    if not table.num_rows:
        raise InputError("frame must hold at least one row; got an empty input. Check the source.")
    if not any(column.null_count for column in table.columns):
        return table
    if options.get("missing") == "drop":
        kept = table.drop_null()
        if not kept.num_rows:
            raise _without_rows(table, names, value, shown, bins)
        _tell_unlabelled(table, names, shown, bins)
        return kept
    for name in names:
        if table.column(name).null_count:
            raise missing_label(shown.mode(name))
    raise InputError(
        f"{shown.value_column(value)} must not contain missing values (nulls). Remove such rows, or pass "
        "missing='drop' to leave them out."
    ).of("no value")


def _tell_unlabelled(table: pa.Table, names: Sequence[str], shown: _Shown, bins: Collection[str]) -> None:
    """Warn of rows that are left out for want of a label, or of a moment: positions are public wherever this is read.

    Whether rows lack a value is not said.
    """
    lacking = {name: np.asarray(table.column(name).is_null()) for name in names if table.column(name).null_count}
    if lacking:
        whose = [f"{shown.mode(name)} {'holds no moment' if name in bins else 'is empty'}" for name in lacking]
        count = int(np.count_nonzero(np.logical_or.reduce([*lacking.values()])))
        warn(f"{count:,} of {table.num_rows:,} rows are left out: {', or '.join(whose)}.", LeftOutWarning)


def _without_rows(
    table: pa.Table, names: Sequence[str], value: str, shown: _Shown, bins: Collection[str]
) -> InputError:
    """Return the error for a table of whose rows none is left: which are, is public wherever it can be raised."""
    empty = [name for name in (*names, value) if table.column(name).null_count == table.num_rows]
    if not empty:
        return InputError("frame must have a row with a label for every mode and a value; each lacks one. Check it.")
    if empty[0] in bins:
        return InputError(
            f"column {empty[0]!r} must hold moments to be binned: {MOMENTS}. No field is one: {NO_MOMENTS}."
        )
    if empty[0] == value:
        return InputError(
            f"{shown.value_column(value)} must hold numbers to serve as values; no field is one. Name the value column "
            "with value=..., or write numbers without signs between thousands."
        )
    return InputError(f"{shown.mode(empty[0])} must hold labels; all its fields are empty. Leave it out of modes.")
