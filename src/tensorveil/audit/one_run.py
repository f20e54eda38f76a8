"""One-run audits (Steinke, Nasr and Jagielski 2023): many random canaries, one run, as many guesses.

Every canary is a unit of the data that takes one of two values by a fair coin. If the mechanism is (epsilon, delta)
private for that unit, then whatever was guessed before, a guess from the output is right with odds of at most
e^epsilon, so the number of right guesses is hardly larger than binomial.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.audit.verdict import Verdict, Witness
from tensorveil.errors import InputError

Array = NDArray[Any]


def guess_pvalue(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Bound the probability of at least ``right`` right guesses under an (epsilon, delta) private mechanism.

    P[B >= v] + 2 m delta max over i of P[v - i <= B < v] / i, for B binomial with r trials of probability
    e^epsilon / (1 + e^epsilon) (theorem 5.2 of the paper).

    >>> guess_pvalue(100, 100, 100, 0.0, 0.0) == 0.5**100
    True
    """
    from scipy.stats import binom

    if not 0 <= right <= guesses <= canaries:
        raise InputError("guesses must be at most canaries, and right at most guesses.")
    chance = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, chance))
    if delta == 0 or right == 0:
        return min(1.0, tail)
    steps = np.arange(1, right + 1)
    below = np.cumsum(binom.pmf(right - steps, guesses, chance))
    return min(1.0, tail + 2.0 * canaries * delta * float(np.max(below / steps)))


def epsilon_from_guesses(canaries: int, guesses: int, right: int, delta: float, confidence: float) -> float:
    """Return the largest epsilon that ``right`` right guesses refute at this confidence; 0 if none."""
    error = 1.0 - confidence
    if guess_pvalue(canaries, guesses, right, 0.0, delta) > error:
        return 0.0
    low, high = 0.0, 1.0
    while high < 64 and guess_pvalue(canaries, guesses, right, high, delta) <= error:
        low, high = high, 2 * high
    for _ in range(50):
        middle = 0.5 * (low + high)
        refuted = guess_pvalue(canaries, guesses, right, middle, delta) <= error
        low, high = (middle, high) if refuted else (low, middle)
    return low


@dataclass(frozen=True, kw_only=True)
class Canaries:
    """How many coins are hidden in the data, and how many of them are guessed: the most extreme scores."""

    count: int
    guesses: int

    def __post_init__(self) -> None:
        if not 1 <= self.guesses <= self.count:
            raise InputError("guesses must be at least 1 and at most the number of canaries. Try guesses=count // 4.")


def audit_one_run(
    run: Callable[[Array, np.random.Generator], Array],
    canaries: Canaries,
    claim: Claim,
    *,
    confidence: float = 0.999,
    seed: int = 0,
) -> Verdict:
    """Try to refute a claim about a training run from a single run.

    ``run(coins, rng)`` hides the coins (an array of 0 and 1) in the data, trains once, and returns one score per coin
    that is higher the more the output looks like a 1. Half of the guesses are the highest scores, half the lowest.

    >>> def releases_everything(coins, rng):
    ...     return coins + rng.normal(scale=0.1, size=len(coins))
    >>> audit_one_run(releases_everything, Canaries(count=200, guesses=100), Claim(epsilon=1.0)).violated
    True
    """
    if claim.epsilon is None:
        raise InputError("a one-run audit needs a claim with epsilon. Convert mu: epsilon at a delta of your choice.")
    rng = np.random.default_rng(seed)
    coins = rng.integers(0, 2, canaries.count)
    scores = np.asarray(run(coins, rng), dtype=np.float64)
    if scores.shape != coins.shape or not np.isfinite(scores).all():
        raise InputError("run must return one finite score per canary.")
    order = np.argsort(scores, kind="stable")
    low = order[: canaries.guesses // 2]
    high = order[canaries.count - (canaries.guesses - len(low)) :]
    right = int(np.count_nonzero(coins[low] == 0) + np.count_nonzero(coins[high] == 1))
    shape = (canaries.count, canaries.guesses)
    bound = epsilon_from_guesses(*shape, right, claim.delta, confidence)
    witness = Witness(
        kind="one run",
        event="a canary is guessed right",
        pair=0,
        favoured=0,
        hits=(right, canaries.guesses - right),
        draws=canaries.guesses,
        level=bound,
        told=f"{right:,} of {canaries.guesses:,} guesses were right",
    )
    return Verdict(
        claim=claim,
        lower_bound=bound,
        confidence=confidence,
        draws=1,
        chosen_on=0,
        events=1,
        ceiling=epsilon_from_guesses(*shape, canaries.guesses, claim.delta, confidence),
        detectable=_find_detectable(shape, claim, confidence),
        witnesses=(witness,),
        sampled=f"one run, {canaries.count:,} canaries, {canaries.guesses:,} guessed",
    )


def _find_detectable(shape: tuple[int, int], claim: Claim, confidence: float) -> float:
    """Return the smallest epsilon at which randomised response of every canary would refute the claim, on average."""
    low, high = -1, shape[1]
    if guess_pvalue(*shape, high, claim.level, claim.delta) > 1.0 - confidence:
        return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        refuted = guess_pvalue(*shape, middle, claim.level, claim.delta) <= 1.0 - confidence
        low, high = (low, middle) if refuted else (middle, high)
    return math.log(high / (shape[1] - high)) if high < shape[1] else math.inf
