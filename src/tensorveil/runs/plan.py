"""What accuracy to expect of private completion before anything is spent: guesses from declared facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tensorveil.completion.needs import check_budget
from tensorveil.completion.private_matrix import plan_ranks
from tensorveil.completion.settings import cp_ranks, tucker_ranks
from tensorveil.completion.slices import ROUNDS
from tensorveil.errors import InputError
from tensorveil.mechanisms.case import TYPICAL_SPREAD
from tensorveil.mechanisms.planner import check_spread, plan
from tensorveil.mechanisms.tradeoffs import SIGNAL
from tensorveil.privacy import Budget, Unit
from tensorveil.privacy.delta import check_delta
from tensorveil.privacy.gate import declare
from tensorveil.release.result import make_plain
from tensorveil.rounds import Recipe
from tensorveil.rounds.guess import describe_release, guess_error
from tensorveil.runs.costs import Cost, estimate_private
from tensorveil.runs.estimators import DEFAULT_RANK
from tensorveil.runs.guesses import Guessed, check_question, find_budget
from tensorveil.runs.reading import Reading, read_privately
from tensorveil.tensor.stored import StoredTensor, is_store

__all__ = ["PlanRun", "Planned", "plan_budgets"]

Guess = Callable[[float], Guessed]
UNITS = ("value", "entry", "slice")
ASSUMED = (
    "Unit {unit}: {known} These are guesses for a typical tensor, because the values are not looked at: {spread}, a "
    "quarter of the variance biases, a third interactions; the noise of observations is not counted, but held-out "
    "values have it. A constant is guessed to have {constant:.3g}. Compare guesses with each other; your own errors "
    "will differ. {auto}Planning costs no budget."
)
KNOWN = {
    "value": "positions are public.",
    "entry": "the number of entries is as declared, for the guess alone.",
    "slice": "users are served from their own entries; the number of entries is as declared, for the guess alone.",
}
AUTO = {
    "value": "A release measures its own. Auto does not go by these guesses: it measures in stages, and decides by "
    "what it has found. ",
    "entry": "",
    "slice": "What auto spends on follows from the budget, the shape and the declared number of users. ",
}
TYPICAL = "a standard deviation of a tenth of the bounds' width (declare yours with --spread)"


@dataclass(frozen=True, kw_only=True)
class PlanRun:
    """What is to be planned for.

    Parameters
    ----------
    bounds
        Where values can lie.
    epsilons, delta
        The budgets to compare.
    rmse
        The error that predictions may have: the smallest epsilon that is guessed to reach it is looked for.
    unit
        "value", "entry" or "slice:MODE".
    reading
        Unit "value": a file or a store, of which only the positions are used, which are public; or else
    shape, entries
        the sizes of the modes and the number of entries. In units "entry" and "slice" both are declared, and the
        number of entries, which is private, is used for the guess alone; it must not be read off the data.
    modes
        Unit "slice": names of the modes; by default the first one is protected.
    model, rank
        The form of the model: "cp", "tucker" or "matrix"; None for its default rank.
    spread
        A standard deviation of the values, if one is known without looking at them; None for a typical one.
    """

    bounds: tuple[float, float]
    epsilons: tuple[float, ...] = ()
    delta: float = 0.0
    rmse: float | None = None
    unit: Unit | str = "value"
    reading: Reading | None = None
    shape: tuple[int, ...] | None = None
    entries: int | None = None
    modes: tuple[str, ...] | None = None
    model: str = "cp"
    rank: Any = None
    spread: float | None = None


@dataclass(frozen=True, kw_only=True)
class Planned:
    """Guesses by epsilon, and the public facts that they were made from."""

    unit: Unit
    shape: tuple[int, ...]
    entries: int
    bounds: tuple[float, float]
    model: str
    rank: Any
    delta: float
    budgets: tuple[Guessed, ...]
    rmse: float | None
    answer: Guessed | None
    spread: float | None = None

    @property
    def typical_spread(self) -> float:
        """The standard deviation that the guesses are made for."""
        return TYPICAL_SPREAD * (self.bounds[1] - self.bounds[0]) if self.spread is None else self.spread

    @property
    def constant(self) -> float:
        """The guessed error of a constant."""
        return math.sqrt(SIGNAL) * self.typical_spread

    def held_out(self, guessed: Guessed) -> float:
        """Return the error that held-out values would show, whose own noise comes on top."""
        return math.hypot(guessed.rmse, math.sqrt(1 - SIGNAL) * self.typical_spread)

    @property
    def cost(self) -> Cost:
        """What one fit takes, roughly."""
        ranks = _plan_ranks(self.model, self.rank, self.shape)
        return estimate_private(self.shape, self.entries, unit=self.unit.kind, ranks=ranks, core=self.model == "tucker")

    @property
    def assumed(self) -> str:
        """What the guesses rest on, in words."""
        declared = f"a standard deviation of {self.spread:g}, as declared" if self.spread is not None else TYPICAL
        return ASSUMED.format(
            unit=self.unit,
            known=KNOWN[self.unit.kind],
            spread=declared,
            constant=self.constant,
            auto=AUTO[self.unit.kind],
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the guesses, and what they rest on."""
        from tensorveil.markup import notebook_card

        facts: list[tuple[str, object]] = [
            ("unit", self.unit),
            ("shape", " x ".join(f"{size:,}" for size in self.shape)),
            ("a constant", f"{self.constant:.3g}"),
            *((f"epsilon {each.epsilon:g}", each.releases) for each in self.budgets if each.releases),
        ]
        if self.answer is not None:
            facts.append((f"epsilon for an RMSE of {self.rmse:g}", f"{self.answer.epsilon:g}"))
        facts += [("takes", self.cost), ("rests on", self.assumed)]
        methods = dict.fromkeys(name for each in self.budgets for name in each.errors)
        rows = [
            (name, *(f"{each.errors[name]:.3g}" if name in each.errors else "" for each in self.budgets))
            for name in methods
        ]
        head = ("guessed RMSE", *(f"epsilon {each.epsilon:g}" for each in self.budgets))
        return notebook_card("Plan", facts, head=head, rows=rows)

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return {
            "unit": str(self.unit),
            "shape": list(self.shape),
            "entries": self.entries,
            "bounds": list(self.bounds),
            "model": self.model,
            "rank": make_plain(self.rank),
            "delta": self.delta,
            "budgets": [self._budget(each) for each in self.budgets],
            "rmse": self.rmse,
            "answer": None if self.answer is None else self._budget(self.answer),
            "constant": self.constant,
            "spread": self.spread,
            "cost": self.cost.to_json(),
            "assumed": self.assumed,
        }

    def _budget(self, guessed: Guessed) -> dict[str, Any]:
        return guessed.to_json() | {"delta": self.delta, "held_out_rmse": self.held_out(guessed)}


