"""The gate: one set of entries gives one release, and what becomes of a row depends on this row alone.

Whole fits are compared byte by byte, with the same stream of noise on both sides.
"""

import ast
import decimal
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorveil as tv
from tensorveil.mechanisms.names import BY_UNIT
from tensorveil.privacy import Unit
from tensorveil.privacy.gate import admit, check_bounds, declare, reading_rules
from tensorveil.privacy.private import Private

SHAPE, BOUNDS, MODES = (7, 5, 3), (1.0, 5.0), ("user", "film", "day")
KINDS = {"cp": (tv.PrivateCP, 2), "tucker": (tv.PrivateTucker, (2, 2, 2))}
CASES = [
    (kind, unit, method)
    for kind in KINDS
    for unit in ("value", "entry")
    for method in BY_UNIT[unit]
    if method != "auto"
]


def draw_rows(seed: int, n: int = 60) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    cells = rng.permutation(np.argwhere(np.ones(SHAPE)))[:n]
    return cells, np.round(rng.uniform(*BOUNDS, n), 1)


def make(kind: str, unit: str, method: str, **changes: Any) -> Any:
    estimator: Any
    estimator, rank = KINDS[kind]
    promise: dict[str, Any] = {"epsilon": 3.0, "delta": 0.0, "unit": unit, "bounds": BOUNDS, "shape": SHAPE}
    more: dict[str, Any] = {"method": method, "noise_seed": 7, "random_state": 1, "sweeps": 3}
    return estimator(rank, **(promise | more | changes))


def release(fitted: Any, folder: Path) -> bytes:
    fitted.save(folder / "model.npz")
    return (folder / "model.npz").read_bytes() + str(fitted.guarantee_.to_json()).encode()


@pytest.mark.parametrize(("kind", "unit", "method"), CASES)
def test_the_order_of_rows_does_not_show(tmp_path: Path, kind: str, unit: str, method: str) -> None:
    cells, values = draw_rows(3)
    orders = [np.arange(len(values)), np.argsort(values, kind="stable"), np.argsort(-values, kind="stable")]
    seen = {release(make(kind, unit, method).fit(cells[order], values[order]), tmp_path) for order in orders}
    assert len(seen) == 1


def test_the_order_of_rows_does_not_show_for_whole_users(tmp_path: Path) -> None:
    cells, values = draw_rows(4)
    seen = set()
    for order in (np.arange(len(values)), np.argsort(values), np.argsort(-values)):
        tensor = tv.ObservedTensor(cells[order], values[order], SHAPE, modes=MODES)
        promise: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-6, "unit": "slice:user", "bounds": BOUNDS}
        fitted = tv.UserLevelCP(2, shape=SHAPE, noise_seed=3, random_state=0, **promise).fit(tensor)
        seen.add(release(fitted, tmp_path))
    assert len(seen) == 1


BAD_ROWS = {
    "negative": ([-1, 0, 0], 3.0),
    "beyond the shape": ([7, 0, 0], 3.0),
    "far beyond": ([2**40, 0, 0], 3.0),
    "fraction": ([0.5, 0, 0], 3.0),
    "no index": ([np.nan, 0, 0], 3.0),
    "no value": ([0, 0, 0], np.nan),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", BAD_ROWS)
def test_rows_that_break_a_rule_count_as_nothing(tmp_path: Path, bad: str, kind: str) -> None:
    cells, values = draw_rows(5)
    row, value = BAD_ROWS[bad]
    worse = np.vstack([cells.astype(float), [row]]), np.append(values, value)
    usual = release(make(kind, "entry", "gram").fit(cells, values), tmp_path)
    assert release(make(kind, "entry", "gram").fit(*worse), tmp_path) == usual


@pytest.mark.parametrize("unit", ["value", "entry"])
def test_infinities_are_clipped_like_all_that_is_too_large(tmp_path: Path, unit: str) -> None:
    cells, values = draw_rows(6)
    seen = set()
    for wild in (5.0, 5.1, 1e300, np.inf):
        values[7] = wild
        seen.add(release(make("cp", unit, "auto").fit(cells, values), tmp_path))
    assert len(seen) == 1


def test_no_entries_are_a_data_set_like_others() -> None:
    nothing = np.empty((0, 3)), np.empty(0)
    assert make("cp", "entry", "gram").fit(*nothing).guarantee_.unit == Unit.entry()


def test_entries_that_share_a_cell_are_entries_of_their_own(tmp_path: Path) -> None:
    cells, values = draw_rows(8)
    twice = np.vstack([cells, cells[:1]]), np.append(values, 1.5)
    other = np.vstack([cells[:1], cells]), np.append(1.5, values)
    first, second = (release(make("cp", "entry", "gram").fit(*rows), tmp_path) for rows in (twice, other))
    assert first == second
    assert first != release(make("cp", "entry", "gram").fit(cells, values), tmp_path)


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), unit=st.sampled_from(["value", "entry"]))
def test_admitted_data_are_sorted_clipped_and_without_minus_zero(seed: int, unit: str) -> None:
    rng = np.random.default_rng(seed)
    cells = rng.permutation(np.argwhere(np.ones((4, 3))))[: rng.integers(1, 12)]
    values = rng.choice([-0.0, 0.0, 0.5, 9.0, -9.0], len(cells))
    tensor = tv.ObservedTensor(cells, values, (4, 3))
    declared = declare(tensor, unit=Unit.parse(unit), bounds=(-1.0, 1.0), shape=(4, 3))
    data = admit(tensor, declared)
    columns = data.columns.reveal() if isinstance(data.columns, Private) else data.columns
    keys = columns[0] * 3 + columns[1]
    found = data.values.reveal()
    assert np.all(np.diff(keys) > 0)
    assert found.min() >= -1.0
    assert found.max() <= 1.0
    assert not np.signbit(found[found == 0]).any()


