"""Smooth modes of private fits: what they gain, what the guarantee says, and what is refused before a charge."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.errors import InputError
from tensorveil.privacy import Budget

NAMES, SHAPE = ("road", "day", "slot"), (12, 5, 60)
PROMISE: Any = {"epsilon": 6.0, "delta": 0.0, "unit": "value", "bounds": (-6, 6)}
SMOOTH: Any = {"slot": "walk", ("day", "slot"): "walk"}


def traffic() -> tuple[tv.ObservedTensor, Any, Any]:
    """A daily course of every road, and what lasts beyond that."""
    rng = np.random.default_rng(0)
    roads, days = rng.uniform(0.5, 1.5, (12, 2)), rng.uniform(0.8, 1.2, (5, 2))
    waves = np.stack([np.sin(np.arange(60) * np.pi / 30), np.cos(np.arange(60) * np.pi / 20)], axis=1)
    lasting = np.zeros((12, 300))
    for t in range(1, 300):
        lasting[:, t] = 0.95 * lasting[:, t - 1] + 0.3 * rng.standard_normal(12)
    truth = np.einsum("ir,jr,kr->ijk", roads, days, waves) + lasting.reshape(SHAPE)
    seen = rng.random(SHAPE) < 0.8
    return tv.ObservedTensor(np.argwhere(seen), truth[seen], shape=SHAPE, modes=NAMES), truth, seen


def fit(tensor: Any, smooth: Any, **more: Any) -> Any:
    given = PROMISE | {"threads": 1, "random_state": 0, "noise_seed": 5} | more
    return tv.PrivateCP(2, smooth=smooth, **given).fit(tensor)


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["windows", "gaussian"])
def test_smooth_modes_take_noise_away(delta: float) -> None:
    tensor, truth, seen = traffic()
    plain, smooth = (fit(tensor, given, method="input", delta=delta) for given in (None, SMOOTH))
    error, less = (float(np.sqrt(np.mean((each.model_.dense() - truth)[~seen] ** 2))) for each in (plain, smooth))
    assert less < 0.6 * error
    assert smooth.model_.remainder is not None
    assert smooth.model_.remainder.shape == SHAPE
    assert "remainders along time, of every cell" in smooth.guarantee_.released
    assert plain.model_.remainder is None
    assert 0.9 < smooth.estimated_rmse_ / less < 1.4
    assert smooth.guarantee_.composition == plain.guarantee_.composition  # nothing more is measured


def test_the_guarantee_names_what_was_taken_as_public() -> None:
    tensor, _, _ = traffic()
    guarantee = fit(tensor, {"day": "cycle", **SMOOTH}, noise_seed=None).guarantee_
    assert guarantee.public[1:] == (
        "that neighbours in mode 'day' may be alike",
        "that neighbours in mode 'slot' may be alike",
        "that neighbours along the time of 'day' and 'slot' may be alike",
    )
    assert "that neighbours in mode 'slot' may be alike" in guarantee.sentence()


def test_tucker_and_matrices_take_smooth_modes() -> None:
    tensor, truth, _ = traffic()
    given = PROMISE | {"threads": 1, "noise_seed": 5, "smooth": SMOOTH, "method": "input", "sweeps": 20}
    tucker = tv.PrivateTucker(2, **given).fit(tensor)
    assert tucker.model_.remainder is not None
    rows = truth.reshape(60, 60)
    matrix = tv.ObservedTensor(np.argwhere(rows < 9), rows.ravel(), shape=rows.shape, modes=("line", "slot"))
    plain, fitted = (
        tv.PrivateLowRankMatrix("auto", **given | {"smooth": s}).fit(matrix) for s in (None, {"slot": "walk"})
    )
    error, less = (np.mean((each.model_.dense() - rows) ** 2) for each in (plain, fitted))
    assert less < 0.9 * error


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"smooth": {"hour": "walk"}}, "mode must be one of"),
        ({"smooth": {"slot": "spiral"}}, 'must be "walk" or "cycle"'),
        ({"smooth": "slot"}, "smooth must map modes"),
        ({"smooth": {"slot": "walk", 2: "cycle"}}, "names a mode twice"),
        ({"smooth": {("day", "slot"): "cycle"}}, "pairs of modes"),
        ({"unit": "entry", "shape": SHAPE}, 'smooth is for unit="value"'),
        ({"method": "output"}, 'smooth has no meaning for method="output"'),
        ({"method": "mean"}, 'smooth has no meaning for method="mean"'),
    ],
)
def test_what_is_refused_is_not_charged(tmp_path: Path, more: Any, message: str) -> None:
    tensor, _, _ = traffic()
    path = tmp_path / "ledger.sqlite"
    tv.Ledger.create(path, budget=Budget(epsilon=10.0, delta=0.0), unit="value", name="roads")
    given = {"smooth": {"slot": "walk"}, "ledger": path} | more
    with pytest.raises(InputError, match=message):
        fit(tensor, **given)
    assert tv.Ledger.open(path).entries() == ()


def test_solvers_without_priors_are_refused() -> None:
    rows = tv.ObservedTensor(np.argwhere(np.ones((6, 7))), np.arange(42.0) % 5, modes=("line", "slot"))
    with pytest.raises(InputError, match='smooth has no meaning for solver="sor"'):
        tv.PrivateLowRankMatrix(2, solver="sor", smooth={"slot": "walk"}, **PROMISE).fit(rows)
