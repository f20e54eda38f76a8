"""Private selection: the noisy errors of models on held-out entries, as they are released, on neighbours.

The models are given, as they are when errors are measured: already released. One predicts the lower bound and one the
upper, so that a value at a bound has the smallest error under one and the largest under the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim
from tensorveil.mechanisms.comparison import compare_models
from tensorveil.mechanisms.spend import Spend
from tensorveil.models import CPModel
from tensorveil_evidence.subjects.methods import BOUNDS, entry_neighbours, value_neighbours
from tensorveil_evidence.subjects.subject import BlackBox, source

Array = NDArray[Any]


def selection_subjects() -> Iterator[BlackBox]:
    """Yield both units with both kinds of noise."""
    for claim in (Claim(epsilon=1.0), Claim(mu=1.0)):
        law = "laplace" if claim.mu is None else "gaussian"
        for unit, neighbours in (("value", value_neighbours), ("entry", entry_neighbours)):
            yield BlackBox(
                name=f"selection/errors, unit {unit}, {law}",
                unit=unit,
                claim=claim,
                proven=claim,
                about="noisy statistics",
                neighbours=neighbours,
                mechanism=draw_errors(claim),
                batched=False,
                samples=10_000,
            )


def draw_errors(claim: Claim) -> Callable[[Any, np.random.Generator], Array]:
    """Return the mechanism that gives the noisy mean squared errors of the models, once."""
    models = [make_constant(bound) for bound in BOUNDS]

    def mechanism(data: Any, rng: np.random.Generator) -> Array:
        spend = Spend(source=source(rng), epsilon=claim.epsilon, mu=claim.mu)
        return np.array(compare_models(data, models, spend).mean_squares)

    return mechanism


def make_constant(value: float) -> CPModel:
    """Return the model of a 2 x 2 matrix that predicts one number everywhere."""
    return CPModel(factors=(np.zeros((2, 1)), np.zeros((2, 1))), offset=value, bounds=BOUNDS)
