"""Which mechanism to use: the one whose report has the least expected squared error at its worst tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tensorveil.local.catalogue import mechanisms
from tensorveil.local.contract import LocalMechanism
from tensorveil.local.requirements import Requirements


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A mechanism and its largest expected squared error over the declared tensors."""

    mechanism: LocalMechanism
    worst_mse: float

    @property
    def name(self) -> str:
        """The class's name."""
        return type(self.mechanism).__name__

    def mean_rmse(self, people: int, *, spread: float = 0.0) -> float:
        """Return the error per entry of the mean of so many people's reports, if all of them hold the worst tensor.

        Reports are unbiased and independent, so that the squared error of their mean is that of one report over their
        number: exact, and no guess.

        Parameters
        ----------
        people
            How many report.
        spread
            By how much people's entries differ, as a standard deviation: the error is then that about the mean of the
            population that people are drawn from, and otherwise about the mean of these people.

        >>> from tensorveil.local import choose
        >>> round(choose((28, 28), 4.0, "tensor", bounds=(0, 1)).candidates[0].mean_rmse(100_000), 4)
        0.0292
        """
        per_entry = self.worst_mse / self.mechanism.size
        return math.sqrt((per_entry + spread * spread) / people)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The mechanism to use, and what was compared, best first.

    >>> from tensorveil.local import choose
    >>> print(choose((28, 28), 4.0, "tensor", bounds=(0, 1)))  # doctest: +ELLIPSIS
    PrivUnit, whose report has an RMSE of 9.24 per entry at its worst tensor; then PrivUnitG 9.25, ...
    """

    candidates: tuple[Candidate, ...]

    def __str__(self) -> str:
        errors = [f"{each.mean_rmse(1):.3g}" for each in self.candidates]
        others = [f"{each.name} {error}" for each, error in zip(self.candidates[1:], errors[1:], strict=True)]
        then = f"; then {', '.join(others)}" if others else ""
        return f"{self.name}, whose report has an RMSE of {errors[0]} per entry at its worst tensor{then}"

    @property
    def mechanism(self) -> Any:
        """The best one."""
        return self.candidates[0].mechanism

    @property
    def name(self) -> str:
        """The best one's name."""
        return self.candidates[0].name


def choose(
    shape: Any,
    epsilon: float,
    unit: Any,
    *,
    bounds: tuple[float, float] | None = None,
    radius: float | None = None,
    delta: float = 0.0,
) -> Choice:
    """Recommend a mechanism by predicted error, from public numbers alone.

    What is compared is the expected squared error of one report, summed over entries, at the worst tensor that was
    declared possible, by closed form; all candidates are unbiased. Every mechanism takes part with its best settings;
    Gaussian noise takes part if ``delta`` is above 0.

    Parameters
    ----------
    shape
        Shape of one owner's tensor.
    epsilon
        The budget, for the unit.
    unit
        "tensor" (the whole tensor may differ), "tensor:differ=M" (at most M entries of it may) or "local-entry" (one).
    bounds
        Declared range of the entries.
    radius
        Instead of bounds: the declared largest norm of a tensor (unit tensor only).
    delta
        0 for pure mechanisms only.

    >>> from tensorveil.local import choose
    >>> choose((28, 28), 4.0, "tensor", bounds=(-1, 1)).name
    'PrivUnit'
    """
    required = Requirements(
        shape=shape,
        epsilon=epsilon,
        unit=unit,
        bounds=bounds,
        radius=radius,
        delta=delta,
    )
    best = [candidate for kind in mechanisms().values() if (candidate := _best(kind, required)) is not None]
    return Choice(candidates=tuple(sorted(best, key=lambda candidate: candidate.worst_mse)))


def _best(kind: type[LocalMechanism], required: Requirements) -> Candidate | None:
    """Return the best settings of one mechanism; None where it cannot do what is required."""
    found = [
        Candidate(mechanism=mechanism, worst_mse=mechanism.worst_mse_for(required))
        for mechanism in kind.candidates(required)
    ]
    return min(found, key=lambda candidate: candidate.worst_mse, default=None)
