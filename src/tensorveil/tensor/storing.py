"""Making a store in bounded memory: sorted runs on disk, merged into parts of whole slices."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor.checks import Duplicates
from tensorveil.tensor.keys import linear_keys, merge_duplicates, sort_entries
from tensorveil.tensor.labels import to_arrow_labels
from tensorveil.tensor.modes import Mode, find_axis
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.stored import MANIFEST, Part, StoredTensor, digest_file, make_facts, value_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PART_ROWS", "fill_store", "write_manifest", "write_part"]

Array = NDArray[Any]
Settle = Callable[[Array, Array], tuple[Array, Array]]

PART_ROWS: Final = 1 << 20  # about: a part ends where a slice does
_RUNS: Final = ".runs"
_SHORTEST_BLOCK = 1 << 12
_COPIES = 4  # of rows that are gathered, sorted and written at the same time


def fill_store(
    folder: Path,
    blocks: Iterable[ObservedTensor],
    *,
    order: Sequence[str | int],
    duplicates: Duplicates = "keep",
    memory: int = 1 << 30,
    part_rows: int = PART_ROWS,
) -> None:
    """Write a store into an empty folder, from blocks of entries with the same modes.

    Parameters
    ----------
    folder
        Where to; the caller sees to it that it appears whole or not at all.
    blocks
        Tensors built with duplicates="keep", whose rows follow one another.
    order
        The modes that entries are to be ordered by, by name or position.
    duplicates
        What becomes of entries that share a cell, as for `ObservedTensor`.
    memory
        Bytes that rows may take while they are sorted and merged.
    part_rows
        About how many rows a part is to have.
    """
    first, blocks = _peek(blocks)
    modes = first.modes
    axes = [find_axis(modes, mode) for mode in order]
    if not axes or len(set(axes)) != len(axes):
        raise InputError("order must name one mode or several different ones. Try order=['user'].")
    sorters = [
        _Sorter(folder / _RUNS / str(axis), axis, len(modes), str(first.values.dtype), memory // len(axes))
        for axis in axes
    ]
    shape, origin, used = first.shape, first.origin, np.ones(len(modes), np.int64)
    for block in blocks:
        if [mode.name for mode in block.modes] != [mode.name for mode in modes] or block.bounds != first.bounds:
            raise InputError("files of a store must have the same modes. Name them: modes=['user', 'film'].")
        if block.values.dtype != first.values.dtype:
            raise InputError("files of a store must hold values of one kind. Write them as float64.")
        if any(a != b for a, b in zip(block.modes, modes, strict=True)):
            raise InputError("files of a store must be numbered alike. Give public lists of labels, or indices.")
        shape = tuple(map(max, shape, block.shape))
        used = np.maximum(used, block.columns.max(axis=1, initial=-1) + 1)
        origin = origin.then(block.origin)
        for sorter in sorters:
            sorter.add(block.columns, block.values)
    origin = replace(origin, duplicates=duplicates)
    if origin.owners is not None:  # as many as there are; no limit was declared for them
        shape = tuple(int(used[m]) if m == origin.owners else size for m, size in enumerate(shape))
    orders = {}
    for axis, sorter in zip(axes, sorters, strict=True):
        settle = _settler(axis, shape, duplicates)
        names = [*(mode.name for mode in modes), value_name(origin, modes)]
        place = folder / f"by-{axis}"
        place.mkdir()
        orders[modes[axis].name] = tuple(_write_parts(sorter.merge(settle), place, names, axis, part_rows))
        sorter.remove()
    shutil.rmtree(folder / _RUNS)  # a store holds no file that its manifest does not name
    counts = {sum(part.rows for part in parts) for parts in orders.values()}
    assert len(counts) == 1  # the same rows in every order
    stored = StoredTensor(
        folder=folder, shape=shape, modes=modes, bounds=first.bounds, origin=origin, n_entries=counts.pop(),
        dtype=str(first.values.dtype), orders=orders, digest="",
    )  # fmt: skip
    write_manifest(folder, stored)


def _peek(blocks: Iterable[ObservedTensor]) -> tuple[ObservedTensor, Iterator[ObservedTensor]]:
    """Return the first block, and all of them."""
    rest = iter(blocks)
    first = next(rest, None)
    if first is None:
        raise InputError("files must hold at least one row; got none. Check the source.")

    def everything() -> Iterator[ObservedTensor]:
        yield first
        yield from rest

    return first, everything()


def _settler(axis: int, shape: tuple[int, ...], duplicates: Duplicates) -> Settle:
    """Return what brings whole slices into their final order: by coordinates, and equal ones by value or merged."""
    modes = [axis, *(m for m in range(len(shape)) if m != axis)]
    back = np.argsort(modes)
    sizes = tuple(shape[m] for m in modes)

    def settle(columns: Array, values: Array) -> tuple[Array, Array]:
        turned = columns[modes]
        if duplicates == "keep":
            turned, values = sort_entries(turned, values, sizes)
        else:
            keys = linear_keys(turned, sizes)
            by = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
            turned, values = merge_duplicates(np.ascontiguousarray(turned[:, by]), values[by], sizes, duplicates)
        return turned[back], values

    return settle


class _Run:
    """A sorted run on disk, of which a few blocks at a time are in memory."""

    def __init__(self, path: Path, order: int) -> None:
        import pyarrow as pa

        self._source = pa.OSFile(str(path), "rb")
        self._reader = pa.ipc.open_file(self._source)
        self._next, self._order = 0, order
        self.columns: Array = np.empty((order, 0), np.int32)
        self.values: Array = np.empty(0, self._reader.schema.field(order).type.to_pandas_dtype())

    @property
    def done(self) -> bool:
        """Whether all of it has been read."""
        return bool(self._next >= self._reader.num_record_batches)

    def load(self) -> None:
        """Read one more block."""
        batch = self._reader.get_batch(self._next)
        self._next += 1
        fresh = np.stack([batch.column(m).to_numpy() for m in range(self._order)])
        self.columns = np.concatenate([self.columns, fresh], axis=1)
        self.values = np.concatenate([self.values, batch.column(self._order).to_numpy()])

    def cut(self, place: int) -> tuple[Array, Array]:
        """Return the rows before a place, and keep the others."""
        found = self.columns[:, :place], self.values[:place]
        self.columns, self.values = self.columns[:, place:].copy(), self.values[place:].copy()
        return found

    def close(self) -> None:
        self._source.close()


class _Sorter:
    """Entries sorted by one mode, in bounded memory."""

    def __init__(self, folder: Path, axis: int, order: int, dtype: str, memory: int) -> None:
        folder.mkdir(parents=True)
        self._folder, self._axis, self._order = folder, axis, order
        row = 4 * order + np.dtype(dtype).itemsize
        self._most = max(_SHORTEST_BLOCK, memory // (_COPIES * row))
        self._memory, self._row = memory, row
        self._waiting: list[tuple[Array, Array]] = []
        self._rows = 0
        self._runs: list[Path] = []

    def add(self, columns: Array, values: Array) -> None:
        """Take rows; a run is written whenever there are enough of them."""
        for start in range(0, len(values), self._most):
            piece = slice(start, start + self._most)
            if self._rows + len(values[piece]) > self._most:
                self._write_run()
            self._waiting.append((columns[:, piece], values[piece]))
            self._rows += len(values[piece])

    def _write_run(self) -> None:
        import pyarrow as pa

        if not self._rows:
            return
        columns = np.concatenate([each for each, _ in self._waiting], axis=1)
        values = np.concatenate([each for _, each in self._waiting])
        self._waiting, self._rows = [], 0
        # Stable: entries of a cell stay in the order of the files, on which some rules for duplicates depend.
        by = np.argsort(columns[self._axis], kind="stable")
        path = self._folder / f"{len(self._runs):06d}.arrow"
        fields = [pa.field(str(m), pa.int32()) for m in range(self._order)]
        schema = pa.schema([*fields, pa.field("value", pa.from_numpy_dtype(values.dtype))])
        block = _SHORTEST_BLOCK * 4
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for start in range(0, len(by), block):
                rows = by[start : start + block]
                arrays = [pa.array(column[rows]) for column in columns]
                writer.write_batch(pa.record_batch([*arrays, pa.array(values[rows])], schema=schema))
        self._runs.append(path)

    def merge(self, settle: Settle) -> Iterator[tuple[Array, Array]]:
        """Yield all rows in pieces of whole slices, each piece settled."""
        self._write_run()
        runs = [_Run(path, self._order) for path in self._runs]
        wanted = max(1, self._memory // (2 * _COPIES * self._row * max(1, len(runs))))
        try:
            while runs:
                for run in runs:
                    while not run.done and len(run.values) < wanted:
                        run.load()
                yield settle(*self._cut_whole_slices(runs))
                for run in runs:
                    if run.done and not len(run.values):
                        run.close()
                runs = [run for run in runs if not run.done or len(run.values)]
        finally:
            for run in runs:
                run.close()

    def _cut_whole_slices(self, runs: Sequence[_Run]) -> tuple[Array, Array]:
        """Return all rows of slices that are in memory as a whole; where there is none, read on."""
        while True:
            unread = [run for run in runs if not run.done]
            if not unread:
                found = [run.cut(len(run.values)) for run in runs]
                break
            # Of a slice that ends a block, more may follow in the next.
            bound = min(int(run.columns[self._axis, -1]) for run in unread)
            places = [int(np.searchsorted(run.columns[self._axis], bound, side="left")) for run in runs]
            if any(places):
                found = [run.cut(place) for run, place in zip(runs, places, strict=True)]
                break
            for run in unread:
                if int(run.columns[self._axis, -1]) == bound:
                    run.load()
        return np.concatenate([each for each, _ in found], axis=1), np.concatenate([each for _, each in found])

    def remove(self) -> None:
        """Remove the runs."""
        shutil.rmtree(self._folder)


def _write_parts(
    pieces: Iterator[tuple[Array, Array]], folder: Path, names: Sequence[str], axis: int, part_rows: int
) -> Iterator[Part]:
    """Write pieces of whole slices as parts, each of which ends where a slice does."""
    waiting: list[tuple[Array, Array]] = []
    count = number = 0
    for piece in pieces:
        waiting.append(piece)
        count += len(piece[1])
        if count < part_rows:
            continue
        columns, values = _join(waiting)
        start = 0
        while count - start >= part_rows:
            own = columns[axis]
            end = int(np.searchsorted(own, own[start + part_rows - 1], side="right"))
            yield write_part(folder, number, names, columns[:, start:end], values[start:end], axis)
            start, number = end, number + 1
        waiting, count = [(columns[:, start:].copy(), values[start:].copy())], count - start
    if count:
        yield write_part(folder, number, names, *_join(waiting), axis)


def _join(pieces: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    return np.concatenate([each for each, _ in pieces], axis=1), np.concatenate([each for _, each in pieces])


def write_part(folder: Path, number: int, names: Sequence[str], columns: Array, values: Array, axis: int) -> Part:
    """Write one part, sorted, into the folder of its order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"{number:06d}.parquet"
    arrays = [pa.array(np.ascontiguousarray(column)) for column in columns]
    table = pa.table([*arrays, pa.array(np.ascontiguousarray(values))], names=list(names))
    pq.write_table(table, path, compression="snappy", write_page_checksum=True)
    return Part(
        file=f"{folder.name}/{path.name}",
        rows=len(values),
        first=int(columns[axis, 0]),
        last=int(columns[axis, -1]),
        sha256=digest_file(path),
    )


def write_manifest(folder: Path, stored: StoredTensor) -> None:
    """Write labels and manifest of a store whose parts are in a folder."""
    facts = make_facts(stored, dict(_write_labels(folder, stored.modes)))
    (folder / MANIFEST).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _write_labels(folder: Path, modes: Sequence[Mode]) -> Iterator[tuple[int, tuple[str, str]]]:
    """Write the labels of modes that have some."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for m, mode in enumerate(modes):
        if mode.labels is not None:
            path = folder / "labels" / f"{m}.parquet"
            path.parent.mkdir(exist_ok=True)
            table: pa.Table = pa.table({"label": to_arrow_labels(mode.labels)})
            pq.write_table(table, path, compression="zstd", write_page_checksum=True)
            yield m, (f"labels/{m}.parquet", digest_file(path))
