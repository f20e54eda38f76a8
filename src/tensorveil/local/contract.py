"""What every local mechanism has: a shape, a budget, a unit; perturbing by rows in chunks; errors; a guarantee.

A mechanism also describes itself, so that storage, `choose`, the command and the audit need only the list in names.py.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.local.requirements import Requirements, check_shape, check_unit
from tensorveil.noise import NoiseSource, SecureSource
from tensorveil.noise.uniform import blocks
from tensorveil.privacy import Event, Guarantee, Part, Pure, Unit
from tensorveil.privacy.exact import positive

Array = NDArray[Any]
CHUNK = 1 << 17  # numbers per chunk: words and temporary arrays stay small, whatever the number of reports
PUBLIC_SHAPE = "the tensor's shape is public"
# What a class must say about itself, and what each of these is for.
REQUIRED = {
    "command": "its name in names.py and for --mechanism",
    "label": "its name in guarantees",
    "proof": "the place of its proof in docs/guarantees.md",
    "perturbs": "'entries' or 'tensors'",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalMechanism(ABC):
    """A randomiser that an owner runs on a tensor before it leaves: integers on a public grid, and their decoding.

    A class that others build on says so with ``abstract=True`` (``class Entrywise(LocalMechanism, abstract=True)``).
    Any other class must be complete, or its import fails.

    Parameters
    ----------
    shape
        Shape of one owner's tensor.
    epsilon
        The budget, for the unit.
    unit
        "tensor" (the whole tensor may differ), "tensor:differ=M" (at most M entries of it may) or "local-entry" (one).
    """

    shape: tuple[int, ...]
    epsilon: float
    unit: Unit | str

    command: ClassVar[str]
    label: ClassVar[str]
    proof: ClassVar[str]
    perturbs: ClassVar[Literal["entries", "tensors"]]

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        super().__init_subclass__()
        missing = [] if abstract else _missing_pieces(cls)
        if missing:
            raise TypeError(
                f"local mechanism {cls.__name__} is incomplete: it lacks {', '.join(missing)}. Define what is missing "
                "in the class, or pass abstract=True if other classes build on it."
            )

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", check_shape(self.shape))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "unit", check_unit(self.unit, self.shape))
        if self.epsilon > 40:
            raise InputError(f"epsilon must be at most 40; got {self.epsilon}. A larger one protects nothing.")

    # What a mechanism says about itself.

    @classmethod
    def options(cls) -> frozenset[str]:
        """Return the names of the settings that the mechanism takes beside shape, epsilon and unit."""
        return frozenset(field.name for field in dataclasses.fields(cls)) - {"shape", "epsilon", "unit"}

    @classmethod
    @abstractmethod
    def candidates(cls, required: Requirements) -> Iterable[LocalMechanism]:
        """Return the settings that `choose` should compare; none where the mechanism cannot do what is required."""

    @classmethod
    def examples(cls, epsilon: float) -> Mapping[str, LocalMechanism]:
        """Return small instances by name, on which the audit runs: one for every kind of setting worth attacking."""
        # Whatever is not declared here, a class with other parameters declares for itself.
        settings: dict[str, Any] = {"shape": (2,), "epsilon": epsilon, "unit": "tensor", "bounds": (-1.0, 1.0)}
        return {cls.command: cls(**settings)}

    def neighbours(self) -> Iterator[tuple[Array, Array]]:
        """Yield pairs of neighbours that should be the hardest to hide: opposite ends of what was declared."""
        yield self._extreme_tensor(-1.0), self._extreme_tensor(1.0)

    def _extreme_tensor(self, sign: float) -> Array:
        """Return one end of what was declared: a corner of the cube, or the end of the ball's first axis.

        Where only a few entries can differ, all others lie in the middle.
        """
        if self.declared_bounds is None:
            x = np.zeros(self.size)
            x[0] = sign * getattr(self, "radius", 1.0)
            return x.reshape(self.shape)
        low, high = self.declared_bounds
        x = np.full(self.size, low + 0.5 * (high - low))
        x[: self.most_entries] = low if sign < 0 else high
        return x.reshape(self.shape)

    def worst_mse_for(self, required: Requirements) -> float:
        """Return the largest expected squared error over the tensors that `required` declares possible."""
        return self.worst_mse

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Make the mechanism that `settings` describes."""
        return cls(**{**current_settings(settings), "shape": tuple(settings["shape"])})

    def settings(self) -> dict[str, Any]:
        """Return the public parameters, as plain data, from which the mechanism can be made again."""
        return {"shape": self.shape, "epsilon": self.epsilon, "unit": str(self.unit)}

    # What it promises.

    @property
    def size(self) -> int:
        """The number of entries of one tensor."""
        return math.prod(self.shape)

    @property
    def most_entries(self) -> int:
        """How many entries can differ between neighbours."""
        unit = Unit.parse(self.unit)
        if unit.kind == "local entry":
            return 1
        return self.size if unit.differ is None else unit.differ

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

    # What it does.

    def _settle_rows(self, rows: Array) -> Array:
        """Return rows of floats inside of what was declared, by a public rule and without a word.

        An error, or any other sign, would tell something about the tensor that no noise covers.
        """
        if self.declared_bounds is None:
            return rows
        low, high = self.declared_bounds
        return np.clip(np.where(np.isnan(rows), low + 0.5 * (high - low), rows), low, high)

    @abstractmethod
    def _randomize_rows(self, rows: Array, source: NoiseSource) -> Array:
        """Turn rows of floats (n, size) into rows of integers, which may leave."""

    @abstractmethod
    def _decode_rows(self, codes: Array) -> Array:
        """Turn rows of integers into unbiased estimates, by public numbers alone."""

    @abstractmethod
    def _mse_rows(self, rows: Array) -> Array:
        """Return the expected squared error of each row's report."""

    @property
    @abstractmethod
    def worst_mse(self) -> float:
        """The largest expected squared error of a report, over all tensors that were declared possible."""

    @abstractmethod
    def worst_tensor(self) -> Array:
        """Return a tensor whose report has the expected squared error `worst_mse`."""

    def randomize(self, x: ArrayLike, *, source: NoiseSource | None = None) -> NDArray[np.int64]:
        """Return the integers that leave the owner.

        Parameters
        ----------
        x
            One tensor, or many along a leading axis. Values outside of what was declared count as the nearest one
            inside, NaN as the middle.
        source
            Where random bits come from: the secure source by default. A seeded one is for tests and protects nothing.
        """
        rows, shape = self._rows(x)
        source = SecureSource() if source is None else source
        out = np.empty(rows.shape, dtype=np.int64)
        for part in self._parts(len(rows)):
            out[part] = self._randomize_rows(self._floats(rows[part]), source)
        return out.reshape(shape)

    def decode(self, codes: ArrayLike) -> NDArray[np.float64]:
        """Return the unbiased estimates that the integers of `randomize` stand for: post-processing."""
        rows, shape = self._rows(codes, kinds="iu")
        out = np.empty(rows.shape)
        for part in self._parts(len(rows)):
            out[part] = self._decode_rows(np.ascontiguousarray(rows[part], dtype=np.int64))
        return out.reshape(shape)

    def perturb(self, x: ArrayLike, *, source: NoiseSource | None = None, out: Array | None = None) -> Array:
        """Return unbiased estimates from a fresh report: `decode` of `randomize`, chunk by chunk.

        Parameters
        ----------
        x
            One tensor, or many along a leading axis; a memory-mapped array is read chunk by chunk. Values outside of
            what was declared count as the nearest one inside, NaN as the middle.
        source
            Where random bits come from: the secure source by default. A seeded one is for tests and protects nothing.
        out
            A floating-point array of x's shape to write to, which may be memory-mapped; a new one by default.
        """
        rows, shape = self._rows(x)
        target = np.empty(shape) if out is None else _check_out(out, shape)
        flat = target.reshape(rows.shape)
        source = SecureSource() if source is None else source
        for part in self._parts(len(rows)):
            flat[part] = self._decode_rows(self._randomize_rows(self._floats(rows[part]), source))
        return target

    def stream(self, x: ArrayLike | Iterable[ArrayLike], *, source: NoiseSource | None = None) -> Iterator[Array]:
        """Yield perturbed chunks of many tensors, given as one array or as an iterator of arrays of tensors."""
        source = SecureSource() if source is None else source
        pieces: Iterable[Any] = x if isinstance(x, Iterator) else [x]
        for piece in pieces:
            rows, _ = self._rows(piece)
            for part in self._parts(len(rows)):
                codes = self._randomize_rows(self._floats(rows[part]), source)
                yield self._decode_rows(codes).reshape(-1, *self.shape)

    def mse(self, x: ArrayLike) -> Any:
        """Return the expected squared error of a report of x, summed over entries; one number per tensor.

        Where x lies outside of what was declared, the error is that about its nearest point inside. It depends on x, so
        it is for the owner, or for tests.
        """
        rows, shape = self._rows(x)
        errors = np.concatenate([self._mse_rows(self._floats(rows[part])) for part in self._parts(len(rows))])
        return float(errors[0]) if len(shape) == len(self.shape) else errors

    def guarantee(self, *, source: NoiseSource | None = None) -> Guarantee:
        """Return what one report promises; ``source`` is the one that was used, if not the secure one."""
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
            against="whoever receives the report",
        )

    def _statistic(self) -> str:
        return f"one tensor of {self.size} entries"

    def _notes(self) -> tuple[str, ...]:
        return ("Each report spends this anew: reports about the same tensor add up.",)

    def _conditions(self) -> tuple[str, ...]:
        """Return what the guarantee rests on besides bounds."""
        return (PUBLIC_SHAPE,)

    def _floats(self, rows: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.ascontiguousarray(self._settle_rows(np.asarray(rows, dtype=np.float64)))

    def _parts(self, count: int) -> Iterable[slice]:
        return blocks(count, max(1, CHUNK // self.size))

    def _rows(self, x: Any, kinds: str = "biuf") -> tuple[Array, tuple[int, ...]]:
        """View tensors as rows, without a copy where none is needed."""
        array = np.asarray(x)
        if array.dtype.kind not in kinds:
            rule = "numbers" if "f" in kinds else "integers, as randomize returns them"
            raise InputError(f"x must hold {rule}; got {array.dtype}.")
        if array.shape != self.shape and array.shape[1:] != self.shape:
            raise InputError(
                f"x must have the shape {self.shape}, or that shape behind a leading axis of owners; got {array.shape}."
            )
        if array.size == 0:
            raise InputError("x must hold at least one tensor; it is empty.")
        return array.reshape(-1, self.size), array.shape


def _missing_pieces(cls: type) -> list[str]:
    """Name what a class has not defined: the attributes that describe it, and methods that are still abstract."""
    facts = [f"{name} ({purpose})" for name, purpose in REQUIRED.items() if not hasattr(cls, name)]
    # ABCMeta has not looked at the class yet, so its own list of abstract methods does not exist.
    methods = [name for name in dir(cls) if getattr(getattr(cls, name, None), "__isabstractmethod__", False)]
    return facts + methods


def current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in their present form: earlier ones said beside the unit what belongs to it."""
    found = {name: setting for name, setting in settings.items() if name not in ("outside", "differ")}
    if settings.get("differ") is not None:
        found["unit"] = Unit.tensor(differ=settings["differ"])
    return found


def _check_out(out: Array, shape: tuple[int, ...]) -> Array:
    if not isinstance(out, np.ndarray) or out.dtype.kind != "f" or out.shape != shape or not out.flags.c_contiguous:
        raise InputError(f"out must be a contiguous floating-point array of shape {shape}. Try numpy.empty({shape}).")
    return out
