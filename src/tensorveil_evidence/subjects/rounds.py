"""One round of bounded integer sums, drawn many times: what user-level, learning and federated runs release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds import Round, draw_noise
from tensorveil_evidence.subjects.subject import source

Array = NDArray[Any]


def noisy_sums(this: Round, total: Array, rng: np.random.Generator, n: int) -> Array:
    """Return n draws of a round's sum with the noise of the round.

    Every integer has noise of its own, so a round that is n times as wide holds the noise of n rounds.
    """
    noise = draw_noise(replace(this, size=n * this.size), source(rng))
    return np.asarray(total + noise.reshape(n, this.size))


def likelihood_ratio(this: Round, mine: Array, rest: Array) -> float:
    """Return the log-likelihood ratio of somebody's being there, who contributes ``mine``.

    ``rest`` is the noisy sum less what everybody else has contributed.
    """
    return float((mine @ rest - 0.5 * mine @ mine) * (this.mu / this.limit) ** 2)
