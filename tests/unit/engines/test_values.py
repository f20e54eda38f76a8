"""Unit value on stores: the same bytes as in memory, whatever the parts, their order, and who computes them."""

import copy
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorveil as tv
from tensorveil.engines import Loop
from tensorveil.engines.answers import CHANGED, FAILED, OK, VERSION
from tensorveil.engines.entries import open_values
from tensorveil.engines.task import AnswerWork, name_parts, read_answer, run_answers
from tensorveil.errors import InputError, MemoryLimitError
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.data import Form
from tensorveil.mechanisms.deferred import Deferred, defer_entries
from tensorveil.mechanisms.names import BY_UNIT
from tensorveil.mechanisms.spend import Spend
from tensorveil.memory import set_memory_limit
from tensorveil.noise import SecureSource, SeededSource
from tensorveil.noise.windows import InWindow
from tensorveil.privacy import Budget
from tensorveil.privacy.gate import admit, declare
from tensorveil.privacy.unit import Unit
from tensorveil.tensor.stored import StoreError
from tests.unit.engines.store_cases import (
    BOUNDS,
    MODES,
    SHAPE,
    by_value,
    digest,
    make_value_store,
    single_ratings,
    values_in_memory,
)
from tests.unit.engines.test_loop import Shuffled, damaged

ALL = [method for method in BY_UNIT["value"] if method != "auto"]
FITS: list[tuple[Any, dict[str, Any]]] = [
    *[(tv.PrivateCP, {"method": method}) for method in ALL],
    (tv.PrivateCP, {}),
    (tv.PrivateCP, {"epsilon": 4000.0}),
    (tv.PrivateCP, {"delta": 1e-6}),
    (tv.PrivateCP, {"epsilon": 4000.0, "smooth": {"day": "walk"}}),
    (tv.PrivateTucker, {"method": "output"}),
    (tv.PrivateTucker, {"method": "gradient", "delta": 1e-6}),
]


@pytest.mark.parametrize(("kind", "changes"), FITS)
def test_a_fit_on_a_store_has_the_bytes_of_one_in_memory(tmp_path: Path, kind: Any, changes: Any) -> None:
    stored = make_value_store(tmp_path, single_ratings(1200))
    assert len(stored.parts("user")) > 5
    whole = digest(by_value(kind, **changes).fit(values_in_memory(tmp_path)), tmp_path)
    assert digest(by_value(kind, **changes).fit(stored, engine=Shuffled(1)), tmp_path) == whole


def test_every_statistic_that_can_be_bought_is_bought_on_stores(tmp_path: Path) -> None:
    """Of a tensor whose modes multiply: a number for that, pairs, and values after tables."""
    rng = np.random.default_rng(0)
    at = np.unravel_index(rng.choice(np.prod(SHAPE), 3000, replace=False), SHAPE)
    found = np.prod([rng.gamma(3.0, 1 / 3.0, size)[column] for size, column in zip(SHAPE, at, strict=True)], axis=0)
    values = 1 + found + rng.normal(0, 0.05, 3000)
    stored = make_value_store(tmp_path, tv.ObservedTensor(np.stack(at, axis=1), values, SHAPE, modes=MODES))
    bought = set()
    for epsilon in (400.0, 20_000.0):
        whole = by_value(epsilon=epsilon).fit(values_in_memory(tmp_path))
        assert digest(by_value(epsilon=epsilon).fit(stored), tmp_path) == digest(whole, tmp_path)
        bought |= {part.name.split(" of ")[0] for part in whole.guarantee_.composition}
    assert {"mean", "shape", "sums", "pairs", "products", "values", "scale", "errors"} <= bought