FIELDS = [
    "4", "x", "-1", "9999999999999999999999", "1.5", "", "true", "FALSE", "2020-01-01", "12:30", "inf", "-inf", "nan",
    "+3", "0x1", "0xFFFFFFFFFFFFFFFF", "-0x1", " 3 ", "1e0", '"3"', "1_0", "5%", "1e999", "00012", "NA", "null", "1.",
    ".5", "-0", "2020-01-01T00:00:00", "1e", "t", "1.0f",
]  # fmt: skip


def test_what_a_field_becomes_depends_on_this_field_alone(tmp_path: Path) -> None:
    """Readers guess the kind of a whole column, so that one odd field could change what the others are taken for."""
    rules: Any = reading_rules(Unit.entry(), BOUNDS, (5, 4))

    def read(*rows: str) -> list[tuple[float, ...]]:
        (tmp_path / "rows.csv").write_text("user,film,value\n" + "".join(f"{row}\n" for row in rows))
        tensor = tv.read(tmp_path / "rows.csv", labels=False, **rules)
        return sorted(map(tuple, np.column_stack([tensor.coords, tensor.values]).tolist()))

    rows = [f"{field},1,2" for field in FIELDS] + [f"1,2,{field}" for field in FIELDS]
    alone = {row: read(row) for row in rows}
    assert sum(map(len, alone.values())) > 20  # or nothing would be shown
    for one, other in itertools.combinations(rows, 2):
        assert read(one, other) == sorted(alone[one] + alone[other]), (one, other)


@pytest.mark.parametrize("odd", ["Decimal('Infinity')", "Decimal('1E-90')", "'n/a'", "10**30", "None", "[1]", "b'x'"])
@pytest.mark.parametrize("usual", ["3.5", "4", "Decimal('2.5')"])
def test_a_field_of_a_frame_does_not_decide_on_the_others(odd: str, usual: str) -> None:
    pandas = pytest.importorskip("pandas")
    rules: Any = reading_rules(Unit.entry(), BOUNDS, (5, 4))
    words = {"Decimal": decimal.Decimal}

    def read(*values: str) -> list[tuple[float, ...]]:
        objects = pandas.Series([eval(value, words) for value in values], dtype=object)
        frame = pandas.DataFrame({"user": range(len(values)), "film": 1, "value": objects})
        tensor = tv.ObservedTensor.from_frame(frame, labels=False, **rules)
        return sorted(map(tuple, np.column_stack([tensor.coords, tensor.values]).tolist()))

    assert read(usual, usual) == [row for row in read(usual, usual, odd) if row[0] < 2]


def test_a_value_that_is_no_number_is_left_out_in_unit_value_too(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("user,film,rating\nann,x,3\nbob,y,n/a\neve,x,\nann,y,4\n")
    rules: Any = reading_rules(Unit.value(), BOUNDS, None)
    assert tv.read(tmp_path / "rows.csv", value="rating", **rules).values.tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    "bounds", [(0, 1e-80), (0, 1e80), (1.0, np.nextafter(1.0, 2.0)), (1, 1), (2, 1), (0, np.inf), (None, 1), "ab", (1,)]
)
def test_bounds_that_floats_cannot_bear_are_refused(bounds: Any) -> None:
    with pytest.raises(tv.InputError, match="bounds must be"):
        check_bounds(bounds)


def test_private_things_show_nothing() -> None:
    secret = Private(np.array([3.25]))
    assert "3.25" not in f"{secret} {secret!r} {secret!s} {secret:>9}"
    for look in (len, bool, float, int, iter, list, hash, np.asarray):
        with pytest.raises(TypeError, match="private data"):
            look(secret)
    with pytest.raises(TypeError, match="private data"):
        assert secret == secret


SOURCE = Path(tv.__file__).parent
REVEALING = {
    "mechanisms/comparison.py", "mechanisms/counts.py", "mechanisms/crosstabs.py", "mechanisms/entry_errors.py",
    "mechanisms/errors.py", "mechanisms/gram.py", "mechanisms/mean.py",
    "mechanisms/refinement.py", "mechanisms/shape.py", "mechanisms/stages.py", "mechanisms/tallies.py",
    "rounds/grouping.py",
}  # fmt: skip


def list_calls(path: Path, *names: str) -> list[ast.Call]:
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return [call for call in calls if getattr(call.func, "attr", getattr(call.func, "id", "")) in names]


def test_only_these_modules_reveal_what_is_private() -> None:
    found = {str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*.py") if list_calls(p, "reveal")}
    assert found <= REVEALING
    assert len(found) >= 5


@pytest.mark.parametrize("name", sorted(REVEALING))
def test_modules_that_reveal_neither_print_nor_log_nor_raise_with_what_they_hold(name: str) -> None:
    path = SOURCE / name
    assert not list_calls(path, "print", "warn", "debug", "info", "warning", "error", "exception", "getLogger")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise):
            assert not [part for part in ast.walk(node) if isinstance(part, ast.FormattedValue)], ast.dump(node)
