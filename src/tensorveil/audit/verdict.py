"""What an audit found: "violated" with a witness, or "no violation found" with the power it had. Never "proved"."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tensorveil.audit.claim import Claim
from tensorveil.privacy.exact import show_at_least, show_at_most

_SEEN_TO_BE_LEARNT = 10  # an event that is seen less often among the draws that scores learn from is taken for chance
VIOLATED, NOT_FOUND = "violated", "no violation found"


@dataclass(frozen=True, kw_only=True)
class Witness:
    """An event that is likelier under one neighbour, and how often it occurred among fresh draws of both."""

    kind: str
    event: str
    pair: int
    favoured: int
    hits: tuple[int, int]
    draws: int
    level: float
    told: str = ""

    def sentence(self) -> str:
        """Return the witness in words; neighbours are called first and second, as they were given."""
        if self.told:
            return self.told
        names = ("first", "second")
        here, there = names[self.favoured], names[1 - self.favoured]
        pair = f" of pair {self.pair + 1}" if self.pair else ""
        return (
            f"{self.kind}: {{{self.event}}} came out {self.hits[self.favoured]:,} times in {self.draws:,} under the "
            f"{here} neighbour{pair} and {self.hits[1 - self.favoured]:,} times under the {there}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "kind": self.kind,
            "event": self.event,
            "pair": self.pair,
            "favoured": self.favoured,
            "hits": list(self.hits),
            "draws": self.draws,
            "level": round_down(self.level),
        }


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """Error rates of a test of one neighbour against the other, with an upper bound for each."""

    false_positive: float
    missed: float
    false_positive_at_most: float
    missed_at_most: float


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of an audit.

    Parameters
    ----------
    claim
        What was audited.
    lower_bound
        The true level (epsilon at the claimed delta, or mu) is at least this, with probability ``confidence`` over the
        audit's own draws. Claims below it are refuted, others are not.
    confidence
        The probability with which a true claim is not called violated.
    draws, chosen_on
        Runs on each neighbour, and how many of them chose the events.
    events
        The number of events that were counted among fresh draws.
    ceiling
        The largest level that this audit could have shown.
    detectable
        The smallest true level at which the simplest mechanism, randomised response or one Gaussian number, would have
        been caught.
    witnesses
        Every event that was counted among fresh draws, the one that shows most first; the confidence covers them all.
    curve
        The trade-off curve of the first witness's score.
    sampled
        What was drawn, in words; by default outputs of each neighbour.
    """

    claim: Claim
    lower_bound: float
    confidence: float
    draws: int
    chosen_on: int
    events: int
    ceiling: float
    detectable: float
    witnesses: tuple[Witness, ...]
    curve: tuple[CurvePoint, ...] = field(default=(), repr=False)
    sampled: str = ""

    @property
    def violated(self) -> bool:
        """Tell whether the claim is refuted."""
        return self.lower_bound > self.claim.level

    @property
    def witness(self) -> Witness | None:
        """The event that shows most; None if there was none to count."""
        return self.witnesses[0] if self.witnesses else None

    @property
    def violations(self) -> tuple[Witness, ...]:
        """The best witness of each kind that refutes the claim by itself."""
        found: dict[str, Witness] = {}
        for witness in self.witnesses:
            if witness.level > self.claim.level:
                found.setdefault(witness.kind, witness)
        return tuple(found.values())

    @property
    def word(self) -> str:
        """Either "violated" or "no violation found"."""
        return VIOLATED if self.violated else NOT_FOUND

    def sentence(self) -> str:
        """Return the verdict in one or two sentences."""
        name = self.claim.parameter
        runs = f"{self.sampled or f'{self.draws:,} outputs of each neighbour'}, confidence {self.confidence:g}"
        if self.violated:
            first, *others = self.violations
            also = "".join(f" Also by {w.kind}: {name} is at least {show_at_most(w.level)}." for w in others)
            return (
                f"violated: {self.claim} is claimed, {name} is at least {show_at_most(self.lower_bound)} "
                f"({runs}). Witness: {first.sentence()}.{also}"
            )
        reach = (
            f"the simplest mechanism would have been caught from {name} = {show_at_least(self.detectable)} on"
            if math.isfinite(self.detectable)
            else "even a mechanism without any noise would not have been caught: draw more"
        )
        return (
            f"no violation found: {self.claim} is claimed, {name} is at least {show_at_most(self.lower_bound)} "
            f"({runs}). Power: claims below that would have been refuted; nothing above "
            f"{show_at_most(self.ceiling)} could have been shown; {reach}. Can be missed at any level: "
            f"{self._describe_blind_spots()}."
        )

    def _describe_blind_spots(self) -> str:
        """Say what this audit may not have seen, however large the violation is."""
        if self.chosen_on == 0:
            return "whatever the guesses of the canaries do not use"
        rare = _SEEN_TO_BE_LEARNT / (self.chosen_on / 2)
        return (
            f"events rarer than about 1 in {max(round(1 / rare), 1):,}, what only several outputs show together, "
            "relations that no score looks for, other neighbours"
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data; infinity becomes null."""
        return {
            "verdict": self.word,
            "claim": self.claim.to_json(),
            "parameter": self.claim.parameter,
            "lower_bound": round_down(self.lower_bound),
            "confidence": self.confidence,
            "draws": self.draws,
            "chosen_on": self.chosen_on,
            "events": self.events,
            "power": {
                "ceiling": round_down(self.ceiling),
                "detectable": None if math.isinf(self.detectable) else self.detectable,
            },
            "witnesses": [witness.to_json() for witness in self.witnesses],
            "sampled": self.sampled,
            "curve": [vars(point) for point in self.curve],
        }

    def __str__(self) -> str:
        return self.sentence()


def round_down(level: float) -> float:
    """Round a lower bound down to six decimals."""
    return math.floor(level * 1e6) / 1e6
