"""The guarantee: what a release promises, to whom, and on what grounds, in a sentence that a lawyer can read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tensorveil.errors import InputError
from tensorveil.privacy.accounting import epsilon_for
from tensorveil.privacy.events import Event, describe_event, event_from_json, event_to_json, has_sampling
from tensorveil.privacy.exact import probability, show_at_least
from tensorveil.privacy.unit import Unit

__all__ = ["Guarantee", "Part"]

FORMAT = 1
STATUSES = ("proven", "claimed", "refuted")
WEAK = 10.0  # from this epsilon on, the sentence says that the protection is weak


@dataclass(frozen=True, kw_only=True)
class Part:
    """One quantity that was computed from the data: its name, the statistic behind it, what it spent."""

    name: str
    statistic: str
    event: Event

    def __str__(self) -> str:
        return f"{self.name}: {self.statistic}, {describe_event(self.event)}"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What a release promises. Make proven guarantees with `Guarantee.prove`, which checks epsilon by the accounting.

    Parameters
    ----------
    unit
        What is protected.
    epsilon, delta
        The promise; epsilon may be infinite if none is known.
    composition
        The parts that were computed from the data, and what each spent.
    released
        Names of everything that leaves.
    status
        "proven", "claimed" (by a paper, without a proof that holds) or "refuted".
    proof
        Where to find the proof, the claim or the refutation.
    secure_noise
        Whether the noise came from the operating system's entropy, rather than from a seed.
    bounds
        The declared range of values, if the guarantee rests on one.
    mechanism
        The name of the mechanism.
    event
        Everything that touched the data, for the ledger; if None, epsilon and delta are all that is known.
    conditions
        What else the guarantee rests on, as it appears in the sentence: "tensors have a norm of at most 1".
    """

    unit: Unit
    epsilon: float
    delta: float
    composition: tuple[Part, ...]
    released: tuple[str, ...]
    status: str
    proof: str
    secure_noise: bool
    bounds: tuple[float, float] | None
    mechanism: str
    notes: tuple[str, ...] = ()
    event: Event | None = None
    conditions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.unit, Unit):
            raise InputError("unit must be a Unit. Try Unit.value().")
        if self.status not in STATUSES:
            raise InputError(f"status must be one of {', '.join(STATUSES)}; got {self.status!r}.")
        epsilon = float(self.epsilon)
        if math.isnan(epsilon) or epsilon < 0 or (epsilon == math.inf and self.status == "proven"):
            raise InputError(f"epsilon must be at least 0, and finite if the guarantee is proven; got {epsilon}.")
        if not isinstance(self.secure_noise, bool):
            raise InputError("secure_noise must be True or False.")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", probability("delta", self.delta))
        for name in ("composition", "released", "notes", "conditions"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "bounds", _read_bounds(self.bounds))
        if self.status == "proven":
            self._refuse_sampling_of_replaced_units()

    @classmethod
    def prove(
        cls,
        *,
        unit: Unit,
        event: Event,
        delta: float,
        epsilon: float | None = None,
        composition: Iterable[Part],
        released: Iterable[str],
        proof: str,
        secure_noise: bool,
        bounds: tuple[float, float] | None,
        mechanism: str,
        notes: Iterable[str] = (),
        conditions: Iterable[str] = (),
    ) -> Guarantee:
        """Make a proven guarantee: epsilon is what the event costs, or what was promised if that covers it."""
        cost = epsilon_for(event, delta)
        if epsilon is None:
            epsilon = cost
        if not cost <= epsilon:
            raise InputError("the event costs more than the epsilon promised. Calibrate the mechanism to the promise.")
        return cls(
            unit=unit,
            epsilon=epsilon,
            delta=delta,
            composition=tuple(composition),
            released=tuple(released),
            status="proven",
            proof=proof,
            secure_noise=secure_noise,
            bounds=bounds,
            mechanism=mechanism,
            notes=tuple(notes),
            event=event,
            conditions=tuple(conditions),
        )

    def _refuse_sampling_of_replaced_units(self) -> None:
        events = [part.event for part in self.composition] + ([self.event] if self.event is not None else [])
        if self.unit.replaces and any(has_sampling(event) for event in events):
            raise InputError(
                f"unit {str(self.unit)!r} replaces, but the cost of Poisson sampling is known for adding or removing "
                "only. Use unit 'entry', or account without sampling."
            )

    @property
    def neighbours(self) -> str:
        """What turns a data set into a neighbouring one."""
        return self.unit.neighbours

    @property
    def private(self) -> bool:
        """Tell whether the release may be published on the strength of this guarantee."""
        return self.status == "proven" and self.secure_noise

    def sentence(self) -> str:
        """Return the guarantee in plain words; if it is not private, that comes first."""
        if self.status == "refuted":
            return (
                f"NOT PRIVATE: {self.mechanism} is claimed to give {self._numbers()} for {self.unit.protects}, "
                f"and this claim is refuted ({self.proof}); do not publish this release."
            )
        if not self.secure_noise:
            return (
                "NOT PRIVATE: the noise was drawn from a seed, so whoever knows or guesses the seed can take it off "
                f"again; with secure noise this would have been {self._numbers()} for {self.unit.protects}; "
                "do not publish this release."
            )
        if self.status == "claimed":
            return (
                f"NOT PROVEN PRIVATE: {self.mechanism} is claimed to give {self._numbers()} for {self.unit.protects}, "
                f"but no proof is known ({self.proof}); do not publish this release."
            )
        weak = " With so large an epsilon this is weak protection." if self.epsilon >= WEAK else ""
        return f"{self._opening()}: {self._numbers()} for {self.unit.protects}{self._conditions()}. Proven.{weak}"

    def _opening(self) -> str:
        if self.epsilon <= 1:
            return f"Anyone who sees this release learns almost the same whether or not {self.unit.sentence}"
        factor = show_at_least(math.exp(min(self.epsilon, 700.0)), 3)
        plus = f", plus a probability of {show_at_least(self.delta)}," if self.delta else ""
        outcome = f"No outcome of this release is more than {factor} times as likely{plus}"
        return f"{outcome} whether or not {self.unit.sentence}"

    def _numbers(self) -> str:
        pair = f"(epsilon = {show_at_least(self.epsilon)}, delta = {show_at_least(self.delta)})"
        return f"{pair} differential privacy"

    def _conditions(self) -> str:
        facts = []
        if self.unit.kind == "value":
            facts.append("positions are public")
        if self.bounds is not None:
            facts.append(f"values lie between {self.bounds[0]:g} and {self.bounds[1]:g}")
        facts += self.conditions
        return f" ({', '.join(facts)})" if facts else ""

    def __str__(self) -> str:
        return self.sentence()

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as plain data for `json.dumps`."""
        return {
            "format": FORMAT,
            "sentence": self.sentence(),
            "unit": str(self.unit),
            "neighbours": self.neighbours,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "composition": [
                {"name": part.name, "statistic": part.statistic, "event": event_to_json(part.event)}
                for part in self.composition
            ],
            "released": list(self.released),
            "status": self.status,
            "proof": self.proof,
            "secure_noise": self.secure_noise,
            "bounds": None if self.bounds is None else list(self.bounds),
            "mechanism": self.mechanism,
            "notes": list(self.notes),
            "event": None if self.event is None else event_to_json(self.event),
            "conditions": list(self.conditions),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any] | str) -> Guarantee:
        """Read what `to_json` wrote, as plain data or as text."""
        try:
            facts = json.loads(content) if isinstance(content, str) else content
            if facts["format"] != FORMAT:
                raise InputError("the guarantee was written in another format. Try to upgrade tensorveil.")
            parts = [
                Part(name=part["name"], statistic=part["statistic"], event=event_from_json(part["event"]))
                for part in facts["composition"]
            ]
            return cls(
                unit=Unit.parse(facts["unit"]),
                epsilon=math.inf if facts["epsilon"] is None else facts["epsilon"],
                delta=facts["delta"],
                composition=tuple(parts),
                released=tuple(facts["released"]),
                status=facts["status"],
                proof=facts["proof"],
                secure_noise=facts["secure_noise"],
                bounds=None if facts["bounds"] is None else tuple(facts["bounds"]),
                mechanism=facts["mechanism"],
                notes=tuple(facts["notes"]),
                event=None if facts["event"] is None else event_from_json(facts["event"]),
                conditions=tuple(facts.get("conditions", ())),
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise InputError("the guarantee's text is incomplete. Was it written by this program?") from error


def _read_bounds(bounds: Any) -> tuple[float, float] | None:
    if bounds is None:
        return None
    low, high = (float(bound) for bound in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError("bounds must be two finite numbers, the lower one first. Try bounds=(1, 5).")
    return low, high
