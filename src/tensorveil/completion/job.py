"""What every method of private completion is asked for, whatever its unit: one contract for one road through `fit`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tensorveil.mechanisms.planner import Plan
from tensorveil.models import CPModel, TuckerModel
from tensorveil.privacy import Budget, Composed, Event, Gaussian, Guarantee, Part, Pure, Unit
from tensorveil.privacy.gate import Declared
from tensorveil.rounds import SharedModel
from tensorveil.tensor import ObservedTensor

ReleasedModel = TypeVar("ReleasedModel", CPModel, TuckerModel, SharedModel)


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What the guarantee of a fit rests on: a budget, and what is declared or public of the data."""

    budget: Budget
    declared: Declared

    @property
    def unit(self) -> Unit:
        """What is protected."""
        return self.declared.unit

    @property
    def bounds(self) -> tuple[float, float]:
        """Where values can lie."""
        return self.declared.bounds


@dataclass(frozen=True, kw_only=True)
class Released(Generic[ReleasedModel]):
    """What a method gives: the model, what was spent on it, and in words what it holds and what was worth measuring.

    ``public`` is what it took as public beside what was declared.
    """

    model: ReleasedModel
    parts: tuple[Part, ...]
    holds: tuple[str, ...]
    notes: tuple[str, ...] = ()
    public: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Begun(Generic[ReleasedModel]):
    """A job that is ready to be charged for and run, whatever could be refused having been.

    Parameters
    ----------
    run
        Computes the release.
    release_id
        Names it in the ledger.
    again
        Whether an earlier attempt at it has been made, which may have been charged.
    """

    run: Callable[[], Released[ReleasedModel]]
    release_id: str
    again: bool = False


class Described(Protocol):
    """What is known of a method before it runs: a mechanism's `Method`, or `Rounds`."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def title(self) -> str:
        """Its name in reports and guarantees."""

    @property
    def unit(self) -> str:
        """The kind of unit that it protects."""

    @property
    def proofs(self) -> tuple[str, ...]:
        """Where its guarantee is proven."""


class Job(Protocol[ReleasedModel]):
    """A fit that is settled but not paid for yet: a function of public facts alone."""

    @property
    def method(self) -> Described:
        """The method that will run."""

    @property
    def plan(self) -> Plan:
        """How the method was chosen."""

    @property
    def event(self) -> Event:
        """What it costs: to be charged before `run`."""

    @property
    def conditions(self) -> tuple[str, ...]:
        """On what the guarantee depends besides."""

    def run(self, tensor: ObservedTensor) -> Released[ReleasedModel]:
        """Admit the data by the gate and compute the release: the only step that reads what is private."""


def prove(promise: Promise, job: Job[ReleasedModel], released: Released[ReleasedModel], *, secure: bool) -> Guarantee:
    """Return the guarantee of what a job has released."""
    assert all(isinstance(part.event, Pure | Gaussian) for part in released.parts)
    if not released.parts:
        raise RuntimeError(f"{job.method.name} lists no part of what it spent. Each purchase must be in its outcome.")
    return Guarantee.prove(
        unit=promise.unit,
        event=Composed(part.event for part in released.parts),
        epsilon=promise.budget.epsilon,
        delta=promise.budget.delta,
        composition=released.parts,
        released=released.holds,
        proof=", ".join(job.method.proofs),
        secure_noise=secure,
        bounds=promise.bounds,
        mechanism=job.method.title,
        conditions=job.conditions,
        among=promise.declared.among,
        about=promise.declared.about,
        public=(*promise.declared.public, *released.public),
        against="everyone but the owner of the data, whatever else they know",
    )
