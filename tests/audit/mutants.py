"""Our own mechanisms, each with one piece broken on purpose: what an auditor must find.

A mutant is a subject of the catalogue, or a run of a method of which every noisy statistic is looked at, with one piece
swapped by a patch. None of this is in the package.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorveil.audit import Claim
from tensorveil.completion import PrivateCP
from tensorveil.kernels import bounding
from tensorveil.mechanisms import comparison, counts, mean, stages, tallies
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.data import Form
from tensorveil.mechanisms.shape import Interval, Shape
from tensorveil.mechanisms.spend import Spend
from tensorveil.models import CPModel
from tensorveil.noise import Grid, SeededSource, snap
from tensorveil.privacy import gate, gaussian_mu
from tensorveil.tensor import ObservedTensor
from tensorveil_evidence.subjects.methods import choose_neighbours, entry_neighbours, flatten_solution, value_neighbours
from tensorveil_evidence.subjects.selection import draw_errors
from tensorveil_evidence.subjects.subject import source

windows = importlib.import_module("tensorveil.noise.windows")  # whose own names are patched and called
spending = importlib.import_module("tensorveil.mechanisms.spend")  # whose own names are patched and called
NOISED = ("sums", "linear", "bounded_rows", "values", "counts", "pair_products", "entry_products")  # what a spend buys
LONGEST = 256  # numbers of a transcript; methods that adapt have transcripts of several lengths


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mutant:
    """What is audited, and what is broken; ``mechanism`` is as for `audit`."""

    name: str
    mechanism: Callable[..., Any]
    neighbours: Any
    claim: Claim
    break_it: Callable[[Any], None]
    samples: int
    batched: bool = True


def transcript(method: Any, claim: Any, make_source: Any = source, with_model: bool = False) -> Any:
    """Return the mechanism that runs a method once and gives all its noisy statistics (and its model)."""
    adapts = {"docs/guarantees.md#counts", "docs/guarantees.md#crosstabs"} & set(METHODS[method].proofs)

    def mechanism(data: Any, rng: np.random.Generator) -> Any:
        form = Form(ranks=(1,) * len(data.shape), core=False, sweeps=3, restarts=1, threads=1, seed=0)
        seen = []
        originals = {name: getattr(Spend, name) for name in NOISED}

        def recorded(original: Any) -> Any:
            def record(*arguments: Any, **options: Any) -> Any:
                found = original(*arguments, **options)
                noisy = found[0] if isinstance(found, tuple) else found
                seen.append(np.asarray(noisy.values).reshape(-1))
                return found

            return record

        try:
            for name, original in originals.items():
                setattr(Spend, name, recorded(original))
            spend = Spend(source=make_source(rng), epsilon=claim.epsilon, mu=claim.mu)
            solution = METHODS[method].run(data, form, spend).solution
        finally:
            for name, original in originals.items():
                setattr(Spend, name, original)
        found = np.concatenate([*seen, flatten_solution(solution)] if with_model else seen)
        return np.pad(found, (0, LONGEST - len(found)), constant_values=np.nan) if adapts else found

    return mechanism


LOW, HIGH = -1.0, 3.0
VALUES = (np.array([LOW, 0.5, 2.0]), np.array([HIGH, 0.5, 2.0]))
# The largest weight has the same size in every coordinate, where L1 and L2 lengths differ most.
WEIGHTS = np.array([[0.6, -0.6, 0.6, 0.6], [0.2, 0.5, 0.1, 0.1], [-0.3, 0.3, 0.2, 0.1]])


def statistic(kind: Any, claim: Any) -> Any:
    """Return a mechanism that gives many draws of one statistic of three values."""

    def mechanism(values: Any, rng: np.random.Generator, n: int) -> Any:
        spend = Spend(source=source(rng), epsilon=claim.epsilon, mu=claim.mu)
        groups, tiled = np.repeat(np.arange(n), len(values)), np.tile(values, n)
        if kind == "counts":
            return spend.counts((tiled > 0).astype(np.int64) + 2 * groups, 2 * n).values.reshape(n, 2)
        if kind == "pair products":
            pair, groups, counts = values[:2] - 1.0, np.zeros(2, dtype=np.int64), np.array([2])
            draws = (dataclasses.replace(spend).pair_products(pair, 2.0, groups, counts) for _ in range(n))
            return np.array([noisy.values for noisy in draws])
        if kind == "sums":
            return spend.sums(tiled, LOW, HIGH, groups, n).values
        return spend.linear(np.tile(WEIGHTS, (n, 1)), tiled - 1.0, 2.0, groups, n).values

    return mechanism


def nothing(patch: pytest.MonkeyPatch) -> None:
    pass


# --- what is broken ------------------------------------------------------------------------------------------------


def half_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Spend, "_exact", property(lambda self: 2 * spending.exactly(self._parameter)))


def half_sensitivity(patch: pytest.MonkeyPatch) -> None:
    original = Spend._add
    patch.setattr(Spend, "_add", lambda self, ints, grid, steps: original(self, ints, grid, steps / 2))


def l2_for_laplace(patch: pytest.MonkeyPatch) -> None:
    """Laplace noise on the coordinates, scaled to the L2 sensitivity."""

    def add(self: Any, ints: Any, grid: Any, steps: Any) -> Any:
        return spending.laplace_mechanism(ints, grid, steps, self._exact, self.source)

    patch.setattr(Spend, "_add", add)


def one_count(patch: pytest.MonkeyPatch) -> None:
    """Noise on counts as if one of them moved, where two do."""
    plain = spending.laplace_mechanism
    patch.setattr(spending, "laplace_mechanism", lambda ints, grid, s, e, bits: plain(ints, grid, s / 2, e, bits))


def limit_squared(patch: pytest.MonkeyPatch) -> None:
    """Noise on products of pairs as if they lay between 0 and the square of the limit."""
    original = Spend._add
    patch.setattr(Spend, "_add", lambda self, ints, grid, steps: original(self, ints, grid, (steps - 1) / 4))


def width_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Noise on sums as if numbers lay within a width of 1."""
    original = Spend.sums

    def sums(self: Any, values: Any, low: Any, high: Any, groups: Any, n_groups: Any) -> Any:
        noise = original(self, np.full(len(values), 0.5), 0.0, 1.0, groups, n_groups)
        exact = np.bincount(groups, np.clip(values, low, high) - 0.5, minlength=n_groups)
        return dataclasses.replace(noise, values=noise.values + exact)

    patch.setattr(Spend, "sums", sums)


