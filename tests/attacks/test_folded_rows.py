"""A guarantee survives folding in: rows that are raw values served under "Proven", and a page that praises them.

The attacker reads what a private estimator saves, predicts and shows after somebody's raw entries were folded in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.report.release_page import release_page


def fit() -> Any:
    rng = np.random.default_rng(0)
    cells = np.argwhere(rng.random((20, 15)) < 0.7)
    modes = ("user", "film")
    data = tv.ObservedTensor(cells, rng.uniform(1, 5, len(cells)), (20, 15)).with_modes(modes)
    return tv.PrivateCP(2, epsilon=1.0, delta=0.0, unit="value", bounds=(1, 5), sweeps=3).fit(data)


def newcomer(value: float) -> Any:
    return tv.ObservedTensor([[0, 3]], [value], (1, 15)).with_modes(("user", "film"))


@pytest.mark.parametrize("secret", [1.0, 5.0])
def test_what_the_estimator_holds_does_not_follow_folded_values(secret: float, tmp_path: Path) -> None:
    private = fit()
    before = private.model_
    private.save(tmp_path / "before.npz")
    larger = private.fold_in(newcomer(secret), "user", regularization=1e-6)
    private.save(tmp_path / "after.npz")
    assert private.model_ is before
    assert (tmp_path / "after.npz").read_bytes() == (tmp_path / "before.npz").read_bytes()
    assert private.guarantee_.private
    assert larger.shape == (21, 15)
    assert not hasattr(larger, "guarantee_")
    with pytest.raises(tv.InputError):
        private.predict([[20, 3]])


def test_no_page_joins_a_model_with_another_ones_guarantee() -> None:
    private = fit()
    larger = private.fold_in(newcomer(5.0), "user", regularization=1.0)
    with pytest.raises((TypeError, tv.InputError)):
        release_page(larger, private.guarantee_)  # type: ignore[call-arg]
    private.model_ = larger
    with pytest.raises(tv.InputError, match="no longer the one"):
        release_page(private)
