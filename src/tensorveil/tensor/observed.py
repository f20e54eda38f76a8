"""The observed tensor: the known entries of a tensor whose other entries are missing, or declared to be zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.tensor import checks, keys, policies
from tensorveil.tensor.checks import Duplicates, FloatArray, IntArray, Missing, OutOfBounds, OutOfRange, Unlisted
from tensorveil.tensor.entries import MemoryEntries
from tensorveil.tensor.modes import Mode, check_modes, find_axis
from tensorveil.tensor.options import BuildOptions, DenseOptions, FrameOptions
from tensorveil.tensor.origin import Origin

if TYPE_CHECKING:
    from pathlib import Path


class ObservedTensor:
    """Observed entries of a tensor of order 2 to 8: coordinates and values; what is not listed is missing, or zero.

    Parameters
    ----------
    coords
        Integer array (n, order), one row of 0-based indices per entry, or a tuple of 1-D numpy columns.
    values
        One number per entry; float32 stays float32, everything else becomes float64.
    shape
        Size of every mode; by default the smallest shape that holds the coordinates.
    bounds
        Declared (low, high) of the values. They are never read off the data.
    modes
        Names or `Mode` objects, one per mode.
    duplicates
        Entries with equal coordinates: "error" (default), "mean", "sum", "first" or "last"; "keep" keeps each of them
        as an entry of its own, for private fits in units "entry" and "slice".
    missing
        NaN values: "error" (default) or "drop".
    out_of_bounds
        Values outside `bounds`, after merging duplicates: "error" (default), "clip" or "drop".
    out_of_range
        Coordinates that are not whole numbers within `shape`: "error" (default) or "drop", which needs a shape and may
        leave a tensor without entries.
    unlisted
        What cells without an entry hold: "unknown" (default), or "zero", as where counts or events are listed. Zeros
        are never stored.

    >>> tensor = ObservedTensor([[0, 0, 1], [1, 2, 0]], [4.0, 2.5], shape=(2, 3, 2), bounds=(1, 5))
    >>> tensor.shape, tensor.n_entries, tensor.density
    ((2, 3, 2), 2, 0.16666666666666666)
    """

    __slots__ = ("_bounds", "_columns", "_modes", "_origin", "_shape", "_values")

    def __init__(
        self,
        coords: Any,
        values: ArrayLike,
        shape: Sequence[int] | None = None,
        bounds: Sequence[float] | None = None,
        modes: Sequence[str | Mode] | None = None,
        *,
        duplicates: Duplicates = "error",
        missing: Missing = "error",
        out_of_bounds: OutOfBounds = "error",
        out_of_range: OutOfRange = "error",
        unlisted: Unlisted = "unknown",
    ) -> None:
        checks.check_choice("out_of_range", out_of_range, OutOfRange)
        if out_of_range == "drop":
            columns, numbers = policies.keep_within(checks.split_columns(coords), values, shape)
        else:
            columns = checks.as_columns(coords)
            numbers = np.array(checks.as_values(values, columns.shape[1]))
        self._build(columns, numbers, shape, bounds, modes, duplicates, missing, out_of_bounds, out_of_range)
        origin = policies.declare_unlisted(self.origin, unlisted)
        self._origin = replace(origin, listed=any(mode.labels is not None for mode in self._modes))

    @classmethod
    def from_columns(
        cls,
        columns: Sequence[NDArray[Any]] | NDArray[Any],
        values: ArrayLike,
        shape: Sequence[int] | None = None,
        bounds: Sequence[float] | None = None,
        modes: Sequence[str | Mode] | None = None,
        *,
        duplicates: Duplicates = "error",
        missing: Missing = "error",
        out_of_bounds: OutOfBounds = "error",
        out_of_range: OutOfRange = "error",
        unlisted: Unlisted = "unknown",
        value: str | None = None,
        value_named: bool = True,
    ) -> ObservedTensor:
        """Build a tensor from one index column per mode, taking over the arrays where it can.

        An int32 C-contiguous (order, n) array and float32 or float64 values are not copied: they belong
        to the tensor from then on and become read-only. All checks are made, as by the constructor. ``value`` and
        ``value_named`` are what `origin` remembers of a table's value column.
        """
        checks.check_choice("out_of_range", out_of_range, OutOfRange)
        tensor = object.__new__(cls)
        if out_of_range == "drop":
            packed, numbers = policies.keep_within(columns, values, shape)
        else:
            packed = checks.pack_columns(columns)
            numbers = checks.as_values(values, packed.shape[1])
        tensor._build(packed, numbers, shape, bounds, modes, duplicates, missing, out_of_bounds, out_of_range)
        origin = policies.declare_unlisted(tensor._origin, unlisted)
        tensor._origin = replace(origin, value=value, value_named=value_named)
        return tensor

    @classmethod
    def from_dense(
        cls,
        array: ArrayLike,
        mask: ArrayLike | None = None,
        missing: float = np.nan,
        **options: Unpack[DenseOptions],
    ) -> ObservedTensor:
        """Return the observed cells of a dense array.

        An array with named dimensions, as xarray's, brings names and labels of the modes, and so does a pandas frame
        with labels of its rows and columns, as a pivot table has. A cell is observed where
        `mask` is True or, without a mask, where it does not hold the value
        `missing` (NaN by default; `missing=0` for data that mark missing cells with zeros). A numpy
        masked array brings its own mask.

        >>> ObservedTensor.from_dense([[1.0, np.nan], [3.0, 4.0]]).n_entries
        3
        """
        from tensorveil.tensor.arrays import dense_to_tensor
        from tensorveil.tensor.given import dense_frame_modes, is_array_of_labels, labelled_to_tensor

        if is_array_of_labels(array) and mask is None and "modes" not in options and np.isnan(missing):
            return labelled_to_tensor(array, options)
        if (modes := dense_frame_modes(array, options.get("modes"))) is not None:
            tensor = dense_to_tensor(np.asarray(array), mask, missing, **(options | {"modes": modes}))
            return tensor.with_origin(replace(tensor.origin, numbered=any(mode.labels is not None for mode in modes)))
        return dense_to_tensor(array, mask, missing, **options)

    @classmethod
    def from_scipy(cls, matrix: Any, **options: Unpack[BuildOptions]) -> ObservedTensor:
        """Return the stored entries of a scipy sparse matrix or array of any format; stored zeros are observed.

        Private fits in unit "value" refuse it if 0 is within the bounds: most ways to make such a matrix drop zeros.
        """
        from tensorveil.tensor.arrays import sparse_to_tensor

        return sparse_to_tensor(matrix, **options)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        modes: Sequence[str | Mode] | None = None,
        value: str | None = None,
        *,
        labels: bool | Mapping[str, Any] = True,
        bins: Mapping[str, Any] | None = None,
        **options: Unpack[FrameOptions],
    ) -> ObservedTensor:
        """Return the tensor of a pandas, polars or Arrow table, one entry per row.

        The value column is `value`, else the column called "value", else the last one; the mode columns
        are `modes`, else all others. Mode columns are labels, integers too: the labels that occur are
        sorted and numbered. `labels=False` takes integer columns as 0-based indices instead. A `Mode` in
        `modes` brings its own numbering (without labels: indices), e.g. `modes=train.modes` for a test set.
        `labels={"film": films}` names modes with a public list of their labels: its order numbers them, and rows
        whose label is not on it are left out. `bins={"time": "day"}` puts moments into bins of an "hour", a "day", a
        "week", a "month" or a number of seconds; with a declared range, ("day", "2024-01-01", "2024-03-31"), its
        bins are such a list. Cursors of databases (DB-API, ADBC) that hold a result are tables, too.
        """
        from tensorveil.tensor.bins import settle_bins
        from tensorveil.tensor.frame_index import settle_index
        from tensorveil.tensor.frames import as_table, table_to_tensor
        from tensorveil.tensor.lists import settle_lists

        lists = {} if isinstance(labels, bool) else settle_lists(labels)
        others = labels if isinstance(labels, bool) else options.get("out_of_range") != "drop"
        return table_to_tensor(
            as_table(
                settle_index(frame, modes, value),
                lenient=options.get("missing") == "drop",
                by_cell=options.get("out_of_range") == "drop",
            ),
            modes,
            value,
            labels=others,
            lists=lists,
            bins=settle_bins(bins),
            **options,
        )

    def _build(
        self,
        columns: IntArray,
        values: FloatArray,
        shape: Sequence[int] | None,
        bounds: Sequence[float] | None,
        modes: Sequence[str | Mode] | None,
        duplicates: Duplicates,
        missing: Missing,
        out_of_bounds: OutOfBounds,
        out_of_range: OutOfRange,
    ) -> None:
        checks.check_choice("duplicates", duplicates, Duplicates)
        checks.check_choice("missing", missing, Missing)
        checks.check_choice("out_of_bounds", out_of_bounds, OutOfBounds)
        limits = checks.as_bounds(bounds)
        if shape is None and modes is not None and not isinstance(modes, str | Mode):
            shape = policies.shape_from_labels(modes, columns)
        sizes = checks.as_shape(shape, columns)
        named = check_modes(modes, sizes)
        may_be_empty = out_of_range == "drop"
        if missing == "drop":
            columns, values = policies.keep_entries(columns, values, ~np.isnan(values), may_be_empty=may_be_empty)
        if limits is not None and out_of_bounds != "error":
            values = policies.bring_infinities_back(values)
        checks.check_finite(values)
        if duplicates != "keep":
            columns, values = keys.merge_duplicates(columns, values, sizes, duplicates)
        columns, values = policies.apply_bounds(columns, values, limits, out_of_bounds, may_be_empty=may_be_empty)
        self._set(columns, values, sizes, limits, named, Origin(duplicates=duplicates, out_of_bounds=out_of_bounds))

    def _set(
        self,
        columns: IntArray,
        values: FloatArray,
        shape: tuple[int, ...],
        bounds: tuple[float, float] | None,
        modes: tuple[Mode, ...],
        origin: Origin,
    ) -> None:
        columns.flags.writeable = False
        values.flags.writeable = False
        self._columns, self._values = columns, values
        self._shape, self._bounds, self._modes, self._origin = shape, bounds, modes, origin

    def _like(
        self,
        columns: IntArray,
        values: FloatArray,
        bounds: tuple[float, float] | None,
        origin: Origin | None = None,
    ) -> ObservedTensor:
        """Return a tensor with the same shape and modes, and other entries that are known to be sound."""
        tensor = object.__new__(ObservedTensor)
        tensor._set(columns, values, self._shape, bounds, self._modes, origin or self._origin)
        return tensor

    @property
    def columns(self) -> IntArray:
        """Coordinates by mode: int32, (order, n), C-contiguous, read-only."""
        return self._columns

    @property
    def coords(self) -> IntArray:
        """Coordinates by entry: (n, order), a view of `columns`."""
        return self._columns.T

    @property
    def values(self) -> FloatArray:
        """Values, float64 or float32, read-only."""
        return self._values

    @property
    def dtype(self) -> str:
        """Kind of the values: "float64" or "float32"."""
        return str(self._values.dtype)

    @property
    def entries(self) -> MemoryEntries:
        """The entries alone, as blocks of columns."""
        return MemoryEntries(columns=self._columns, values=self._values, shape=self._shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of every mode."""
        return self._shape

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self._shape)

    @property
    def n_entries(self) -> int:
        """Number of observed entries."""
        return len(self._values)

    @property
    def density(self) -> float:
        """Observed share of all cells."""
        return self.n_entries / float(np.prod(self._shape, dtype=np.float64))

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Declared (low, high) of the values."""
        return self._bounds

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Name and labels of every mode."""
        return self._modes

    @property
    def unlisted(self) -> Unlisted:
        """What cells without an entry hold: "unknown", or "zero"."""
        return self._origin.unlisted

    @property
    def origin(self) -> Origin:
        """By which rules the tensor was built."""
        return self._origin

    @property
    def value_name(self) -> str:
        """What the values are called: as in the table that they come from, unless a mode is called so now."""
        name = self._origin.value
        return "value" if name is None or name in [mode.name for mode in self._modes] else name

    def with_origin(self, origin: Origin) -> ObservedTensor:
        """Return the same entries, of which something else is known about how they came about."""
        return self._like(self._columns, self._values, self._bounds, origin)

    def __len__(self) -> int:
        return self.n_entries

    def __repr__(self) -> str:
        names = ", ".join(mode.name for mode in self._modes)
        shape = f"({', '.join(self._name_sizes())})"
        return (
            f"ObservedTensor(shape={shape}, n_entries={'private' if self._hides else self.n_entries}, "
            f"bounds={self._bounds}, modes=[{names}], dtype={self._values.dtype}"
            f"{', unlisted=zero' if self.unlisted == 'zero' else ''})"
        )

    @property
    def _hides(self) -> bool:
        """Whether the entries were read so that even their number stays private: for units entry and slice."""
        return self._origin.duplicates == "keep"

    def _name_sizes(self) -> list[str]:
        """Return the sizes of the modes, but for one that numbers who occurs: how many do is private."""
        hidden = self._origin.owners if self._hides else None
        return ["private" if m == hidden else f"{size}" for m, size in enumerate(self._shape)]

    def _repr_html_(self) -> str:
        """Return what a notebook shows: form and names, and no label, because notebooks are passed on.

        Of entries that were read for units entry and slice it shows what was declared, and nothing that was counted.
        """
        from tensorveil.markup import notebook_card

        sizes = [size if size == "private" else f"{int(size):,}" for size in self._name_sizes()]
        facts = [
            ("shape", " x ".join(sizes)),
            ("entries", "private" if self._hides else f"{self.n_entries:,} ({self.density:.3%} of the cells)"),
            ("values", f"{self.value_name}, {self._values.dtype}"),
            ("bounds", "none declared" if self._bounds is None else f"{self._bounds[0]:g} to {self._bounds[1]:g}"),
        ]
        if not self._hides:
            facts.append(("for whoever may see the data", "sizes and entries are counted in them, unless declared"))
        rows = [
            (mode.name, size, "indices" if mode.labels is None else "labels")
            for mode, size in zip(self._modes, sizes, strict=True)
        ]
        return notebook_card("ObservedTensor", facts, head=("mode", "size", "numbered by"), rows=rows)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        """Refuse to be taken for an array, as scikit-learn's searches take whatever they are given."""
        raise InputError(
            "an ObservedTensor is no array of rows. Hand coordinates and values to scikit-learn, and the shape to the "
            "estimator: search.fit(tensor.coords, tensor.values) with CP(shape=tensor.shape). For all cells of a "
            "small tensor use to_dense()."
        )

    def axis(self, mode: int | str) -> int:
        """Return the position of a mode given by name or position."""
        return find_axis(self._modes, mode)

    def take(self, index: ArrayLike | slice, *, may_be_empty: bool = False) -> ObservedTensor:
        """Return the entries chosen by a boolean mask, by positions (each at most once) or by a slice; shape kept."""
        chosen: Any = index if isinstance(index, slice) else np.asarray(index)
        if not isinstance(chosen, slice):
            policies.check_positions(chosen, self.n_entries)
        columns = np.ascontiguousarray(self._columns[:, chosen])
        if columns.shape[1] == 0 and not may_be_empty:
            raise InputError("index must choose at least one entry. To allow none, add may_be_empty=True.")
        return self._like(columns, np.ascontiguousarray(self._values[chosen]), self._bounds)

    def with_values(self, values: ArrayLike, *, keep_bounds: bool = True) -> ObservedTensor:
        """Return other values at the same coordinates; `keep_bounds=False` for values that may leave the bounds."""
        numbers = np.array(checks.as_values(values, self.n_entries))
        checks.check_finite(numbers)
        bounds = self._bounds if keep_bounds else None
        checks.check_inside(numbers, bounds, "Pass keep_bounds=False to give them up, or clip the values.")
        return self._like(self._columns, numbers, bounds)

    def with_bounds(self, bounds: Sequence[float] | None, *, out_of_bounds: OutOfBounds = "error") -> ObservedTensor:
        """Return the same entries with other declared bounds (None: no bounds)."""
        checks.check_choice("out_of_bounds", out_of_bounds, OutOfBounds)
        limits = checks.as_bounds(bounds)
        columns, values = policies.apply_bounds(self._columns, self._values, limits, out_of_bounds)
        return self._like(columns, values, limits, self._origin.then(Origin(out_of_bounds=out_of_bounds)))

    def with_unlisted(self, unlisted: Unlisted) -> ObservedTensor:
        """Return the same entries, where cells without an entry are "unknown" or "zero".

        >>> ObservedTensor([[0, 1]], [3.0], shape=(2, 2)).with_unlisted("zero").unlisted
        'zero'
        """
        return self.with_origin(policies.declare_unlisted(self._origin, unlisted))

    def with_modes(self, modes: Sequence[str | Mode] | None) -> ObservedTensor:
        """Return the same entries with other names or labels."""
        tensor = object.__new__(ObservedTensor)
        named = check_modes(modes, self._shape)
        origin = replace(self._origin, listed=any(mode.labels is not None for mode in named))
        tensor._set(self._columns, self._values, self._shape, self._bounds, named, origin)
        return tensor

    def encode(self, *labels: ArrayLike) -> IntArray:
        """Return coordinates (n, order) of labels, one array or label per mode; unlabelled modes take indices."""
        if len(labels) != self.order:
            raise InputError(f"encode needs one array of labels per mode, {self.order}; got {len(labels)}.")
        columns = [
            mode.encode(column) if mode.labels is not None else np.atleast_1d(np.asarray(column))
            for mode, column in zip(self._modes, labels, strict=True)
        ]
        if len({len(column) for column in columns}) != 1:
            raise InputError("labels must have the same length for every mode.")
        packed = checks.pack_columns(columns)
        checks.as_shape(self._shape, packed)
        return packed.T

    def decode(self, coords: ArrayLike) -> tuple[NDArray[Any], ...]:
        """Return the labels of coordinates (n, order), one array per mode; indices where a mode has no labels."""
        packed = checks.as_columns(coords)
        checks.as_shape(self._shape, packed)
        return tuple(mode.decode(column) for mode, column in zip(self._modes, packed, strict=True))

    def to_dense(self, fill: float | None = None, *, max_bytes: int = 2**31) -> FloatArray:
        """Return a dense array with `fill` in the cells without entries (default NaN, or 0 where unlisted is zero).

        Refused above `max_bytes`.
        """
        from tensorveil.tensor.arrays import tensor_to_dense

        empty = 0.0 if self.unlisted == "zero" else np.nan
        return tensor_to_dense(self, empty if fill is None else fill, max_bytes)

    def to_scipy(self) -> Any:
        """Return the scipy COO array of a tensor of order 2."""
        from tensorveil.tensor.arrays import tensor_to_scipy

        return tensor_to_scipy(self)

    def to_arrow(self, value: str | None = None) -> Any:
        """Return an Arrow table: one column per mode (labels, or indices) and the value column.

        The value column is called ``value``, else as it was where the tensor comes from, else "value".
        The schema's metadata keep shape, bounds and labels, so that `from_frame` restores the tensor.
        """
        from tensorveil.tensor.tables_out import tensor_to_table

        return tensor_to_table(self, value or self.value_name)

    def to_pandas(self, value: str | None = None) -> Any:
        """Return a pandas data frame, one row per entry; see `to_arrow`."""
        from tensorveil.tensor.tables_out import tensor_to_pandas

        return tensor_to_pandas(self, value or self.value_name)

    def to_polars(self, value: str | None = None) -> Any:
        """Return a polars data frame, one row per entry; see `to_arrow`."""
        from tensorveil.tensor.tables_out import tensor_to_polars

        return tensor_to_polars(self, value or self.value_name)

    def write(self, path: str | Path, format: str | None = None) -> None:  # noqa: A002
        """Write to a file; the format follows from the name (.npz keeps everything; see `read`).

        The file appears complete or not at all.
        """
        from tensorveil.tensor.files import write

        write(self, path, format)