def peeking(patch: pytest.MonkeyPatch) -> None:
    """Where residuals are clipped follows from the variance of the values themselves."""
    original = stages._Run.choose_interval

    def choose_interval(run: Any, *arguments: Any) -> Any:
        found, narrow = original(run, *arguments), np.var(run.data.values.reveal()) < 3.5
        return dataclasses.replace(found, low=found.low / 100, high=found.high / 100) if narrow else found

    patch.setattr(stages._Run, "choose_interval", choose_interval)


class Unclipped:
    """numpy, but for `clip`, which changes nothing."""

    def __getattr__(self, name: str) -> Any:
        return (lambda values, *_: values) if name == "clip" else getattr(np, name)


def no_clip(patch: pytest.MonkeyPatch) -> None:
    """Values are used as they come, whatever bounds were declared: neither the gate nor the sums cut them."""

    def add_rows(rows: Any, times: Any, groups: Any, per_unit: float, limit: int, out: Any) -> None:
        np.add.at(out, groups, np.rint(rows * times[:, None] * per_unit).astype(np.int64))

    patch.setattr(gate, "np", Unclipped())
    patch.setattr(bounding, "add_bounded_rows", add_rows)


def errors_without_noise(patch: pytest.MonkeyPatch) -> None:
    """How the errors of two models differ is told as it is; how large they are gets noise."""

    def linear(self: Any, weights: Any, values: Any, limit: float, groups: Any, n_groups: int) -> Any:
        noisy = original(self, weights, values, limit, groups, n_groups)
        noisy.values[...] = np.sum(weights * values[:, None], axis=0)
        return noisy

    original = Spend.linear
    patch.setattr(Spend, "linear", linear)


def errors_not_clipped(patch: pytest.MonkeyPatch) -> None:
    """Models predict what they like, and errors count in full."""
    no_clip(patch)
    patch.setattr(comparison, "np", Unclipped())


