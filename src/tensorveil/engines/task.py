"""The one function that runs elsewhere: names of parts and public facts in, a code and integers out.

It catches everything: what an error says travels into logs, and may hold data.

An answer is a code, a mark of the machine, and integers. Machines of different kinds may round differently in the last
bit, and some of these bits reach an integer: if it depended on the schedule which of them computes a part, more than
one user's integers could change with one user. Answers of unlike machines are therefore never added.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil import __version__
from tensorveil.engines.answers import OK, UNLIKE, VERSION, catch_codes
from tensorveil.mechanisms.deferred import Expression, Sums
from tensorveil.noise.adding import Answering
from tensorveil.noise.keyed import NoiseKey, answer_by_cell
from tensorveil.privacy.gate import clip_values, keep_inside
from tensorveil.rounds.contract import TASTE_COVARIANCE, State
from tensorveil.rounds.recipe import Recipe
from tensorveil.rounds.records import RecordsRecipe
from tensorveil.rounds.runner import AnyRecipe
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.stored import Part, StoredTensor, StoreError, read_part, refuse_beyond

__all__ = [
    "AnswerWork",
    "EntryWork",
    "Public",
    "add_answers",
    "head_of",
    "make_public",
    "name_parts",
    "read_answer",
    "run_answers",
    "run_task",
]

_KINDS: Final[dict[str, type[AnyRecipe]]] = {kind.__name__: kind for kind in (Recipe, RecordsRecipe)}
_AT_ONCE: Final = 1 << 17  # entries whose rows are in memory
_MARK: Final = 8  # bytes that tell machines of different kinds apart


@dataclass(frozen=True, kw_only=True, eq=False)
class EntryWork:
    """All that a task needs for a sum over entries, besides the names of its parts; without ``sums`` it looks at them.

    Functions and public numbers: what follows from declared facts, and from earlier sums, which had noise.
    """

    version: str
    names: tuple[str, ...]
    axis: int
    shape: tuple[int, ...]
    bounds: tuple[float, float]
    sums: Sums | None

    @property
    def size(self) -> int:
        """How many integers a task returns."""
        return 1 if self.sums is None else self.sums.size

    def contribute(self, columns: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the sum over the entries of a part, each as the gate admits it."""
        if (columns < 0).any() or not np.isfinite(values).all():
            raise StoreError("unsound")
        if self.sums is None:
            return np.array([len(values)])
        inside, kept = keep_inside(columns, values, self.shape)
        kept, total = clip_values(kept, self.bounds), np.zeros(self.size, np.int64)
        for start in range(0, len(kept), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            total += self.sums.contribute(np.ascontiguousarray(inside[:, some]), kept[some])
        return total


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AnswerWork:
    """All that a task needs to perturb the values of its parts: how, and the key that the noise of a cell follows from.

    ``starts`` are the numbers of every part's first entry, of ``total``.
    """

    version: str
    names: tuple[str, ...]
    axis: int
    shape: tuple[int, ...]
    bounds: tuple[float, float]
    law: Answering
    numbers: Expression
    key: NoiseKey
    starts: Mapping[str, int]
    total: int

    def answer(self, file: str, columns: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
        """Return an answer for every entry of a part: the same ones, however often it is asked."""
        refuse_beyond(columns, values, self.shape)
        places = self.law.place(self.numbers.at(columns, clip_values(values, self.bounds)))
        return answer_by_cell(self.law.answer, places, self.key, self.law.words, self.starts[file], self.total)


Public = bytes | EntryWork


def make_public(
    stored: StoredTensor, mode: str, *, threads: int | None, recipe: AnyRecipe, state: State | None
) -> bytes:
    """Return all that a task needs besides the names of its parts; without a state it only looks at them.

    Nothing of it depends on private data but by way of earlier rounds, whose sums had noise.
    """
    facts = {
        "version": __version__,
        "names": stored.column_names,
        "axis": stored.axis(mode),
        "threads": threads,
        "kind": type(recipe).__name__,
        "recipe": recipe.to_json(),
    }
    return json.dumps(facts).encode() + b"\n" + (b"" if state is None else state.to_bytes())


def name_parts(stored: StoredTensor, parts: Sequence[Part]) -> str:
    """Return where some parts are, and what must be found there."""
    return json.dumps(
        [[str(stored.folder / part.file), part.rows, part.first, part.last, part.sha256] for part in parts]
    )


def run_task(parts: str, public: Public) -> bytes:
    """Return a code, and if it is `OK` the sum of the parts' contributions, or the number of their rows."""
    if isinstance(public, bytes):
        return catch_codes(lambda: _run(json.loads(parts), public))
    return catch_codes(lambda: _sum_entries(json.loads(parts), public))


def _run(parts: Sequence[Any], public: bytes) -> bytes:
    header, _, rest = public.partition(b"\n")
    facts = json.loads(header)
    if facts["version"] != __version__:
        return _answer(VERSION)
    recipe = _KINDS[facts["kind"]].from_json(facts["recipe"])
    state = State.from_bytes(rest) if rest else None
    total = np.zeros(1 if state is None else recipe.rounds[state.round].size, np.int64)
    for file, rows, first, last, sha256 in parts:
        part = Part(file=file, rows=rows, first=first, last=last, sha256=sha256)
        columns, values = read_part(Path(file), part, facts["axis"], facts["names"])
        if state is None:
            total += rows
        else:
            # Of the protected mode any size will do: its indices only number the users.
            shape = [size if m != facts["axis"] else last + 1 for m, size in enumerate(recipe.shape)]
            total += recipe.contribute(state, _admit(columns, values, shape, recipe), threads=facts["threads"])
        del columns, values
    return _answer(OK, total, mark_machine(recipe.start() if state is None else state))


def _sum_entries(parts: Sequence[Any], work: EntryWork) -> bytes:
    if work.version != __version__:
        return _answer(VERSION)
    total = np.zeros(work.size, np.int64)
    for file, rows, first, last, sha256 in parts:
        part = Part(file=file, rows=rows, first=first, last=last, sha256=sha256)
        total += work.contribute(*read_part(Path(file), part, work.axis, work.names))
    return _answer(OK, total, _mark_code())


def run_answers(parts: str, work: AnswerWork) -> bytes:
    """Return a code, and if it is `OK` the answers for the entries of the parts, one after the other."""
    return catch_codes(lambda: _answer_values(json.loads(parts), work))


def _answer_values(parts: Sequence[Any], work: AnswerWork) -> bytes:
    if work.version != __version__:
        return _answer(VERSION)
    found = []
    for file, rows, first, last, sha256 in parts:
        part = Part(file=file, rows=rows, first=first, last=last, sha256=sha256)
        found.append(work.answer(file, *read_part(Path(file), part, work.axis, work.names)))
    return _answer(OK, np.concatenate(found), _mark_code())


def mark_machine(state: State) -> bytes:
    """Return a mark that machines share only if they compute alike.

    It stands for the processor, the libraries, and what these make of a state: compiled code is made for the processor
    at hand, and linear algebra chooses its own by it.
    """
    covariance = state[TASTE_COVARIANCE] if TASTE_COVARIANCE in state else np.eye(1)
    numbers = np.concatenate([np.linalg.inv(covariance), np.linalg.cholesky(covariance)])
    return hashlib.sha256(_describe_machine() + numbers.tobytes()).digest()[:_MARK]


def _mark_code() -> bytes:
    """Return the mark for entries, worked on one by one without linear algebra, by code compiled for the processor."""
    return hashlib.sha256(_describe_machine()).digest()[:_MARK]


@cache
def _describe_machine() -> bytes:
    import llvmlite
    import numba
    from llvmlite import binding

    features = sorted(name for name, there in binding.get_host_cpu_features().items() if there)
    versions = [np.__version__, numba.__version__, llvmlite.__version__, __version__]
    return json.dumps([binding.get_host_cpu_name(), features, versions]).encode()


def _admit(columns: NDArray[Any], values: NDArray[Any], shape: Sequence[int], recipe: AnyRecipe) -> ObservedTensor:
    """Return a part as a tensor; entries that are beyond the declared shape are left out, as everywhere."""
    return ObservedTensor.from_columns(
        columns, values, shape, modes=recipe.modes, duplicates="keep", out_of_range="drop"
    )


def _answer(code: int, total: NDArray[np.int64] | None = None, mark: bytes = b"") -> bytes:
    return bytes([code]) + (b"" if total is None else mark + total.astype("<i8", copy=False).tobytes())


def read_answer(answer: bytes) -> tuple[int, NDArray[np.int64]]:
    """Return the code and the integers of an answer; of a failure there are none."""
    return answer[0], np.frombuffer(answer, "<i8", offset=len(head_of(answer)))


def head_of(answer: bytes) -> bytes:
    """Return what stands before an answer's integers: the code, and the mark of the machine."""
    return answer[:1] if answer[0] else answer[: 1 + _MARK]


def add_answers(one: bytes, other: bytes) -> bytes:
    """Return the answer for the parts of two answers; a failure stays one."""
    if one[0] or other[0]:
        return one[:1] if one[0] else other[:1]
    if head_of(one) != head_of(other):
        return _answer(UNLIKE)
    return head_of(one) + (read_answer(one)[1] + read_answer(other)[1]).tobytes()
