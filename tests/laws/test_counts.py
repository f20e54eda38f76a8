"""Laws of tables of counts: what one entry moves, and that nothing private enters but through noisy statistics."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorveil as tv
from tensorveil.mechanisms import counts
from tensorveil.mechanisms.spend import Spend
from tensorveil.noise import SeededSource
from tensorveil.privacy.gate import PrivateEntries
from tensorveil.privacy.private import Private
from tests.laws.test_sensitivity import Spy, moved, run


def counts_at(columns: Any, values: Any, shape: Any, high: float) -> PrivateEntries:
    return PrivateEntries(
        columns=Private(np.ascontiguousarray(columns)), values=Private(values), shape=shape, bounds=(0.0, high),
        zeros=True,
    )  # fmt: skip


def two_runs(data: Any, neighbour: Any, budget: float, *, pure: bool) -> tuple[Spy, Spy]:
    """Both runs, the second answered as the first was."""
    spend = Spend(source=SeededSource(0), epsilon=budget) if pure else Spend(source=SeededSource(0), mu=budget)
    first = run("crosstabs", data, spend, False)
    return first, run("crosstabs", neighbour, spend, False, script=first)


def ratios(first: Spy, second: Spy) -> list[float]:
    """How far each statistic moves, as a share of what its noise is scaled to."""
    assert len(first.calls) == len(second.calls)
    found = []
    for (a, sensitivity, norm), (b, other, _) in zip(first.calls, second.calls, strict=True):
        assert sensitivity == other, "sensitivity must not depend on what is private"
        found.append(moved(a, b, norm) / float(sensitivity))
    return found


@st.composite
def neighbours(draw: Any) -> Any:
    """Counts, with cells that occur twice and values far beyond the bounds, and the same without one entry."""
    shape = draw(st.sampled_from([(3, 4), (4, 3, 2), (2, 3, 2, 2)]))
    high = draw(st.sampled_from([1.0, 3.0, 1000.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 40))
    columns = np.stack([rng.integers(0, size, n) for size in shape]).astype(np.int32)
    values = rng.choice([0.0, 1.0, 0.4 * high, high, 1e300, -5.0, 5e-324], n)
    kept = np.arange(n) != draw(st.integers(0, 10**6)) % n
    return counts_at(columns, values, shape, high), counts_at(columns[:, kept], values[kept], shape, high)


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "gaussian"])
@settings(max_examples=12)
@given(pair=neighbours(), budget=st.sampled_from([1.0, 50.0, 2000.0]))
def test_one_entry_moves_no_more_than_declared_and_nothing_else(pure: bool, pair: Any, budget: float) -> None:
    data, neighbour = pair
    first, second = two_runs(data, neighbour, budget, pure=pure)
    assert max(ratios(first, second)) <= 1.0 + 1e-12
    assert first.outcome.notes == second.outcome.notes
    for one, other in zip(first.outcome.solution.factors, second.outcome.solution.factors, strict=True):
        np.testing.assert_array_equal(one, other)


def planted(high: float) -> tuple[PrivateEntries, PrivateEntries]:
    """Blocks of a 12 x 10 x 6 tensor, and the same without an entry at the upper bound."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 4000)
    columns = np.stack([6 * group, 5 * group, 3 * group]) + rng.integers(0, [[6], [5], [3]], (3, 4000))
    values = np.minimum(1.0 + rng.poisson(1.0, 4000), high)
    values[0] = high
    columns = columns.astype(np.int32)
    columns[:, 0] = 0, 9, 5  # a cell of its own
    return counts_at(columns, values, (12, 10, 6), high), counts_at(columns[:, 1:], values[1:], (12, 10, 6), high)


@pytest.mark.parametrize(
    ("high", "most", "bought", "told"),
    [(1.0, 10**6, 2, "every cell"), (1.0, 0, 7, "two-way"), (64.0, 10**6, 8, "two-way")],
    ids=["every cell", "flags", "counts"],
)
def test_every_statistic_is_bought_and_its_bound_nearly_reached(
    high: float, most: int, bought: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "_MOST_PERTURBED", most)
    first, second = two_runs(*planted(high), 2000.0, pure=True)
    assert min(ratios(first, second)) >= 0.9
    # The total and every cell; or three tables of one mode and three of two; of counts also their sizes.
    assert len(first.calls) >= bought
    assert any(told in note for note in first.outcome.notes)


def double(patch: pytest.MonkeyPatch) -> None:
    """Noise for half of what an entry moves."""
    add = Spend._add
    patch.setattr(Spend, "_add", lambda self, ints, grid, steps: add(self, ints, grid, steps / 2))


def test_noise_for_half_of_an_entry_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    double(monkeypatch)
    assert max(ratios(*two_runs(*planted(1.0), 2000.0, pure=True))) > 1.5


def test_the_order_of_rows_and_values_beyond_the_bounds_do_not_show(tmp_path: Path) -> None:
    (data, _), rng = planted(1.0), np.random.default_rng(1)
    cells, values = data.columns.reveal().T, data.values.reveal()
    order = rng.permutation(len(values))
    options: dict[str, Any] = {"epsilon": 3.0, "delta": 0.0, "unit": "entry", "bounds": (0, 1), "shape": data.shape}
    seen = set()
    for rows, given_values in ((cells, values), (cells[order], values[order]), (cells, values * 7)):
        tensor = tv.ObservedTensor(rows, given_values, shape=data.shape, duplicates="keep", unlisted="zero")
        tv.PrivateCP(3, **options, noise_seed=3, random_state=0).fit(tensor).save(tmp_path / "model.npz")
        seen.add((tmp_path / "model.npz").read_bytes())
    assert len(seen) == 1


def test_no_part_of_the_budget_is_left_or_spent_twice() -> None:
    for high in (1.0, 64.0):
        spend = Spend(source=SeededSource(0), epsilon=2.0)
        outcome = run("crosstabs", planted(high)[0], dataclasses.replace(spend), False).outcome
        spent = sum(part.event.epsilon for part in outcome.parts)
        assert 1.99 < spent <= 2.0


def test_tables_share_what_the_sum_of_values_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares that were chosen before the sum of values was measured are cut to what is left after it."""
    shares = {(0, 1): 0.5, (0, 2): 0.28, (1, 2): 0.01}
    given: list[Any] = [shares, {}]
    monkeypatch.setattr(counts._Run, "share_twos", lambda *_: given.pop(0))
    monkeypatch.setattr(counts._Run, "share_ones", lambda *_: dict.fromkeys(range(3), 0.02))
    monkeypatch.setattr(counts._Run, "look", lambda self: setattr(self, "limit", 1.0))
    data, spend = planted(64.0)[0], Spend(source=SeededSource(0), epsilon=2.0)
    outcome = run("crosstabs", data, spend, False).outcome
    assert len([part for part in outcome.parts if part.name.startswith("table of modes")]) == 6
    assert 1.99 < sum(part.event.epsilon for part in outcome.parts) <= 2.0