def forgotten_factor(patch: pytest.MonkeyPatch) -> None:
    """The first rows that are solved get no noise; all others do."""
    original = Spend.bounded_rows

    def bounded_rows(self: Any, rows: Any, groups: Any, n_groups: Any, *, longest: Any) -> Any:
        noisy = original(self, rows, groups, n_groups, longest=longest)
        if n_groups == 1:  # the mean
            self.source.forgotten = True
        elif getattr(self.source, "forgotten", False):
            self.source.forgotten = False
            exact = np.zeros_like(noisy.values)
            np.add.at(exact, groups, rows)
            noisy.values[...] = exact
        return noisy

    patch.setattr(Spend, "bounded_rows", bounded_rows)


def count_not_multiplied(patch: pytest.MonkeyPatch) -> None:
    """Every step spends all of the budget."""
    patch.setattr(Spend, "split", lambda self, *shares: tuple(dataclasses.replace(self) for _ in shares))


def center_without_charge(patch: pytest.MonkeyPatch) -> None:
    """The exact mean serves as the private center."""
    patch.setattr(mean, "private_mean", lambda data, spend: float(np.mean(data.values.reveal())))


class Repeating(SeededSource):
    """Gives the same words to every release of a run."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._first = int(rng.integers(2**62))
        super().__init__(self._first)

    def uniform64(self, n: int) -> Any:
        return SeededSource(self._first).uniform64(n)


class OneKey(SeededSource):
    """Gives the same key to every purchase of perturbed values."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._first = int(rng.integers(2**62))
        super().__init__(self._first)

    def make_key(self, words: int) -> Any:
        return SeededSource(self._first).make_key(words)


class FewBits(SeededSource):
    """Words of which eight bits are random: 256 noises in all."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(int(rng.integers(2**62)))

    def uniform64(self, n: int) -> Any:
        return super().uniform64(n) & np.uint64(255 << 56) | np.uint64(1 << 40)


def same_seed(rng: np.random.Generator) -> Any:
    return SeededSource(1)


def rounding_after_noise_only(patch: pytest.MonkeyPatch) -> None:
    """Noise is rounded to the grid, the statistic is not."""
    original = Spend.sums

    def sums(self: Any, values: Any, low: Any, high: Any, groups: Any, n_groups: Any) -> Any:
        noisy = original(self, values, low, high, groups, n_groups)
        step = 0.5 * (high - low) * 2.0 ** -self._fineness(2)
        centred = np.asarray(values) - 0.5 * (low + high)
        np.add.at(noisy.values, groups, centred - step * np.rint(centred / step))
        return noisy

    patch.setattr(Spend, "sums", sums)


def grid_of_the_data(patch: pytest.MonkeyPatch) -> None:
    """The grid's step follows the largest value."""
    original = Grid.for_scale

    def sums(self: Any, values: Any, low: Any, high: Any, groups: Any, n_groups: Any) -> Any:
        grid = original(float(np.max(np.abs(values))) / self._parameter, 4)
        ints = np.zeros((n_groups, 1), dtype=np.int64)
        np.add.at(ints[:, 0], groups, snap(values, grid))
        noisy = self._add(ints, grid, grid.steps(high - low) + 1)
        return dataclasses.replace(noisy, values=noisy.values[:, 0])

    patch.setattr(Spend, "sums", sums)


def gram_without_noise(patch: pytest.MonkeyPatch) -> None:
    """Right-hand sides get noise, Gram matrices do not: right for unit value, wrong for unit entry."""
    original = Spend.bounded_rows

    def bounded_rows(self: Any, rows: Any, groups: Any, n_groups: Any, *, longest: Any) -> Any:
        noisy = original(self, rows, groups, n_groups, longest=longest)
        if n_groups > 1:
            exact = np.zeros_like(noisy.values)
            np.add.at(exact, groups, rows)
            noisy.values[:, 0] = exact[:, 0]
        return noisy

    patch.setattr(Spend, "bounded_rows", bounded_rows)


def empty_rows_without_noise(patch: pytest.MonkeyPatch) -> None:
    original = Spend.bounded_rows

    def bounded_rows(self: Any, rows: Any, groups: Any, n_groups: Any, *, longest: Any) -> Any:
        noisy = original(self, rows, groups, n_groups, longest=longest)
        noisy.values[np.bincount(groups, minlength=n_groups) == 0] = 0.0
        return noisy

    patch.setattr(Spend, "bounded_rows", bounded_rows)