def test_matrices_too(tmp_path: Path) -> None:
    tensor = single_ratings(900, shape=(80, 14))
    stored = make_value_store(tmp_path, tensor)
    for changes in ({}, {"solver": "altmin", "method": "input"}):
        fit = by_value(tv.PrivateLowRankMatrix, **changes)
        whole = digest(fit.fit(values_in_memory(tmp_path)), tmp_path)
        assert digest(by_value(tv.PrivateLowRankMatrix, **changes).fit(stored), tmp_path) == whole


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 600), part_rows=st.integers(1, 200), method=st.sampled_from(ALL),
    core=st.booleans(), budget=st.sampled_from([{"epsilon": 20.0}, {"mu": 9.0}, {"epsilon": 1e-3}, {"epsilon": 3e3}]),
)  # fmt: skip
def test_any_cut_and_order_of_parts_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, part_rows: int, method: str, core: bool, budget: Any
) -> None:
    """Also of values beyond the bounds."""
    folder, tensor = tmp_path_factory.mktemp("law"), single_ratings(n, seed)
    stored = make_value_store(folder, tensor, part_rows)
    declared = declare(values_in_memory(folder), unit=Unit.parse("value"), bounds=BOUNDS, shape=None)
    form = Form(ranks=(2, 2, 2), core=core, sweeps=3, restarts=1, threads=1, seed=0)
    found = []
    for data in (admit(values_in_memory(folder), declared), open_values(stored, Shuffled(seed), SHAPE, BOUNDS, 1000)):
        outcome = METHODS[method].run(data, form, Spend(source=SeededSource(3), **budget))
        solution = outcome.solution
        assert outcome.errors is not None
        arrays = [*solution.factors, *(solution.biases or ()), outcome.errors.masses]
        found.append([solution.offset, outcome.notes, *(array.tobytes() for array in arrays)])
    assert found[0] == found[1]


def test_one_value_more_or_less_moves_the_sums_of_a_store_by_no_more_than_is_charged(tmp_path: Path) -> None:
    """The integers to which noise is added, of neighbours, on the same script of noisy sums."""
    data = single_ratings(400)
    values = data.values.copy()
    values[7] = BOUNDS[0] if values[7] > 3 else BOUNDS[1]
    other = tv.ObservedTensor(data.coords, values, SHAPE, modes=data.modes)
    kept: list[list[Any]] = []
    for number, tensor in enumerate((data, other)):
        calls: list[Any] = []

        class Noting(Spend):
            def _add(self, ints: Any, grid: Any, sensitivity: Fraction) -> Any:
                noisy = super()._add(ints, grid, sensitivity)
                before = kept[0][len(calls)][2] if kept else noisy  # noqa: B023
                calls.append((ints.copy(), sensitivity, before))  # noqa: B023
                return before

            def counts(self, groups: Any, n_groups: int) -> Any:
                noisy = super().counts(groups, n_groups)
                before = kept[0][len(calls)][2] if kept else noisy  # noqa: B023
                calls.append((np.zeros((1, 1), np.int64), Fraction(0), before))  # noqa: B023
                return before

            def split(self, *shares: float) -> Any:
                return tuple(Noting(source=each.source, epsilon=each.epsilon) for each in super().split(*shares))

        form = Form(ranks=(2, 2, 2), core=False, sweeps=3, restarts=1, threads=1, seed=0)
        stored = make_value_store(tmp_path, tensor, 40, f"s{number}")
        data_of = open_values(stored, Loop(), SHAPE, BOUNDS, 1000)
        METHODS["tables"].run(data_of, form, Noting(source=SeededSource(3), epsilon=200.0))
        kept.append(calls)
    assert len(kept[0]) == len(kept[1]) >= 8
    moved = 0
    for (ints, sensitivity, _), (less, same, _) in zip(*kept, strict=True):
        apart = (ints - less).astype(object)
        assert sensitivity == same
        assert np.count_nonzero(apart.reshape(len(apart), -1).any(axis=1)) <= 1
        assert (apart**2).sum() <= sensitivity**2
        moved += bool(apart.any())
    assert moved >= 4


def work_on(stored: Any, source: Any, **changes: Any) -> AnswerWork:
    law = InWindow.choose(BOUNDS, epsilon=2.0)
    parts = stored.parts("user")
    starts = np.cumsum([0, *(part.rows for part in parts)])
    numbers = defer_entries(None, 3)[1].expression  # type: ignore[arg-type]
    facts: dict[str, Any] = {
        "version": tv.__version__, "names": stored.column_names, "axis": 0, "shape": SHAPE, "bounds": BOUNDS,
        "law": law, "numbers": numbers, "key": source.make_key(law.count_words(stored.n_entries)),
        "total": stored.n_entries,
        "starts": {str(stored.folder / part.file): int(at) for part, at in zip(parts, starts, strict=False)},
    }  # fmt: skip
    return AnswerWork(**{**facts, **changes})


