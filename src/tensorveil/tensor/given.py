"""What people hand over, made plain: frames of all kinds, series, periods, instants, labelled arrays.

Nothing here imports pandas, polars or xarray: whoever hands over one of their objects has imported them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorveil.errors import InputError
from tensorveil.tensor.frame_index import drop_index
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.options import DenseOptions, FrameOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "NO_VALUE",
    "arrays_to_tensor",
    "dense_frame_modes",
    "frame_to_tensor",
    "is_array_of_labels",
    "is_frame",
    "labelled_to_tensor",
]

VALUE = "value"
NO_VALUE = (
    "values must not contain NaN: a missing entry is left out, not marked. Try seen = ~numpy.isnan(y) and "
    "fit(X[seen], y[seen])."
)
_TWO = "frame[['user', 'item']], frame['rating']"
_REMEDIES = {
    "repeated": (
        "the frame must have one row per cell; two rows are of the same one. Say how to merge them, e.g. "
        "fit(ObservedTensor.from_frame(frame, ['user', 'film'], 'rating', duplicates='mean')), or fit "
        "frame.groupby(['user', 'film'])['rating'].mean()."
    ),
    "no label": (
        "the frame must have a label in each column of a mode; some rows lack one. Leave them out, with "
        "seen = frame.notna().all(axis=1) and fit(frame[seen], values[seen]), or fill them in."
    ),
}
_READ_PRIVATELY = (
    "Read the frame with a public list for every mode that is not protected: private = "
    "tensorveil.read_privately(frame, unit=..., bounds=..., labels={{'film': films}}, value='rating'), and {}."
)
_NO_VALUES = (
    "values must be given with coordinates. Try fit(coords, values) or fit(ObservedTensor(coords, values)); a dense "
    "array whose missing cells are NaN becomes a tensor by ObservedTensor.from_dense(array)."
)


def is_frame(thing: Any) -> bool:
    """Tell whether something is a data frame of any library: it has columns with names."""
    if isinstance(thing, np.ndarray | Mapping | ObservedTensor):
        return False
    if hasattr(thing, "collect_schema"):  # a lazy one, which warns when it is asked for its columns
        return True
    named = hasattr(thing, "columns") or hasattr(thing, "column_names")
    return named and (hasattr(thing, "__arrow_c_stream__") or hasattr(thing, "to_records"))


def is_array_of_labels(thing: Any) -> bool:
    """Tell whether something is an array with named dimensions, as xarray's DataArray is."""
    return all(hasattr(thing, name) for name in ("dims", "coords", "values"))


def labelled_to_tensor(array: Any, rules: FrameOptions | DenseOptions) -> ObservedTensor:
    """Return the observed cells of an array with named dimensions, NaN being missing; its coordinates are the labels.

    The declared shape is that of the array.
    """
    names = [str(name) for name in array.dims]
    modes = [Mode(name, array.coords[name].values) if name in array.coords else Mode(name) for name in names]
    options = {key: item for key, item in rules.items() if key in ("bounds", "out_of_bounds")}
    tensor = ObservedTensor.from_dense(np.asarray(array.values), modes=modes, **cast(Any, options))
    labelled = any(mode.labels is not None for mode in modes)
    value = array.name if isinstance(array.name, str) and array.name not in names else None
    return tensor.with_origin(replace(tensor.origin, value=value, numbered=labelled))


