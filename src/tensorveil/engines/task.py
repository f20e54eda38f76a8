"""The one function that runs elsewhere: names of parts and public bytes in, a code and integers out.

It catches everything: what an error says travels into logs, and may hold data.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil import __version__
from tensorveil.rounds.contract import State
from tensorveil.rounds.recipe import Recipe
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.stored import Part, StoredTensor, StoreError, read_part

__all__ = ["CODES", "add_answers", "make_public", "name_parts", "read_answer", "run_task"]

OK, MISSING, CHANGED, UNSOUND, MEMORY, FAILED, VERSION = range(7)
CODES: Final = {"missing": MISSING, "changed": CHANGED, "unsound": UNSOUND}


def make_public(stored: StoredTensor, mode: str, *, threads: int | None, recipe: Recipe, state: State | None) -> bytes:
    """Return all that a task needs besides the names of its parts; without a state it only looks at them.

    Nothing of it depends on private data but by way of earlier rounds, whose sums had noise.
    """
    facts = {
        "version": __version__,
        "names": stored.column_names,
        "axis": stored.axis(mode),
        "threads": threads,
        "recipe": recipe.to_json(),
    }
    return json.dumps(facts).encode() + b"\n" + (b"" if state is None else state.to_bytes())


def name_parts(stored: StoredTensor, parts: Sequence[Part]) -> str:
    """Return where some parts are, and what must be found there."""
    return json.dumps(
        [[str(stored.folder / part.file), part.rows, part.first, part.last, part.sha256] for part in parts]
    )


def run_task(parts: str, public: bytes) -> bytes:
    """Return a code, and if it is `OK` the sum of the parts' contributions, or the number of their rows."""
    try:
        return _run(json.loads(parts), public)
    except StoreError as error:
        return _answer(CODES[error.problem])
    except MemoryError:
        return _answer(MEMORY)
    except Exception:
        return _answer(FAILED)


def _run(parts: Sequence[Any], public: bytes) -> bytes:
    header, _, rest = public.partition(b"\n")
    facts = json.loads(header)
    if facts["version"] != __version__:
        return _answer(VERSION)
    recipe = Recipe.from_json(facts["recipe"])
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
    return _answer(OK, total)


def _admit(columns: NDArray[Any], values: NDArray[Any], shape: Sequence[int], recipe: Recipe) -> ObservedTensor:
    """Return a part as a tensor; entries that are beyond the declared shape are left out, as everywhere."""
    return ObservedTensor.from_columns(
        columns, values, shape, modes=recipe.modes, duplicates="keep", out_of_range="drop"
    )


def _answer(code: int, total: NDArray[np.int64] | None = None) -> bytes:
    return bytes([code]) + (b"" if total is None else total.astype("<i8", copy=False).tobytes())


def read_answer(answer: bytes) -> tuple[int, NDArray[np.int64]]:
    """Return the code and the integers of an answer."""
    return answer[0], np.frombuffer(answer, "<i8", offset=1)


def add_answers(one: bytes, other: bytes) -> bytes:
    """Return the answer for the parts of two answers; a failure stays one."""
    if one[0] or other[0]:
        return one[:1] if one[0] else other[:1]
    return _answer(OK, read_answer(one)[1] + read_answer(other)[1])
