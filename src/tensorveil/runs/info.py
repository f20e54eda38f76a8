"""What is in a tensor file."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.engines.loop import estimate_part
from tensorveil.errors import InputError
from tensorveil.runs.costs import PER_ENTRY, Cost, estimate_open
from tensorveil.runs.oddities import find_oddities, suggest_settings
from tensorveil.runs.reading import Reading, layout_of, read_tensor
from tensorveil.tensor import ObservedTensor, StoredTensor

__all__ = [
    "EXAMPLES",
    "FileFacts",
    "ModeFacts",
    "StoreFacts",
    "StoredMode",
    "TensorFacts",
    "describe_file",
    "describe_store",
    "describe_tensor",
    "name_labels",
    "show_examples",
]

# Policies under which a file with flaws can still be described, mildest first.
LENIENT: tuple[dict[str, Any], ...] = (
    {},
    {"duplicates": "first"},
    {"missing": "drop"},
    {"duplicates": "first", "missing": "drop"},
)
EXAMPLES, LONGEST = 3, 32  # labels shown of a mode, and letters of each


@dataclass(frozen=True, kw_only=True)
class ModeFacts:
    """One mode: its labels, if it has any, and how the entries are spread over its indices."""

    name: str
    size: int
    labels: str | None
    examples: list[str] | None
    entries_per_index: dict[str, float]
    empty: int


@dataclass(frozen=True, kw_only=True)
class TensorFacts:
    """A tensor: its form, its modes, its values."""

    order: int
    shape: tuple[int, ...]
    entries: int
    density: float
    bounds: tuple[float, float] | None
    modes: tuple[ModeFacts, ...]
    values: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class FileFacts:
    """A file, the tensor in it, and the flaws ("duplicates", "missing") that had to be overlooked to read it.

    ``notes`` are what else is worth a look, ``dialect`` how a text table is written, where it is not the plainest way.
    ``costs`` is what a fit of rank 8 takes, roughly, by solver.
    """

    tensor: TensorFacts
    file: str
    bytes: int
    flaws: tuple[str, ...]
    notes: tuple[str, ...]
    dialect: Mapping[str, str]
    costs: Mapping[str, Cost]

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        facts = dataclasses.asdict(self.tensor)
        costs = {solver: cost.to_json() for solver, cost in self.costs.items()}
        more = {"flaws": list(self.flaws), "notes": list(self.notes), "dialect": dict(self.dialect), "costs": costs}
        return facts | {"file": self.file, "bytes": self.bytes, **more}


@dataclass(frozen=True, kw_only=True)
class StoredMode:
    """One mode of a store, and if entries are ordered by it, its parts."""

    name: str
    size: int
    listed: bool
    parts: int | None
    largest_part: int | None


@dataclass(frozen=True, kw_only=True)
class StoreFacts:
    """What a store's manifest says; no entry is read. ``part_bytes`` is what work on its largest part takes."""

    folder: str
    bytes: int
    shape: tuple[int, ...]
    entries: int
    density: float
    bounds: tuple[float, float] | None
    value: str
    dtype: str
    modes: tuple[StoredMode, ...]
    part_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class DeclaredStore:
    """What was declared of a private store: how many entries and owners it holds is not, nor how large its files are.

    ``lists`` are the modes with public lists of labels, ``orders`` those that it is ordered by.
    """

    folder: str
    modes: tuple[str, ...]
    lists: tuple[str, ...]
    orders: tuple[str, ...]
    bounds: tuple[float, float] | None
    value: str

    @classmethod
    def of(cls, stored: StoredTensor) -> DeclaredStore:
        """Say what was declared of a store."""
        return cls(
            folder=os.fspath(stored.folder),
            modes=tuple(mode.name for mode in stored.modes),
            lists=tuple(mode.name for mode in stored.modes if mode.labels is not None),
            orders=tuple(stored.orders),
            bounds=stored.bounds,
            value=stored.value_name,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return dataclasses.asdict(self)


def describe_store(folder: str | os.PathLike[str]) -> StoreFacts:
    """Say what a store holds, by its manifest."""
    stored = StoredTensor.open(folder)
    modes = []
    for mode, size in zip(stored.modes, stored.shape, strict=True):
        parts = stored.orders.get(mode.name)
        modes.append(
            StoredMode(
                name=mode.name,
                size=size,
                listed=mode.labels is not None,
                parts=None if parts is None else len(parts),
                largest_part=None if parts is None else max((part.rows for part in parts), default=0),
            )
        )
    return StoreFacts(
        folder=os.fspath(folder),
        bytes=sum(path.stat().st_size for path in stored.folder.rglob("*") if path.is_file()),
        shape=stored.shape,
        entries=stored.n_entries,
        density=stored.density,
        bounds=stored.bounds,
        value=stored.value_name,
        dtype=stored.dtype,
        modes=tuple(modes),
        part_bytes=max(estimate_part(stored, name) for name in stored.orders),
    )


def describe_file(reading: Reading) -> FileFacts:
    """Read a file, strictly if possible and else leniently, and describe what is in it."""
    tensor, flaws = _read_leniently(reading)
    return FileFacts(
        tensor=describe_tensor(tensor),
        file=os.fspath(reading.file),
        bytes=Path(reading.file).stat().st_size,
        flaws=flaws,
        notes=(*find_oddities(tensor), *suggest_settings(tensor)),
        dialect=_describe_dialect(reading),
        costs={solver: estimate_open(tensor.shape, tensor.n_entries, solver=solver) for solver in PER_ENTRY},
    )


def _describe_dialect(reading: Reading) -> dict[str, str]:
    """Return what is unusual in how a text table is written."""
    from tensorveil.tensor.files.formats import pick_format
    from tensorveil.tensor.files.text import default_delimiter, settle_dialect

    path = Path(reading.file)
    picked = pick_format(path, reading.format)
    if not picked.is_text:
        return {}
    plain = {"delimiter": default_delimiter(picked.name), "decimal": ".", "encoding": "utf-8"}
    found = settle_dialect(path, plain["delimiter"], layout_of(reading).dialect, header=reading.header)
    facts = {name: getattr(found, name) for name in plain}
    return {name: fact for name, fact in facts.items() if fact not in (None, plain[name])}


def _read_leniently(reading: Reading) -> tuple[ObservedTensor, tuple[str, ...]]:
    first_error: InputError | None = None
    for policies in LENIENT:
        try:
            return read_tensor(replace(reading, **policies)), tuple(policies)
        except InputError as error:
            # Its traceback would keep the table that could not be read beside the one that is read next.
            first_error = first_error or error.with_traceback(None)
    assert first_error is not None
    raise first_error


def describe_tensor(tensor: ObservedTensor) -> TensorFacts:
    """Gather the facts about a tensor."""
    values = tensor.values.astype(np.float64)
    largest = float(np.abs(values).max())
    scale = largest if largest > 1e150 else 1.0  # sums, and squares, would leave the range of floats
    low, middle, high = (scale * part for part in np.quantile(values / scale, [0.0, 0.5, 1.0]).tolist())
    return TensorFacts(
        order=tensor.order,
        shape=tensor.shape,
        entries=tensor.n_entries,
        density=tensor.density,
        bounds=tensor.bounds,
        modes=tuple(_describe_mode(tensor, m) for m in range(tensor.order)),
        values={
            "min": low,
            "median": middle,
            "max": high,
            "mean": float((values / scale).mean() * scale),
            "std": float((values / scale).std() * scale),
            "distinct": len(np.unique(values)),
            "column": tensor.value_name,
            "dtype": str(tensor.values.dtype),
        },
    )


def _describe_mode(tensor: ObservedTensor, m: int) -> ModeFacts:
    mode, size = tensor.modes[m], tensor.shape[m]
    counts = np.sort(_count_indices(tensor.columns[m], size))
    empty = size - len(counts)
    middle = [int(counts[place - empty]) if place >= empty else 0 for place in ((size - 1) // 2, size // 2)]
    return ModeFacts(
        name=mode.name,
        size=size,
        labels=name_labels(mode.labels),
        examples=show_examples(mode.labels),
        entries_per_index={
            "min": 0 if empty else int(counts[0]),
            "median": sum(middle) / 2,
            "max": int(counts[-1]),
        },
        empty=empty,
    )


def show_examples(labels: Any) -> list[str] | None:
    """Return the first labels of a mode as text, if it has some."""
    return None if labels is None else [_shorten(str(label)) for label in labels[:EXAMPLES]]


def _shorten(label: str) -> str:
    """Return a label as an example of its kind: without zeros of a second, and not the whole of a long text."""
    label = re.sub(r"(?<=T\d\d:\d\d:\d\d)\.0+$", "", label)
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 3]}..."


def _count_indices(column: Any, size: int) -> Any:
    """Return how often each index that occurs does; a mode may be far longer than the tensor has entries."""
    if size <= len(column):
        counts = np.bincount(column, minlength=size)
        return counts[counts > 0]
    return np.unique(column, return_counts=True)[1]


def name_labels(labels: Any) -> str | None:
    """Return the kind of a mode's labels, if it has some."""
    if labels is None:
        return None
    return {"T": "text", "M": "dates", "m": "durations", "b": "true/false"}.get(labels.dtype.kind, "numbers")
