"""Facts about what touched the data. Events say what happened; `accounting` says what it costs.

An event's numbers hold for the unit that the mechanism was calibrated to: mu is that unit's sensitivity divided
by the standard deviation, whether neighbours replace or add. Only `SampledGaussian` depends on the relation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tensorveil.errors import InputError
from tensorveil.privacy.exact import nonnegative, probability, show_at_least

__all__ = [
    "ZCDP",
    "Approximate",
    "Composed",
    "Event",
    "Gaussian",
    "NonPrivate",
    "Parallel",
    "Pure",
    "Repeated",
    "SampledGaussian",
    "describe_event",
    "event_from_json",
    "event_to_json",
    "has_sampling",
]


@dataclass(frozen=True)
class Pure:
    """A mechanism with epsilon-differential privacy, delta = 0 (Laplace, discrete Laplace, norm-shaped noise)."""

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", nonnegative("epsilon", self.epsilon))


@dataclass(frozen=True)
class Gaussian:
    """A mu-GDP mechanism: Gaussian noise of standard deviation sensitivity / mu, also after rounding."""

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", nonnegative("mu", self.mu))


@dataclass(frozen=True)
class ZCDP:
    """A rho-zCDP mechanism, such as discrete Gaussian noise with rho = sensitivity^2 / (2 sigma^2)."""

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", nonnegative("rho", self.rho))


@dataclass(frozen=True)
class Approximate:
    """A mechanism of which only (epsilon, delta)-differential privacy is known."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", nonnegative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", probability("delta", self.delta))


@dataclass(frozen=True)
class SampledGaussian:
    """Gaussian noise on a batch that each unit joins independently with the same probability (Poisson sampling).

    Neighbours add or remove the unit: mu is the norm of its whole contribution divided by the noise's standard
    deviation. Do not use it for units that are replaced, nor for batches of fixed size.
    """

    mu: float
    probability: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", nonnegative("mu", self.mu))
        chance = self.probability
        if not (isinstance(chance, int | float) and not isinstance(chance, bool) and 0 < chance <= 1):
            raise InputError("probability must be above 0 and at most 1. Try probability=0.01.")
        object.__setattr__(self, "probability", float(chance))


@dataclass(frozen=True)
class Composed:
    """Several events on the same data, each possibly chosen from earlier results. Empty means that nothing happened."""

    events: tuple[Event, ...]

    def __init__(self, events: Iterable[Event]) -> None:
        object.__setattr__(self, "events", _check_events(events))


@dataclass(frozen=True)
class Repeated:
    """One event, `count` times on the same data."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        _check_events((self.event,))
        if not isinstance(self.count, int) or isinstance(self.count, bool) or self.count < 0:
            raise InputError("count must be an integer of at least 0. Try count=10.")


@dataclass(frozen=True)
class Parallel:
    """Events on disjoint parts of the data, so that neighbours differ in one part only: the worst one holds.

    Which part a unit belongs to must be public, or itself the result of earlier events.
    """

    events: tuple[Event, ...]

    def __init__(self, events: Iterable[Event]) -> None:
        object.__setattr__(self, "events", _check_events(events))


@dataclass(frozen=True)
class NonPrivate:
    """Something was released without protection: no finite epsilon holds."""


Event: TypeAlias = Pure | Gaussian | ZCDP | Approximate | SampledGaussian | Composed | Repeated | Parallel | NonPrivate
_LEAVES: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    "pure": (Pure, ("epsilon",)),
    "gaussian": (Gaussian, ("mu",)),
    "zcdp": (ZCDP, ("rho",)),
    "approximate": (Approximate, ("epsilon", "delta")),
    "sampled gaussian": (SampledGaussian, ("mu", "probability")),
    "not private": (NonPrivate, ()),
}
_GROUPS: dict[str, type[Any]] = {"composed": Composed, "parallel": Parallel}
_ALL = (Pure, Gaussian, ZCDP, Approximate, SampledGaussian, Composed, Repeated, Parallel, NonPrivate)


def _check_events(events: Iterable[Event]) -> tuple[Event, ...]:
    known = tuple(events)
    for event in known:
        if not isinstance(event, _ALL):
            raise InputError(f"events must be events such as Pure(1.0); got {type(event).__name__}.")
    return known


def has_sampling(event: Event) -> bool:
    """Tell whether the event's cost relies on Poisson sampling, which only add-or-remove neighbours allow."""
    if isinstance(event, Composed | Parallel):
        return any(has_sampling(part) for part in event.events)
    if isinstance(event, Repeated):
        return has_sampling(event.event)
    return isinstance(event, SampledGaussian)


def event_to_json(event: Event) -> dict[str, Any]:
    """Write an event as plain data; every number comes back exactly."""
    for kind, (leaf, fields) in _LEAVES.items():
        if isinstance(event, leaf):
            return {"kind": kind, **{field: getattr(event, field) for field in fields}}
    for kind, group in _GROUPS.items():
        if isinstance(event, group):
            return {"kind": kind, "events": [event_to_json(part) for part in event.events]}
    if isinstance(event, Repeated):
        return {"kind": "repeated", "event": event_to_json(event.event), "count": event.count}
    raise InputError(f"event must be an event such as Pure(1.0); got {type(event).__name__}.")


def event_from_json(content: Any) -> Event:
    """Read what `event_to_json` wrote."""
    try:
        kind = content["kind"]
        if kind in _LEAVES:
            leaf, fields = _LEAVES[kind]
            return leaf(**{field: content[field] for field in fields})  # type: ignore[no-any-return]
        if kind in _GROUPS:
            return _GROUPS[kind](event_from_json(part) for part in content["events"])  # type: ignore[no-any-return]
        if kind == "repeated":
            return Repeated(event_from_json(content["event"]), content["count"])
    except (KeyError, TypeError) as error:
        raise InputError("the event's text is incomplete. Was it written by this program?") from error
    raise InputError("the event has an unknown kind. Was it written by a newer version? Try upgrading tensorveil.")


def describe_event(event: Event) -> str:
    """Describe an event in a few words."""
    if isinstance(event, Composed):
        return " + ".join(describe_event(part) for part in event.events) if event.events else "nothing"
    if isinstance(event, Parallel):
        return f"the worst of [{'; '.join(sorted({describe_event(part) for part in event.events}))}]"
    if isinstance(event, Repeated):
        return f"{event.count} x ({describe_event(event.event)})"
    if isinstance(event, NonPrivate):
        return "no protection"
    numbers = {key: value for key, value in vars(event).items() if isinstance(value, float)}
    text = ", ".join(f"{key} = {show_at_least(number)}" for key, number in numbers.items() if math.isfinite(number))
    return f"sampled Gaussian ({text})" if isinstance(event, SampledGaussian) else text