def plan_budgets(run: PlanRun) -> Planned:
    """Guess the error of every mechanism at every budget, and the smallest budget that reaches an error.

    >>> facts = {"shape": (6040, 3706), "entries": 900_000, "bounds": (1, 5), "delta": 1e-6, "spread": 1.1}
    >>> found = plan_budgets(PlanRun(unit="slice:user", epsilons=(1.0,), rmse=0.6, **facts))
    >>> round(found.budgets[0].rmse, 2), found.answer.epsilon
    (0.7, 4.02)
    >>> found.answer.releases
    'Biases, traits and 8 latent features would be released.'
    """
    unit = _check_unit(run.unit)
    check_question(run.epsilons, run.rmse)
    low, high = run.bounds
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError("bounds must be two finite numbers, the lower one first. Try bounds=(1, 5).")
    shape, entries = _find_facts(run, unit)
    rank = run.rank or DEFAULT_RANK[run.model]
    ranks = _plan_ranks(run.model, rank, shape)
    make = _guess_slices if unit.kind == "slice" else _guess_centrally
    guess = make(run, unit, shape, entries, ranks)
    planned = Planned(
        unit=unit,
        shape=shape,
        entries=entries,
        bounds=(low, high),
        model=run.model,
        rank=rank,
        delta=run.delta,
        budgets=tuple(guess(epsilon) for epsilon in dict.fromkeys(run.epsilons)),
        rmse=run.rmse,
        answer=None,
        spread=run.spread,
    )
    return planned if run.rmse is None else replace(planned, answer=_find_answer(planned, guess, run.rmse))


def _find_answer(planned: Planned, guess: Guess, rmse: float) -> Guessed:
    """Return the smallest budget that is guessed to reach an error; a constant, which is free, must not reach it."""
    if rmse >= planned.constant:
        raise InputError(
            f"rmse must be below {planned.constant:.3g}, which a constant is guessed to have. Ask for less, or declare "
            "a spread if values differ more."
        )
    return find_budget(guess, rmse)


def _guess_centrally(run: PlanRun, unit: Unit, shape: tuple[int, ...], entries: int, ranks: tuple[int, ...]) -> Guess:
    """Return the planner's guess for units "value" and "entry"."""

    def guess(epsilon: float) -> Guessed:
        found = plan(
            shape=shape, n_entries=entries, bounds=run.bounds, ranks=ranks, core=run.model == "tucker",
            budget=_check(Budget(epsilon=epsilon, delta=run.delta)), unit=unit, spread=run.spread,
        )  # fmt: skip
        errors = {each.method: each.rmse for each in found.predictions}
        return Guessed(epsilon=epsilon, method=found.method, errors=errors)

    return guess


