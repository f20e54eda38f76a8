"""Unit entry on stores: the same bytes as in memory, whatever the parts, their order, and who computes them."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorveil as tv
from tensorveil.engines import Loop
from tensorveil.engines.answers import CHANGED, FAILED, VERSION
from tensorveil.engines.entries import open_entries
from tensorveil.engines.task import EntryWork, name_parts, run_task
from tensorveil.errors import InputError
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.data import Form
from tensorveil.mechanisms.deferred import Deferred, each
from tensorveil.mechanisms.spend import Spend
from tensorveil.noise import SeededSource
from tensorveil.privacy import Budget
from tensorveil.privacy.gate import PrivateEntries, admit, declare
from tensorveil.privacy.unit import Unit
from tensorveil.tensor.stored import StoreError
from tests.unit.engines.store_cases import BOUNDS, SHAPE, by_entry, digest, in_memory, make_store, ratings
from tests.unit.engines.test_loop import Shuffled, damaged

FITS = [
    (tv.PrivateCP, {}),
    (tv.PrivateCP, {"epsilon": 60.0}),
    (tv.PrivateTucker, {"epsilon": 60.0, "delta": 1e-5}),
    (tv.PrivateCP, {"method": "gram", "epsilon": 20.0, "delta": 1e-5}),
    (tv.PrivateTucker, {"method": "gram", "epsilon": 20.0}),
]


@pytest.mark.parametrize(("kind", "changes"), FITS)
def test_a_fit_on_a_store_has_the_bytes_of_one_in_memory(tmp_path: Path, kind: Any, changes: Any) -> None:
    stored = make_store(tmp_path, ratings(4000))
    assert len(stored.parts("user")) > 5
    whole = digest(by_entry(kind, **changes).fit(in_memory(tmp_path)), tmp_path)
    assert digest(by_entry(kind, **changes).fit(stored), tmp_path) == whole
    assert digest(by_entry(kind, **changes).fit(stored, engine=Shuffled(1)), tmp_path) == whole


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 500), part_rows=st.integers(1, 200),
    order=st.sampled_from(["user", "film", "day"]), method=st.sampled_from(["crosstabs", "gram"]), pure=st.booleans(),
)  # fmt: skip
def test_any_cut_and_order_of_parts_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, part_rows: int, order: str, method: str, pure: bool
) -> None:
    """Also of entries beyond the declared shape and bounds, and of cells that have several."""
    folder, tensor, shape = tmp_path_factory.mktemp("law"), ratings(n, seed), (70, 14, 4)
    tensor.write(folder / "rows.parquet")
    rules: dict[str, Any] = {"unit": "entry", "bounds": BOUNDS, "indices": True, "shape": SHAPE}
    stored = tv.write_store(folder / "rows.parquet", folder / "s", order=order, part_rows=part_rows, **rules)
    declared = declare(tensor, unit=Unit.parse("entry"), bounds=BOUNDS, shape=shape)
    form = Form(ranks=(2, 2, 2), core=False, sweeps=3, restarts=1, threads=1, seed=0)
    found = []
    for data in (admit(tensor, declared), open_entries(stored, Shuffled(seed), shape, BOUNDS, 1000)):
        budget = {"epsilon": 40.0} if pure else {"mu": 9.0}
        outcome = METHODS[method].run(data, form, Spend(source=SeededSource(3), **budget))
        solution = outcome.solution
        assert outcome.errors is not None
        arrays = [*solution.factors, *(solution.biases or ()), outcome.errors.masses]
        found.append([solution.offset, outcome.notes, *(array.tobytes() for array in arrays)])
    assert found[0] == found[1]


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 500), part_rows=st.integers(1, 200),
    order=st.sampled_from(["user", "day"]), high=st.sampled_from([1.0, 6.0]), budget=st.sampled_from([0.5, 40.0]),
)  # fmt: skip
def test_counts_too(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, part_rows: int, order: str, high: float, budget: float
) -> None:
    """Cells without an entry are zero: tables, and with much budget every cell."""
    folder, tensor = tmp_path_factory.mktemp("law"), ratings(n, seed)
    tensor.write(folder / "rows.parquet")
    rules: dict[str, Any] = {"unit": "entry", "bounds": (0, 6), "indices": True, "shape": SHAPE}
    stored = tv.write_store(folder / "rows.parquet", folder / "s", order=order, part_rows=part_rows, **rules)
    unit, bounds = Unit.parse("entry"), (0.0, high)
    declared = declare(tensor.with_unlisted("zero"), unit=unit, bounds=bounds, shape=SHAPE)
    form = Form(ranks=(2, 2, 2), core=False, sweeps=3, restarts=1, threads=1, seed=0)
    parts = open_entries(stored, Shuffled(seed), SHAPE, bounds, 1000, zeros=True)
    found = []
    for data in (admit(tensor.with_unlisted("zero"), declared), parts):
        outcome = METHODS["crosstabs"].run(data, form, Spend(source=SeededSource(3), epsilon=budget))
        found.append([outcome.notes, *(factor.tobytes() for factor in outcome.solution.factors)])
    assert found[0] == found[1]


def test_noise_is_drawn_once_for_every_statistic(tmp_path: Path) -> None:
    """However often parts are computed: the source gives as many words for a store as for a tensor."""

    class Counting(SeededSource):
        words = 0

        def uniform64(self, n: int) -> Any:
            self.words += n
            return super().uniform64(n)

    stored, drawn = make_store(tmp_path, ratings()), []
    declared = declare(in_memory(tmp_path), unit=Unit.parse("entry"), bounds=BOUNDS, shape=SHAPE)
    form = Form(ranks=(2, 2, 2), core=False, sweeps=3, restarts=1, threads=1, seed=0)
    whole = admit(in_memory(tmp_path), declared)
    for data in (whole, open_entries(stored, Shuffled(5), SHAPE, BOUNDS, 1000)):
        source = Counting(3)
        METHODS["crosstabs"].run(data, form, Spend(source=source, epsilon=3.0))
        drawn.append(source.words)
    assert drawn[0] == drawn[1] > 100


def test_one_entry_more_moves_the_sums_of_a_store_by_no_more_than_is_charged(tmp_path: Path) -> None:
    """The integers to which noise is added, before and after, on the same script of noisy sums."""
    data = ratings(300)
    one, other = (
        make_store(tmp_path, part, 40, name) for name, part in (("all", data), ("less", data.take(np.arange(300) != 7)))
    )
    kept: list[list[Any]] = []
    for stored in (one, other):
        calls: list[Any] = []

        class Noting(Spend):
            def _add(self, ints: Any, grid: Any, sensitivity: Fraction) -> Any:
                noisy = super()._add(ints, grid, sensitivity)
                before = kept[0][len(calls)][2] if kept else noisy  # noqa: B023
                calls.append((ints.copy(), sensitivity, before))  # noqa: B023
                return before

            def split(self, *shares: float) -> Any:
                return tuple(Noting(source=each.source, epsilon=each.epsilon) for each in super().split(*shares))

        form = Form(ranks=(2, 2, 2), core=False, sweeps=3, restarts=1, threads=1, seed=0)
        data_of = open_entries(stored, Loop(), SHAPE, BOUNDS, 1000)
        METHODS["crosstabs"].run(data_of, form, Noting(source=SeededSource(3), epsilon=40.0))
        kept.append(calls)
    assert len(kept[0]) == len(kept[1]) >= 6
    for (ints, sensitivity, _), (less, same, _) in zip(*kept, strict=True):
        moved = (ints - less).astype(object)
        assert sensitivity == same
        assert np.count_nonzero(moved.reshape(len(moved), -1).any(axis=1)) <= 1
        assert (moved**2).sum() <= sensitivity**2


def test_what_stands_for_entries_tells_nothing(tmp_path: Path) -> None:
    data = open_entries(make_store(tmp_path, ratings()), Loop(), SHAPE, BOUNDS, 1000)
    assert isinstance(data, PrivateEntries)
    values = data.values.reveal()
    assert isinstance(values, Deferred)
    for use in (len, float, list, np.sum, lambda each: each + 1):
        with pytest.raises(TypeError):
            use(values)
    assert isinstance(each(np.negative, values), Deferred)
    assert str(each(np.negative, np.array([1.0]))[0]) == "-1.0"


def test_answers_are_codes(tmp_path: Path) -> None:
    stored = make_store(tmp_path, ratings())
    facts: dict[str, Any] = {"names": stored.column_names, "axis": 0, "shape": SHAPE, "bounds": BOUNDS}
    tasks = name_parts(stored, stored.parts("user")[:2])
    assert run_task(tasks, EntryWork(version=tv.__version__, sums=None, **facts))[0] == 0
    assert run_task(tasks, EntryWork(version="9.9", sums=None, **facts)) == bytes([VERSION])

    class Failing:
        size = 1

        def contribute(self, columns: Any, values: Any) -> Any:
            raise ValueError(f"user {columns[0, 0]} rated {values[0]}")

    assert run_task(tasks, EntryWork(version=tv.__version__, sums=Failing(), **facts)) == bytes([FAILED])
    damaged(stored, "changed")
    every = name_parts(stored, stored.parts("user"))
    assert run_task(every, EntryWork(version=tv.__version__, sums=None, **facts)) == bytes([CHANGED])


@pytest.mark.parametrize("kind", ["missing", "changed"])
def test_damage_is_found_before_the_charge(tmp_path: Path, kind: str) -> None:
    stored = make_store(tmp_path, ratings())
    ledger = tv.Ledger.create(tmp_path / "l", budget=Budget(epsilon=9, delta=1e-3), unit="entry", name="ratings")
    damaged(stored, kind)
    with pytest.raises(StoreError) as caught:
        by_entry(noise_seed=None, ledger=ledger).fit(stored)
    assert caught.value.problem == kind
    assert not ledger.entries()


def test_what_a_store_is_not_for_says_why(tmp_path: Path) -> None:
    stored = make_store(tmp_path, ratings())
    with pytest.raises(InputError, match="in unit value a cell has one value"):
        by_entry(unit="value", shape=None).fit(stored)
    with pytest.raises(InputError, match="write_store"):
        by_entry().fit(in_memory(tmp_path), engine="loop")
