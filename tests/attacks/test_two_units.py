"""A refusal that advises a ledger per unit: a release in a weaker unit then ends what the stronger ledger promises.

The attacker sees all releases from one data set. Positions that unit value publishes are what units entry and slice
protect, so no ledger of theirs may stay unspent by it, and no message may suggest a second ledger.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.privacy import Gaussian, Guarantee, Part, Pure, Unit, epsilon_for


def promise(unit: str, event: Any, delta: float = 0.0) -> Guarantee:
    return Guarantee.prove(
        unit=Unit.parse(unit), event=event, delta=delta, composition=[Part(name="a", statistic="b", event=event)],
        released=["model"], proof="docs/guarantees.md#sums", secure_noise=True, bounds=(1, 5), mechanism="a mechanism",
    )  # fmt: skip


def make(path: Path, unit: str, delta: float = 0.0) -> tv.Ledger:
    return tv.Ledger.create(path, budget=tv.Budget(epsilon=1.0, delta=delta), unit=unit, name="ratings")


@pytest.mark.parametrize("strong", ["entry", "slice:user"])
def test_no_message_sends_the_user_to_a_second_ledger(strong: str, tmp_path: Path) -> None:
    ledger = make(tmp_path / "a.ledger", strong)
    with pytest.raises(tv.InputError) as refusal:
        ledger.charge(promise("value", Pure(0.1)), "model", "a")
    words = str(refusal.value)
    assert "one ledger per unit" not in words
    assert f"budget is for unit '{strong}'" in words
    assert "publishes which entries there are" in words
    assert "second ledger" in words


def test_a_fit_in_a_weaker_unit_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    ledger = make(tmp_path / "a.ledger", "entry")
    data = tv.synthetic_cp((9, 8), 1, random_state=0).train
    with pytest.raises(tv.InputError, match="not covered by it"):
        tv.PrivateCP(1, epsilon=0.5, delta=0.0, unit="value", bounds=(0, 1), ledger=ledger).fit(data)
    assert ledger.entries() == ()


@pytest.mark.parametrize(("strong", "weak"), [("slice:user", "entry"), ("slice:user", "value"), ("entry", "value")])
def test_a_stronger_unit_costs_two_steps_not_one(strong: str, weak: str, tmp_path: Path) -> None:
    """Neighbours in the weaker unit are two steps apart in the stronger one; the sum below is at its worst there.

    One user contributes a number within [-1, 1] to a noisy sum, calibrated to adding or removing the user. Changing
    one entry may turn the user's -1 into 1: for Laplace noise of scale 1 / epsilon the loss is twice epsilon.
    """
    epsilon, one_user = 0.25, (-1.0, 1.0)
    outcomes = np.linspace(-30, 30, 601)
    densities = [-np.abs(outcomes - own) * epsilon for own in one_user]
    worst = float(np.max(np.abs(densities[0] - densities[1])))
    assert worst == pytest.approx(2 * epsilon)
    ledger = make(tmp_path / "a.ledger", weak)
    ledger.charge(promise(strong, Pure(epsilon)), "model", "a")
    assert ledger.spent().epsilon >= worst * (1 - 1e-12)
    noisy = make(tmp_path / "b.ledger", weak, delta=1e-6)
    noisy.charge(promise(strong, Gaussian(0.05), delta=1e-6), "model", "a")
    assert noisy.spent().epsilon >= epsilon_for(Gaussian(0.1), 1e-6)
