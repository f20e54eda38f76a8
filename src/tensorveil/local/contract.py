"""What every local mechanism has: a shape, a budget, a unit; perturbing by rows in chunks; errors; a guarantee."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.noise import NoiseSource, SecureSource
from tensorveil.noise.uniform import blocks
from tensorveil.privacy import Event, Guarantee, Part, Pure, Unit
from tensorveil.privacy.exact import positive

Array = NDArray[Any]
CHUNK = 1 << 17  # numbers per chunk: words and temporary arrays stay small, whatever the number of reports
UNITS = ("tensor", "local entry")


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalMechanism(ABC):
    """A randomiser that an owner runs on a tensor before it leaves: integers on a public grid, and their decoding.

    Parameters
    ----------
    shape: of one owner's tensor.
    epsilon: the budget, for the unit.
    unit: "tensor" (the whole tensor may differ) or "local entry" (one entry of it).
    """

    shape: tuple[int, ...]
    epsilon: float
    unit: Unit | str

    label: ClassVar[str]
    proof: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", checked_shape(self.shape))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "unit", checked_unit(self.unit))
        if self.epsilon > 40:
            raise InputError(f"epsilon must be at most 40; got {self.epsilon}. More protects nothing.")

    @property
    def size(self) -> int:
        """The number of entries of one tensor."""
        return math.prod(self.shape)

    @property
    def delta(self) -> float:
        """The delta of the guarantee; 0 unless the mechanism is Gaussian."""
        return 0.0

    @property
    def event(self) -> Event:
        """What the accounting sees when one report leaves."""
        return Pure(self.epsilon)

    @property
    def declared_bounds(self) -> tuple[float, float] | None:
        """The range that was declared for entries, if one was."""
        return None

    def settings(self) -> dict[str, Any]:
        """Give the public parameters, as plain data, from which the mechanism can be made again."""
        return {"shape": self.shape, "epsilon": self.epsilon, "unit": str(self.unit)}

    @abstractmethod
    def _randomize_rows(self, rows: Array, source: NoiseSource) -> Array:
        """Turn rows of floats (n, size) into rows of integers, which may leave."""

    @abstractmethod
    def _decode_rows(self, codes: Array) -> Array:
        """Turn rows of integers into unbiased estimates, by public numbers alone."""

    @abstractmethod
    def _mse_rows(self, rows: Array) -> Array:
        """Give the expected squared error of each row's report."""

    @property
    @abstractmethod
    def worst_mse(self) -> float:
        """The largest expected squared error of a report, over all tensors that were declared possible."""

    @abstractmethod
    def worst_tensor(self) -> Array:
        """Give a tensor whose report has the expected squared error `worst_mse`."""

    def randomize(self, x: ArrayLike, *, source: NoiseSource | None = None) -> NDArray[np.int64]:
        """Give the integers that leave the owner: one tensor, or many along a leading axis.

        ``source`` is the secure one unless a seeded one is given, for tests, which protects nothing.
        """
        rows, shape = self._rows(x)
        source = SecureSource() if source is None else source
        out = np.empty(rows.shape, dtype=np.int64)
        for part in self._parts(len(rows)):
            out[part] = self._randomize_rows(_floats(rows[part]), source)
        return out.reshape(shape)

    def decode(self, codes: ArrayLike) -> NDArray[np.float64]:
        """Give the unbiased estimates that the integers of `randomize` stand for: post-processing."""
        rows, shape = self._rows(codes, kinds="iu")
        out = np.empty(rows.shape)
        for part in self._parts(len(rows)):
            out[part] = self._decode_rows(np.ascontiguousarray(rows[part], dtype=np.int64))
        return out.reshape(shape)

    def perturb(self, x: ArrayLike, *, source: NoiseSource | None = None, out: Array | None = None) -> Array:
        """Give unbiased estimates from a fresh report: `decode` of `randomize`, chunk by chunk.

        Parameters
        ----------
        x: one tensor, or many along a leading axis; a memory-mapped array is read chunk by chunk.
        source: where random bits come from; the secure source unless a seeded one is given (then nothing is private).
        out: a floating-point array of x's shape to write to, perhaps memory-mapped; made if not given.
        """
        rows, shape = self._rows(x)
        target = np.empty(shape) if out is None else _checked_out(out, shape)
        flat = target.reshape(rows.shape)
        source = SecureSource() if source is None else source
        for part in self._parts(len(rows)):
            flat[part] = self._decode_rows(self._randomize_rows(_floats(rows[part]), source))
        return target

    def stream(self, x: ArrayLike | Iterable[ArrayLike], *, source: NoiseSource | None = None) -> Iterator[Array]:
        """Yield perturbed chunks of many tensors, given as one array or as an iterable of arrays of tensors."""
        source = SecureSource() if source is None else source
        pieces: Iterable[Any] = x if isinstance(x, Iterator) else [x]
        for piece in pieces:
            rows, _ = self._rows(piece)
            for part in self._parts(len(rows)):
                codes = self._randomize_rows(_floats(rows[part]), source)
                yield self._decode_rows(codes).reshape(-1, *self.shape)

    def mse(self, x: ArrayLike) -> Any:
        """Give the expected squared error of a report of x, summed over entries; one number per tensor.

        It depends on x: for the owner, or for tests.
        """
        rows, shape = self._rows(x)
        errors = np.concatenate([self._mse_rows(_floats(rows[part])) for part in self._parts(len(rows))])
        return float(errors[0]) if len(shape) == len(self.shape) else errors

    def guarantee(self, *, source: NoiseSource | None = None) -> Guarantee:
        """Say what one report promises; ``source`` is the one that was used, if not the secure one."""
        unit = Unit.parse(self.unit)
        return Guarantee.prove(
            unit=unit,
            event=self.event,
            delta=self.delta,
            epsilon=self.epsilon,
            composition=(Part(name="report", statistic=self._statistic(), event=self.event),),
            released=("report",),
            proof=self.proof,
            secure_noise=True if source is None else source.secure,
            bounds=self.declared_bounds,
            mechanism=self.label,
            notes=self._notes(),
            conditions=self._conditions(),
        )

    def _statistic(self) -> str:
        return f"one tensor of {self.size} entries"

    def _notes(self) -> tuple[str, ...]:
        return ("Each report spends this anew: reports about the same tensor add up.",)

    def _conditions(self) -> tuple[str, ...]:
        """Say what the guarantee rests on besides bounds."""
        return ()

    def _parts(self, count: int) -> Iterable[slice]:
        return blocks(count, max(1, CHUNK // self.size))

    def _rows(self, x: Any, kinds: str = "biuf") -> tuple[Array, tuple[int, ...]]:
        """View tensors as rows, without a copy where there need be none."""
        array = np.asarray(x)
        if array.dtype.kind not in kinds:
            rule = "numbers" if "f" in kinds else "integers, as randomize gives them"
            raise InputError(f"x must hold {rule}; got {array.dtype}.")
        if array.shape != self.shape and array.shape[1:] != self.shape:
            raise InputError(
                f"x must be of shape {self.shape}, or of that shape behind a leading axis of owners; got {array.shape}."
            )
        if array.size == 0:
            raise InputError("x must hold at least one tensor; it is empty.")
        return array.reshape(-1, self.size), array.shape


def _floats(rows: Array) -> Array:
    return np.ascontiguousarray(rows, dtype=np.float64)


def _checked_out(out: Array, shape: tuple[int, ...]) -> Array:
    if not isinstance(out, np.ndarray) or out.dtype.kind != "f" or out.shape != shape or not out.flags.c_contiguous:
        raise InputError(f"out must be a contiguous floating-point array of shape {shape}. Try numpy.empty({shape}).")
    return out


def checked_shape(shape: Any) -> tuple[int, ...]:
    """Check the shape of one owner's tensor; a whole number stands for a vector."""
    sizes = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if not sizes or any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1 for n in sizes):
        raise InputError(f"shape must hold sizes of at least 1; got {shape}. Try shape=(28, 28).")
    return tuple(int(n) for n in sizes)


def checked_unit(unit: Unit | str) -> Unit:
    """Check that a unit is a local one."""
    found = Unit.parse(unit)
    if found.kind not in UNITS:
        raise InputError(f"unit must be one of {', '.join(UNITS)}; got {str(found)!r}. Try unit='tensor'.")
    return found


def checked_bounds(bounds: Any) -> tuple[float, float]:
    """Check a declared range."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise InputError("bounds must be two finite numbers, the lower one first. Try bounds=(0, 255).") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)):
        raise InputError(f"bounds must be two finite numbers, the lower one first; got {bounds}. Try bounds=(0, 255).")
    return low, high
