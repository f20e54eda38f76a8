"""Stores: made in bounded memory, whole slices per part, the same entries as in memory, and nothing half-written."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorveil as tv
from tensorveil.errors import InputError
from tensorveil.memory import limit_memory
from tensorveil.tensor.files import parquet, text
from tensorveil.tensor.stored import StoreError
from tensorveil.tensor.storing import fill_store

RULES: dict[str, Any] = {"unit": "slice:user", "bounds": (1.0, 5.0)}


def rows_of(tensor: Any) -> list[tuple[float, ...]]:
    return sorted(map(tuple, np.column_stack([tensor.coords, tensor.values]).tolist()))


def write_rows(path: Path, cells: Any, values: Any, names: Any = ("user", "film")) -> Path:
    columns = {name: pa.array(cells[:, m]) for m, name in enumerate(names)}
    pq.write_table(pa.table(columns | {"value": pa.array(values)}), path)
    return path


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 300),
    users=st.integers(1, 40),
    part_rows=st.integers(1, 120),
    memory=st.integers(1, 4000),
    cuts=st.lists(st.integers(0, 300), max_size=4),
)
def test_a_store_holds_the_same_entries_in_order_and_cuts_no_slice(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, users: int, part_rows: int, memory: int, cuts: Any
) -> None:
    """Whatever memory there is, however rows come, and in every order that is asked for."""
    rng = np.random.default_rng(seed)
    columns = np.stack([rng.integers(0, users, n), rng.integers(0, 7, n)]).astype(np.int32)
    values = rng.integers(1, 6, n).astype(float)
    shape = (users, 7)
    ends = sorted({0, n, *(min(cut, n) for cut in cuts)})
    blocks = [
        tv.ObservedTensor.from_columns(columns[:, a:b].copy(), values[a:b].copy(), shape, duplicates="keep")
        for a, b in itertools.pairwise(ends)
    ]
    folder = tmp_path_factory.mktemp("store")
    patch = pytest.MonkeyPatch()
    with patch.context() as small:
        small.setattr("tensorveil.tensor.storing._SHORTEST_BLOCK", 8)
        fill_store(folder, blocks, order=[0, 1], memory=memory, part_rows=part_rows)
    stored = tv.StoredTensor.open(folder)
    whole = sorted(map(tuple, np.column_stack([columns.T, values]).tolist()))
    for m, mode in enumerate(("mode_0", "mode_1")):
        parts = [stored.read_part(mode, part) for part in stored.parts(mode)]
        assert sorted(row for part in parts for row in rows_of(part)) == whole
        owners = [set(part.columns[m].tolist()) for part in parts]
        assert sum(map(len, owners)) == len(set().union(*owners))
        assert all(max(one) < min(other) for one, other in itertools.pairwise(owners))
        for part in parts:
            key = np.lexsort((part.values, part.columns[1 - m], part.columns[m]))
            assert (key == np.arange(part.n_entries)).all()
    assert rows_of(stored.load()) == whole
    assert not list(folder.glob(".runs"))


def test_rows_of_private_files_become_what_they_become_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By public lists, with owners by label, bad fields of all kinds, and blocks that end anywhere."""
    fields = ["4", "x", "-1", "1.5", "", "true", "inf", "nan", "0x1", " 3 ", '"3"', '"open', "1e999", "NA", "2,2", "é"]
    lines = [f"{owner},{film},{value}" for owner in ("ann", "7", "7.0", "b b", "") for film in ("A", "B", "c", "")
             for value in fields]  # fmt: skip
    order = np.random.default_rng(0).permutation(len(lines))
    (tmp_path / "rows.csv").write_text("user,film,value\n" + "".join(f"{lines[i]}\r\n" for i in order))
    rules = RULES | {"labels": {"film": ["B", "A"]}, "shape": {"user": 9}}
    whole = tv.read_privately(tmp_path / "rows.csv", **rules)
    assert whole.n_entries > 50
    for size in (64, 333, 1 << 24):
        monkeypatch.setattr(text, "BLOCK", size)
        stored = tv.write_store(tmp_path / "rows.csv", tmp_path / f"s{size}", order="user", **rules)
        found = stored.load()
        # An owner's number is nobody's business; whose entries belong together is.
        groups = [sorted(rows_of(t.take(t.columns[0] == u, may_be_empty=True))) for t in (whole, found)
                  for u in range(t.shape[0])]  # fmt: skip
        bare = [sorted(row[1:] for row in group) for group in groups]
        assert sorted(bare[: whole.shape[0]]) == sorted(bare[whole.shape[0] :])
        assert stored.origin == whole.origin
        assert stored.modes[1] == whole.modes[1]
        assert stored.modes[0].labels is None


