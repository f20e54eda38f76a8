"""Parts one after the other: the same bytes as in memory, whatever the parts are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorveil as tv
from tensorveil.engines import Loop, find_engine, task
from tensorveil.engines.answers import CHANGED, FAILED, MISSING, UNSOUND, VERSION
from tensorveil.engines.engine import group_parts, sum_over_parts
from tensorveil.engines.task import add_answers, make_public, run_task
from tensorveil.errors import InputError
from tensorveil.memory import limit_memory
from tensorveil.noise import SeededSource
from tensorveil.rounds import State, run_recipe, run_rounds
from tensorveil.tensor.stored import Part, StoreError
from tests.unit.engines.store_cases import MODES, digest, estimator, in_memory, make_store, new_ledger, ratings, recipe

FITS = [(tv.UserLevelCP, {}), (tv.UserLevelTucker, {}), (tv.UserLevelCP, {"method": "biases"})]


class Shuffled(Loop):
    """Tasks in another order, some of them twice, as a cluster that loses workers computes them."""

    def __init__(self, seed: int) -> None:
        super().__init__(threads=1)
        self.workers = 5
        self._rng = np.random.default_rng(seed)

    def run(self, tasks: Any, public: Any) -> bytes:
        order = self._rng.permutation(len(tasks))
        run_task(tasks[order[0]], public)  # whose answer is lost
        return super().run([tasks[i] for i in order], public)


@pytest.mark.parametrize(("kind", "changes"), FITS)
def test_a_fit_on_a_store_has_the_bytes_of_one_in_memory(tmp_path: Path, kind: Any, changes: Any) -> None:
    stored = make_store(tmp_path, ratings())
    assert len(stored.parts("user")) > 5
    whole = digest(estimator(kind, **changes).fit(in_memory(tmp_path)), tmp_path)
    assert digest(estimator(kind, **changes).fit(stored), tmp_path) == whole
    assert digest(estimator(kind, **changes, threads=2).fit(stored, engine="loop"), tmp_path) == whole


def test_matrices_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    cells = np.stack(np.unravel_index(rng.choice(50 * 9, 200, replace=False), (50, 9)), axis=1)
    tensor = tv.ObservedTensor(cells, rng.integers(1, 6, 200).astype(float), (50, 9), modes=["user", "film"])
    tensor.write(tmp_path / "m.parquet")
    rules: dict[str, Any] = {"unit": "slice:user", "bounds": (1, 5), "shape": (50, 9), "indices": True}
    stored = tv.write_store(tmp_path / "m.parquet", tmp_path / "m", order="user", part_rows=30, **rules)
    whole = tv.read_privately(tmp_path / "m.parquet", **rules)
    made = [estimator(tv.UserLevelMatrix, shape=(50, 9), bounds=(1, 5)).fit(data) for data in (whole, stored)]
    assert len({digest(each, tmp_path) for each in made}) == 1


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 400),
    part_rows=st.integers(1, 200),
    sweeps=st.sampled_from([0, 1]),
)
def test_any_cut_and_order_of_parts_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, part_rows: int, sweeps: int
) -> None:
    folder, tensor, made = tmp_path_factory.mktemp("law"), ratings(n, seed), recipe(sweeps=sweeps)
    stored = make_store(folder, tensor, part_rows)
    engine = Shuffled(seed)
    found = run_rounds(made, lambda state: sum_over_parts(engine, stored, "user", made, state), SeededSource(1))
    assert found.to_bytes() == run_recipe(made, [tensor], SeededSource(1), threads=1).to_bytes()


def test_users_beyond_the_declared_number_and_rows_beyond_the_shape(tmp_path: Path) -> None:
    """The protected mode only numbers its owners; other indices beyond the declared shape are left out."""
    stored = make_store(tmp_path, ratings())
    fits = [estimator(shape=(40, 12, 5)).fit(data) for data in (in_memory(tmp_path), stored)]
    assert len({digest(each, tmp_path) for each in fits}) == 1


def test_a_store_without_entries_is_as_good_as_any(tmp_path: Path) -> None:
    nothing = ratings().take(np.zeros(900, bool), may_be_empty=True)
    stored = make_store(tmp_path, ratings(1))
    nobody = tv.StoredTensor(**{**vars(stored), "orders": {"user": ()}, "n_entries": 0})
    assert estimator().fit(nobody).guarantee_.unit == estimator().fit(nothing).guarantee_.unit


def test_parts_are_grouped_in_order_and_all_of_them() -> None:
    parts = [Part(file=str(k), rows=k % 5 + 1, first=k, last=k, sha256="") for k in range(23)]
    for tasks in (1, 2, 7, 23, 100):
        groups = group_parts(parts, tasks)
        assert [part for group in groups for part in group] == parts
        assert len(groups) <= max(tasks, 1)


def damaged(stored: Any, kind: str) -> None:
    place = stored.folder / stored.parts("user")[2].file
    if kind == "missing":
        place.unlink()
    else:
        place.write_bytes(place.read_bytes() + b"x")


@pytest.mark.parametrize("kind", ["missing", "changed"])
def test_damage_is_found_before_the_charge(tmp_path: Path, kind: str) -> None:
    stored = make_store(tmp_path, ratings())
    ledger = new_ledger(tmp_path)
    damaged(stored, kind)
    with pytest.raises(StoreError) as caught:
        estimator(noise_seed=None, ledger=ledger).fit(stored)
    assert caught.value.problem == kind
    assert not ledger.entries()


def test_answers_are_codes_and_hold_no_data(tmp_path: Path) -> None:
    stored = make_store(tmp_path, ratings())
    made = recipe()
    public = make_public(stored, "user", threads=1, recipe=made, state=made.start())
    part = stored.parts("user")[0]
    place = str(stored.folder / part.file)
    good = [place, part.rows, part.first, part.last, part.sha256]

    def code(*changed: Any, state: bytes = public) -> int:
        return run_task(json.dumps([[*changed, *good[len(changed) :]]]), state)[0]

    assert code() == 0
    assert code("/nowhere") == MISSING
    assert code(place, part.rows, part.first, part.last, "0" * 64) == CHANGED
    assert code(place, part.rows + 1) == UNSOUND
    assert code(place, part.rows, part.first + 1) == UNSOUND
    assert code(place, part.rows, part.first, part.last - 1) == UNSOUND
    for nonsense in (b"", b"{}\n", public[:-3], public.replace(b"tensorveil-state", b"something-else!!")):
        assert run_task(json.dumps([good]), nonsense) == bytes([FAILED])
    other = public.replace(tv.__version__.encode(), b"9.9.9", 1)
    assert run_task(json.dumps([good]), other) == bytes([VERSION])
    assert run_task("nonsense", public) == bytes([FAILED])
    assert add_answers(bytes([0]) + bytes(16), bytes([CHANGED])) == bytes([CHANGED])


def test_answers_of_unlike_machines_are_never_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would depend on the schedule, which may depend on one user, how other users' numbers round."""
    stored, calls = make_store(tmp_path, ratings()), [0]
    usual = task.mark_machine

    def mark(state: Any) -> bytes:
        calls[0] += 1
        return usual(state) if calls[0] % 2 else bytes(8)

    monkeypatch.setattr(task, "mark_machine", mark)
    with pytest.raises(InputError, match="different kinds"):
        estimator().fit(stored)
    state = recipe().start()
    assert usual(state) == usual(state)
    other = State(round=0, arrays={**state.arrays, "taste_covariance": np.array([[0.7]])})
    assert usual(other) != usual(state)


