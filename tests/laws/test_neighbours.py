"""Neighbours, from raw rows to what gets noise: no statistic moves by more than its noise is scaled to.

Rows are as wild as files can hold them. Whole fits run on two neighbouring sets of rows, with the noise replaced by a
script: the second run is answered as the first was, as in adaptive composition. What is public must be equal, and every
statistic may differ in one row only, by at most the declared length, in exact integers; of counts, two may differ.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numba.core.errors import NumbaError

import tensorveil as tv
from tensorveil.mechanisms import crosstab_plan, stages
from tensorveil.mechanisms import spend as spending
from tensorveil.mechanisms.names import BY_UNIT
from tensorveil.noise import Noisy, SeededSource
from tensorveil.noise.adding import bounded_steps
from tensorveil.noise.windows import Window
from tensorveil.rounds import Recipe, draw_noise

CASES = [
    (unit, method, delta)
    for unit in ("value", "entry")
    for method in BY_UNIT[unit]
    if method != "auto"
    for delta in (0.0, 1e-6)
]
SCALES = [(1.0, 5.0), (-1.0, 1.0), (0.0, 1e-60), (-1e60, 1e60), (1e6, 1e6 + 1), (-3.0, -2.9)]


class Script:
    """Stands in for the noise: keeps what it is given, and answers as an earlier run was answered."""

    def __init__(self, earlier: Any = None) -> None:
        self.earlier = earlier
        self.seen: list[tuple[Any, Fraction, str]] = []
        self.bought: list[str] = []

    def answer(self, ints: Any, sensitivity: Any, law: str) -> Any:
        self.seen.append((np.asarray(ints).copy(), Fraction(sensitivity), law))
        return self.seen[-1][0] if self.earlier is None else self.earlier.seen[len(self.seen) - 1][0]

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for law in ("laplace", "gaussian", "norm"):

            def mechanism(ints: Any, grid: Any, steps: Any, _: Any, __: Any, law: str = law) -> Noisy:
                return Noisy(values=grid.values(self.answer(ints, steps, law)), variance=1e-6, source_secure=False)

            patch.setattr(spending, f"{law}_mechanism", mechanism)
        patch.setattr(spending, "bounded_values_mechanism", self.values)
        patch.setattr(spending, "windowed_values_mechanism", self.windows)
        spend_on = spending.Spend._spend_on

        def note(spend: Any, what: str) -> None:
            self.bought += [] if what == "its parts" else [what]
            spend_on(spend, what)

        patch.setattr(spending.Spend, "_spend_on", note)

    def values(self, values: Any, bounds: Any, _: Any, *, epsilon: Any = None, mu: Any = None) -> Noisy:
        steps = bounded_steps(epsilon or mu)
        width = (bounds[1] - bounds[0]) / steps
        places = np.rint((np.asarray(values) - bounds[0]) / width).astype(np.int64)
        assert places.min(initial=0) >= 0
        assert places.max(initial=0) <= steps
        return Noisy(
            values=bounds[0] + width * self.answer(places, steps, "values"), variance=1e-6, source_secure=False
        )

    def windows(
        self, values: Any, bounds: Any, source: Any, *, epsilon: Any, square: float, flags: bool
    ) -> tuple[Noisy, Window]:
        assert 0 <= square <= 1
        width = bounds[1] - bounds[0]
        window = Window(
            inside=0.9, half=0.1 * width, span=1.2 * width, gain=1.1, middle=bounds[0] + 0.5 * (bounds[1] - bounds[0])
        )
        return self.values(values, bounds, source, epsilon=epsilon), window


def draw_case(seed: int, unit: str) -> tuple[Any, ...]:
    """Return shape, bounds and two neighbouring sets of rows; some rows break every rule where that is allowed."""
    rng = np.random.default_rng(seed)
    shape = [(3, 4), (4, 3, 2), (2, 3, 2, 2)][rng.integers(3)]
    low, high = SCALES[rng.integers(len(SCALES))]
    cells = rng.permutation(np.argwhere(np.ones(shape))).astype(float)[: rng.integers(2, 2 * max(shape))]
    values = draw_values(rng, low, high, len(cells))
    if unit == "value":
        other = values.copy()
        other[rng.integers(len(other))] = draw_values(rng, low, high, 1)[0]
        order = rng.permutation(len(cells))
        return shape, (low, high), (cells, values), (cells[order], other[order])
    wild = rng.random(cells.shape) < 0.05
    cells[wild] = rng.choice([-1, 0.5, 99, np.nan, 2.0**40, 1.0], wild.sum())
    cells = np.vstack([cells, cells[: rng.integers(len(cells))]])  # some cells twice
    values = np.append(values, draw_values(rng, low, high, len(cells) - len(values)))
    values[rng.random(len(values)) < 0.05] = np.nan
    kept = np.arange(len(cells)) != rng.integers(len(cells))
    return shape, (low, high), (cells, values), (cells[kept], values[kept])


def draw_values(rng: np.random.Generator, low: float, high: float, n: int) -> Any:
    """Values inside, at, and far beyond the bounds, infinities, zeros of both signs and subnormal numbers."""
    some = np.array([low, high, 0.5 * (low + high), np.inf, -np.inf, 1e300, -0.0, 5e-324, np.nextafter(high, np.inf)])
    return np.where(rng.random(n) < 0.5, rng.choice(some, n), low + (high - low) * rng.random(n))


def run(
    unit: str, method: str, delta: float, case: Any, rows: Any, script: Script, seed: int, epsilon: float = 1.5
) -> Any:
    shape, bounds = case[:2]
    kind, rank = (tv.PrivateTucker, 2) if seed % 3 == 0 else (tv.PrivateCP, 2)
    promise: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "unit": unit, "bounds": bounds, "shape": shape}
    more: dict[str, Any] = {"method": method, "noise_seed": 0, "random_state": seed, "sweeps": 2, "restarts": 1}
    with pytest.MonkeyPatch.context() as patch:
        script.install(patch)
        return kind(rank, threads=1, **promise, **more).fit(*rows)


def check_moves(first: Script, second: Script) -> float:
    """Check every statistic; return the largest move, as a share of what its noise is scaled to."""
    worst = 0.0
    assert first.bought == second.bought
    for what, (one, most, law), (other, same, _) in zip(first.bought, first.seen, second.seen, strict=True):
        assert (one.shape, most) == (other.shape, same)
        moved = [
            [int(b) - int(a) for a, b in zip(*pair, strict=True)]
            for pair in zip(*map(as_rows, (one, other)), strict=True)
        ]
        rows = [row for row in moved if any(row)]
        if what == "counts":  # one leaves a bin for another
            assert sum(number for row in rows for number in row) == 0
        assert len(rows) <= 1 + (what == "counts")  # one row of a mode, one value, one sum
        numbers = [abs(number) for row in rows for number in row]
        # Laplace noise is scaled to the sum of absolute values, other noise to the length.
        square = sum(numbers) ** 2 if law in ("laplace", "values") else sum(number**2 for number in numbers)
        assert square <= most**2
        worst = max(worst, float(square / most**2))
    return worst


def as_rows(ints: Any) -> Any:
    return ints.reshape(len(ints), -1)


def arrays_of(model: Any) -> list[Any]:
    core = [] if getattr(model, "core", None) is None else [model.core]
    errors = [] if getattr(model, "errors", None) is None else model.errors.to_arrays().values()
    return [np.array(model.offset), *model.factors, *(model.biases or ()), *core, *errors]


def check_neighbours(unit: str, method: str, delta: float, seeds: Any) -> None:
    worst = 0.0
    for seed in seeds:
        case = draw_case(seed, unit)
        epsilon = (1.5, 300.0, 3000.0)[seed % 3]  # with which later stages are reached
        first = Script()
        fitted = run(unit, method, delta, case, case[2], first, seed // 3, epsilon)
        second = Script(first)
        other = run(unit, method, delta, case, case[3], second, seed // 3, epsilon)
        worst = max(worst, check_moves(first, second))
        assert fitted.guarantee_ == other.guarantee_
        assert fitted.plan_ == other.plan_
        assert fitted.notes_ == other.notes_
        # Both runs were answered alike, so that whatever still differs was taken from the data without noise.
        assert all(map(np.array_equal, arrays_of(fitted.model_), arrays_of(other.model_)))
    assert worst > 0.1  # or nothing was tried


def structured_case(shape: tuple[int, ...] = (6, 5, 4)) -> tuple[Any, ...]:
    """As `draw_case`, with biases, pairs and components that stand out, so that there is something to measure."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((size, 3)) for size in shape)
    whole = (
        a[:, 0, None, None] + (a[:, 1, None] * b[:, 1])[:, :, None] + np.einsum("i,j,k->ijk", a[:, 2], b[:, 2], c[:, 2])
    )
    cells, values = np.argwhere(np.ones(shape)).astype(float), np.clip(whole.ravel(), -4.0, 4.0)
    other = values.copy()
    other[7] = -4.0 if values[7] > 0 else 4.0
    return shape, (-4.0, 4.0), (cells, values), (cells, other)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("method", ["tables", "staged"])
