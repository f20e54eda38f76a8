"""Which mechanism to use: the one whose report has the least expected squared error at its worst tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tensorveil.errors import InputError
from tensorveil.local.contract import LocalMechanism, checked_shape, checked_unit
from tensorveil.local.dtldp import DTLDP
from tensorveil.local.entrywise import Entrywise
from tensorveil.local.gaussian import ExactGaussian
from tensorveil.local.hybrid import Hybrid
from tensorveil.local.piecewise import Piecewise
from tensorveil.local.privunit import PrivUnit
from tensorveil.local.privunitg import PrivUnitG
from tensorveil.local.randomized_response import RandomizedResponse
from tensorveil.local.staircase import Staircase
from tensorveil.privacy.exact import positive, probability


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A mechanism and its largest expected squared error over the declared tensors."""

    mechanism: LocalMechanism
    worst_mse: float

    @property
    def name(self) -> str:
        """The class's name."""
        return type(self.mechanism).__name__


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The mechanism to use, and what was compared, best first."""

    candidates: tuple[Candidate, ...]

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
    differ: int | None = None,
    outside: str = "error",
) -> Choice:
    """Recommend a mechanism by predicted error, from public numbers alone.

    What is compared: the expected squared error of one report, summed over entries, at the worst tensor that was
    declared possible, by closed form; all candidates are unbiased. With ``delta`` above 0, Gaussian noise is among
    them.

    Parameters
    ----------
    shape, epsilon, unit: as for the mechanisms.
    bounds or radius: declared range of the entries, or declared largest norm of a tensor (unit tensor only).
    delta: 0 for pure mechanisms only.
    differ: unit tensor, bounds: at most so many entries of an owner's tensor can differ.
    outside: "error" or "clip", for the mechanisms.

    >>> from tensorveil.local import choose
    >>> choose((28, 28), 4.0, "tensor", bounds=(-1, 1)).name
    'PrivUnit'
    """
    kind = checked_unit(unit).kind
    if (bounds is None) == (radius is None):
        raise InputError("give either bounds of the entries or the radius of the tensors. Try bounds=(-1, 1).")
    if radius is not None and (kind != "tensor" or differ is not None):
        raise InputError("radius goes with unit 'tensor' and without differ. Try bounds=(-1, 1).")
    probability("delta", delta)
    common = {"shape": checked_shape(shape), "epsilon": positive("epsilon", epsilon), "unit": unit, "outside": outside}
    made = list(_entrywise(common, bounds, radius, differ)) + list(_whole(common, bounds, radius, differ, delta, kind))
    return Choice(candidates=tuple(sorted(made, key=lambda candidate: candidate.worst_mse)))


def _entrywise(common: dict[str, Any], bounds: Any, radius: float | None, differ: int | None) -> Iterator[Candidate]:
    limit = None if radius is None else positive("radius", radius)
    options: dict[str, Any] = {
        "bounds": (-limit, limit) if limit is not None else bounds,
        "differ": differ,
        "coordinates": "best",
    }
    makers: list[Callable[..., Entrywise]] = [RandomizedResponse, Hybrid, Piecewise, Staircase]
    for make in makers:
        yield _candidate(make(**common, **options), limit)
    grids = [_candidate(DTLDP(**common, **options, points=points), limit) for points in (5, 17, 65, 257, 1025)]
    yield min(grids, key=lambda candidate: candidate.worst_mse)


def _candidate(mechanism: Entrywise, radius: float | None) -> Candidate:
    worst = mechanism.worst_mse if radius is None else mechanism.worst_mse_in_ball(radius)
    return Candidate(mechanism=mechanism, worst_mse=worst)


def _whole(
    common: dict[str, Any], bounds: Any, radius: float | None, differ: int | None, delta: float, kind: str
) -> Iterator[Candidate]:
    domain = {"bounds": bounds, "radius": radius}
    if kind == "tensor":
        for make in (PrivUnit, PrivUnitG):
            found = make(**common, **domain)
            yield Candidate(mechanism=found, worst_mse=found.worst_mse)
    if delta > 0:
        noise = ExactGaussian(**common, **domain, delta=delta, differ=differ)
        yield Candidate(mechanism=noise, worst_mse=noise.worst_mse)
