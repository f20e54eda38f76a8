"""Perturb a tensor's coefficients in a public basis instead of its entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from tensorveil.errors import InputError
from tensorveil.local.basis import Basis
from tensorveil.local.contract import Array, LocalMechanism, current_settings
from tensorveil.local.entrywise import Entrywise
from tensorveil.local.hybrid import Hybrid
from tensorveil.local.requirements import Requirements, check_bounds
from tensorveil.local.storage import mechanism_from_json, mechanism_to_json
from tensorveil.noise import NoiseSource
from tensorveil.privacy import Event, Unit


@dataclass(frozen=True, kw_only=True, eq=False)
class Projected(LocalMechanism):
    """Report a tensor's coefficients in a public basis by another mechanism; make one with `project`.

    What the basis leaves out is lost: a bias that no number of reports removes. What it keeps has far less noise.

    Parameters
    ----------
    bounds
        Declared (low, high) of the tensor's entries; the coefficients' ranges follow from them.
    basis
        The public basis.
    inner
        The mechanism for the coefficients: unit tensor, shape (keep,), bounds (-1, 1) or radius 1.

    Guarantee: that of the inner mechanism, for unit tensor (docs/guarantees.md#projection).
    """

    bounds: tuple[float, float]
    basis: Basis
    inner: LocalMechanism
    command: ClassVar[str] = "projected"
    label: ClassVar[str] = "projection on a public basis"
    proof: ClassVar[str] = "docs/guarantees.md#projection"
    perturbs: ClassVar[Literal["entries", "tensors"]] = "tensors"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bounds", check_bounds(self.bounds))
        if self.unit != Unit.tensor():
            raise InputError(
                "unit must be 'tensor', without differ: an entry is part of every coefficient. For entries, try DTLDP."
            )
        if self.basis.shape != self.shape or self.inner.shape != (self.basis.keep,):
            raise InputError("basis, inner mechanism and shape must fit together. Make them with project().")
        if self.inner.epsilon != self.epsilon or self.inner.unit != self.unit:
            raise InputError("the inner mechanism must have the same epsilon and unit. Make it with project().")

    @classmethod
    def candidates(cls, required: Requirements) -> Iterable[LocalMechanism]:
        """Return nothing: what a basis leaves out is a bias, which the comparison of errors does not know."""
        return []

    @classmethod
    def examples(cls, epsilon: float) -> Mapping[str, LocalMechanism]:
        """Return the hybrid mechanism on two of four coefficients."""
        return {"projected hybrid": project(Basis.dct((2, 2), 2), Hybrid, epsilon=epsilon, bounds=(-1.0, 1.0))}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Projected:
        """Make the mechanism that `settings` describes, its basis and inner mechanism included."""
        shape = tuple(settings["shape"])
        parts = {
            "basis": Basis.from_settings(settings["basis"], shape),
            "inner": mechanism_from_json(settings["inner"]),
        }
        return cls(**{**current_settings(settings), **parts, "shape": shape})

    @property
    def delta(self) -> float:
        """The inner mechanism's."""
        return self.inner.delta

    @property
    def event(self) -> Event:
        """The inner mechanism's."""
        return self.inner.event

    @property
    def declared_bounds(self) -> tuple[float, float] | None:
        """The bounds of the entries."""
        return self.bounds

    @property
    def center(self) -> float:
        """The middle of the bounds."""
        return self.bounds[0] + 0.5 * (self.bounds[1] - self.bounds[0])

    @property
    def _half(self) -> float:
        return 0.5 * (self.bounds[1] - self.bounds[0])

    @cached_property
    def scales(self) -> Array:
        """What each coefficient is divided by before the inner mechanism: its range, or the radius of all."""
        if self.inner.perturbs == "tensors":
            return np.full(self.basis.keep, self.basis.radius(self._half))
        return self.basis.ranges(self._half)

    def _scale_rows(self, rows: Array) -> Array:
        out: Array = self.basis.analyse(rows - self.center) / self.scales
        return out

    # A report is as long as the basis, not as the tensor: it travels as rows of `keep` integers.

    def randomize(self, x: Any, *, source: NoiseSource | None = None) -> Any:
        """Return the integers that leave the owner: ``keep`` of them per tensor."""
        rows, shape = self._rows(x)
        codes = [
            self.inner.randomize(self._scale_rows(self._floats(rows[part])), source=source)
            for part in self._parts(len(rows))
        ]
        found = np.concatenate(codes)
        return found[0] if len(shape) == len(self.shape) else found

    def decode(self, codes: Any) -> Any:
        """Return the tensors that the integers of `randomize` stand for."""
        array = np.asarray(codes)
        single = array.ndim == 1
        rows = self._restore(self.inner.decode(array.reshape(-1, self.basis.keep)))
        return rows.reshape(self.shape) if single else rows.reshape(-1, *self.shape)

    def _restore(self, scaled: Array) -> Array:
        out: Array = self.basis.synthesise(scaled * self.scales) + self.center
        return out

    def _randomize_rows(self, rows: Array, source: NoiseSource) -> Array:
        return self.inner.randomize(self._scale_rows(rows), source=source)

    def _decode_rows(self, codes: Array) -> Array:
        return self._restore(self.inner.decode(codes))

    def _mse_rows(self, rows: Array) -> Array:
        scaled = self._scale_rows(rows)
        kept = self.basis.synthesise(scaled * self.scales) + self.center
        if isinstance(self.inner, Entrywise):
            noise = self.inner.entry_mse_rows(scaled) @ self.scales**2
        else:
            noise = self.inner.mse(scaled) * self.scales[0] ** 2
        out: Array = noise + ((rows - kept) ** 2).sum(axis=1)
        return out

    @property
    def noise_mse(self) -> float:
        """The largest expected squared error that the noise causes."""
        if isinstance(self.inner, Entrywise):
            worst = self.inner.entry_mse_rows(self.inner.worst_tensor().reshape(1, -1))[0]
            return float(worst @ self.scales**2)
        return self.inner.worst_mse * float(self.scales[0]) ** 2

    @property
    def worst_mse(self) -> float:
        """A bound on the expected squared error of a report: the noise, and all of a tensor if it can be left out."""
        lost = 0.0 if self.basis.keep == self.size else self._half**2 * self.size
        return self.noise_mse + lost

    def worst_tensor(self) -> Array:
        """Return the tensor in the middle, whose report has the largest error by noise for most inner mechanisms."""
        return np.full(self.shape, self.center)

    def settings(self) -> dict[str, Any]:
        """Return the public parameters, as plain data."""
        return super().settings() | {
            "bounds": self.bounds,
            "basis": self.basis.settings(),
            "inner": mechanism_to_json(self.inner),
        }

    def _statistic(self) -> str:
        return f"{self.basis.keep} coefficients of one tensor of {self.size} entries, by {self.inner.label}"

    def _notes(self) -> tuple[str, ...]:
        return ("The basis is public.", *self.inner._notes())


def project(basis: Basis, mechanism: type[LocalMechanism], *, epsilon: float, bounds: Any, **options: Any) -> Projected:
    """Make the mechanism that reports coefficients of a basis by another mechanism, for unit tensor.

    Parameters
    ----------
    basis
        Made by `Basis.dct`, `Basis.haar` or `Basis.own`.
    mechanism
        The class for the coefficients, such as `PrivUnit` or `Hybrid`.
    epsilon
        The budget.
    bounds
        Declared range of the tensor's entries.
    options
        Further parameters of the class.

    >>> from tensorveil.local import Basis, PrivUnit, project
    >>> smooth = project(Basis.dct((28, 28), 16), PrivUnit, epsilon=4.0, bounds=(0, 1))
    >>> full = PrivUnit(shape=(28, 28), epsilon=4.0, unit="tensor", bounds=(0, 1))
    >>> smooth.noise_mse < full.worst_mse / 20
    True
    """
    domain: dict[str, Any] = {"radius": 1.0} if mechanism.perturbs == "tensors" else {"bounds": (-1.0, 1.0)}
    # Coefficients are within their ranges by proof; that the inner mechanism clips takes care of their rounding.
    inner = mechanism(shape=(basis.keep,), epsilon=epsilon, unit="tensor", **domain, **options)
    return Projected(shape=basis.shape, epsilon=epsilon, unit="tensor", bounds=bounds, basis=basis, inner=inner)
