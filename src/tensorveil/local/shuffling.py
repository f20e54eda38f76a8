"""Amplification by shuffling: reports without names, in random order, hide one another."""

from __future__ import annotations

import math

from tensorveil.errors import InputError
from tensorveil.privacy import Approximate, Guarantee, Part, Pure, Unit
from tensorveil.privacy.delta import check_delta
from tensorveil.privacy.exact import positive, probability

PROOF = "docs/guarantees.md#shuffling"


def shuffled_epsilon(epsilon: float, users: int, delta: float) -> float:
    """Return the epsilon, at a delta, of shuffled reports that are each epsilon-locally private; refuse small crowds.

    Feldman, McMillan and Talwar, Hiding among the clones (FOCS 2021), theorem 3.1: if
    e^eps0 <= n / (16 ln(2 / delta)), it is at most
    ln(1 + (e^eps0 - 1) / (e^eps0 + 1) (8 sqrt(e^eps0 ln(4 / delta) / n) + 8 e^eps0 / n)).

    >>> from tensorveil.local import shuffled_epsilon
    >>> round(shuffled_epsilon(1.0, 100_000, 1e-6), 3)
    0.073
    """
    local, delta = positive("epsilon", epsilon), probability("delta", delta)
    if delta == 0:
        raise InputError("delta must be above 0: shuffling amplifies up to a delta only. Try delta=1e-6.")
    if isinstance(users, bool) or not isinstance(users, int) or users < 1:
        raise InputError(f"users must be a whole number of reports; got {users!r}. Try users=100000.")
    needed = math.ceil(16 * math.log(2 / delta) * math.exp(min(local, 600.0)))
    if users < needed:
        raise InputError(
            f"users must be at least {needed} for epsilon={local:g} and delta={delta:g}: so few reports do not hide "
            "each other. The local guarantee still holds."
        )
    odds = math.exp(local)
    spread = 8 * math.sqrt(odds * math.log(4 / delta) / users) + 8 * odds / users
    found = math.log1p(math.tanh(local / 2) * spread) * (1 + 1e-12)
    return min(found, local)


def shuffle(report: Guarantee, users: int, delta: float) -> Guarantee:
    """Return the guarantee against anyone who sees only the shuffled reports of users of one pure mechanism.

    Parameters
    ----------
    report
        What each report promises: `mechanism.guarantee(source=...)`, the same for all users, unit tensor, delta 0. If
        its noise was seeded, shuffling does not make it private.
    users
        Number of reports, one per user, each about a tensor of their own.
    delta
        Above 0.

    Guarantee: (epsilon, delta) for the replacement of one user's tensor, against anyone who sees reports only after a
    trusted shuffler has removed names, times and order (docs/guarantees.md#shuffling).
    """
    # Other users' reports hide one's own only if any two tensors, not just neighbours, are alike up to epsilon: with
    # fewer entries that can differ this says nothing about the others.
    if report.status != "proven" or not isinstance(report.event, Pure) or report.unit != Unit.tensor():
        raise InputError(
            "report must promise a pure epsilon for unit 'tensor', without differ; try PrivUnit or Hybrid."
        )
    check_delta(delta, report.unit, among=users)
    epsilon = shuffled_epsilon(report.epsilon, users, delta)
    event = Approximate(epsilon, delta)
    part = Part(name="shuffled reports", statistic=f"{users} reports by {report.mechanism}", event=event)
    return Guarantee.prove(
        unit=report.unit,
        event=event,
        delta=delta,
        epsilon=epsilon,
        composition=(part,),
        released=("reports in random order",),
        proof=PROOF,
        secure_noise=report.secure_noise,
        bounds=report.bounds,
        mechanism=f"{report.mechanism}, {users} reports shuffled",
        notes=(
            f"Each report alone, as the shuffler sees it, has epsilon {report.epsilon:g}.",
            "Anyone who controls other users' reports can remove them; then only the number of honest users counts.",
        ),
        conditions=(
            *report.conditions,
            "each owner sends one report",
            "a trusted shuffler removes names, times and order of the reports",
        ),
    )
