"""Sensitivity by property: no neighbour moves a noised statistic by more than its declared bound, and some reach it.

The noise mechanisms are replaced by spies that record the integers and the sensitivity they were given. A mechanism is
run on a data set and on a neighbour that differs in one value (or one entry); as long as everything before a statistic
is equal (the spies return it without noise, or the same noise), the first statistic that differs is checked.
"""

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.kernels import bounding
from tensorveil.mechanisms import spend as spending
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.comparison import compare_models
from tensorveil.mechanisms.data import Form
from tensorveil.mechanisms.spend import Spend
from tensorveil.models import CPModel, TuckerModel
from tensorveil.noise import Noisy, SeededSource
from tensorveil.privacy.gate import PrivateEntries, PrivateValues
from tensorveil.privacy.private import Private

BOUNDS = (-1.0, 3.0)


def values_at(columns: Any, values: Any, shape: Any) -> PrivateValues:
    return PrivateValues(columns=np.ascontiguousarray(columns), values=Private(values), shape=shape, bounds=BOUNDS)


def entries_at(columns: Any, values: Any, shape: Any) -> PrivateEntries:
    chosen = Private(np.ascontiguousarray(columns))
    return PrivateEntries(columns=chosen, values=Private(values), shape=shape, bounds=BOUNDS)


class Spy:
    """Stands in for the noise mechanisms: keeps what they were asked to noise, and answers from a script.

    On the neighbour every statistic is answered as on the original data, so that both runs see the same released
    numbers, as in the definition of adaptive composition; what may differ is only the statistic itself.
    """

    def __init__(self, script: Any = None) -> None:
        self.script = script
        self.calls: list[tuple[Any, Fraction, str]] = []
        self.outcome: Any = None

    def answer(self, ints: Any, grid: Any, sensitivity: Any, norm: Any) -> Any:
        ints = np.asarray(ints)
        self.calls.append((ints.copy(), Fraction(sensitivity), norm))
        if self.script is not None:
            ints = self.script.calls[len(self.calls) - 1][0]
        return Noisy(values=grid.values(ints), variance=grid.step**2, source_secure=False)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(spending, "laplace_mechanism", lambda i, g, s, e, src: self.answer(i, g, s, "l1"))
        patch.setattr(spending, "gaussian_mechanism", lambda i, g, s, e, src: self.answer(i, g, s, "l2"))
        patch.setattr(spending, "norm_mechanism", lambda i, g, s, e, src: self.answer(i, g, s, "rows"))
        patch.setattr(spending, "bounded_values_mechanism", self.values)
        patch.setattr(
            spending,
            "windowed_values_mechanism",
            lambda v, b, src, *, epsilon, square, flags: (self.values(v, b, src), None),
        )

    def values(self, values: Any, bounds: Any, source: Any, *, epsilon: Any = None, mu: Any = None) -> Any:
        steps = 1 << 20
        ints = np.rint((np.asarray(values) - bounds[0]) / (bounds[1] - bounds[0]) * steps).astype(np.int64)
        self.calls.append((ints.copy(), Fraction(steps), "l1"))
        if self.script is not None:
            ints = self.script.calls[len(self.calls) - 1][0]
        width = (bounds[1] - bounds[0]) / steps
        return Noisy(values=bounds[0] + ints * width, variance=1e-6, source_secure=False)


def moved(first: Any, second: Any, norm: Any) -> Any:
    """How far two statistics are apart, in the norm that their noise is scaled to."""
    difference = np.abs(second.astype(object) - first.astype(object))
    if norm == "l1":
        return float(difference.sum())
    if norm == "rows":  # one row of a matrix
        assert np.count_nonzero(difference.reshape(len(difference), -1).any(axis=1)) <= 1
    return float(np.sqrt(float((difference.astype(float) ** 2).sum())))


def run(method: Any, data: Any, spend: Any, core: Any, script: Any = None, loss: str = "gaussian") -> Any:
    form = Form(ranks=(2,) * len(data.shape), core=core, sweeps=3, restarts=1, threads=1, seed=0, loss=loss)
    with pytest.MonkeyPatch.context() as patch:
        spy = Spy(script)
        spy.install(patch)
        spy.outcome = METHODS[method].run(data, form, dataclasses.replace(spend))  # a spend is spent once
    return spy


