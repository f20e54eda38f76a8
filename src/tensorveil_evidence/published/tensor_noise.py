"""Common part of the published mechanisms that add noise to a person's tensor: checks, perturbing, claims, errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.privacy import Guarantee, NonPrivate, Part, Unit
from tensorveil.privacy.exact import positive, probability
from tensorveil_evidence.published.array_kinds import as_floats, free_entries, mirror
from tensorveil_evidence.published.claims import NOISE
from tensorveil_evidence.published.refusal import refuse
from tensorveil_evidence.published.truth import Truth

Array = NDArray[Any]
UNITS = ("tensor", "local entry")


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorNoise(ABC):
    """A published local mechanism, as printed, for study: it says what it claims and what is true.

    Parameters
    ----------
    shape
        Of one tensor.
    epsilon
        Nominal, as the paper means it.
    bounds
        The range in which entries really lie; what is true depends on it.
    symmetric
        Give all orders of an index the same noise, so that a symmetric tensor stays symmetric.
    """

    shape: tuple[int, ...]
    epsilon: float
    bounds: tuple[float, float]
    symmetric: bool = False

    source: ClassVar[str] = "Yuan, Tang, Huang, Wu and Wang, Local Differential Privacy for Tensors"
    page: ClassVar[str] = "docs/published.md#tldp"

    def __post_init__(self) -> None:
        sizes = tuple(int(n) for n in self.shape)
        if not sizes or min(sizes) < 1:
            raise InputError(f"shape must hold sizes of at least 1; got {self.shape}. Try shape=(28, 28).")
        low, high = (float(bound) for bound in self.bounds)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InputError(f"bounds must be two finite numbers, the lower one first; got {self.bounds}.")
        object.__setattr__(self, "shape", sizes)
        object.__setattr__(self, "bounds", (low, high))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if self.symmetric:
            mirror(np.zeros(sizes))

    @property
    @abstractmethod
    def name(self) -> str:
        """What the paper calls it."""

    @abstractmethod
    def _noise(self, x: Array, rng: np.random.Generator) -> Array:
        """Draw the noise for one tensor."""

    @abstractmethod
    def truth(self, unit: Unit | str, *, delta: float = 1e-5) -> Truth:
        """Say what really holds for unit "tensor" or "local entry", in exact arithmetic."""

    @property
    @abstractmethod
    def rms_error(self) -> float:
        """The root of the expected squared norm of the noise: what the paper calls the expected error."""

    @property
    @abstractmethod
    def printed_error(self) -> float:
        """The expected error as printed in table 5 of Yuan et al."""

    @property
    def size(self) -> int:
        """The number of entries."""
        return math.prod(self.shape)

    @property
    def width(self) -> float:
        """The width of the true range."""
        return self.bounds[1] - self.bounds[0]

    @property
    def delta(self) -> float:
        """The delta of the claim."""
        return 0.0

    def perturb(self, x: Any, random_state: Any = None) -> Any:
        """Perturb one tensor, or many along a leading axis; numpy arrays and torch tensors give back their own kind.

        Noise comes from numpy's generator in floating point, as in the papers: nothing here is fit for a release.
        """
        values, back = as_floats(x)
        if values.shape != self.shape and values.shape[1:] != self.shape:
            raise InputError(f"x must be of shape {self.shape}, or that behind a leading axis; got {values.shape}.")
        low, high = self.bounds
        if values.min() < low or values.max() > high:
            raise InputError(f"x must lie within bounds {self.bounds}. Clip it first.")
        rng = np.random.default_rng(random_state)
        if values.shape == self.shape:
            return back(values + self._add_shaped_noise(values, rng))
        return back(np.stack([row + self._add_shaped_noise(row, rng) for row in values]))

    def _add_shaped_noise(self, x: Array, rng: np.random.Generator) -> Array:
        noise = self._noise(x, rng)
        return mirror(noise) if self.symmetric else noise

    def save(self, *_: Any) -> None:
        """Refuse."""
        refuse()

    def differing(self, unit: Unit | str) -> int:
        """Return how many entries that are drawn on their own can differ between neighbours."""
        kind = Unit.parse(unit).kind
        if kind not in UNITS:
            raise InputError(f"unit must be one of {', '.join(UNITS)}; got {kind!r}. Try unit='tensor'.")
        return 1 if kind == "local entry" else free_entries(self.shape, self.symmetric)

    @property
    def claim(self) -> str:
        """What the paper says."""
        return f"Claimed: {self.epsilon:g}-local differential privacy for whole tensors."

    def holds(self, unit: Unit | str) -> bool:
        """Tell whether the claim holds for a unit, in exact arithmetic."""
        truth = self.truth(unit, delta=self.delta)  # at delta 0 nothing is convolved, which would take long
        return truth.pure <= self.epsilon * (1 + 1e-12) if self.delta == 0 else truth.epsilon <= self.epsilon

    def status(self, unit: Unit | str) -> str:
        """Return "claimed" where the claim holds in exact arithmetic, else "refuted"."""
        return "claimed" if self.holds(unit) else "refuted"

    def guarantee(self, unit: Unit | str = "tensor") -> Guarantee:
        """Say the claim and what is known about it; never fit for a release."""
        parsed = Unit.parse(unit)
        holds = self.holds(parsed)
        truth = self.truth(parsed, delta=self.delta or 1e-5)
        verdict = "True in exact arithmetic" if holds else "False"
        return Guarantee(
            unit=parsed,
            epsilon=self.epsilon,
            delta=self.delta,
            composition=(Part(name="report", statistic="one tensor", event=NonPrivate()),),
            released=("report",),
            status=self.status(parsed),
            proof=self.page,
            secure_noise=False,
            bounds=self.bounds,
            mechanism=f"{self.name} ({self.source})",
            notes=(self.claim, f"{verdict}. {truth}.", *self._more(), NOISE),
        )

    def _more(self) -> tuple[str, ...]:
        """Say what else is to be known."""
        return ()

    def measured_error(self, runs: int, random_state: Any = None) -> float:
        """Return the mean norm of the noise over so many draws, on a tensor in the middle of the bounds."""
        rng = np.random.default_rng(random_state)
        x = np.full(self.shape, 0.5 * (self.bounds[0] + self.bounds[1]))
        return float(np.mean([np.linalg.norm(self._add_shaped_noise(x, rng)) for _ in range(runs)]))


def check_delta(delta: float) -> float:
    """Check the delta of a mechanism that needs one above 0."""
    found = probability("delta", delta)
    if found == 0:
        raise InputError("delta must be above 0 for this mechanism. Try delta=1e-5.")
    return found