@pytest.mark.parametrize("source", [SecureSource(), SeededSource(4)])
def test_a_task_that_is_run_again_gives_the_same_answers(tmp_path: Path, source: Any) -> None:
    """On another worker, alone or with other parts: noise follows from the key and the cell."""
    stored = make_value_store(tmp_path, single_ratings(900))
    parts, work = stored.parts("user"), work_on(stored, source)
    elsewhere = pickle.loads(pickle.dumps(work))  # noqa: S301 - as engines do
    whole = read_answer(run_answers(name_parts(stored, parts), work))[1]
    alone = [read_answer(run_answers(name_parts(stored, [part]), elsewhere))[1] for part in parts[::-1]]
    assert np.array_equal(whole, np.concatenate(alone[::-1]))
    fresh = read_answer(run_answers(name_parts(stored, parts), work_on(stored, source)))[1]
    assert np.mean(fresh == whole) < 0.1  # another purchase has another key


def test_answers_are_codes_and_tell_no_key(tmp_path: Path) -> None:
    stored = make_value_store(tmp_path, single_ratings(900))
    tasks, source = name_parts(stored, stored.parts("user")), SecureSource()
    work = work_on(stored, source)
    assert run_answers(tasks, work)[0] == OK
    assert run_answers(tasks, work_on(stored, source, version="9.9")) == bytes([VERSION])
    assert run_answers(tasks, work_on(stored, source, starts={})) == bytes([FAILED])
    assert work.key.key.hex() not in repr(work) + repr(work.key)
    assert repr(work.key.key) not in repr(work) + repr(work.key)
    damaged(stored, "changed")
    assert run_answers(tasks, work) == bytes([CHANGED])


def test_noise_of_values_is_bought_once(tmp_path: Path) -> None:
    stored = make_value_store(tmp_path, single_ratings(300))
    values = open_values(stored, Loop(), SHAPE, BOUNDS, 1000).values.reveal()
    assert isinstance(values, Deferred)
    spend = Spend(source=SecureSource(), epsilon=1.0)
    spend.values(values, BOUNDS)
    with pytest.raises(RuntimeError, match="spent"):
        spend.values(values, BOUNDS)
    for use in (len, float, list, np.sum, copy.copy(values).__array__):
        with pytest.raises(TypeError):
            use(values)


def test_the_store_must_be_in_the_order_of_the_first_mode(tmp_path: Path) -> None:
    stored = make_value_store(tmp_path, single_ratings(300), order="day")
    with pytest.raises(InputError, match="--order user"):
        by_value(ledger=new_value_ledger(tmp_path), noise_seed=None).fit(stored)


def new_value_ledger(folder: Path) -> Any:
    return tv.Ledger.create(folder / "l", budget=Budget(epsilon=9, delta=1e-3), unit="value", name="ratings")


@pytest.mark.parametrize("kind", ["missing", "changed"])
def test_damage_is_found_before_the_charge(tmp_path: Path, kind: str) -> None:
    stored, ledger = make_value_store(tmp_path, single_ratings(900)), new_value_ledger(tmp_path)
    damaged(stored, kind)
    with pytest.raises(StoreError) as caught:
        by_value(noise_seed=None, ledger=ledger).fit(stored)
    assert caught.value.problem == kind
    assert not ledger.entries()


def test_what_does_not_fit_is_refused_before_the_charge(tmp_path: Path) -> None:
    stored, ledger = make_value_store(tmp_path, single_ratings(2500)), new_value_ledger(tmp_path)
    try:
        set_memory_limit(400_000)
        with pytest.raises(MemoryLimitError, match="positions"):
            by_value(noise_seed=None, ledger=ledger).fit(stored)
    finally:
        set_memory_limit(None)
    assert not ledger.entries()


def test_labels_that_occur_are_kept_as_positions_are_public(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.csv as csv

    rng = np.random.default_rng(0)
    cells = rng.choice(40 * 30, 700, replace=False)
    table = pa.table(
        {
            "user": [f"u{k // 30}" for k in cells.tolist()], "film": [f"f{k % 30}" for k in cells.tolist()],
            "rating": rng.uniform(0, 6, 700),
        }
    )  # fmt: skip
    csv.write_csv(table, tmp_path / "rows.csv")
    rules: dict[str, Any] = {"unit": "value", "bounds": BOUNDS, "value": "rating"}
    stored = tv.write_store(tmp_path / "rows.csv", tmp_path / "s", order="user", part_rows=90, **rules)
    fits = [
        by_value(tv.PrivateLowRankMatrix).fit(data)
        for data in (tv.read_privately(tmp_path / "rows.csv", **rules), stored)
    ]
    assert digest(fits[0], tmp_path) == digest(fits[1], tmp_path)
    assert fits[1].model_.modes[1].labels is not None
