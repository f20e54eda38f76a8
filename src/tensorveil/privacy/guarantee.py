"""The guarantee: what a release promises, to whom, and on what grounds, in a sentence that a lawyer can read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tensorveil.errors import InputError
from tensorveil.privacy.accounting import epsilon_for
from tensorveil.privacy.delta import compare_delta, is_large, is_negligible
from tensorveil.privacy.events import Event, describe_event, event_from_json, event_to_json, has_sampling
from tensorveil.privacy.exact import probability, show_at_least, show_exactly, show_odds
from tensorveil.privacy.profile import covers
from tensorveil.privacy.sealing import check_seal, seal
from tensorveil.privacy.unit import Unit

__all__ = ["Guarantee", "Part"]

FORMAT = 1
STATUSES = ("proven", "claimed", "refuted")
WEAK = 10.0  # from this epsilon on, the sentence says that the protection is weak
POSITIONS = "positions and labels"  # in unit value these are public, whatever else is


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
    """What a release promises. Make proven guarantees with `Guarantee.prove`.

    A guarantee whose status is "proven" is proven whenever it is made, from a file too: epsilon must cover what the
    event costs, and the event what its parts cost together.

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
        Everything that touched the data: epsilon is proven from it, and a ledger charges it. None where nothing is
        proven.
    conditions
        What else the guarantee rests on, as it appears in the sentence: "tensors have a norm of at most 1".
    about
        What exactly is protected: "values of column 'rating'".
    public
        What is not: "positions and labels of user, film", "the number of entries". In unit value the sentence always
        names positions and labels.
    against
        Who learns no more than this: "the server and any one client". By default anyone who sees the release.
    among
        How many units there are, or can be, where that is public; delta is compared with one in that many
        (`tensorveil.privacy.delta`).
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
    about: str = ""
    public: tuple[str, ...] = ()
    against: str = ""
    among: int | None = None

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
        if self.among is not None and (isinstance(self.among, bool) or not isinstance(self.among, int)):
            raise InputError("among must be a whole number, or None where it is not public.")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", probability("delta", self.delta))
        for name in ("composition", "released", "notes", "conditions", "public"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "bounds", _read_bounds(self.bounds))
        object.__setattr__(self, "about", _on_one_line(self.about))
        object.__setattr__(self, "against", _on_one_line(self.against))
        object.__setattr__(self, "public", tuple(map(_on_one_line, self.public)))
        if self.status == "proven":
            self._refuse_sampling_of_replaced_units()
            self._check_proof()

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
        about: str = "",
        public: Iterable[str] = (),
        against: str = "",
        among: int | None = None,
    ) -> Guarantee:
        """Make a proven guarantee: epsilon is what the event costs, or what was promised if that covers it."""
        return cls(
            unit=unit,
            epsilon=epsilon_for(event, delta) if epsilon is None else epsilon,
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
            about=about,
            public=tuple(public),
            against=against,
            among=among,
        )

    def _check_proof(self) -> None:
        """Prove epsilon from the event, and the event from its parts."""
        if self.event is None:
            raise InputError("a proven guarantee must have an event. Make it with Guarantee.prove.")
        if not covers(self.event, (part.event for part in self.composition)):
            raise InputError("the parts of the guarantee cost more than its event: one of them was changed.")
        cost = epsilon_for(self.event, self.delta)
        if not cost <= self.epsilon:
            raise InputError("the event costs more than the epsilon promised. Calibrate the mechanism to the promise.")
        if cost > 0 and not self.composition:
            raise InputError("a proven guarantee must list its parts: what was computed from the data, and its cost.")

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
        words = f"{self._opening()}: {self._numbers()} for {self.unit.protects}{self._rest()}."
        against = [f"Holds against {self.against}."] if self.against else []
        return " ".join([words, *self._public(), *against, "Proven.", *self._warnings()])

    def _opening(self) -> str:
        if self.epsilon <= 1 and is_negligible(self.delta, self.among):
            return f"Anyone who sees this release learns almost the same whether or not {self.unit.sentence}"
        plus = f", plus a probability of {show_at_least(self.delta)}," if self.delta else ""
        outcome = f"no outcome of this release is more than {show_odds(self.epsilon)} times as likely{plus}"
        return f"To anyone who sees it, {outcome} whether or not {self.unit.sentence}"

    def _numbers(self) -> str:
        pair = f"(epsilon = {show_at_least(self.epsilon)}, delta = {show_at_least(self.delta)})"
        return f"{pair} differential privacy"

    def _rest(self) -> str:
        """Say what the promise rests on."""
        facts = [f"protected: {self.about}"] if self.about else []
        if self.bounds is not None:
            low, high = map(show_exactly, self.bounds)
            facts.append(f"values lie between {low} and {high}")
        facts += self.conditions
        return f" ({'; '.join(facts)})" if facts else ""

    @property
    def known(self) -> tuple[str, ...]:
        """What is public; in unit value always positions and labels."""
        told = any(fact.startswith("positions") for fact in self.public)
        return self.public if told or self.unit.kind != "value" else (POSITIONS, *self.public)

    def _public(self) -> list[str]:
        return [f"Public: {'; '.join(self.known)}."] if self.known else []

    def _warnings(self) -> list[str]:
        """Name numbers that protect little, or nobody."""
        warnings = ["With so large an epsilon this is weak protection."] if self.epsilon >= WEAK else []
        if is_large(self.delta, self.among):
            warnings.append(
                f"With a probability of up to delta = {show_at_least(self.delta)} anything may be revealed: that is "
                f"{compare_delta(self.delta, self.unit, self.among)}."
            )
        return warnings

    def __str__(self) -> str:
        return self.sentence()

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the sentence first."""
        from tensorveil.markup import notebook_card

        facts = [
            ("unit", self.unit),
            ("epsilon, delta", f"{self.epsilon:g}, {self.delta:g}"),
            ("status", self.status),
            ("mechanism", self.mechanism),
            ("proof", self.proof),
        ]
        rows = [(part.name, part.statistic, describe_event(part.event)) for part in self.composition]
        return notebook_card(str(self), facts, head=("part", "what was computed", "spent"), rows=rows)

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as plain data for `json.dumps`, with a digest that notices changes."""
        facts = {
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
            "about": self.about,
            "public": list(self.public),
            "against": self.against,
            "among": self.among,
        }
        return seal(facts)

    @classmethod
    def from_json(cls, content: dict[str, Any] | str) -> Guarantee:
        """Read what `to_json` wrote, as plain data or as text, and prove it again: what was changed is refused.

        This finds accidents and careless changes. Someone who rewrites all of it, event and digest too, is not found.
        """
        try:
            facts = json.loads(content) if isinstance(content, str) else content
            if facts["format"] != FORMAT:
                raise InputError("the guarantee was written in another format. Try to upgrade tensorveil.")
            check_seal(facts)
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
                about=facts.get("about", ""),
                public=tuple(facts.get("public", ())),
                against=facts.get("against", ""),
                among=facts.get("among"),
            )
        except InputError:
            raise
        except Exception as error:  # whatever a text leads to: nested too deeply, numbers beyond floats
            raise InputError("the guarantee's text is incomplete. Was it written by this program?") from error


def _on_one_line(text: str) -> str:
    """Keep names that come from files, such as those of columns, from breaking the sentence that holds them."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _read_bounds(bounds: Any) -> tuple[float, float] | None:
    if bounds is None:
        return None
    low, high = (float(bound) for bound in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError("bounds must be two finite numbers, the lower one first. Try bounds=(1, 5).")
    return low, high