def test_a_part_whose_users_are_not_in_its_range_is_refused(tmp_path: Path) -> None:
    """The manifest may lie: a part that holds more users than it says could share one with another part."""
    import hashlib

    import pyarrow as pa
    import pyarrow.parquet as pq

    stored = make_store(tmp_path, ratings())
    first, second = stored.parts("user")[:2]
    table = pq.read_table(stored.folder / second.file)
    column = np.sort(np.r_[table.column("user").to_numpy()[1:], first.first].astype(np.int32))
    pq.write_table(table.set_column(0, "user", pa.array(column)), stored.folder / second.file)
    sha = hashlib.sha256((stored.folder / second.file).read_bytes()).hexdigest()
    lying = Part(**{**vars(second), "sha256": sha})
    with pytest.raises(StoreError, match="does not hold what"):
        stored.read_part("user", lying)


def test_memory_is_asked_for_before_the_charge(tmp_path: Path) -> None:
    stored = make_store(tmp_path, ratings(), part_rows=1000)
    with limit_memory(2000), pytest.raises(MemoryError):
        estimator().fit(stored)


def test_engines_are_for_stores_and_have_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="write_store"):
        estimator().fit(ratings(), engine="loop")
    with pytest.raises(InputError, match="write_store"):
        estimator().fit(ratings(), checkpoint=tmp_path / "c")
    for name in ("", "ray", "dask", "dask:", "loop:3", 3):
        with pytest.raises(InputError, match="engine must be"):
            find_engine(name)
    stored = make_store(tmp_path, ratings())
    with pytest.raises(InputError, match="unit must be"):
        estimator(unit="entry").fit(stored)
    with pytest.raises(InputError, match="order=\\['day'\\]"):
        estimator(unit="slice:day").fit(stored)