def worst_ratio(method: Any, data: Any, neighbour: Any, epsilon: float, core: Any, budget: float = 1.0) -> Any:
    """Largest movement over all noised statistics, as a share of the declared sensitivity."""
    spend = Spend(source=SeededSource(0), epsilon=budget) if epsilon else Spend(source=SeededSource(0), mu=budget)
    first = run(method, data, spend, core)
    second = run(method, neighbour, spend, core, script=first)
    assert len(first.calls) == len(second.calls)
    ratios = []
    for (a, sensitivity, norm), (b, other, _) in zip(first.calls, second.calls, strict=True):
        assert sensitivity == other, "sensitivity must not depend on what is private"
        ratios.append(moved(a, b, norm) / float(sensitivity))
    assert ratios, "the method buys nothing from its spend, so there is nothing to compare"
    return max(ratios)


@st.composite
def tensors(draw: Any) -> Any:
    """Small tensors with crowded slices, single-entry rows, and values at their bounds."""
    shape = draw(st.sampled_from([(3, 4), (4, 3, 2), (2, 3, 2, 2)]))
    cells = np.argwhere(np.ones(shape))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    chosen = cells[np.sort(rng.permutation(len(cells))[: draw(st.integers(3, len(cells)))])]
    kind = draw(st.sampled_from(["bounds", "uniform", "constant"]))
    values = {
        "bounds": rng.choice(BOUNDS, len(chosen)),
        "uniform": rng.uniform(*BOUNDS, len(chosen)),
        "constant": np.full(len(chosen), BOUNDS[0]),
    }[kind]
    columns = np.ascontiguousarray(chosen.T.astype(np.int32))
    return values_at(columns, values.astype(float), shape)


VALUE_METHODS = [name for name, method in METHODS.items() if method.unit == "value"]


@pytest.mark.parametrize("epsilon", [True, False], ids=["pure", "gaussian"])
@pytest.mark.parametrize("method", VALUE_METHODS)
@settings(max_examples=12)
@given(
    data=tensors(), where=st.integers(0, 10**6), to=st.sampled_from([*BOUNDS, 0.7]), core=st.booleans(),
    budget=st.sampled_from([1.0, 2000.0]),
)  # fmt: skip
def test_one_value_never_moves_more_than_declared(
    method: Any, epsilon: float, data: Any, where: Any, to: Any, core: Any, budget: float
) -> None:
    values = data.values.reveal().copy()
    values[where % len(values)] = to
    ratio = worst_ratio(method, data, dataclasses.replace(data, values=Private(values)), epsilon, core, budget)
    assert ratio <= 1.0 + 1e-12


