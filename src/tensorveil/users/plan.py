"""Which rounds a fit has and what each may spend: from public facts alone."""

from __future__ import annotations

import math
from dataclasses import replace

from tensorveil.users.biases import TRAITS
from tensorveil.users.contract import Step
from tensorveil.users.pairs import LARGEST_MODE

# Below this many users times mu per row of the largest mode, noise drowns latent features: nothing is spent on them.
_CLEAR = 1.0
_PLAIN_SHARE, _MOMENT_SHARE = 0.5, 0.05  # of the budget, where there are latent features
_MOST_FEATURES = 64  # products of the bases' columns: a user solves for as many tastes


def latent_pays(users: int, sizes: tuple[int, ...], mu: float) -> bool:
    """Tell whether latent features can be found at all."""
    return users * mu >= _CLEAR * max(sizes)


def planned_steps(
    sizes: tuple[int, ...], names: tuple[str, ...], bases: tuple[int, ...], sweeps: int
) -> tuple[Step, ...]:
    """Return the rounds of a fit in their order: counts, biases, tastes, and with sweeps latent features."""
    tastes = 1 + TRAITS * len(sizes)
    plain = (
        Step(kind="counts", name="counts", share=0.15),
        Step(kind="biases", name="biases 1", share=0.22),
        Step(kind="biases", name="biases 2", share=0.55),
        Step(kind="tastes", name="tastes", share=0.08, tastes=tastes),
    )
    if not sweeps:
        return plain
    return (
        *(replace(step, share=_PLAIN_SHARE * step.share) for step in plain),
        *_latent_steps(sizes, names, sweeps),
        Step(kind="tastes", name="tastes of latent features", share=_MOMENT_SHARE, tastes=tastes + math.prod(bases)),
    )


def _latent_steps(sizes: tuple[int, ...], names: tuple[str, ...], sweeps: int) -> tuple[Step, ...]:
    largest = max(range(len(sizes)), key=lambda m: sizes[m])
    small = [m for m in range(len(sizes)) if m != largest]
    pairs = [m for m in small if sizes[m] <= LARGEST_MODE]
    turns = [("pairs", m, 0) for m in pairs]
    for sweep in range(1, sweeps + 1):
        turns += [("sweep", largest, sweep), *(("sweep", m, sweep) for m in small if sweep < sweeps)]
    weights = [0.5 if kind == "sweep" and m != largest else 1.0 for kind, m, _ in turns]
    return tuple(
        Step(
            kind=kind,
            name=f"pairs, {names[m]}" if kind == "pairs" else f"sweep {sweep}, {names[m]}",
            share=(1 - _PLAIN_SHARE - _MOMENT_SHARE) * weight / sum(weights),
            mode=m,
        )
        for (kind, m, sweep), weight in zip(turns, weights, strict=True)
    )


def planned_contributions(mu: float) -> float:
    """Return how many entries of a user count in full: the more budget, the more; measured on ratings of films."""
    return min(max(5.0 * (mu / 0.27) ** 0.8, 3.0), 18.0) ** 2


def basis_ranks(ranks: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many columns each released mode's basis gets: as the rank, as far as rows and users' tastes allow."""
    most = int(_MOST_FEATURES ** (1 / len(sizes)) + 1e-9)
    return tuple(min(rank, size, most) for rank, size in zip(ranks, sizes, strict=True))