def test_progress_is_told_after_every_round(tmp_path: Path) -> None:
    stored = make_store(tmp_path, ratings())
    for data in (in_memory(tmp_path), stored):
        seen: list[tuple[int, int]] = []
        estimator(method="biases").fit(data, progress=lambda *done, seen=seen: seen.append(done))
        assert seen == [(k, 4) for k in (1, 2, 3, 4)]


def test_a_fit_that_nobody_counts_warns_the_line_that_fits(tmp_path: Path) -> None:
    stored = make_store(tmp_path, ratings())
    for data in (in_memory(tmp_path), stored):
        with pytest.warns(tv.NoLedgerWarning) as told:
            estimator(noise_seed=None, method="biases").fit(data)
        assert [each.filename for each in told] == [__file__]


def test_one_engine_for_many_fits(tmp_path: Path) -> None:
    stored, engine = make_store(tmp_path, ratings()), Loop(threads=1)
    assert len({digest(estimator().fit(stored, engine=engine), tmp_path) for _ in range(2)}) == 1


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModuleNotFoundError("No module named 'tensorveil'"), "lack the package"),
        (RuntimeError("PYTHON: No module named 'tensorveil', user 17 rated 4.5"), "lack the package"),
        (RuntimeError("user 17 rated 4.5"), r"gave up \(RuntimeError\)"),
    ],
)
def test_what_a_cluster_raises_is_told_by_its_kind(tmp_path: Path, error: Exception, words: str) -> None:
    class Broken(Loop):
        def run(self, tasks: Any, public: Any) -> bytes:
            raise error

    with pytest.raises(InputError, match=words) as caught:
        estimator().fit(make_store(tmp_path, ratings()), engine=Broken())
    assert "17" not in str(caught.value)
    assert caught.value.__cause__ is None


def counts(folder: Path, part_rows: int = 40) -> tuple[Any, Any]:
    """Records of people, stored and in memory: cells without an entry are zero."""
    rng = np.random.default_rng(5)
    cells = np.unique(np.stack([rng.integers(0, size, 700) for size in (200, 9, 7)], axis=1), axis=0)
    tensor = tv.ObservedTensor(cells, rng.integers(1, 5, len(cells)).astype(float), (200, 9, 7), modes=MODES)
    tensor.write(folder / "counts.parquet")
    rules: dict[str, Any] = {"unit": "slice:user", "bounds": (0, 5), "shape": (200, 9, 7), "indices": True}
    stored = tv.write_store(folder / "counts.parquet", folder / "c", order="user", part_rows=part_rows, **rules)
    return stored.with_unlisted("zero"), tv.read_privately(folder / "counts.parquet", unlisted="zero", **rules)


def count_fit(**changes: Any) -> Any:
    promise: dict[str, Any] = {"epsilon": 20.0, "delta": 1e-4, "unit": "slice:user", "bounds": (0, 5)}
    return tv.UserLevelCounts(2, shape=(200, 9, 7), noise_seed=7, random_state=1, threads=1, **(promise | changes))


@pytest.mark.parametrize("epsilon", [0.5, 20.0])  # one round, and many
def test_records_have_the_bytes_of_memory(tmp_path: Path, epsilon: float) -> None:
    stored, whole = counts(tmp_path)
    expected = digest(count_fit(epsilon=epsilon).fit(whole), tmp_path)
    assert digest(count_fit(epsilon=epsilon).fit(stored), tmp_path) == expected
    kept = tmp_path / "kept"
    found = count_fit(epsilon=epsilon).fit(stored, engine=Shuffled(3), checkpoint=kept)
    assert digest(found, tmp_path) == expected
    states = sorted(kept.glob("*.state"))
    states[-1].unlink()  # as if the process had died before the last round
    assert digest(count_fit(epsilon=epsilon).fit(stored, checkpoint=kept), tmp_path) == expected
    with pytest.raises(InputError, match="must be zero"):
        count_fit().fit(stored.with_unlisted("unknown"))