@pytest.mark.parametrize("budget", [1.0, 2000.0])
@pytest.mark.parametrize("loss", ["poisson", "bernoulli"])
def test_what_is_decoded_by_a_link_follows_from_what_is_released(loss: str, budget: float) -> None:
    """One value moves no statistic by more than declared, and given the same answers neighbours get the same model."""
    rng, high = np.random.default_rng(0), 9.0 if loss == "poisson" else 1.0
    columns = np.ascontiguousarray(np.argwhere(rng.random((9, 7, 5)) < 0.8).T.astype(np.int32))
    values = np.minimum(rng.poisson(0.5, columns.shape[1]), high)
    data = PrivateValues(columns=columns, values=Private(values), shape=(9, 7, 5), bounds=(0.0, high))
    values = values.copy()
    values[3] = high - values[3]
    neighbour = dataclasses.replace(data, values=Private(values))
    spend = Spend(source=SeededSource(0), epsilon=budget)
    first = run("staged", data, spend, False, loss=loss)
    second = run("staged", neighbour, spend, False, script=first, loss=loss)
    for (a, sensitivity, norm), (b, other, _) in zip(first.calls, second.calls, strict=True):
        assert sensitivity == other
        assert moved(a, b, norm) <= sensitivity
    one, same = first.outcome.solution, second.outcome.solution
    assert one.link is same.link
    for mine, theirs in zip(one.factors, same.factors, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert (one.offset, first.outcome.notes) == (same.offset, second.outcome.notes)


@pytest.mark.parametrize("method", VALUE_METHODS)
@settings(max_examples=12)
@given(data=tensors(), where=st.integers(0, 10**6), to=st.sampled_from([*BOUNDS, 0.7]))
def test_errors_and_notes_follow_from_what_is_released(method: Any, data: Any, where: Any, to: Any) -> None:
    """Given the same noisy statistics, neighbours are told the same: nothing else enters."""
    values = data.values.reveal().copy()
    values[where % len(values)] = to
    first = run(method, data, Spend(source=SeededSource(0), epsilon=1.0), False)
    neighbour = dataclasses.replace(data, values=Private(values))
    second = run(method, neighbour, Spend(source=SeededSource(0), epsilon=1.0), False, script=first)
    one, other = first.outcome, second.outcome
    assert one.notes == other.notes
    for name in ("levels", "edges", "masses"):
        np.testing.assert_array_equal(getattr(one.errors, name), getattr(other.errors, name))


@pytest.mark.parametrize("epsilon", [True, False], ids=["pure", "gaussian"])
@pytest.mark.parametrize("method", VALUE_METHODS)
def test_ninety_percent_of_the_bound_are_reached(method: Any, epsilon: float) -> None:
    """The declared bound is no larger than it need be: a value moved from bound to bound reaches it."""
    columns = np.ascontiguousarray(np.argwhere(np.ones((3, 4))).T.astype(np.int32))
    best = 0.0
    for entry in range(columns.shape[1]):
        values = np.full(columns.shape[1], BOUNDS[0])
        changed = values.copy()
        changed[entry] = BOUNDS[1]
        pair = values_at(columns, values, (3, 4)), values_at(columns, changed, (3, 4))
        best = max(best, worst_ratio(method, *pair, epsilon, False))
    assert best >= 0.9


ENTRY_METHODS = [name for name, method in METHODS.items() if method.unit == "entry"]


@pytest.mark.parametrize("epsilon", [True, False], ids=["pure", "gaussian"])
@pytest.mark.parametrize("method", ENTRY_METHODS)
@settings(max_examples=12)
@given(
    data=tensors(), where=st.integers(0, 10**6), core=st.booleans(), budget=st.sampled_from([1.0, 50.0, 2000.0])
)  # fmt: skip
def test_one_entry_never_moves_more_than_declared(
    method: str, epsilon: float, data: Any, where: Any, core: Any, budget: float
) -> None:
    kept = np.arange(data.n_entries) != where % data.n_entries
    whole = entries_at(data.columns, data.values.reveal(), data.shape)
    smaller = entries_at(data.columns[:, kept], data.values.reveal()[kept], data.shape)
    assert worst_ratio(method, whole, smaller, epsilon, core, budget) <= 1.0 + 1e-12


@pytest.mark.parametrize("method", ENTRY_METHODS)
def test_the_entry_bound_is_nearly_reached(method: str) -> None:
    """The count and sum of the mean: an entry at a bound has the longest possible row."""
    columns, values = np.array([[0, 1], [0, 1]], dtype=np.int32), np.array([3.0, 3.0])
    data, smaller = entries_at(columns, values, (2, 2)), entries_at(columns[:, :1], values[:1], (2, 2))
    assert worst_ratio(method, data, smaller, False, False) >= 0.9


def draw_models(shape: Any, seed: int, count: int) -> Any:
    """Models as noise makes them: some predict within the bounds, some far outside, CP and Tucker."""
    rng = np.random.default_rng(seed)
    models: list[Any] = []
    for _ in range(count):
        factors = tuple(rng.standard_normal((size, 2)) * rng.choice([0.1, 1.0, 100.0]) for size in shape)
        facts: dict[str, Any] = {"factors": factors, "offset": float(rng.uniform(-2, 4)), "bounds": BOUNDS}
        core = rng.standard_normal((2,) * len(shape))
        models.append(TuckerModel(core=core, **facts) if rng.random() < 0.5 else CPModel(**facts))
    return models


def worst_ratio_of_errors(models: Any, data: Any, neighbour: Any, *, pure: bool) -> Any:
    """As `worst_ratio`, for the errors of models on held-out entries."""
    spend = Spend(source=SeededSource(0), epsilon=1.0) if pure else Spend(source=SeededSource(0), mu=1.0)
    spies: list[Spy] = []
    for each in (data, neighbour):
        with pytest.MonkeyPatch.context() as patch:
            spies.append(Spy(spies[0] if spies else None))
            spies[-1].install(patch)
            compare_models(each, models, dataclasses.replace(spend))
    ratios = []
    for (a, sensitivity, norm), (b, other, _) in zip(spies[0].calls, spies[1].calls, strict=True):
        assert sensitivity == other, "sensitivity must not depend on what is private"
        ratios.append(moved(a, b, norm) / float(sensitivity))
    return max(ratios)


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "gaussian"])
@settings(max_examples=30)
@given(data=tensors(), where=st.integers(0, 10**6), to=st.sampled_from([*BOUNDS, 0.7]), seed=st.integers(0, 10**6))
def test_held_out_errors_never_move_more_than_declared(pure: bool, data: Any, where: Any, to: Any, seed: int) -> None:
    models = draw_models(data.shape, seed, 1 + seed % 4)
    values, at = data.values.reveal().copy(), where % data.n_entries
    values[at] = to
    changed = dataclasses.replace(data, values=Private(values))
    assert worst_ratio_of_errors(models, data, changed, pure=pure) <= 1.0 + 1e-12
    kept = np.arange(data.n_entries) != at
    whole = entries_at(data.columns, data.values.reveal(), data.shape)
    smaller = entries_at(data.columns[:, kept], data.values.reveal()[kept], data.shape)
    assert worst_ratio_of_errors(models, whole, smaller, pure=pure) <= 1.0 + 1e-12


