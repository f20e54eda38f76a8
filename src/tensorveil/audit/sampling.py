"""Draw outputs of a mechanism: one by one or many at once, as rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError

Array = NDArray[Any]
Mechanism = Callable[..., Any]
Progress = Callable[[int, int], None]

CHUNK = 1 << 14
_LARGEST = 1 << 12


class Sampler:
    """Run a mechanism on one neighbour or the other, each time with fresh randomness."""

    def __init__(
        self, mechanism: Mechanism, rng: np.random.Generator, batched: bool, progress: Progress | None, total: int
    ) -> None:
        self._mechanism, self._rng, self._batched = mechanism, rng, batched
        self._progress, self._done, self._total = progress, 0, total
        self._width: int | None = None

    def width(self, data: Any) -> int:
        """Return how many numbers an output holds, from a run whose output is not used."""
        if self._width is None:
            self._width = (self._many(data, 1) if self._batched else self._one_by_one(data, 1, note=False)).shape[1]
        return self._width

    def draw(self, data: Any, count: int) -> Array:
        """Return the outputs of ``count`` runs, one row each."""
        return np.concatenate(list(self.chunks(data, count)))

    def chunks(self, data: Any, count: int) -> Iterator[Array]:
        """Yield the outputs of ``count`` runs, some rows at a time."""
        done = 0
        while done < count:
            # Wide outputs come in shorter chunks, so that memory stays bounded.
            size = min(max(CHUNK // (1 + self.width(data) // 16), 64), count - done)
            done += size
            rows = self._many(data, size) if self._batched else self._one_by_one(data, size)
            if self._batched:
                self._note(size)
            if rows.shape != (size, self._width):
                raise InputError("the mechanism must return the same number of numbers from every run. Pad its output.")
            yield rows

    def _many(self, data: Any, size: int) -> Array:
        out = _numbers(self._mechanism(data, self._rng, size))
        if out.ndim == 0 or len(out) != size:
            raise InputError(
                f"a batched mechanism must return one output per run, {size} here. Return an array (n, ...)."
            )
        return _check_width(out.reshape(size, -1))

    def _one_by_one(self, data: Any, size: int, *, note: bool = True) -> Array:
        rows = []
        for _ in range(size):
            rows.append(_numbers(self._mechanism(data, self._rng)).reshape(-1))
            if len(rows[-1]) != len(rows[0]):
                raise InputError("the mechanism must return the same number of numbers from every run. Pad its output.")
            if note:
                self._note(1)
        return _check_width(np.stack(rows))

    def _note(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._total)


def _numbers(output: Any) -> Array:
    """Read an output as floats; refuse integers that a float cannot hold."""
    array = np.asarray(output)
    if array.dtype.kind not in "biuf":
        raise InputError(f"the mechanism must return numbers; got {array.dtype}. Code labels as numbers.")
    if array.dtype.kind in "iu" and array.size and max(int(array.max()), -int(array.min())) > 1 << 53:
        raise InputError("the mechanism returns integers above 2**53. Divide them by a public step first.")
    return array.astype(np.float64)


def _check_width(rows: Array) -> Array:
    if not 1 <= rows.shape[1] <= _LARGEST:
        raise InputError(f"an output must hold 1 to {_LARGEST} numbers; got {rows.shape[1]}. Audit a part of it.")
    return rows
