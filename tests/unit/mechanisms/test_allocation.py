"""How a budget is split: what is expected to be explained, and the best shares."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tensorveil.mechanisms.allocation import Belief, Crowd, Layout, Modes, split_best
from tensorveil.mechanisms.cells import Cells

ONES: list[Modes] = [(0,), (1,), (2,)]
TWOS: list[Modes] = [(0, 1), (0, 2), (1, 2)]
EFFECTS: dict[Modes, float] = {(0,): 0.2, (1,): 0.1, (2,): 0.1, (0, 1): 0.1, (0, 2): 0.1, (1, 2): 0.05, (0, 1, 2): 0.15}
BELIEF = Belief(effects=EFFECTS, rest=0.2)


def lay_out(uneven: float = 0.0) -> Layout:
    """Entries at random, more of them at small indices if uneven."""
    rng = np.random.default_rng(0)
    shape = (40, 30, 20)
    columns = np.array([np.minimum(size * rng.random(9000) ** (1 + uneven), size - 1) for size in shape]).astype(int)
    crowds = {modes: Crowd.of(Cells.of(columns, shape, modes).counts) for modes in (*ONES, *TWOS)}
    return Layout(shape=shape, n_entries=9000, crowds=crowds, parameters=270.0)


LAYOUT = lay_out()


@pytest.mark.parametrize("counts", [[1.0], [3.0, 0.0, 1.0], [5.0] * 20, list(range(100)), [1e9, 1.0]])
def test_crowds_hold_all_entries(counts: Any) -> None:
    counts = np.asarray(counts, dtype=float)
    crowd = Crowd.of(counts)
    assert crowd.weights.sum() == pytest.approx(1.0)
    assert len(crowd.weights) <= 8
    assert np.all(crowd.weights > 0)
    assert crowd.typical == pytest.approx(np.sum(counts**2) / np.sum(counts))  # of the cell of an average entry
    assert np.all(np.diff(crowd.counts) > -1e-9)


def test_nothing_measured_explains_nothing() -> None:
    assert LAYOUT.explain({}, BELIEF) == 0.0
    assert LAYOUT.explain(dict.fromkeys(EFFECTS, 1.0), Belief(effects={}, rest=1.0)) == 0.0
    assert BELIEF.variance == pytest.approx(1.0)


@pytest.mark.parametrize("uneven", [0.0, 2.0])
@pytest.mark.parametrize("modes", [*EFFECTS, None])
def test_more_budget_never_explains_less(modes: Any, uneven: float) -> None:
    layout, found = lay_out(uneven), []
    for precision in 10.0 ** np.arange(-12, 13):
        base = dict.fromkeys(EFFECTS, 1e-3) if modes is not None else {}
        more = {modes: precision} if modes is not None else dict.fromkeys(EFFECTS, precision)
        found.append(layout.explain(base | more, BELIEF))
    assert all(after >= before * (1 - 1e-12) for before, after in pairwise(found))
    assert found[-1] > found[0]
    assert found[-1] <= sum(EFFECTS.values())


def test_clipping_more_explains_less_and_what_is_certain_more() -> None:
    precisions = dict.fromkeys(EFFECTS, 1.0)
    found = [LAYOUT.explain(precisions, BELIEF, kept) for kept in (0.2, 0.5, 0.9, 1.0)]
    assert found == sorted(found)
    for precision in (1e-6, 1e-3, 1.0):
        precisions = dict.fromkeys(EFFECTS, precision)
        assert LAYOUT.explain(precisions, BELIEF, certain=True) >= LAYOUT.explain(precisions, BELIEF)


def test_two_way_tables_tell_about_their_modes() -> None:
    """Their cells can be added up."""
    only = Belief(effects={(0,): 0.2}, rest=0.2)
    assert LAYOUT.explain({(0, 1): 1.0}, only) > 0
    assert LAYOUT.explain({(1, 2): 1.0}, only) == 0
    assert LAYOUT.explain({(0,): 1.0}, only) > LAYOUT.explain({(0, 1): 1.0}, only)


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