def test_the_bound_on_held_out_errors_is_nearly_reached() -> None:
    models = [CPModel(factors=(np.zeros((2, 1)),) * 2, offset=bound, bounds=BOUNDS) for bound in BOUNDS]
    columns, low, high = np.array([[0, 1], [0, 1]], dtype=np.int32), np.array([-1.0, 3.0]), np.array([3.0, 3.0])
    pair = values_at(columns, low, (2, 2)), values_at(columns, high, (2, 2))
    assert worst_ratio_of_errors(models, *pair, pure=False) >= 0.9
    fewer = entries_at(columns, high, (2, 2)), entries_at(columns[:, :1], high[:1], (2, 2))
    assert worst_ratio_of_errors(models, *fewer, pure=False) >= 0.9


SHAPE = (4, 3, 2)


def check_two_way(break_it: Any, method: str = "tables") -> float:
    """Return the worst ratio of a method that measures pairs and two-way tables, once something is broken."""
    columns = np.ascontiguousarray(np.argwhere(np.ones(SHAPE)).T.astype(np.int32))
    a, b = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, 1.0, -1.0])
    values = 1.0 + 0.3 * np.repeat(np.outer(a, b)[:, :, None], 2, axis=2)
    values[0, 0] = BOUNDS[1]  # two that stand out, and meet
    values = values.ravel()
    worst = 0.0
    with pytest.MonkeyPatch.context() as patch:
        break_it(patch)
        for entry in range(len(values)):
            changed = values.copy()
            changed[entry] = BOUNDS[0] if values[entry] > 1 else BOUNDS[1]
            pair = values_at(columns, values, SHAPE), values_at(columns, changed, SHAPE)
            worst = max(worst, worst_ratio(method, *pair, True, False, 2000.0))
    return worst


def narrow_cells(patch: pytest.MonkeyPatch) -> None:
    """The sums over cells of two modes get noise as if residuals were of a fourth of their width."""
    add, cells = Spend._add, {12, 8, 6}

    def forget(self: Any, ints: Any, grid: Any, steps: Any) -> Any:
        return add(self, ints, grid, steps / 4 if len(ints) in cells else steps)

    patch.setattr(Spend, "_add", forget)


def narrow_products(patch: pytest.MonkeyPatch) -> None:
    """Products of pairs get noise for the square of the limit, not four times that."""
    products, add = Spend.pair_products, Spend._add

    def pair_products(self: Any, *arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Spend, "_add", lambda self, ints, grid, steps: add(self, ints, grid, (steps - 1) / 4))
            return products(self, *arguments)

    patch.setattr(Spend, "pair_products", pair_products)


