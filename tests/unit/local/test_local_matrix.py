"""Slow: measured errors of every mechanism within 2 % of the closed form, and the choice the best, in every cell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tensorveil.local import choose
from tests.chance import register
from tests.unit.local.local_cases import ALL, make

DIMENSIONS, EPSILONS = (1, 64, 784, 3072), (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
TOLERANCE = 0.02
ENOUGH = TOLERANCE / 6.2  # a relative standard error at which 2 % are beyond the share of the false-alarm budget


def measured(mechanism: Any) -> Any:
    """Draw reports of the worst tensor until the mean squared error is known well enough."""
    x = mechanism.worst_tensor()
    batch = np.broadcast_to(x, (max(64, (1 << 19) // mechanism.size), *mechanism.shape))
    count, total, squares = 0, 0.0, 0.0
    while True:
        errors = ((mechanism.perturb(batch) - x) ** 2).reshape(len(batch), -1).sum(axis=1)
        count, total, squares = count + len(errors), total + errors.sum(), squares + (errors**2).sum()
        mean = total / count
        if total and count >= 256 and math.sqrt(max(squares / count - mean**2, 0) / count) < ENOUGH * mean:
            return mean


@pytest.mark.slow
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", list(ALL))
def test_measured_errors_are_within_two_percent(name: str, d: Any, epsilon: float) -> None:
    mechanism = make(name, shape=(d,), epsilon=epsilon)
    register(f"matrix {name} {d} {epsilon}")
    found, predicted = measured(mechanism), mechanism.mse(mechanism.worst_tensor())
    assert found == pytest.approx(predicted, rel=TOLERANCE)
    assert found != pytest.approx(predicted * 1.44, rel=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_choice_is_the_best_that_is_measured(d: Any, epsilon: float) -> None:
    choice = choose((d,), epsilon, "tensor", bounds=(-1, 1), delta=1e-5)
    register(f"choice {d} {epsilon}")
    first = measured(choice.mechanism)
    for other in choice.candidates[1:4]:
        assert first <= measured(other.mechanism) * (1 + TOLERANCE)