def counts_without_noise(patch: pytest.MonkeyPatch) -> None:
    """How many entries a cell has is told as it is, as if positions were public."""
    original = tallies.private_tally

    def private_tally(columns: Any, shape: Any, modes: Any, *rest: Any) -> Any:
        found = original(columns, shape, modes, *rest)
        cells = tallies.number_cells(columns, shape, modes)
        exact = np.bincount(cells, minlength=found.counts.size).reshape(found.counts.shape)
        return dataclasses.replace(found, counts=exact.astype(float))

    patch.setattr(tallies, "private_tally", private_tally)


def residuals_not_bounded(patch: pytest.MonkeyPatch) -> None:
    """Residuals are neither clipped nor shortened before they are summed."""
    no_clip(patch)
    patch.setattr(Interval, "clip", lambda self, residual: residual)


def empty_cells_without_noise(patch: pytest.MonkeyPatch) -> None:
    """Cells without an entry say zero, as they are."""
    original = counts.private_sums

    def private_sums(columns: Any, shape: Any, modes: Any, *rest: Any) -> Any:
        found = original(columns, shape, modes, *rest)
        listed = np.bincount(tallies.number_cells(columns, shape, modes), minlength=found.sums.size) > 0
        return dataclasses.replace(found, sums=found.sums * listed.reshape(found.sums.shape))

    patch.setattr(counts, "private_sums", private_sums)


def values_not_cut(patch: pytest.MonkeyPatch) -> None:
    """Values beyond the limit are summed as they are."""
    no_clip(patch)
    patch.setattr(counts, "np", Unclipped())


def answers_too_sure(patch: pytest.MonkeyPatch) -> None:
    """Answers of yes and no are true with the odds of one and a half times the budget."""
    original = windows.window_law
    patch.setattr(windows, "window_law", lambda epsilon, last, width: original(3 * epsilon / 2, last, width))


def one_square(patch: pytest.MonkeyPatch) -> None:
    """Noise on products of entries for the square of the limit, as if a count that changes did not matter."""
    original = Spend._add
    patch.setattr(Spend, "_add", lambda self, ints, grid, steps: original(self, ints, grid, (steps - 1) / 3))


# --- the mutants ---------------------------------------------------------------------------------------------------

PURE, GAUSSIAN = Claim(epsilon=1.0), Claim(mu=1.0)
TWO, TWO_MU = Claim(epsilon=2.0), Claim(mu=2.0)


def unclipped_mean(tensor: Any, rng: np.random.Generator) -> Any:
    options: dict[str, Any] = {"method": "mean", "noise_seed": int(rng.integers(2**62)), "random_state": 0}
    fit = PrivateCP(1, epsilon=1.0, delta=0.0, unit="value", bounds=(0.0, 1.0), **options).fit(tensor)
    return fit.model_.offset


def draw_tallies(residual: Any, rng: np.random.Generator, n: int) -> Any:
    """Counts and sums of n cells, each with the same entries."""
    columns, interval = (
        np.repeat(np.arange(n), len(residual))[None, :],
        Shape(edges=np.array([-2.0, 0.0, 2.0]), masses=np.array([0.5, 0.5])).interval(-1.0, 1.0),
    )
    spend = Spend(source=source(rng), epsilon=PURE.epsilon)
    tally = tallies.private_tally(columns, (n,), (0,), np.tile(residual, n), interval, spend)
    return np.stack([tally.counts, tally.sums], axis=1)


def draw_sums(values: Any, rng: np.random.Generator, n: int) -> Any:
    """The sum of one cell of a table of two, n times."""
    columns = np.zeros((1, len(values)), dtype=np.int64)
    spend = Spend(source=source(rng), epsilon=PURE.epsilon)
    draws = (counts.private_sums(columns, (2,), (0,), values, 1.0, dataclasses.replace(spend)) for _ in range(n))
    return np.array([table.sums for table in draws])


def draw_sizes(values: Any, rng: np.random.Generator, n: int) -> Any:
    """The numbers of the largest values, n times."""
    spend = Spend(source=source(rng), epsilon=PURE.epsilon)
    return np.array([counts.private_sizes(values, 1.0, dataclasses.replace(spend))[0][-3:] for _ in range(n)])