def test_rows_of_parquet_files_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    cells = rng.integers(-2, 12, (500, 2)).astype(float)
    cells[::7] += 0.5
    values = rng.uniform(-9, 9, 500)
    values[::5] = [np.nan, np.inf, -np.inf, 3.0] * 25
    paths = [write_rows(tmp_path / f"{k}.parquet", cells[k::2], values[k::2]) for k in range(2)]
    both = write_rows(tmp_path / "both.parquet", cells, values)
    monkeypatch.setattr(parquet, "_BLOCK", 37)
    rules = RULES | {"indices": True, "shape": (10, 8)}
    stored = tv.write_store(paths, tmp_path / "store", order="user", part_rows=50, **rules)
    whole = tv.read_privately(both, **rules)
    assert rows_of(stored.load()) == rows_of(whole)
    assert (stored.shape, stored.bounds, stored.origin) == (whole.shape, whole.bounds, whole.origin)


@pytest.mark.parametrize("ending", ["tns", "npz", "csv.gz", "tsv"])
def test_other_formats(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(2)
    cells = np.stack(np.unravel_index(rng.choice(60, 40, replace=False), (10, 6)), axis=1)
    tensor = tv.ObservedTensor(cells, rng.uniform(0, 6, 40), (10, 6), modes=["user", "film"])
    path = tmp_path / f"data.{ending}"
    tensor.write(path)
    rules = RULES | {"shape": (10, 6), "modes": ["user", "film"]} | ({} if ending == "npz" else {"value": "value"})
    rules |= {"indices": ending not in ("tns", "npz")}
    if ending == "tns":
        del rules["value"]
    stored = tv.write_store(path, tmp_path / "store", order="user", **rules)
    assert rows_of(stored.load()) == rows_of(tv.read_privately(path, **rules))
    assert stored.shape == (10, 6)


def test_an_owner_is_one_in_all_files(tmp_path: Path) -> None:
    """Else one user would contribute twice: 7 here, "7" and 7.0 there."""
    for name, owners in (("a", [7, 8]), ("b", ["7", " 8"]), ("c", [7.0, 8.0])):
        table = pa.table({"user": pa.array(owners), "film": ["A", "A"], "value": [1.0, 2.0]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    rules = RULES | {"labels": {"film": ["A"]}, "shape": {"user": 9}}
    paths = [tmp_path / f"{name}.parquet" for name in "abc"]
    stored = tv.write_store(paths, tmp_path / "store", order="user", **rules)
    assert np.bincount(stored.load().columns[0]).tolist() == [3, 3]


def test_what_was_numbered_by_who_occurs_stays_refused(tmp_path: Path) -> None:
    table = pa.table({"user": ["ann", "bob"], "film": ["A", "B"], "value": [1.0, 2.0]})
    tensor = tv.ObservedTensor.from_frame(table)
    tensor.with_modes(["user", "film"]).write(tmp_path / "numbered.parquet")
    stored = tv.write_store(tmp_path / "numbered.parquet", tmp_path / "store", order="user", indices=True)
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "unit": "slice:user", "bounds": (1, 5), "shape": (9, 9)}
    with pytest.raises(InputError, match="numbered by those that occur"):
        tv.UserLevelCP(1, **promise).fit(stored)


def test_empty_private_files_are_data_like_others(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "out.parquet", np.array([[99, 99]]), np.array([1.0]))
    stored = tv.write_store(path, tmp_path / "store", order="user", indices=True, shape=(5, 5), **RULES)
    assert (stored.n_entries, stored.parts("user")) == (0, ())


def test_duplicates_of_open_files(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "twice.parquet", np.array([[0, 1], [2, 0], [0, 1]]), np.array([1.0, 2.0, 4.0]))
    with pytest.raises(InputError, match="duplicated"):
        tv.write_store(path, tmp_path / "store", order="user", indices=True)
    assert [each.name for each in tmp_path.iterdir()] == ["twice.parquet"]
    for rule, value in (("mean", 2.5), ("first", 1.0), ("last", 4.0)):
        stored = tv.write_store(path, tmp_path / rule, order=["film", "user"], indices=True, duplicates=rule)
        assert rows_of(stored.load()) == [(0, 1, value), (2, 0, 2.0)]
        assert stored.origin.duplicates == rule


def test_labels_that_occur_are_numbered_as_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    cells = np.stack(np.unravel_index(rng.choice(40 * 12, 200, replace=False), (40, 12)), axis=1)
    lines = [f"user {u},{100 - f},{(u + f) % 5}" for u, f in cells.tolist()]
    (tmp_path / "whole.csv").write_text("\n".join(["user,film,value", *lines]))
    for k in range(2):
        (tmp_path / f"{k}.csv").write_text("\n".join(["user,film,value", *lines[k::2]]))
    monkeypatch.setattr(text, "BLOCK", 300)
    stored = tv.write_store([tmp_path / "0.csv", tmp_path / "1.csv"], tmp_path / "store", order=["user", "film"])
    whole = tv.read(tmp_path / "whole.csv")
    assert stored.modes == whole.modes
    assert (stored.shape, stored.bounds) == (whole.shape, whole.bounds)
    assert rows_of(stored.load()) == rows_of(whole)
    assert stored.origin == whole.origin
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "unit": "slice:user", "bounds": (0, 5), "shape": (40, 12)}
    with pytest.raises(InputError, match="numbered by those that occur"):
        tv.UserLevelCP(1, **promise).fit(stored)
    fits = [tv.CP(2, solver="als", sweeps=2, random_state=0).fit(data) for data in (whole, stored)]
    assert fits[1].model_.modes == whole.modes
    np.testing.assert_allclose(fits[0].model_.factors[0], fits[1].model_.factors[0], atol=1e-9)


def test_other_ways_of_writing_and_bins_give_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    days = [f"2024-01-{day:02}T{hour:02}:00" for day, hour in rng.integers((1, 0), (29, 24), (90, 2))]
    rows = [(f"user {k % 30}", when, f"{k % 7 / 4}") for k, when in enumerate(days)]
    (tmp_path / "plain.csv").write_text("\n".join(["user,time,value", *(",".join(row) for row in rows)]))
    spread = "\n".join(["user;time;value", *(";".join(row).replace(".", ",") for row in rows)])
    (tmp_path / "spread.csv").write_text(spread, encoding="utf-16")
    monkeypatch.setattr(text, "BLOCK", 300)
    signs: dict[str, Any] = {"delimiter": ";", "decimal": ",", "encoding": "utf-16"}
    for bins in ({"time": "week"}, {"time": ("day", "2024-01-01", "2024-01-28")}):
        whole = tv.read(tmp_path / "plain.csv", bins=bins, duplicates="sum")
        folder = tmp_path / f"store {len(bins['time'])}"
        rules: dict[str, Any] = {"order": "user", "bins": bins, "duplicates": "sum", **signs}
        stored = tv.write_store(tmp_path / "spread.csv", folder, **rules)
        assert stored.modes == whole.modes
        assert rows_of(stored.load()) == rows_of(whole)
    private = RULES | {"shape": {"user": 30}, "labels": None}
    bins = {"time": ("day", "2024-01-01", "2024-01-20")}
    stored = tv.write_store(tmp_path / "spread.csv", tmp_path / "private", order="user", bins=bins, **signs, **private)
    assert stored.modes[1].decode(range(20)).tolist() == whole.modes[1].decode(range(20)).tolist()
    assert stored.modes[1].bins == "day"
    assert stored.n_entries == sum(when < "2024-01-21" for when in days)


def test_labels_of_two_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,film,value\n1,A,3\n")
    (tmp_path / "b.csv").write_text("user,film,value\nann,A,3\n")
    with pytest.raises(InputError, match="of one kind"):
        tv.write_store([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "store", order="user")


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rows(tmp_path / "rows.parquet", np.array([[0, 1]] * 9), np.ones(9))

    def fail(*_: Any, **__: Any) -> Iterator[Any]:
        raise OSError("disk is full")

    monkeypatch.setattr("tensorveil.tensor.storing.write_part", fail)
    with pytest.raises(OSError, match="full"):
        tv.write_store(path, tmp_path / "store", order="user", indices=True, shape=(5, 5), **RULES)
    assert [each.name for each in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_private_store_is_its_owners_alone_and_is_not_overwritten(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.parquet", np.array([[0, 1], [1, 1]]), np.ones(2))
    rules = RULES | {"indices": True, "shape": (5, 5)}
    tv.write_store(path, tmp_path / "store", order="user", **rules)
    modes = {each.stat().st_mode & 0o077 for each in (tmp_path / "store").rglob("*")}
    assert modes == {0}
    with pytest.raises(InputError, match="already exists"):
        tv.write_store(path, tmp_path / "store", order="user", **rules)
    assert tv.write_store(path, tmp_path / "store", order="film", force=True, **rules).parts("film")


@pytest.fixture
def stored(tmp_path: Path) -> Any:
    cells = np.array([[u, f] for u in range(20) for f in range(3)])
    path = write_rows(tmp_path / "rows.parquet", cells, np.arange(60) % 5 + 1.0)
    return tv.write_store(path, tmp_path / "store", order="user", indices=True, shape=(20, 3), part_rows=10, **RULES)


def test_what_needs_entries_in_memory_says_so(stored: Any) -> None:
    uses: list[Any] = [
        lambda: tv.CP(2, solver="sgd").fit(stored),
        lambda: tv.cell_split(stored, 0.1),
        lambda: tv.random_split(stored, 0.1),
        lambda: stored.take([0]),
        lambda: np.asarray(stored),
        lambda: stored.values,
    ]
    for use in uses:
        with pytest.raises(InputError, match=r"stored\.load"):
            use()


def test_only_orders_that_were_made_can_be_asked_for(stored: Any) -> None:
    with pytest.raises(InputError, match="order=\\['film'\\]"):
        stored.parts("film")


def test_loading_asks_for_memory(stored: Any) -> None:
    with limit_memory(1000), pytest.raises(MemoryError, match="part by part"):
        stored.load()


def test_parts_that_are_not_those_that_were_stored_are_refused(stored: Any) -> None:
    part = stored.parts("user")[1]
    path = stored.folder / part.file
    content = path.read_bytes()
    for damage in (content[:-1], content[:50] + bytes([content[50] ^ 1]) + content[51:], b""):
        path.write_bytes(damage)
        with pytest.raises(StoreError, match="SHA-256"):
            stored.read_part("user", part)
    path.unlink()
    with pytest.raises(StoreError, match="not there"):
        stored.read_part("user", part)


def rewrite(folder: Path, change: Any, *, sealed: bool) -> None:
    """Change a manifest, and its digest with it if somebody means it."""
    from tensorveil.tensor.stored import digest_facts

    facts = json.loads((folder / "manifest.json").read_text())
    change(facts)
    if sealed:
        facts["digest"] = digest_facts({key: fact for key, fact in facts.items() if key != "digest"})
    (folder / "manifest.json").write_text(json.dumps(facts))


def test_a_user_in_two_parts_is_refused(stored: Any) -> None:
    def overlap(facts: Any) -> None:
        facts["orders"]["user"][1]["first"] = facts["orders"]["user"][0]["last"]

    rewrite(stored.folder, overlap, sealed=True)
    with pytest.raises(InputError, match="two parts share an index of 'user'"):
        tv.StoredTensor.open(stored.folder)


def test_a_manifest_that_was_changed_is_refused(stored: Any) -> None:
    rewrite(stored.folder, lambda facts: facts["origin"].update(numbered=True), sealed=False)
    with pytest.raises(InputError, match="damaged, was changed"):
        tv.StoredTensor.open(stored.folder)


def test_a_manifest_names_no_file_outside_its_store(stored: Any) -> None:
    def elsewhere(facts: Any) -> None:
        facts["orders"]["user"][1]["file"] = "by-0/../../rows.parquet"

    rewrite(stored.folder, elsewhere, sealed=True)
    with pytest.raises(InputError, match="damaged"):
        tv.StoredTensor.open(stored.folder)


@pytest.mark.parametrize("what", ["{", "[]", "{}", '{"digest": 3}', "\xff"])
def test_damaged_manifests_are_errors_of_ours(stored: Any, what: str) -> None:
    (stored.folder / "manifest.json").write_bytes(what.encode("latin-1"))
    with pytest.raises(InputError, match="damaged"):
        tv.StoredTensor.open(stored.folder)


def test_a_folder_without_a_manifest_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"manifest\.json"):
        tv.StoredTensor.open(tmp_path)


def test_lines_without_end_do_not_fill_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is too long is no row; what follows it is read as ever."""
    monkeypatch.setattr(text, "BLOCK", 1 << 12)
    monkeypatch.setattr(text, "LONGEST_LINE", 1 << 8)
    path = tmp_path / "rows.csv"
    path.write_text("user,film,value\n1,1,3\n" + "1,1," + "7" * 50_000 + "\n2,2,4\n")
    stored = tv.write_store(path, tmp_path / "store", order="user", indices=True, shape=(5, 5), **RULES)
    assert rows_of(stored.load()) == [(1, 1, 3), (2, 2, 4)]
    assert path.stat().st_size > 50_000


def test_rows_outside_a_declared_range_are_counted_over_all_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [f"2024-{month:02}-{day:02}" for month in (1, 2) for day in range(1, 29)]
    rows = [f"user {k % 9},{when}T12:00,{k % 7}" for k, when in enumerate(days)]
    (tmp_path / "days.csv").write_text("\n".join(["user,time,value", *rows]))
    monkeypatch.setattr(text, "BLOCK", 200)  # whole blocks are outside
    inside, outside = ({"time": ("day", f"{year}-02-01", f"{year}-02-20")} for year in (2024, 2034))
    with pytest.warns(tv.LeftOutWarning, match="bins: 36 of 56 rows are left out, whose 'time' is not") as told:
        stored = tv.write_store(tmp_path / "days.csv", tmp_path / "store", order="user", bins=inside)
    assert (len(told), stored.n_entries, stored.shape) == (1, 20, (9, 20))
    with pytest.raises(InputError, match="no row of the table has its 'time' on the public list or in the declared"):
        tv.write_store(tmp_path / "days.csv", tmp_path / "none", order="user", bins=outside)
