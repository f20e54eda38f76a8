"""Open fits on clusters: a part holds whole rows of the mode that it is ordered by, so it solves them by itself.

What travels are rows: to the parts those of the other modes, back their own. Factors stay at the driver, which hands
them out anew for every mode; a part that is computed again gives the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil import __version__
from tensorveil.engines.answers import FAILED, OK, VERSION, catch_codes
from tensorveil.engines.engine import Engine, check_code, group_parts, run_safely
from tensorveil.engines.task import name_parts
from tensorveil.kernels.padded import Padded, pad
from tensorveil.solvers.als_stored import Ridge, Solved, solve_rows
from tensorveil.solvers.stored_rows import group_rows
from tensorveil.solvers.task import Scaling, Task
from tensorveil.tensor.stored import Part, StoredTensor, read_part, refuse_beyond

__all__ = ["EngineRows", "RowWork", "run_rows"]

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class RowWork:
    """All that a task needs to solve the rows of its parts: the rows of the other modes, and how values are seen.

    Without ``factors`` it tells the moments of the values about ``center`` instead.
    """

    version: str
    names: tuple[str, ...]
    shape: tuple[int, ...]
    mode: int
    dtype: str
    threads: int | None
    center: float = 0.0
    scale: float = 1.0
    ridge: Ridge = field(default_factory=lambda: Ridge(0.0))
    rank: int = 0
    factors: tuple[Array, ...] = ()  # of the other modes
    biases: tuple[Array, ...] = ()  # likewise, if there are any

    @cached_property
    def padded(self) -> Padded:
        """All factors as kernels want them; the mode's own are not known here, and take no room."""
        others = list(self.factors)
        others.insert(self.mode, np.empty((0, self.rank), self.dtype))
        return pad(others, np.dtype(self.dtype))

    def work_on(self, part: Part, columns: Array, values: Array) -> tuple[dict[str, Any], list[Array]]:
        """Return facts of a part, and its rows and biases."""
        if not self.factors:
            apart = values.astype(np.float64) - self.center
            return {"sum": float(np.sum(apart)), "square": float(np.sum(apart**2))}, []
        scaling = Scaling(offset=self.center, scale=self.scale)
        scaled = scaling.apply(values, np.dtype(self.dtype))
        grouped = group_rows(self.shape, self.mode, columns, scaled, part.first, part.last + 1)
        biases = list(self.biases)
        if biases:
            biases.insert(self.mode, np.empty(0, self.dtype))
        solved = solve_rows(grouped, self.padded, self.mode, biases, self.ridge, self.threads)
        return {"residual": solved.residual, "first": part.first}, [solved.rows, *solved.biases]


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
        facts, arrays = work.work_on(part, columns, values)
        content += [np.ascontiguousarray(array).tobytes() for array in arrays]
        found.append(facts | {"arrays": [[str(array.dtype), list(array.shape)] for array in arrays]})
    return bytes([OK]) + b"".join([json.dumps(found).encode(), b"\n", *content])


def _read(answer: bytes) -> Iterator[tuple[dict[str, Any], list[Array]]]:
    """Yield what `run_rows` found, part by part."""
    header, _, content = answer[1:].partition(b"\n")
    at = 0
    for facts in json.loads(header):
        arrays = []
        for kind, shape in facts["arrays"]:
            array = np.frombuffer(content, kind, int(np.prod(shape)), at).reshape(shape)
            at += array.nbytes
            arrays.append(array)
        yield facts, arrays


@dataclass(frozen=True, kw_only=True, eq=False)
class EngineRows:
    """Where the rows of an open fit are solved, instead of here: as `solvers.als_stored.Elsewhere`."""

    engine: Engine
    stored: StoredTensor
    _base: RowWork = field(init=False)

    def __post_init__(self) -> None:
        base = RowWork(
            version=__version__, names=self.stored.column_names, shape=self.stored.shape, mode=0, dtype="float64",
            threads=self.engine.threads,
        )  # fmt: skip
        object.__setattr__(self, "_base", base)

    def scale(self, task: Task) -> Scaling:
        """Return how values are seen: centred and scaled as in memory, but for the order of the sums."""
        n, offset = self.stored.n_entries, 0.0
        if task.baseline != "none":
            offset = self._add_moments(0.0)[0] / n
        spread = (self._add_moments(offset)[1] / n) ** 0.5
        return Scaling(offset=offset, scale=spread if spread > 0 else 1.0)

    def _add_moments(self, center: float) -> tuple[float, float]:
        mode = self.stored.axis(next(iter(self.stored.orders)))
        found = [facts for facts, _ in self._gather(replace(self._base, mode=mode, center=center))]
        return sum(each["sum"] for each in found), sum(each["square"] for each in found)

    def solve(
        self, mode: int, factors: Padded, biases: tuple[Array, ...], scaling: Scaling, ridge: Ridge
    ) -> Iterator[Solved]:
        """Yield the solved rows of a mode, part by part."""
        others = [view for m, view in enumerate(factors.views()) if m != mode]
        work = replace(
            self._base, mode=mode, dtype=str(factors.dtype), center=scaling.offset, scale=scaling.scale, ridge=ridge,
            rank=factors.ranks[mode], factors=tuple(np.ascontiguousarray(view) for view in others),
            biases=tuple(each for m, each in enumerate(biases) if m != mode),
        )  # fmt: skip
        for facts, arrays in self._gather(work):
            yield Solved(first=facts["first"], rows=arrays[0], biases=tuple(arrays[1:]), residual=facts["residual"])

    def _gather(self, work: RowWork) -> Iterator[tuple[dict[str, Any], list[Array]]]:
        parts = self.stored.parts(self.stored.modes[work.mode].name)
        tasks = [name_parts(self.stored, group) for group in group_parts(parts, 4 * self.engine.workers)]
        for answer in run_safely(lambda: self.engine.gather(run_rows, tasks, work)):
            check_code(answer[0] if answer else FAILED)
            yield from _read(answer)