def dense_frame_modes(frame: Any, modes: Sequence[str | Mode] | None) -> list[Mode] | None:
    """Return the modes of a pandas frame whose cells are values: its rows and its columns; None for other things.

    Rows or columns that pandas has only numbered have no labels. ``modes`` may give names, or modes of their own.
    """
    if not (is_frame(frame) and hasattr(frame, "index") and hasattr(frame, "columns")):
        return None
    if max(frame.index.nlevels, frame.columns.nlevels) > 1:
        raise InputError(
            "array must have one level of labels for its rows and one for its columns. With more of them try "
            "ObservedTensor.from_frame(frame.stack())."
        )
    found = []
    for m, axis in enumerate((frame.index, frame.columns)):
        given = modes[m] if modes is not None and len(modes) == 2 else None
        name = given if isinstance(given, str) else f"mode_{m}" if axis.name is None else str(axis.name)
        numbered = axis.name is None and type(axis).__name__ == "RangeIndex" and axis.start == 0 and axis.step == 1
        labels = np.asarray(axis.astype(str) if str(axis.dtype).startswith(("period", "interval")) else axis)
        found.append(given if isinstance(given, Mode) else Mode(name, None if numbered else labels))
    return found


def arrays_to_tensor(coords: Any, values: Any, rules: FrameOptions, call: str = "fit({})") -> ObservedTensor:
    """Return a tensor from coordinates and values, or from a frame of labels and values.

    ``call`` is how errors write what was called with them.
    """
    if values is None:
        if is_array_of_labels(coords):
            return labelled_to_tensor(coords, rules)
        if _has_levels(coords) and not is_frame(coords):
            return ObservedTensor.from_frame(coords, value=_series_name(coords), **rules)
        raise _lacks_values(rules, call) if is_frame(coords) else InputError(_NO_VALUES)
    if is_frame(coords):
        try:
            return frame_to_tensor(coords, values, rules)
        except InputError as error:
            remedy = _REMEDIES.get(error.flaw or "")
            if remedy is None:
                raise
        raise InputError(remedy)
    if rules.get("missing") != "drop":
        numbers = np.asarray(values)
        if numbers.dtype.kind == "f" and np.isnan(numbers).any():
            raise InputError(NO_VALUE)
    try:
        return ObservedTensor(coords, values, **rules)
    except InputError as error:
        if error.flaw != "repeated":
            raise
    raise InputError(
        "coords must not list a cell twice. Say how to merge its values: "
        + call.format("ObservedTensor(coords, values, duplicates='mean')")
    )


def _lacks_values(rules: FrameOptions, call: str) -> InputError:
    """Return the error for a frame alone, with what can be read in its unit."""
    if rules.get("out_of_range") == "drop":
        return InputError(f"a frame needs public labels in this unit. {_READ_PRIVATELY.format(call.format('private'))}")
    one = call.format("ObservedTensor.from_frame(frame, value='rating')")
    two = "" if ", " in call else f"{call.format(_TWO)}, or "
    return InputError(f"values must be given with a frame of modes. Try {two}{one}.")


def frame_to_tensor(frame: Any, values: Any, rules: FrameOptions) -> ObservedTensor:
    """Return a tensor whose modes are the columns of a frame.

    Values of pandas that have the index of the frame in another order are taken row by row of that index, as pandas
    takes them. Columns are labels; where a shape is declared, columns of integers are indices. A categorical column
    brings all its categories, those that do not occur too, so that parts of a frame number their labels alike.
    """
    from tensorveil.tensor.frames import as_table, table_to_tensor

    lenient, by_cell = rules.get("missing") == "drop", rules.get("out_of_range") == "drop"
    plain = plain_frame(frame)
    table = drop_index(as_table(plain, lenient=lenient, by_cell=by_cell))
    # Where positions are private nothing is told of the order of rows.
    given = in_order_of(frame, values, strict=not by_cell)
    name, column = _value_column(given, lenient=lenient, by_cell=by_cell)
    if name in table.column_names:
        raise InputError(
            f"frame must hold the modes alone, and not the value column {name!r}. Try fit(frame.drop(columns={name!r}"
            "), ...), or name the columns of the modes."
        )
    if len(column) != table.num_rows:
        raise InputError("values must have one number per row of the frame; the lengths differ.")
    if not lenient and column.null_count:
        raise InputError(NO_VALUE)
    if by_cell:
        _check_numeric(table)
        indices = True
    else:
        indices = rules.get("shape") is not None and all(_is_integer(item.type) for item in table.columns)
    modes = [each if indices else _declared(plain, each) for each in table.column_names]
    table = table.append_column(name, column)
    tensor = table_to_tensor(table, modes, name, labels=not indices, **rules)
    # Categories are mostly those that occur: whoever made them has read them off the data.
    return tensor.with_origin(replace(tensor.origin, numbered=tensor.origin.numbered or not indices))


