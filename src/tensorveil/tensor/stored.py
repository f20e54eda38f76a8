"""A tensor on disk: a folder of Parquet parts and a manifest, for entries that do not fit into memory.

    STORE/manifest.json          form, modes, bounds, how the entries came about, and per order its parts
    STORE/labels/0.parquet       the public list of a mode's labels, if it has one
    STORE/by-0/000000.parquet    entries sorted by the first mode, then by the others; no index of it is in two parts

There is one folder per order that was asked for. The manifest holds its own digest, and that of every other file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.memory import check_memory
from tensorveil.tensor import checks, policies
from tensorveil.tensor.checks import FloatArray, IntArray, Unlisted
from tensorveil.tensor.entries import Block, MemoryEntries
from tensorveil.tensor.labels import to_numpy_labels
from tensorveil.tensor.modes import Mode, find_axis
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.origin import Origin

__all__ = [
    "MANIFEST",
    "NOT_IN_MEMORY",
    "Part",
    "StoreError",
    "StoredEntries",
    "StoredTensor",
    "digest_file",
    "is_store",
    "read_part",
    "refuse_beyond",
]

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
_IN_FOLDER: Final = re.compile(r"by-[0-9]+/[0-9]+\.parquet")
# What a store cannot say of its entries without reading all of them, and what to do instead.
NOT_IN_MEMORY = (
    "this needs all entries in memory, and a StoredTensor keeps them on disk. Load them, if they fit: stored.load(). "
    "User-level fits (UserLevelCP, UserLevelTucker, UserLevelMatrix) run on the store as it is."
)


class StoreError(InputError):
    """A store's part is not what its manifest says; ``problem`` is "missing", "changed" or "unsound"."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            {
                "missing": "store: a part is not there, or cannot be read. Every process that works on a store must "
                "see its folder under the same path.",
                "changed": "store: a part is not the one that was stored: its SHA-256 differs. Make the store again.",
                "unsound": "store: a part does not hold what the manifest says. Make the store again.",
            }[problem]
        )
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class Part:
    """A file of a store: whole slices of the mode that it is ordered by, ``first`` to ``last``."""

    file: str
    rows: int
    first: int
    last: int
    sha256: str


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredTensor:
    """A tensor whose entries stay on disk: `tensorveil.write_store` makes it, `StoredTensor.open` reads it.

    It says of itself what an `ObservedTensor` says, but for its entries, which are read part by part.

    Parameters
    ----------
    folder
        The store.
    shape, modes, bounds, origin
        As for `ObservedTensor`. The protected mode of a private store is as long as its largest index needs.
    n_entries, dtype
        The number of entries, and the kind of their values: "float64" or "float32".
    orders
        For every mode that the store is ordered by, its parts.
    name
        Drawn when the store was made, so that nobody can compute the digest who cannot read the store; None for stores
        of earlier versions.
    digest
        Tells the whole store, its name too, from all others.
    """

    folder: Path
    shape: tuple[int, ...]
    modes: tuple[Mode, ...]
    bounds: tuple[float, float] | None
    origin: Origin
    n_entries: int
    dtype: str
    orders: Mapping[str, tuple[Part, ...]] = field(repr=False)
    digest: str = field(repr=False)
    name: str | None = field(default=None, repr=False)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> StoredTensor:
        """Open a store: its manifest is read and checked, its entries are not.

        >>> import tensorveil as tv
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as place:
        ...     tv.synthetic_cp((30, 20), 2, random_state=0).train.write(f"{place}/data.parquet")
        ...     _ = tv.write_store([f"{place}/data.parquet"], f"{place}/store", order=["mode_0"], indices=True)
        ...     tv.StoredTensor.open(f"{place}/store").shape
        (30, 20)
        """
        place = Path(folder).absolute()
        if not is_store(place):
            raise InputError("store: there is none in this folder, which has no manifest.json. Check the path.")
        try:
            facts = json.loads((place / MANIFEST).read_bytes())
            stated = facts.pop("digest")
            sound = stated == digest_facts(facts) and facts["format"] == FORMAT
            opened = _from_facts(place, facts, stated) if sound else None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            opened = None
        if opened is None:
            raise InputError(
                "store: manifest.json is damaged, was changed, or was written by another version. Make the store again."
            )
        for name, parts in opened.orders.items():
            _check_parts(parts, opened.n_entries, name)
        return opened

    def __repr__(self) -> str:
        names = ", ".join(mode.name for mode in self.modes)
        return (
            f"StoredTensor(shape={self.shape}, n_entries={self.n_entries}, bounds={self.bounds}, modes=[{names}], "
            f"ordered by [{', '.join(self.orders)}])"
        )

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self.shape)

    @property
    def density(self) -> float:
        """Observed share of all cells."""
        return self.n_entries / float(np.prod(self.shape, dtype=np.float64))

    @property
    def unlisted(self) -> Unlisted:
        """What cells without an entry hold: "unknown", or "zero"."""
        return self.origin.unlisted

    @property
    def value_name(self) -> str:
        """What the values are called."""
        return value_name(self.origin, self.modes)

    @property
    def entries(self) -> StoredEntries:
        """The entries as blocks, one per part of the first order."""
        return StoredEntries(stored=self, mode=next(iter(self.orders)))

    def axis(self, mode: int | str) -> int:
        """Return the position of a mode given by name or position."""
        return find_axis(self.modes, mode)

    def parts(self, mode: str) -> tuple[Part, ...]:
        """Return the parts of the order by a mode."""
        if mode not in self.orders:
            raise InputError(
                f"store: its entries are not ordered by {mode!r}, but by {', '.join(map(repr, self.orders))}. Make it "
                f"again with order=[{mode!r}], or in the shell --order {mode}."
            )
        return self.orders[mode]

    def read_part(self, mode: str, part: Part) -> ObservedTensor:
        """Read one part, after its digest was compared."""
        columns, values = read_part(self.folder / part.file, part, self.axis(mode), self.column_names)
        return ObservedTensor.from_columns(
            columns, values, self.shape, self.bounds, self.modes, duplicates="keep"
        ).with_origin(self.origin)

    def read_columns(self, mode: str, part: Part) -> tuple[IntArray, FloatArray]:
        """Read one part's columns (order, n) and values, after its digest was compared; indices beyond are refused."""
        columns, values = read_part(self.folder / part.file, part, self.axis(mode), self.column_names)
        refuse_beyond(columns, values, self.shape)
        return columns, values

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of every part: the modes, then the value."""
        return (*(mode.name for mode in self.modes), self.value_name)

    def with_unlisted(self, unlisted: Unlisted) -> StoredTensor:
        """Return the same store, where cells without an entry are "unknown" or "zero"."""
        return replace(self, origin=policies.declare_unlisted(self.origin, unlisted))

    def load(self) -> ObservedTensor:
        """Return all entries in memory, if they fit."""
        loaded = self.entries.load()
        return ObservedTensor.from_columns(
            loaded.columns, loaded.values, self.shape, self.bounds, self.modes, duplicates="keep"
        ).with_origin(self.origin)

    def _refuse(self) -> NoReturn:
        raise InputError(NOT_IN_MEMORY)

    @property
    def columns(self) -> NoReturn:
        """Not there: entries stay on disk."""
        self._refuse()

    @property
    def coords(self) -> NoReturn:
        """Not there: entries stay on disk."""
        self._refuse()

    @property
    def values(self) -> NoReturn:
        """Not there: entries stay on disk."""
        self._refuse()

    def take(self, index: Any) -> NoReturn:
        """Refuse to choose entries, as splits do: they stay on disk."""
        self._refuse()

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        """Refuse to be taken for an array."""
        self._refuse()


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredEntries:
    """The entries of a store as blocks of columns: as `MemoryEntries`, a part at a time."""

    stored: StoredTensor
    mode: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of every mode."""
        return self.stored.shape

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return self.stored.n_entries

    def blocks(self, most: int | None = None) -> Iterator[Block]:
        """Pass over the entries in blocks of at most ``most`` entries; by default a block per part."""
        for part in self.stored.parts(self.mode):
            tensor = self.stored.read_part(self.mode, part)
            yield from MemoryEntries(columns=tensor.columns, values=tensor.values, shape=self.shape).blocks(most)

    def load(self) -> MemoryEntries:
        """Return all entries in memory."""
        check_memory(
            2 * self.n_entries * (4 * self.stored.order + 8), "a store, loaded,", "Work on it part by part instead."
        )
        columns: IntArray = np.empty((self.stored.order, self.n_entries), np.int32)
        values: FloatArray = np.empty(self.n_entries, self.stored.dtype)
        at = 0
        for block in self.blocks():
            to = at + len(block.values)
            columns[:, at:to], values[at:to] = block.columns, block.values
            at = to
        return MemoryEntries(columns=columns, values=values, shape=self.shape)


