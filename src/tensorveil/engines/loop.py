"""The engine of one machine: parts one after the other, threads inside. The reference for all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

from tensorveil.engines.task import Public, add_answers, run_task
from tensorveil.memory import check_memory
from tensorveil.tensor.stored import StoredTensor

__all__ = ["Loop", "estimate_part"]

_COPIES = 10  # of a part's entries, as measured: decoded, admitted, as keys, sorted, by user, and designs of pieces
_SUMS = 4  # of a round, beside one per thread


class Loop:
    """Work on the parts of a store one after the other, so that memory does not depend on the number of entries.

    Parameters
    ----------
    threads
        How many threads work on a part; None for all processors.
    """

    workers = 1

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads

    def check_memory(self, stored: StoredTensor, mode: str, size: int) -> None:
        """Refuse parts that would not fit into memory."""
        from tensorveil.kernels.threads import thread_count

        needed = estimate_part(stored, mode) + 8 * size * (_SUMS + 2 * thread_count(self.threads))
        check_memory(needed, "the largest part of the store", "Make the store again with a smaller part_rows.")

    def run(self, tasks: Sequence[str], public: Public) -> bytes:
        """Run all tasks here and add their answers."""
        return reduce(add_answers, (run_task(task, public) for task in tasks))

    def gather(self, function: Callable[[str, Any], bytes], tasks: Sequence[str], public: Any) -> Iterator[bytes]:
        """Run a function for all tasks, one after the other."""
        return (function(task, public) for task in tasks)

    def close(self) -> None:
        """Nothing was opened."""


def estimate_part(stored: StoredTensor, mode: str) -> int:
    """Return about how many bytes a task needs for the largest part of a store."""
    rows = max((part.rows for part in stored.parts(mode)), default=0)
    return _COPIES * rows * (4 * stored.order + 8)