def in_order_of(frame: Any, values: Any, *, strict: bool) -> Any:
    """Return values in the order of a frame whose index they have in another one; all others as they are.

    Only labels of rows decide. Where several rows have one label nobody can tell which value is whose: that is refused
    if ``strict``, and else values are taken by their place.
    """
    own: Any = getattr(values, "index", None)
    wanted: Any = getattr(frame, "index", None)
    if not (hasattr(own, "get_indexer") and hasattr(wanted, "get_indexer")) or own.equals(wanted):
        return values
    if len(own) != len(wanted) or own.nlevels != wanted.nlevels:
        return values
    if not (own.is_unique and wanted.is_unique):
        if strict and Counter(own) == Counter(wanted):
            raise InputError(
                "values must have the index of the frame in its order where labels of the index occur several times: "
                "which value is whose cannot be told. If both are in one order, try values.to_numpy()."
            )
        return values
    places = own.get_indexer(wanted)
    return values.iloc[places] if (places >= 0).all() else values


def plain_frame(frame: Any) -> Any:
    """Return a frame that Arrow can hold: lazy ones collected, index levels as columns, periods as text."""
    if hasattr(frame, "collect") and hasattr(frame, "collect_schema") and not hasattr(frame, "__arrow_c_stream__"):
        return frame.collect()
    if type(frame).__module__.split(".")[0] != "pandas":
        return frame
    if hasattr(frame, "columns"):
        frame = _with_plain_names(frame)
    if _has_levels(frame):
        frame = _levels_to_columns(frame)
    if not hasattr(frame, "columns"):
        frame = _series_to_frame(frame)
    texts = {name: _as_text(frame[name]) for name in frame.columns if _is_period(frame[name])}
    return frame.assign(**texts) if texts else frame


def _series_to_frame(series: Any) -> Any:
    """Return a frame of a pandas series and the labels in its index, which must have a name."""
    name = getattr(getattr(series, "index", None), "name", None)
    if name is None or not hasattr(series, "reset_index") or name == series.name:
        raise InputError(
            "frame must be a frame, or a series whose index holds labels and has a name of its own. Try "
            "series.rename_axis('film')."
        )
    return series.reset_index(name=_series_name(series))


def _with_plain_names(frame: Any) -> Any:
    """Return a pandas frame whose columns are named by text, as Arrow names them, and all differently."""
    if frame.columns.nlevels > 1:
        raise InputError(
            "frame must have one level of column names. Join those of a column into one, e.g. frame.columns = "
            "frame.columns.map(' '.join); for a pivot table try frame.stack()."
        )
    names = [str(name) for name in frame.columns]
    if len(set(names)) != len(names):
        raise InputError("frame must have different column names. Rename the repeated one.")
    return frame if all(isinstance(name, str) for name in frame.columns) else frame.set_axis(names, axis=1)


def _levels_to_columns(frame: Any) -> Any:
    """Return a frame with the levels of its index as columns, but for those that are columns already.

    ``series.index.to_frame()`` has all of them twice. A level without a name is called by its place, and so is its
    column.
    """
    if not hasattr(frame, "columns"):
        if frame.name in frame.index.names:
            raise InputError("a series of values must have another name than the levels of its index. Rename it.")
        return frame.reset_index(name=_series_name(frame))
    for place, name in enumerate(frame.index.names):
        column = place if name is None else name
        if column not in frame.columns:
            continue
        if not _agree(frame.index.get_level_values(place), frame[column]):
            raise InputError(
                f"frame must not have an index level and a column called {column!r} that differ. Drop the index: "
                "frame.reset_index(drop=True)."
            )
        frame = frame.drop(columns=column) if name is None else frame
    twice = [name for name in frame.index.names if name is not None and name in frame.columns]
    if len(twice) == frame.index.nlevels:
        return frame.reset_index(drop=True)
    return frame.droplevel(twice).reset_index()