def narrow_counts(patch: pytest.MonkeyPatch) -> None:
    """Counts get noise as if a value left its bin and went nowhere."""
    counts = Spend.counts

    def one_count(self: Any, *arguments: Any) -> Any:
        plain = vars(spending)["laplace_mechanism"]
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(spending, "laplace_mechanism", lambda i, g, s, e, src: plain(i, g, s / 2, e, src))
            return counts(self, *arguments)

    patch.setattr(Spend, "counts", one_count)


def test_two_way_tables_that_are_not_broken_pass() -> None:
    assert 0.9 < check_two_way(lambda patch: None) <= 1.0


@pytest.mark.parametrize("break_it", [narrow_cells, narrow_products, narrow_counts])
def test_mutants_of_stages_are_caught(break_it: Any) -> None:
    assert check_two_way(break_it) > 1.5


def check_crosstabs(break_it: Any) -> float:
    """Return the worst ratio of cross-tabulations, for every entry that may be gone, once something is broken."""
    columns = np.ascontiguousarray(np.argwhere(np.ones(SHAPE)).T.astype(np.int32))
    a, b = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, 1.0, -1.0])
    values = (1.0 + 0.3 * np.repeat(np.outer(a, b)[:, :, None], 2, axis=2)).ravel()
    values[0] = BOUNDS[1]  # one that stands out, and meets one that does not
    worst = 0.0
    with pytest.MonkeyPatch.context() as patch:
        break_it(patch)
        for entry in (0, 1, 7):
            kept = np.arange(len(values)) != entry
            pair = entries_at(columns, values, SHAPE), entries_at(columns[:, kept], values[kept], SHAPE)
            worst = max(worst, worst_ratio("crosstabs", *pair, True, False, 2000.0))
    return worst


def narrow_tallies(patch: pytest.MonkeyPatch) -> None:
    """Counts and sums get noise as if a row were half as long."""
    add = Spend._add

    def forget(self: Any, ints: Any, grid: Any, steps: Any) -> Any:
        return add(self, ints, grid, steps / 2 if ints.shape[1] == 2 else steps)

    patch.setattr(Spend, "_add", forget)


def narrow_bins(patch: pytest.MonkeyPatch) -> None:
    """Histograms get noise as if an entry were in half a bin."""
    add = Spend._add

    def forget(self: Any, ints: Any, grid: Any, steps: Any) -> Any:
        return add(self, ints, grid, steps / 2 if ints.shape[1] == 1 and len(ints) > 20 else steps)

    patch.setattr(Spend, "_add", forget)


def test_crosstabs_that_are_not_broken_pass() -> None:
    assert 0.9 < check_crosstabs(lambda patch: None) <= 1.0


@pytest.mark.parametrize("break_it", [narrow_tallies, narrow_bins])
def test_mutants_of_crosstabs_are_caught(break_it: Any) -> None:
    assert check_crosstabs(break_it) > 1.5


@pytest.mark.parametrize("mutant", ["half the sensitivity", "no bound"])
def test_mutants_are_caught(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test has power: mechanisms broken on purpose fail it."""
    if mutant == "half the sensitivity":
        add = Spend._add
        monkeypatch.setattr(Spend, "_add", lambda self, ints, grid, steps: add(self, ints, grid, steps / 2))
        method = "margins"
    else:
        from tensorveil.mechanisms import refinement

        original = refinement._target

        def unclipped(data: Any, *rest: Any) -> Any:
            return dataclasses.replace(original(data, *rest), residual=Private(data.values.reveal() * 50))

        def add_rows(rows: Any, times: Any, groups: Any, per_unit: float, limit: int, out: Any) -> None:
            np.add.at(out, groups, np.rint(rows * times[:, None] * per_unit).astype(np.int64))

        monkeypatch.setattr(refinement, "_target", unclipped)
        monkeypatch.setattr(bounding, "add_bounded_rows", add_rows)
        method = "output"
    columns = np.ascontiguousarray(np.argwhere(np.ones((3, 4))).T.astype(np.int32))
    values = np.outer([-1, 2, 3], [1, -1, 0.5, 1]).clip(*BOUNDS).ravel()  # structure, so that no component is off
    changed = values.copy()
    changed[5] = BOUNDS[0] if values[5] > 0 else BOUNDS[1]
    pair = values_at(columns, values, (3, 4)), values_at(columns, changed, (3, 4))
    assert worst_ratio(method, *pair, True, False) > 1.5
