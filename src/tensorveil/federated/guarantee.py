"""What a federated run promises, to whom, and under which conditions: one guarantee per trust model."""

from __future__ import annotations

import math

from tensorveil.completion.slices import JOINT
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.trust import charged_mu
from tensorveil.privacy import Gaussian, Guarantee, NonPrivate, Part, Unit

__all__ = ["guarantee_of"]

PROOF = "docs/guarantees.md#slice, docs/guarantees.md#federated"
RELEASED = ("the shared model", "every round's noisy sums, to all parties")
MECHANISMS = {
    "aggregator": "federated sums with noise added by a trusted server",
    "secure": "federated secure sums with noise added in parts by the clients",
    "local": "federated sums with all noise added by each client",
}


def guarantee_of(agreement: Agreement, *, secure_noise: bool) -> Guarantee:
    """Return the guarantee of a run by this agreement; without noise it says that there is none.

    Guarantee: docs/guarantees.md#federated.
    """
    recipe, trust = agreement.recipe, agreement.trust
    unit = Unit.slice(recipe.protect)
    if not trust.noise:
        return Guarantee(
            unit=unit,
            epsilon=math.inf,
            delta=0.0,
            composition=tuple(Part(name=r.name, statistic=r.statistic, event=NonPrivate()) for r in recipe.rounds),
            released=RELEASED,
            status="refuted",
            proof="no noise was added",
            secure_noise=False,
            bounds=recipe.bounds,
            mechanism="a federated run without noise",
            event=NonPrivate(),
        )
    parts = tuple(Part(name=r.name, statistic=r.statistic, event=Gaussian(charged_mu(r, trust))) for r in recipe.rounds)
    return Guarantee.prove(
        unit=unit,
        event=agreement.event,
        epsilon=agreement.epsilon,
        delta=recipe.delta,
        composition=parts,
        released=RELEASED,
        proof=PROOF,
        secure_noise=secure_noise,
        bounds=recipe.bounds,
        mechanism=MECHANISMS[trust.kind],
        conditions=_conditions(agreement),
        against=trust.against,
        among=recipe.most_users,
    )


def _conditions(agreement: Agreement) -> tuple[str, ...]:
    """Say what the guarantee rests on; a person's own predictions are for that person."""
    trust, whose = agreement.trust, agreement.recipe.protect
    keys = ("no key is broken",) if trust.kind == "secure" else ()
    return (
        f"each {whose} is at one client only, which is trusted",
        *keys,
        JOINT,
    )
