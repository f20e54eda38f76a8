"""What an engine is, by what name it is asked for, and what its codes mean."""

from __future__ import annotations

import contextlib
import ipaddress
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tensorveil.engines.answers import CHANGED, FAILED, MEMORY, MISSING, OK, UNLIKE, UNSOUND, VERSION
from tensorveil.engines.task import (
    Public,
    make_public,
    name_parts,
    read_answer,
)
from tensorveil.errors import InputError, MemoryLimitError, MissingDependencyError, TensorveilError
from tensorveil.rounds import State
from tensorveil.rounds.runner import AnyRecipe
from tensorveil.tensor.stored import Part, StoredTensor, StoreError

__all__ = ["Engine", "find_engine", "sum_over_parts"]

Answer = TypeVar("Answer")
Task = Callable[[str, Any], bytes]

_PROBLEMS: Final = {MISSING: "missing", CHANGED: "changed", UNSOUND: "unsound"}


@runtime_checkable
class Engine(Protocol):
    """What runs tasks: `Loop`, or an adapter to a cluster."""

    @property
    def workers(self) -> int:
        """How many tasks run at the same time."""

    @property
    def threads(self) -> int | None:
        """How many threads a task may use; None for all of the machine."""

    def check_memory(self, stored: StoredTensor, mode: str, size: int) -> None:
        """Refuse a store whose parts, or sums of ``size`` integers, would not fit, where that is known beforehand."""

    def run(self, tasks: Sequence[str], public: Public) -> bytes:
        """Run `run_task` for all tasks and add their answers.

        Tasks may be run again, elsewhere, and in any order; the answers of a task are added once.
        """

    def gather(self, function: Task, tasks: Sequence[str], public: Any) -> Iterator[bytes]:
        """Run a function for all tasks and return the answers, in the tasks' order.

        It is found by name where it runs, and catches everything.
        """

    def close(self) -> None:
        """Let go of what was opened for this engine alone."""


def find_engine(engine: Any, *, trust_network: bool = False) -> Engine:
    """Return an engine: one that is given, one by its name, or one for a live Dask client or Spark session.

    Parameters
    ----------
    engine
        "loop", "dask:ADDRESS", "spark" or "spark:MASTER", a ``dask.distributed.Client``, a ``SparkSession``, or an
        `Engine`.
    trust_network
        Allow clusters whose addresses others can reach, and whose connections are not encrypted.

    >>> find_engine("loop").workers
    1
    """
    home = type(engine).__module__.split(".")[0]
    found: Engine | None = None
    if isinstance(engine, str):
        kind, _, where = engine.partition(":")
        if kind == "loop" and not where:
            from tensorveil.engines.loop import Loop

            found = Loop()
        elif kind == "dask" and where:
            found = _dask().open(where, trust_network=trust_network)
        elif kind == "spark":
            found = _spark().open(where or None, trust_network=trust_network)
    elif home in ("distributed", "dask"):
        found = _dask()(engine, trust_network=trust_network)
    elif home == "pyspark":
        found = _spark()(engine, trust_network=trust_network)
    elif isinstance(engine, Engine):
        found = engine
    if found is None:
        raise InputError(
            'engine must be "loop", "dask:ADDRESS", "spark" or "spark:MASTER", a dask.distributed.Client or a '
            "SparkSession."
        )
    return found


def _dask() -> Any:
    try:
        from tensorveil.engines.dask import DaskEngine
    except ImportError:
        raise MissingDependencyError('dask is not installed. Run: pip install "tensorveil[dask]"') from None
    return DaskEngine


def _spark() -> Any:
    try:
        from tensorveil.engines.spark import SparkEngine
    except ImportError:
        raise MissingDependencyError('pyspark is not installed. Run: pip install "tensorveil[spark]"') from None
    return SparkEngine


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, to which nobody else can connect under this name."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def group_parts(parts: Sequence[Part], tasks: int) -> list[Sequence[Part]]:
    """Return parts in at most so many groups of about equally many rows."""
    wanted = max(1, math.ceil(sum(part.rows for part in parts) / max(1, tasks)))
    groups: list[list[Part]] = []
    rows = wanted
    for part in parts:
        if rows >= wanted:
            groups.append([])
            rows = 0
        groups[-1].append(part)
        rows += part.rows
    return list(groups)


def sum_over_parts(
    engine: Engine, stored: StoredTensor, mode: str, recipe: AnyRecipe, state: State | None
) -> NDArray[np.int64]:
    """Return the sum of a round over all users of a store; without a state, the number of rows that were found.

    Any engine and any cut into parts gives the same integers, because every user's are computed alone.
    """
    size = 1 if state is None else recipe.rounds[state.round].size
    public = make_public(stored, mode, threads=engine.threads, recipe=recipe, state=state)
    return add_over_parts(engine, stored, mode, public, size)


def add_over_parts(engine: Engine, stored: StoredTensor, mode: str, public: Public, size: int) -> NDArray[np.int64]:
    """Return the sum of so many integers over all parts of a mode's order."""
    parts = stored.parts(mode)
    if not parts:
        return np.zeros(size, np.int64)
    # A few tasks per worker: enough to even out their lengths, and not a sum of its own for every part.
    tasks = [name_parts(stored, group) for group in group_parts(parts, 4 * engine.workers)]
    code, found = read_answer(run_safely(lambda: engine.run(tasks, public)))
    check_code(code)
    total = found.astype(np.int64)
    if total.shape != (size,):
        raise InputError("engine: it returned another number of integers than were asked for.")
    return total


def run_safely(run: Callable[[], Answer]) -> Answer:
    """Return what an engine gives; of its own errors only the kind is told."""
    problem: TensorveilError | None = None
    try:
        return run()
    except TensorveilError:
        raise
    except Exception as error:
        problem = _explain(error)
    raise problem  # without what led to it, whose text may come from anywhere


def check_code(code: int) -> None:
    """Turn a code into an error that says what to do."""
    if code == OK:
        return
    if code in _PROBLEMS:
        raise StoreError(_PROBLEMS[code])
    if code == MEMORY:
        raise MemoryLimitError(
            "engine: a task ran out of memory. Give workers more, or make the store again with a smaller part_rows."
        )
    if code == UNLIKE:
        raise InputError(
            "engine: workers are of different kinds: their processors or libraries round differently, so that sums "
            "would depend on who computes which part. Use workers of one kind, with the same packages."
        )
    if code == VERSION:
        raise InputError("engine: a worker has another version of tensorveil. Install the same everywhere.")
    assert code == FAILED
    raise InputError("engine: a task failed. Its error stays where it was, because it may hold data.")


def _explain(error: Exception) -> InputError:
    """Say what became of a cluster, by the kind of the error alone."""
    kind = type(error).__name__
    if isinstance(error, ImportError) or "No module named" in str(error):
        return InputError("engine: workers lack the package. Install tensorveil, in the same version, on all of them.")
    return InputError(
        f"engine: the cluster gave up ({kind}). Look at its own logs; workers may be gone, or out of memory."
    )
