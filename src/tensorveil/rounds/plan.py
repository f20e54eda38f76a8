"""Which rounds a fit has and what each may spend, from public facts alone; and the table of all stages."""

from __future__ import annotations

import math
from dataclasses import replace

from tensorveil.rounds.biases import N_TRAITS, Biases
from tensorveil.rounds.contract import Step
from tensorveil.rounds.counts import Counts
from tensorveil.rounds.pairs import LARGEST_MODE, Pairs
from tensorveil.rounds.stage import Stage
from tensorveil.rounds.sweeps import Sweep
from tensorveil.rounds.tastes import Tastes

# Every stage, by the kind of the steps that it runs.
STAGES: dict[str, Stage] = {
    "counts": Counts(), "biases": Biases(), "tastes": Tastes(), "pairs": Pairs(), "sweep": Sweep(),
}  # fmt: skip

# Below this many users times mu per row of the largest mode noise drowns latent features: nothing is spent on them.
_CLEAR = 1.0
# Shares of the budget in a fit with latent features: for what comes before them (less with more than one released mode,
# where more is to be found afterwards), and for their moments.
_PLAIN_SHARES, _MOMENT_SHARE = (0.4, 0.25), 0.06
_MOMENT_ROUNDS = 3  # each is a step of expectation maximisation, and costs little
_SWEEPS = (3, 7)
# Rows of small modes have more entries, and need less; what the last sweep finds is released.
_SMALL_WEIGHT, _PAIRS_WEIGHT, _LAST_WEIGHT = 0.3, 2.0, 3.0
_MORE = 3
_MOST_FEATURES = 64  # products of the bases' columns: every user solves for this many tastes


def plan_sweeps(users: int, sizes: tuple[int, ...], mu: float) -> int:
    """Return how many sweeps to spend budget on; 0 where latent features cannot be found."""
    return _SWEEPS[len(sizes) > 1] if mu >= find_clear_mu(users, sizes) else 0


def find_clear_mu(users: int, sizes: tuple[int, ...]) -> float:
    """Return the mu from which on latent features can be found."""
    return _CLEAR * max(sizes) / users


def _plain_share(sizes: tuple[int, ...]) -> float:
    return _PLAIN_SHARES[len(sizes) > 1]


def plan_steps(sizes: tuple[int, ...], names: tuple[str, ...], bases: tuple[int, ...], sweeps: int) -> tuple[Step, ...]:
    """Return the rounds of a fit in order: counts, biases, tastes, and with sweeps also latent features.

    Parameters
    ----------
    sizes, names
        Of the released modes.
    bases
        The number of columns of every released mode's latent basis.
    sweeps
        The number of sweeps for latent features; 0 for none.
    """
    tastes = 1 + N_TRAITS * len(sizes)
    plain = (
        Step(kind="counts", name="counts", share=0.15),
        Step(kind="biases", name="biases 1", share=0.22),
        Step(kind="biases", name="biases 2", share=0.55),
        Step(kind="tastes", name="tastes", share=0.08, tastes=tastes),
    )
    if not sweeps:
        return plain
    return (
        *(replace(step, share=_plain_share(sizes) * step.share) for step in plain),
        *_plan_latent_steps(sizes, names, sweeps),
        *(
            Step(
                kind="tastes",
                name=f"tastes of latent features {turn}",
                share=_MOMENT_SHARE / _MOMENT_ROUNDS,
                tastes=tastes + math.prod(bases),
            )
            for turn in range(1, _MOMENT_ROUNDS + 1)
        ),
    )


def _plan_latent_steps(sizes: tuple[int, ...], names: tuple[str, ...], sweeps: int) -> tuple[Step, ...]:
    largest = max(range(len(sizes)), key=lambda m: sizes[m])
    small = [m for m in range(len(sizes)) if m != largest]
    pairs = [m for m in small if sizes[m] <= LARGEST_MODE]
    turns = [("pairs", m, 0) for m in pairs]
    for sweep in range(1, sweeps + 1):
        # Small modes settle soon, and gain nothing before the largest is half known.
        turned = small if sweep % 2 == 0 and sweep < sweeps else []
        turns += [("sweep", largest, sweep), *(("sweep", m, sweep) for m in turned)]
    weights = [_weigh(kind, m == largest, sweep == sweeps) for kind, m, sweep in turns]
    return tuple(
        Step(
            kind=kind,
            name=f"pairs, {names[m]}" if kind == "pairs" else f"sweep {sweep}, {names[m]}",
            share=(1 - _plain_share(sizes) - _MOMENT_SHARE) * weight / sum(weights),
            mode=m,
        )
        for (kind, m, sweep), weight in zip(turns, weights, strict=True)
    )


def _weigh(kind: str, largest: bool, last: bool) -> float:
    """Return how much a round may spend relative to others: until the last sweep, a hint of directions is enough."""
    if kind == "sweep" and not largest:
        return _SMALL_WEIGHT
    if kind == "pairs":
        return _PAIRS_WEIGHT
    return _LAST_WEIGHT if last else 1.0


def plan_contributions(mu: float) -> float:
    """Return how many entries of a user count in full: more with a larger budget; tuned on film ratings."""
    full = min(max(5.0 * float((mu / 0.27) ** 0.8), 3.0), 18.0)
    return full**2


def plan_basis_ranks(ranks: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of columns of each released mode's basis: the rank, as far as rows and users' tastes allow.

    The largest mode, which starts from random directions, gets a few more columns: with only as many random directions
    as are looked for, one of those is likely to be nearly missed.
    """
    most = int(_MOST_FEATURES ** (1 / len(sizes)) + 1e-9)
    bases = [min(rank, size, most) for rank, size in zip(ranks, sizes, strict=True)]
    largest = max(range(len(sizes)), key=lambda m: sizes[m])
    room = _MOST_FEATURES // (math.prod(bases) // bases[largest])
    bases[largest] = min(bases[largest] + _MORE, sizes[largest], room)
    return tuple(bases)