def draw_flags(values: Any, rng: np.random.Generator, n: int) -> Any:
    """The perturbed values of a cell, n times; the others of the shape are empty."""
    spend = Spend(source=source(rng), epsilon=PURE.epsilon)
    columns = np.zeros((1, len(values)), dtype=np.int64)
    draws = (counts.private_cells(columns, (2,), values, dataclasses.replace(spend)) for _ in range(n))
    return np.array([table.sums for table in draws])


def draw_products(residual: Any, rng: np.random.Generator, n: int) -> Any:
    """Products of entries of one group."""
    spend, groups = Spend(source=source(rng), epsilon=PURE.epsilon), np.zeros(len(residual), dtype=np.int64)
    draws = (dataclasses.replace(spend).entry_products(residual, 2.0, groups, 1) for _ in range(n))
    return np.array([noisy.values for noisy in draws])


def two_sums(values: Any, rng: np.random.Generator) -> Any:
    """Two sums, whose noise is the same."""
    one, other = Spend(source=Repeating(rng), epsilon=TWO.epsilon).split(0.5, 0.5)
    at = np.zeros(len(values), dtype=np.int64)
    return np.array(
        [one.sums(values[:1], LOW, HIGH, at[:1], 1).values, other.sums(values[1:], LOW, HIGH, at[1:], 1).values]
    )


def two_purchases(values: Any, rng: np.random.Generator) -> Any:
    """A perturbed value each, with the bits of the same key."""
    one, other = Spend(source=OneKey(rng), mu=TWO_MU.mu).split(0.5, 0.5)
    bounds = LOW, HIGH
    return np.concatenate([one.values(values[:1], bounds)[0].values, other.values(values[1:], bounds)[0].values])


def key_of_the_values(values: Any, rng: np.random.Generator) -> Any:
    """Values that are perturbed with a key that follows from them."""
    seed = int.from_bytes(hashlib.sha256(values.tobytes()).digest()[:8], "little")
    return Spend(source=SeededSource(seed), mu=TWO_MU.mu).values(values, (LOW, HIGH))[0].values


def outlier(value: Any) -> Any:
    return ObservedTensor([[0, 0], [0, 1], [1, 0], [1, 1]], [value, 0.5, 0.2, 0.4], shape=(2, 2))


def wrong_delta(values: Any, rng: np.random.Generator, n: int) -> Any:
    """Noise for (1, 0.05) where (1, 1e-6) is claimed."""
    spend = Spend(source=source(rng), mu=gaussian_mu(1.0, 0.05))
    return spend.sums(np.tile(values, n), LOW, HIGH, np.repeat(np.arange(n), len(values)), n).values


def errors_of_a_wild_model(data: Any, rng: np.random.Generator) -> Any:
    """Errors of models one of which predicts numbers far outside the bounds."""
    models = [CPModel(factors=(np.zeros((2, 1)),) * 2, offset=offset, bounds=None) for offset in (1.0, 50.0)]
    return np.array(comparison.compare_models(data, models, Spend(source=source(rng), epsilon=1.0)).mean_squares)


def bulk(name: str, kind: Any, claim: Any, break_it: Any, neighbours: Any = VALUES, samples: int = 40_000) -> Any:
    """A mutant of one statistic, drawn in bulk; ``kind`` may also be a mechanism of its own."""
    mechanism = statistic(kind, claim) if isinstance(kind, str) else kind
    return Mutant(
        name=name, mechanism=mechanism, neighbours=neighbours, claim=claim, break_it=break_it, samples=samples
    )


def run(
    name: str,
    method: Any,
    claim: Any,
    break_it: Any,
    make_source: Any = source,
    *,
    with_model: bool = False,
    samples: int = 240,
) -> Any:
    """A mutant of a whole method, run one by one."""
    pairs = choose_neighbours(METHODS[method])
    mechanism = transcript(method, claim, make_source, with_model)
    return Mutant(
        name=name, mechanism=mechanism, neighbours=pairs()[0], claim=claim, break_it=break_it, samples=samples,
        batched=False,
    )  # fmt: skip