def read_part(path: Path, part: Part, axis: int, names: Sequence[str]) -> tuple[IntArray, FloatArray]:
    """Return the columns and values of a part; one that is not as stated is a `StoreError`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        content = path.read_bytes()
    except OSError:
        raise StoreError("missing") from None
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise StoreError("changed")
    table = None
    with contextlib.suppress(pa.ArrowException, OSError):  # whose text may hold pieces of the file
        file = pq.ParquetFile(pa.BufferReader(content))
        if file.metadata.num_rows == part.rows and tuple(file.schema_arrow.names) == tuple(names):
            table = file.read(use_threads=False)
    if table is None or table.num_rows != part.rows:
        raise StoreError("unsound")
    del content
    kinds = [column.type for column in table.columns]
    if any(kind != pa.int32() for kind in kinds[:-1]) or kinds[-1] not in (pa.float64(), pa.float32()):
        raise StoreError("unsound")
    columns = np.empty((len(names) - 1, part.rows), np.int32)
    for m in range(len(columns)):
        columns[m] = table.column(m).to_numpy()
    own = columns[axis]
    if part.rows < 1 or own[0] != part.first or own[-1] != part.last or (own[1:] < own[:-1]).any():
        raise StoreError("unsound")
    return columns, table.column(len(names) - 1).to_numpy().copy()


def refuse_beyond(columns: IntArray, values: FloatArray, shape: Sequence[int]) -> None:
    """Refuse a part with indices beyond the shape, or with values that are no numbers."""
    if (columns < 0).any() or (columns.max(axis=1) >= shape).any() or not np.isfinite(values).all():
        raise StoreError("unsound")


def is_store(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a folder with a manifest."""
    return (Path(path) / MANIFEST).is_file()


