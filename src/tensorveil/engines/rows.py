"""Open fits on clusters: a part holds whole rows of the mode that it is ordered by, so it solves them by itself.

What travels are rows: to the parts those of the other modes, back their own; for a Tucker core sums over entries.
Factors stay at the driver, which hands them out anew for every mode; a part that is computed again gives the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil import __version__
from tensorveil.engines.answers import FAILED, OK, VERSION, catch_codes
from tensorveil.engines.engine import Engine, check_code, group_parts, run_safely
from tensorveil.engines.task import name_parts
from tensorveil.solvers.stored_rows import PartWork, group_rows, span_parts
from tensorveil.solvers.task import Scaling, Task
from tensorveil.tensor.stored import Part, StoredTensor, read_part, refuse_beyond

__all__ = ["EngineRows", "Moments", "RowWork", "run_rows"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Moments:
    """Tells the moments of the values about a center, instead of working on rows."""

    center: float

    def measure(self, values: Array) -> dict[str, float]:
        """Return their sums over a part."""
        apart = values.astype(np.float64) - self.center
        return {"sum": float(np.sum(apart)), "square": float(np.sum(apart**2))}


@dataclass(frozen=True, kw_only=True, eq=False)
class RowWork:
    """All that a task needs to work on the rows of its parts: what to do, and how values are seen.

    ``spans`` are the rows of every part, from the first to before the last.
    """

    version: str
    names: tuple[str, ...]
    shape: tuple[int, ...]
    mode: int
    dtype: str
    threads: int | None
    scaling: Scaling
    spans: Mapping[str, tuple[int, int]]
    work: PartWork | Moments

    def work_on(self, file: str, columns: Array, values: Array) -> tuple[dict[str, float], list[Array]]:
        """Return facts of a part, and arrays that follow from its rows."""
        if isinstance(self.work, Moments):
            return self.work.measure(values), []
        first, end = self.spans[file]
        scaled = self.scaling.apply(values, np.dtype(self.dtype))
        rows = group_rows(self.shape, self.mode, columns, scaled, first, end)
        facts, arrays = self.work.work_on(first, rows, self.threads)
        return {"first": first, **facts}, arrays


def run_rows(parts: str, work: RowWork) -> bytes:
    """Return a code, and if it is OK what `RowWork` makes of every part; this runs elsewhere."""
    return catch_codes(lambda: _run(json.loads(parts), work))


def _run(parts: Sequence[Any], work: RowWork) -> bytes:
    if work.version != __version__:
        return bytes([VERSION])
    found, content = [], []
    for file, rows, first, last, sha256 in parts:
        part = Part(file=file, rows=rows, first=first, last=last, sha256=sha256)
        columns, values = read_part(Path(file), part, work.mode, work.names)
        refuse_beyond(columns, values, work.shape)
        facts, arrays = work.work_on(file, columns, values)
        content += [np.ascontiguousarray(array).tobytes() for array in arrays]
        found.append(facts | {"arrays": [[str(array.dtype), list(array.shape)] for array in arrays]})
    return bytes([OK]) + b"".join([json.dumps(found).encode(), b"\n", *content])


def _read(answer: bytes) -> Iterator[tuple[dict[str, Any], list[Array]]]:
    """Yield what `run_rows` found, part by part."""
    header, _, content = answer[1:].partition(b"\n")
    at = 0
    for facts in json.loads(header):
        arrays = []
        for kind, shape in facts.pop("arrays"):
            array = np.frombuffer(content, kind, int(np.prod(shape)), at).reshape(shape)
            at += array.nbytes
            arrays.append(array)
        yield facts, arrays


@dataclass(frozen=True, kw_only=True, eq=False)
class EngineRows:
    """Where the parts of an open fit are worked on, instead of here: as `solvers.stored_rows.Elsewhere`."""

    engine: Engine
    stored: StoredTensor

    def scale(self, task: Task) -> Scaling:
        """Return how values are seen: centred and scaled as in memory, but for the order of the sums."""
        n, offset = self.stored.n_entries, 0.0
        if task.baseline != "none":
            offset = self._add_moments(0.0)["sum"] / n
        spread = (self._add_moments(offset)["square"] / n) ** 0.5
        return Scaling(offset=offset, scale=spread if spread > 0 else 1.0)

    def _add_moments(self, center: float) -> dict[str, float]:
        mode = self.stored.axis(next(iter(self.stored.orders)))
        found = [facts for facts, _ in self._gather(self.prepare(mode, Moments(center)))]
        return {name: sum(each[name] for each in found) for name in ("sum", "square")}

    def work_on(
        self, mode: int, work: PartWork, scaling: Scaling, dtype: np.dtype[np.floating]
    ) -> Iterator[tuple[int, Mapping[str, float], list[Array]]]:
        """Yield the first row of every part of a mode's order, and what comes of its rows, in their order."""
        for facts, arrays in self._gather(self.prepare(mode, work, scaling, dtype)):
            yield facts["first"], facts, arrays

    def prepare(
        self,
        mode: int,
        work: PartWork | Moments,
        scaling: Scaling | None = None,
        dtype: np.dtype[Any] | type[np.float64] = np.float64,
    ) -> RowWork:
        """Return all that the tasks of a mode need."""
        stored = self.stored
        parts = stored.parts(stored.modes[mode].name)
        spans = zip(parts, span_parts(parts, stored.shape[mode]), strict=True)
        return RowWork(
            version=__version__, names=stored.column_names, shape=stored.shape, mode=mode, dtype=str(np.dtype(dtype)),
            threads=self.engine.threads, scaling=scaling or Scaling(offset=0.0, scale=1.0), work=work,
            spans={str(stored.folder / part.file): span for part, span in spans},
        )  # fmt: skip

    def _gather(self, work: RowWork) -> Iterator[tuple[dict[str, Any], list[Array]]]:
        parts = self.stored.parts(self.stored.modes[work.mode].name)
        tasks = [name_parts(self.stored, group) for group in group_parts(parts, 4 * self.engine.workers)]
        for answer in run_safely(lambda: self.engine.gather(run_rows, tasks, work)):
            check_code(answer[0] if answer else FAILED)
            yield from _read(answer)