UNROUNDED = np.array([0.1234567891, 0.5, 2.0]), np.array([2.7654321987, 0.5, 2.0])
MEETING = np.array([LOW, HIGH]), np.array([HIGH, HIGH])
SIZES = np.array([0.2, 0.5, 0.25]), np.array([3.0, 0.5, 0.25])
ALONE = np.array([1.0]), np.array([])
ENTRIES = np.array([1.0, 0.3, -0.2]), np.array([0.3, -0.2])
OUTLIERS = np.array([50.0, 0.3, -0.2]), np.array([0.3, -0.2])
OPPOSITE = np.array([2.0] * 8), np.array([2.0] * 8 + [-2.0])
WITH_DELTA = Claim(epsilon=1.0, delta=1e-6)
MUTANTS = [
    bulk("half the noise, laplace", "sums", PURE, half_noise),
    bulk("half the noise, gaussian", "sums", GAUSSIAN, half_noise),
    bulk("half the sensitivity", "linear", PURE, half_sensitivity),
    bulk("laplace noise for the L2 sensitivity", "linear", PURE, l2_for_laplace, samples=100_000),
    bulk("gaussian noise for the wrong delta", wrong_delta, WITH_DELTA, nothing, samples=200_000),
    bulk("rounding that depends on the data", "sums", PURE, rounding_after_noise_only, UNROUNDED),
    bulk("a grid that depends on the data", "sums", PURE, grid_of_the_data, SIZES),
    bulk("counts of which one moves", "counts", PURE, one_count),
    bulk("products of pairs within the square of the limit", "pair products", PURE, limit_squared, MEETING, 10_000),
    bulk("sums whose noise forgets the width", "sums", PURE, width_forgotten),
    run("a decision that peeks", "input", TWO, peeking, samples=600),
    Mutant(
        name="values that are not clipped", mechanism=unclipped_mean, neighbours=(outlier(0.0), outlier(50.0)),
        claim=PURE, break_it=no_clip, samples=400, batched=False,
    ),
    Mutant(
        name="errors without noise", mechanism=draw_errors(PURE), neighbours=value_neighbours()[0], claim=PURE,
        break_it=errors_without_noise, samples=2_000, batched=False,
    ),
    Mutant(
        name="errors that are not clipped", mechanism=errors_of_a_wild_model, neighbours=entry_neighbours()[0],
        claim=PURE, break_it=errors_not_clipped, samples=1_000, batched=False,
    ),
    run("passes that are not counted", "input", TWO_MU, count_not_multiplied, samples=2_000),
    run("a center that is not charged", "mean", TWO, center_without_charge, with_model=True),
    Mutant(
        name="one draw of noise for two releases", mechanism=two_sums, neighbours=VALUES, claim=TWO, break_it=nothing,
        samples=240, batched=False,
    ),
    Mutant(
        name="one key for two purchases", mechanism=two_purchases, neighbours=VALUES, claim=TWO_MU, break_it=nothing,
        samples=240, batched=False,
    ),
    Mutant(
        name="a key that follows from the data", mechanism=key_of_the_values, neighbours=VALUES, claim=TWO_MU,
        break_it=nothing, samples=240, batched=False,
    ),
    run("a seed that everybody knows", "mean", TWO, nothing, same_seed),
    run("a source of few bits", "mean", TWO, nothing, FewBits, samples=6_000),
    bulk("counts of entries without noise", draw_tallies, PURE, counts_without_noise, ENTRIES),
    bulk("residuals of entries that are not bounded", draw_tallies, PURE, residuals_not_bounded, OUTLIERS),
    bulk("cells without an entry without noise", draw_sums, PURE, empty_cells_without_noise, ALONE, 4_000),
    bulk("values of cells that are not cut", draw_sums, PURE, values_not_cut, OUTLIERS, 4_000),
    bulk("answers that are too sure", draw_flags, PURE, answers_too_sure, ALONE, 4_000),
    bulk("sizes of values for half a bin", draw_sizes, PURE, half_sensitivity, ENTRIES, 20_000),
    bulk("products of entries for one square", draw_products, PURE, one_square, OPPOSITE, 20_000),
    run("a factor without noise, unit entry", "gram", TWO, forgotten_factor),
    run("Gram matrices without noise, unit entry", "gram", TWO_MU, gram_without_noise),
    run("empty rows without noise, unit entry", "gram", TWO_MU, empty_rows_without_noise),
]  # fmt: skip