def _agree(level: Any, column: Any) -> bool:
    """Tell whether a level of an index holds what a column holds, and lacks what it lacks."""
    there = ~level.isna()
    return np.array_equal(there, ~column.isna()) and np.array_equal(level.to_numpy()[there], column.to_numpy()[there])


def frame_of_levels(thing: Any) -> Any:
    """Return a frame of the labels in a pandas index of several levels, or in that of a series; None for other things.

    Levels without a name are called as `reset_index` calls them.
    """
    index = thing if hasattr(thing, "nlevels") else getattr(thing, "index", None)
    if is_frame(thing) or getattr(index, "nlevels", 1) < 2:
        return None
    names = [f"level_{place}" if name is None else name for place, name in enumerate(index.names)]  # type: ignore[union-attr]
    return index.to_frame(index=False, name=names)  # type: ignore[union-attr]


def _has_levels(thing: Any) -> bool:
    """Tell whether something is a pandas object whose index has several levels."""
    return getattr(getattr(thing, "index", None), "nlevels", 1) > 1


def _series_name(series: Any) -> str:
    name = getattr(series, "name", None)
    return name if isinstance(name, str) and name.strip() else VALUE


def _value_column(values: Any, *, lenient: bool, by_cell: bool) -> tuple[str, pa.ChunkedArray]:
    """Return the name of the values and their column."""
    import pyarrow as pa

    from tensorveil.tensor.frames import as_table

    name = _series_name(values)
    if hasattr(values, "to_frame"):  # a series of pandas or polars
        table = as_table(values.to_frame(name), lenient=lenient, by_cell=by_cell)
        return name, table.columns[-1]  # behind levels of the index
    if is_frame(values):
        table = drop_index(as_table(plain_frame(values), lenient=lenient, by_cell=by_cell))
        if table.num_columns != 1:
            raise InputError("values must be one column of numbers, one per row of the frame.")
        return table.column_names[0], table.column(0)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return name, pa.chunked_array([values] if isinstance(values, pa.Array) else values.chunks, values.type)
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iufb":
        raise InputError("values must be numbers, one per row of the frame. Convert them to floats.")
    return name, pa.chunked_array([pa.array(array, from_pandas=True)])


def _declared(frame: Any, name: str) -> str | Mode:
    """Return a mode with the categories that a categorical column declares, or the column's name."""
    kind = getattr(frame[name], "dtype", None) if hasattr(frame, "columns") else None
    if type(kind).__name__ not in ("CategoricalDtype", "Enum") or not len(kind.categories):  # type: ignore[union-attr]
        return name
    categories = np.asarray(kind.categories.to_numpy())  # type: ignore[union-attr]
    if categories.dtype.kind == "O" and not all(isinstance(item, str) for item in categories.tolist()):
        return name
    return Mode(name, categories)


def _is_period(series: Any) -> bool:
    categories = getattr(series.dtype, "categories", None)
    words = str(series.dtype if categories is None else categories.dtype)
    return words.startswith(("period", "interval"))


def _as_text(series: Any) -> Any:
    if getattr(series.dtype, "categories", None) is None:
        return series.astype("string")
    return series.cat.rename_categories(series.cat.categories.astype(str))


def _is_integer(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind))


def _check_numeric(table: pa.Table) -> None:
    """Refuse columns that are no numbers where indices are needed."""
    import pyarrow as pa

    for axis, column in enumerate(table.columns):
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise InputError(
                f"coords of mode {axis} must be 0-based indices for this unit: labels that are read off the data tell "
                f"who is in them. {_READ_PRIVATELY.format('fit(private)')}"
            )