def test_all_stages_are_reached(method: str, delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the laws on neighbours would say nothing about them."""
    case = structured_case()
    # So few entries would never pay for all stages.
    monkeypatch.setattr(stages._Run, "split", lambda self, options, budget, *_: dict.fromkeys(options, budget / 4))
    bought, lengths = set(), set()
    for epsilon in (20.0, 60.0, 200.0, 3000.0):
        first = Script()
        run("value", method, delta, case, case[2], first, 0, epsilon)
        second = Script(first)
        run("value", method, delta, case, case[3], second, 0, epsilon)
        check_moves(first, second)
        bought |= set(first.bought)
        lengths |= {len(ints) for ints, _, _ in first.seen}
    assert {"counts", "products of pairs"} <= bought
    assert ("values" in bought) == (method == "staged")
    assert {30, 24, 20} & lengths  # the cells of two modes


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_all_tables_of_entries_are_reached(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one mode, of two and of all; products of pairs; and whether effects multiply and components are true."""
    shape, bounds, (cells, values), _ = structured_case()
    case, kept = (shape, bounds), np.arange(len(values)) != 7
    reached: set[str] = set()
    for more in (0.0, 3.0):  # so that tables of two modes come alone, or before that of all modes
        monkeypatch.setattr(crosstab_plan, "_WORTH", more)
        monkeypatch.setattr(crosstab_plan, "_MORE", -more)
        for epsilon in (20.0, 60.0, 200.0, 3000.0):
            first = Script()
            fitted = run("entry", "crosstabs", delta, case, (cells, values), first, 1, epsilon)
            second = Script(first)
            other = run("entry", "crosstabs", delta, case, (cells[kept], values[kept]), second, 1, epsilon)
            check_moves(first, second)
            assert all(map(np.array_equal, arrays_of(fitted.model_), arrays_of(other.model_)))
            reached |= {part.name for part in fitted.guarantee_.composition}
    wanted = {"mean", "shape", "table of mode 0", "pairs of modes 0 and 1", "table of all modes", "components"}
    assert wanted | {"level", "errors"} <= reached
    assert any(name.startswith("table of modes") for name in reached)


def test_a_decision_that_peeks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The law has power: what is measured next must not follow from the data themselves."""
    case = structured_case()
    spread = float(np.var(case[2][1]) + np.var(case[3][1])) / 2

    def peek(self: Any, shape_share: float, belief: Any) -> Any:
        return dict.fromkeys(self.ones, 0.1), bool(np.var(self.data.values.reveal()) > spread)

    def run_both() -> None:
        first = Script()
        run("value", "staged", 0.0, case, case[2], first, 0, 200.0)
        second = Script(first)
        run("value", "staged", 0.0, case, case[3], second, 0, 200.0)
        check_moves(first, second)

    run_both()
    monkeypatch.setattr(stages._Run, "share_one_way", peek)
    # The second run asks for other statistics than the script has answers to.
    with pytest.raises((AssertionError, IndexError, ValueError, NumbaError)):
        run_both()


@pytest.mark.parametrize(("unit", "method", "delta"), CASES)
def test_nothing_moves_by_more_than_declared(unit: str, method: str, delta: float) -> None:
    check_neighbours(unit, method, delta, range(12))


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "method", "delta"), CASES)
def test_nothing_moves_by_more_than_declared_in_thousands_of_cases(unit: str, method: str, delta: float) -> None:
    check_neighbours(unit, method, delta, range(1000, 3000))


def check_users(kind: str, seeds: Any) -> None:
    """Check every round of user-level fits: a user more moves its sum by one bounded vector, and nobody else's."""
    worst = 0.0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        shape = [(6, 4), (5, 4, 3), (4, 3, 3, 2)][rng.integers(3)]
        low, high = [(1.0, 5.0), (-1.0, 1.0), (0.0, 1e-40), (-1e40, 1e40)][rng.integers(4)]
        names = ("user", "film", "day", "hour")[: len(shape)]
        n = int(rng.integers(2, 40))
        cells = np.column_stack([rng.integers(0, size, n) for size in shape])
        values = draw_values(rng, low, high, n)
        rules: Any = {"bounds": (low, high), "duplicates": "keep", "missing": "drop", "out_of_bounds": "clip"}
        rank: Any = 2 if kind == "cp" else (2,) * len(shape)
        recipe = Recipe(
            shape=shape, modes=names, protect="user", bounds=(low, high), epsilon=4.0, delta=1e-5, kind=kind, rank=rank,
            sweeps=1,
        )  # fmt: skip
        gone = cells[:, 0] == cells[0, 0]
        everybody, others = (
            recipe.people(tv.ObservedTensor(cells[kept], values[kept], shape, out_of_range="drop", **rules))
            for kept in (np.ones(n, bool), ~gone)
        )
        state, source = recipe.start(), SeededSource(seed)
        for this in recipe.rounds:
            one, other = (recipe.contribute(state, people, threads=1) for people in (everybody, others))
            square = sum(int(number) ** 2 for number in one - other)
            assert square <= this.limit**2
            worst = max(worst, square / this.limit**2)
            state = recipe.advance(state, one + draw_noise(this, source))
    assert worst > 0.1


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_no_user_moves_a_round_by_more_than_declared(kind: str) -> None:
    check_users(kind, range(15))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_no_user_moves_a_round_by_more_than_declared_in_thousands_of_cases(kind: str) -> None:
    check_users(kind, range(1000, 3000))
