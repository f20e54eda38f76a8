"""The normal form of an event: how much of each kind of mechanism it contains, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from tensorveil.privacy.events import (
    ZCDP,
    Approximate,
    Composed,
    Event,
    Gaussian,
    NonPrivate,
    Parallel,
    Pure,
    Repeated,
    SampledGaussian,
)
from tensorveil.privacy.exact import at_least, exactly

__all__ = ["Profile", "covers", "profile_of", "worst_cases"]

ZERO = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Amounts by kind. Whatever order the mechanisms ran in, composing these amounts bounds the event's cost."""

    pure: Mapping[float, int] = field(default_factory=lambda: MappingProxyType({}))  # epsilon -> how often
    mu_squared: Fraction = ZERO
    rho: Fraction = ZERO
    epsilon: Fraction = ZERO  # of mechanisms known by (epsilon, delta) alone
    delta: Fraction = ZERO
    sampled: Mapping[tuple[float, float], int] = field(default_factory=lambda: MappingProxyType({}))
    private: bool = True

    @property
    def by_pair(self) -> bool:
        """Tell whether something is known by (epsilon, delta) alone."""
        return bool(self.epsilon or self.delta)

    @property
    def smooth(self) -> bool:
        """Tell whether something has no epsilon of its own, but one for every delta."""
        return bool(self.mu_squared or self.rho or self.sampled)

    @property
    def pure_epsilon(self) -> Fraction:
        """Add up the pure mechanisms."""
        return sum((exactly(epsilon) * count for epsilon, count in self.pure.items()), ZERO)


def worst_cases(event: Event) -> list[Event]:
    """Return the events of which the worst one counts: at the top level, parallel parts need not be mixed.

    Neighbours differ in one fixed part, so the whole event is exactly as private as that part.
    """
    if isinstance(event, Parallel):
        return [case for part in event.events for case in worst_cases(part)] or [Composed(())]
    if isinstance(event, Composed) and len(event.events) == 1:
        return worst_cases(event.events[0])
    if isinstance(event, Repeated) and event.count == 1:
        return worst_cases(event.event)
    return [event]


def covers(whole: Event, parts: Iterable[Event]) -> bool:
    """Tell whether one event stands for no less than several others together, kind by kind."""
    most = profile_of(whole)
    # The join dominates both; if it adds nothing, the whole dominates the parts.
    return _join([most, profile_of(Composed(parts))]) == most


def profile_of(event: Event) -> Profile:
    """Return the normal form of an event."""
    if isinstance(event, Pure):
        return Profile(pure={event.epsilon: 1} if event.epsilon else {})
    if isinstance(event, Gaussian):
        return Profile(mu_squared=exactly(event.mu) ** 2)
    if isinstance(event, ZCDP):
        return Profile(rho=exactly(event.rho))
    if isinstance(event, Approximate):
        if event.delta == 0:
            return profile_of(Pure(event.epsilon))
        return Profile(epsilon=exactly(event.epsilon), delta=exactly(event.delta))
    if isinstance(event, SampledGaussian):
        if event.probability == 1:
            return Profile(mu_squared=exactly(event.mu) ** 2)
        return Profile(sampled={(event.mu, event.probability): 1} if event.mu else {})
    if isinstance(event, NonPrivate):
        return Profile(private=False)
    if isinstance(event, Repeated):
        return _times(profile_of(event.event), event.count)
    if isinstance(event, Parallel):
        return _join([profile_of(part) for part in event.events])
    return _add([profile_of(part) for part in event.events])


def _times(profile: Profile, count: int) -> Profile:
    if count == 0:
        return Profile()
    return Profile(
        pure={key: count * times for key, times in profile.pure.items()},
        mu_squared=count * profile.mu_squared,
        rho=count * profile.rho,
        epsilon=count * profile.epsilon,
        delta=count * profile.delta,
        sampled={key: count * times for key, times in profile.sampled.items()},
        private=profile.private,
    )


def _add(profiles: list[Profile]) -> Profile:
    pure: dict[float, int] = {}
    sampled: dict[tuple[float, float], int] = {}
    for profile in profiles:
        for epsilon, times in profile.pure.items():
            pure[epsilon] = pure.get(epsilon, 0) + times
        for key, times in profile.sampled.items():
            sampled[key] = sampled.get(key, 0) + times
    return Profile(
        pure=pure,
        mu_squared=sum((p.mu_squared for p in profiles), ZERO),
        rho=sum((p.rho for p in profiles), ZERO),
        epsilon=sum((p.epsilon for p in profiles), ZERO),
        delta=sum((p.delta for p in profiles), ZERO),
        sampled=sampled,
        private=all(p.private for p in profiles),
    )


def _join(profiles: list[Profile]) -> Profile:
    """Bound parallel parts inside a composition by the most of each kind.

    Taking the worst part only at the end would not be sound there: which part a unit falls into may depend on the
    results before it, and an adversary may gain by mixing. The join dominates every part, so it may be composed.
    """
    pure: Mapping[float, int] = {}
    for profile in profiles:
        pure = _join_pure(pure, profile.pure)
    sampled: dict[tuple[float, float], int] = {}
    for profile in profiles:
        for key, times in profile.sampled.items():
            sampled[key] = max(sampled.get(key, 0), times)
    return Profile(
        pure=pure,
        mu_squared=max((p.mu_squared for p in profiles), default=ZERO),
        rho=max((p.rho for p in profiles), default=ZERO),
        epsilon=max((p.epsilon for p in profiles), default=ZERO),
        delta=max((p.delta for p in profiles), default=ZERO),
        sampled=sampled,
        private=all(p.private for p in profiles),
    )


def _join_pure(first: Mapping[float, int], second: Mapping[float, int]) -> Mapping[float, int]:
    """Keep the multiset that contains the other; else one mechanism with the larger sum, which dominates both."""
    for larger, smaller in ((first, second), (second, first)):
        if all(larger.get(epsilon, 0) >= times for epsilon, times in smaller.items()):
            return larger
    totals = (sum((exactly(e) * n for e, n in parts.items()), ZERO) for parts in (first, second))
    return {at_least(max(totals)): 1}