def _guess_slices(run: PlanRun, unit: Unit, shape: tuple[int, ...], entries: int, ranks: tuple[int, ...]) -> Guess:
    """Return the guess for whole users: what "auto" would do, and what insisting on a method would."""
    names = _name_modes(run, unit, shape)
    width = run.bounds[1] - run.bounds[0]
    spread = TYPICAL_SPREAD * width if run.spread is None else check_spread(run.spread, width)

    def guess(epsilon: float) -> Guessed:
        recipes = {
            name: Recipe(
                shape=shape, modes=names, protect=str(unit.mode), bounds=run.bounds, epsilon=epsilon, delta=run.delta,
                kind="tucker" if run.model == "tucker" else "cp", rank=ranks if run.model == "tucker" else ranks[0],
                contributions=unit.contributions, sweeps=sweeps,
            )
            for name, sweeps in (("auto", None), *((each.name, each.sweeps) for each in ROUNDS.values()))
        }  # fmt: skip
        errors = {name: spread * math.sqrt(guess_error(recipe, entries)) for name, recipe in recipes.items()}
        return Guessed(epsilon=epsilon, method="auto", errors=errors, releases=describe_release(recipes["auto"]))

    return guess


def _name_modes(run: PlanRun, unit: Unit, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names of the modes; those that were not given are numbers."""
    if run.modes is None:
        return (str(unit.mode), *(f"mode {m}" for m in range(1, len(shape))))
    if len(run.modes) != len(shape) or unit.mode not in run.modes:
        raise InputError(
            f"modes must name as many modes as the shape has sizes, {unit.mode!r} among them. Leave them out if the "
            "first one is protected."
        )
    return tuple(run.modes)


def _plan_ranks(model: str, rank: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    if model == "matrix":
        return plan_ranks(rank, shape)
    return (cp_ranks if model == "cp" else tucker_ranks)(rank, shape)


def _check_unit(unit: Unit | str) -> Unit:
    found = Unit.parse(unit)
    if found.kind not in UNITS:
        raise InputError(
            f"unit must be value, entry or slice:MODE here; got {str(found)!r}. For means of local reports, plan_means."
        )
    return found


def _find_facts(run: PlanRun, unit: Unit) -> tuple[tuple[int, ...], int]:
    """Return shape and number of entries; of a file's values nothing is used, and none is refused."""
    if run.reading is not None:
        if unit.kind != "value":
            raise InputError(
                f"reading: positions are private in unit {unit.kind!r}, so a plan reads no file. Declare the shape and "
                "about how many entries there are."
            )
        shape, entries = _count_positions(run.reading, unit, run.bounds)
    elif run.shape is None or run.entries is None:
        raise InputError("shape and entries must be given where there is no file. Try shape=(943, 1682).")
    else:
        shape, entries = tuple(run.shape), run.entries
    if isinstance(entries, bool) or not isinstance(entries, int) or entries < 1:
        raise InputError("entries must be a whole number of at least 1. Try entries=100000.")
    # In units "entry" and "slice" one cell may have several entries.
    if unit.kind == "value" and entries > math.prod(shape):
        raise InputError("entries: there are more entries than cells in the shape. Check both.")
    check_delta(run.delta, unit, among=_count_units(unit, run, shape, entries))
    return shape, entries


def _count_positions(reading: Reading, unit: Unit, bounds: tuple[float, float]) -> tuple[tuple[int, ...], int]:
    """Return shape and number of entries of a file, or of a store, of which the manifest alone is read."""
    if is_store(reading.file):
        stored = StoredTensor.open(reading.file)
        declare(stored, unit=unit, bounds=bounds, shape=None)  # refuses what no fit for this unit would take
        return stored.shape, stored.n_entries
    tensor = read_privately(replace(reading, duplicates="first"), unit, bounds, None)  # by any rule they are as many
    return tensor.shape, tensor.n_entries


def _count_units(unit: Unit, run: PlanRun, shape: tuple[int, ...], entries: int) -> int:
    """Return among how many a delta promises something, as public numbers tell; as the gate counts them."""
    if unit.kind == "value":
        return entries
    return max(shape) if unit.kind == "entry" else shape[_name_modes(run, unit, shape).index(str(unit.mode))]


def _check(budget: Budget) -> Budget:
    check_budget(budget)
    return budget