def value_name(origin: Origin, modes: Sequence[Mode]) -> str:
    """Return what the values are called: as in the table that they come from, unless a mode is called so."""
    name = origin.value
    return "value" if name is None or name in [mode.name for mode in modes] else name


def digest_facts(facts: Mapping[str, Any]) -> str:
    """Return a digest of plain data."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_facts(stored: StoredTensor, labels: Mapping[int, tuple[str, str]]) -> dict[str, Any]:
    """Return the manifest of a store; ``labels`` are file and digest of each mode's list."""
    facts: dict[str, Any] = {
        "format": FORMAT,
        "name": secrets.token_hex(16),
        "modes": [
            {"name": mode.name, "size": size, "labels": list(labels[m]) if m in labels else None}
            | ({} if mode.bins is None else {"bins": mode.bins})
            for m, (mode, size) in enumerate(zip(stored.modes, stored.shape, strict=True))
        ],
        "bounds": stored.bounds,
        "origin": stored.origin.to_json(),
        "entries": stored.n_entries,
        "dtype": stored.dtype,
        "orders": {name: [asdict(part) for part in parts] for name, parts in stored.orders.items()},
    }
    facts = json.loads(json.dumps(facts))  # tuples are lists in what is digested and read
    return facts | {"digest": digest_facts(facts)}


def _from_facts(folder: Path, facts: Mapping[str, Any], digest: str) -> StoredTensor:
    modes = tuple(Mode(each["name"], _read_labels(folder, each["labels"]), each.get("bins")) for each in facts["modes"])
    shape = checks.check_shape([each["size"] for each in facts["modes"]])
    orders = {
        str(name): tuple(Part(**each) for each in parts)
        for name, parts in facts["orders"].items()
        if name in [mode.name for mode in modes]
    }
    counts = [each for parts in orders.values() for part in parts for each in (part.rows, part.first, part.last)]
    if not orders or any(type(each) is not int for each in (facts["entries"], *counts)):
        raise ValueError
    if facts["dtype"] not in ("float32", "float64"):
        raise ValueError
    if not all(_IN_FOLDER.fullmatch(part.file) for parts in orders.values() for part in parts):
        raise ValueError
    if any(m.labels is not None and len(m.labels) != size for m, size in zip(modes, shape, strict=True)):
        raise ValueError
    return StoredTensor(
        folder=folder, shape=shape, modes=modes, bounds=checks.as_bounds(facts["bounds"]),
        origin=Origin.from_json(facts["origin"]), n_entries=facts["entries"], dtype=facts["dtype"], orders=orders,
        digest=digest, name=facts.get("name"),
    )  # fmt: skip


def _read_labels(folder: Path, stated: Sequence[str] | None) -> NDArray[Any] | None:
    """Return the labels of a mode, if they are those that were written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if stated is None:
        return None
    content = (folder / stated[0]).read_bytes()
    if hashlib.sha256(content).hexdigest() != stated[1]:
        raise ValueError
    try:
        column = pq.read_table(pa.BufferReader(content)).column(0).combine_chunks()
    except pa.ArrowException:
        raise ValueError from None
    return to_numpy_labels(column, "a list of labels")


def _check_parts(parts: Sequence[Part], n_entries: int, name: str) -> None:
    """Refuse parts that share a slice, or that are not all of the entries."""
    last = -1
    for part in parts:
        if not 0 <= last + 1 <= part.first <= part.last or part.rows < 1:
            raise InputError(
                f"store: two parts share an index of {name!r}, or are out of order. All entries of an index must lie "
                "in one part. Make the store again."
            )
        last = part.last
    if sum(part.rows for part in parts) != n_entries:
        raise InputError("store: its parts do not hold all of its entries. Make the store again.")
