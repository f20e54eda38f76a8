"""How a budget is split: what is expected to be explained, and the best shares."""

import itertools
from typing import Any

import numpy as np
import pytest

from tensorveil.mechanisms.allocation import Layout, split_best

LAYOUT = Layout(shape=(40, 30, 20), n_entries=9000, tables=((0,), (1,), (2,), (0, 1), (0, 2), (1, 2)), parameters=270.0)
EFFECTS = {(0,): 0.2, (1,): 0.1, (2,): 0.1, (0, 1): 0.1, (0, 2): 0.1, (1, 2): 0.05, (0, 1, 2): 0.15}


def test_nothing_measured_explains_nothing() -> None:
    assert LAYOUT.explain({}, EFFECTS, 0.2) == 0.0
    assert LAYOUT.explain(dict.fromkeys(EFFECTS, 1.0), {}, 0.2) == 0.0


@pytest.mark.parametrize("modes", [*EFFECTS, None])
def test_more_budget_never_explains_less(modes: Any) -> None:
    found = []
    for precision in 10.0 ** np.arange(-12, 13):
        base = dict.fromkeys(EFFECTS, 1e-3) if modes is not None else {}
        more = {modes: precision} if modes is not None else dict.fromkeys(EFFECTS, precision)
        found.append(LAYOUT.explain(base | more, EFFECTS, 0.2))
    assert all(after >= before * (1 - 1e-12) for before, after in itertools.pairwise(found))
    assert found[-1] > found[0]
    assert found[-1] <= sum(EFFECTS.values())


def test_clipping_more_explains_less() -> None:
    found = [LAYOUT.explain(dict.fromkeys(EFFECTS, 1.0), EFFECTS, 0.2, kept) for kept in (0.2, 0.5, 0.9, 1.0)]
    assert found == sorted(found)


def test_two_way_tables_tell_about_their_modes() -> None:
    """Their cells can be added up."""
    only = {(0,): 0.2}
    assert LAYOUT.explain({(0, 1): 1.0}, only, 0.2) > 0
    assert LAYOUT.explain({(1, 2): 1.0}, only, 0.2) == 0
    assert LAYOUT.explain({(0,): 1.0}, only, 0.2) > LAYOUT.explain({(0, 1): 1.0}, only, 0.2)


@pytest.mark.parametrize("least", [0.0, 0.3])
def test_shares_add_up_and_are_the_best(least: float) -> None:
    weights = np.array([5.0, 1.0, 0.2])

    def gain(shares: Any) -> float:
        return float(np.sum(weights * shares / (shares + 0.5)))

    value, shares = split_best(gain, [np.ones(3), np.array([1.0, 1e-3, 1e-3])], least=least)
    assert shares.sum() == pytest.approx(1.0)
    assert shares.min() >= least / 3 / (1 + least) - 1e-9
    assert value == gain(shares)
    rng = np.random.default_rng(0)
    others = [gain(each) for each in rng.dirichlet(np.ones(3), 200)]
    assert least or value > max(others) - 0.05 * abs(max(others))


def test_a_flat_gain_keeps_the_first_start() -> None:
    value, shares = split_best(lambda shares: 0.0, [np.array([1.0, 3.0]), np.ones(2)])
    assert value == 0.0
    np.testing.assert_allclose(shares, [0.25, 0.75])
