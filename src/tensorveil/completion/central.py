"""Units "value" and "entry": the planner chooses a mechanism, which releases a whole model."""

from __future__ import annotations

import contextlib
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Generic, Self

from tensorveil.completion import settings as rules
from tensorveil.completion.estimator import Model, Predictor
from tensorveil.completion.job import Begun, Promise, Released
from tensorveil.completion.methods import check_method
from tensorveil.completion.private import PrivateCompletion, begin_at_once
from tensorveil.completion.private_settings import CentralSettings
from tensorveil.completion.smoothness import check_smooth_release, read_smoothness
from tensorveil.engines import Engine, Loop, find_engine
from tensorveil.engines.entries import open_entries, open_values
from tensorveil.errors import InputError
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.crosstab_plan import MOST_CELLS
from tensorveil.mechanisms.data import Form, Outcome
from tensorveil.mechanisms.method import Method
from tensorveil.mechanisms.planner import Plan, plan
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.stage_plan import list_tables
from tensorveil.noise import NoiseSource
from tensorveil.privacy import Budget, Event, Unit, gaussian_mu
from tensorveil.privacy.gate import Declared, PrivateEntries, PrivateValues, admit
from tensorveil.solvers.loss import GAUSSIAN
from tensorveil.solvers.losses import BERNOULLI, POISSON
from tensorveil.solvers.task import Solution
from tensorveil.tensor import Mode, ObservedTensor, StoredTensor
from tensorveil.tensor.given import VALUE

Build = Callable[[Solution, Sequence[Mode], tuple[float, float]], Model]


@dataclass(frozen=True, kw_only=True)
class CentralJob(Generic[Model]):
    """One run of a mechanism over all data; ``build`` makes the estimator's model of the solution.

    ``public`` is what was taken as public beside what is declared of the data.
    """

    method: Method
    plan: Plan
    promise: Promise
    form: Form
    spend: Spend
    build: Build[Model]
    conditions: tuple[str, ...] = ()
    public: tuple[str, ...] = ()

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.spend.event

    def run(self, tensor: ObservedTensor) -> Released[Model]:
        """Admit the data and run the mechanism.

        Guarantee: that of the mechanism, for the promised budget and unit (docs/guarantees.md).
        """
        return self._run_on(admit(tensor, self.promise.declared))

    @contextlib.contextmanager
    def begin_stored(self, stored: StoredTensor, engine: Engine) -> Iterator[Begun[Model]]:
        """Run the same mechanism on a store: its sums part by part, wherever the engine computes them, noise here.

        Before anything is charged every part has been opened where it will be worked on. In unit "value" positions,
        which are public, are read here.

        Guarantee: that of the mechanism, for the promised budget and unit (docs/guarantees.md#entry,
        docs/guarantees.md#keyed-noise).
        """
        declared = self.promise.declared
        data: PrivateValues | PrivateEntries
        if declared.unit.kind == "value":
            data = open_values(stored, engine, declared.shape, declared.bounds, self._largest_sum())
        else:
            data = open_entries(
                stored, engine, declared.shape, declared.bounds, self._largest_sum(), zeros=declared.zeros
            )
        yield Begun(run=lambda: self._run_on(data), release_id=str(uuid.uuid4()))

    def _largest_sum(self) -> int:
        """Return how many integers the largest sum has: of a table, three per cell; of rows, their Gram matrices."""
        shape: tuple[int, ...] = self.promise.declared.shape
        if self.promise.unit.kind == "value":
            rows: list[int] = [size * (rank + 1) for size, rank in zip(shape, self.form.ranks, strict=True)]
            rows += [math.prod(shape[m] for m in modes) for modes in list_tables(shape, self.plan.n_entries or 0)]
            return 3 * max(rows)
        if self.method.name == "gram":
            grams = [size * rank * (rank + 3) // 2 for size, rank in zip(shape, self.form.ranks, strict=True)]
            return max(grams)
        tables: list[int] = [math.prod(shape), *(one * other for one, other in combinations(shape, 2))]
        return 3 * max([*shape, *(cells for cells in tables if cells <= MOST_CELLS)])

    def _run_on(self, data: PrivateValues | PrivateEntries) -> Released[Model]:
        declared = self.promise.declared
        outcome = self.method.run(data, self.form, self.spend)
        model = replace(
            self.build(outcome.solution, declared.modes, declared.bounds),
            errors=outcome.errors,
            link=outcome.solution.link,
            loss=_name_loss(declared) if self.form.loss == GAUSSIAN.name else self.form.loss,
            value_name=declared.value or VALUE,
        )
        return Released(
            model=model, parts=outcome.parts, holds=self._holds(outcome), notes=outcome.notes, public=self.public
        )

    def _holds(self, outcome: Outcome) -> tuple[str, ...]:
        holds = ["factors of every mode", "offset"]
        if self.form.core:
            holds.append("core")
        if outcome.solution.biases is not None:
            holds.append("biases of every mode")
        if outcome.solution.remainder is not None:
            holds.append("remainders along time, of every cell")
        if outcome.errors is not None:
            holds.append("errors to expect of its predictions")
        return tuple(holds)


def _name_loss(declared: Declared) -> str:
    """Return the loss that the models of a fit are measured by: the one that is usual for what values can be."""
    if not declared.zeros:
        return GAUSSIAN.name
    return BERNOULLI.name if declared.bounds == (0.0, 1.0) else POISSON.name


class CentralCompletion(PrivateCompletion[Model], Predictor[Model], CentralSettings, Generic[Model]):
    """What PrivateCP, PrivateTucker and PrivateLowRankMatrix have in common."""

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        raise NotImplementedError

    def _core(self) -> bool:
        raise NotImplementedError

    def _model(self, solution: Solution, modes: Sequence[Mode], bounds: tuple[float, float]) -> Model:
        raise NotImplementedError

    def fit(
        self,
        tensor: ObservedTensor | StoredTensor | Any,
        values: Any = None,
        *,
        engine: Any = None,
        trust_network: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Self:
        """Fit privately, as all private estimators do, in memory or on a store.

        Parameters
        ----------
        tensor, values
            An `ObservedTensor`, coordinates and values, or a `StoredTensor`, in whatever order; in unit "value" in that
            of its first mode, and positions have to fit into memory. The same entries give the same model, to the last
            bit, wherever they are.
        engine, trust_network
            For a store: where its parts are worked on, as for `UserLevelCP.fit`. A process that dies after the charge
            has to be paid for again: nothing keeps what it had released by then.
        progress
            Is called while what was measured under noise is worked on: with what is counted, such as "sweeps for
            components", how many are done, and how many there are at most.
        """

        def follow(job: CentralJob[Model]) -> CentralJob[Model]:
            return replace(job, form=replace(job.form, progress=progress))

        if not isinstance(tensor, StoredTensor) or values is not None:
            if engine is not None:
                raise InputError("engine is for a StoredTensor: tensorveil.write_store makes one from files.")
            return self._fit(self._read(tensor, values), lambda job, seen: begin_at_once(follow(job), seen))
        name = "loop" if engine is None else engine
        found = Loop(self.threads) if name == "loop" else find_engine(name, trust_network=trust_network)
        try:
            return self._fit(tensor, lambda job, stored: follow(job).begin_stored(stored, found))
        finally:
            found.close()

    def fold_in(self, tensor: ObservedTensor, mode: str | int, **options: Any) -> Model:
        """Return a larger model, with rows for new indices of a mode. The estimator and its guarantee stay as they are.

        New rows are computed from their entries without noise: the result has no guarantee, and must not be published.
        """
        return self._fitted().fold_in(tensor, mode, **self._ridge(options))

    def _unit(self) -> Unit:
        unit = Unit.parse(self.unit)
        if unit.kind not in ("value", "entry"):
            raise InputError(
                f'unit must be "value" or "entry" here; got {str(unit)!r}. To protect all that one user did, try '
                "UserLevelCP, UserLevelTucker or UserLevelMatrix."
            )
        return unit

    def _choose(self, promise: Promise, source: NoiseSource) -> CentralJob[Model]:
        smoothness = read_smoothness(self.smooth, promise.declared.modes, promise.declared.shape)
        form = replace(
            self._form(promise.declared.shape),
            smooth=smoothness.priors,
            times=smoothness.times,
            loss=self._loss(promise),
        )
        chosen = self._plan(form, promise)
        check_smooth_release(smoothness, promise.unit.kind, chosen.method, form.solver)
        return CentralJob(
            method=METHODS[chosen.method],
            plan=chosen,
            promise=promise,
            form=form,
            spend=spend_budget(promise.budget, chosen.noise, source),
            build=self._model,
            public=smoothness.describe(promise.declared.modes),
        )

    def _loss(self, promise: Promise) -> str:
        """Return the loss that noisy numbers are decoded by, once it goes with what is declared."""
        if self.loss is None:
            return GAUSSIAN.name
        rules.choose("loss", self.loss, (GAUSSIAN.name, POISSON.name, BERNOULLI.name))
        if self.loss == GAUSSIAN.name:
            return self.loss
        if promise.unit.kind != "value" or self.method != "auto":
            raise InputError(
                f'loss="{self.loss}" is for unit="value" with method="auto". Leave out method; in unit "entry", where '
                "cells without an entry are zero, expected counts are fitted without being asked for."
            )
        if self.smooth is not None:
            raise InputError(f'smooth cannot be combined with loss="{self.loss}". Leave one of them out.')
        bounds = promise.declared.bounds
        if bounds[0] != 0 or (self.loss == BERNOULLI.name and bounds[1] != 1):
            wanted = "0 and 1" if self.loss == BERNOULLI.name else "0 and the largest count"
            raise InputError(f'bounds must be {wanted} for loss="{self.loss}". Declare them, or leave out loss.')
        return self.loss

    def _form(self, shape: Sequence[int]) -> Form:
        rules.whole_number("sweeps", self.sweeps, 1, 100)
        rules.whole_number("restarts", self.restarts, 1, 1)
        return Form(
            ranks=self._ranks(shape), core=self._core(), sweeps=self.sweeps, restarts=self.restarts,
            threads=self.threads, seed=self._seed(),
        )  # fmt: skip

    def _plan(self, form: Form, promise: Promise) -> Plan:
        declared = promise.declared
        check_method(self.method, declared.unit.kind)
        chosen = plan(
            shape=declared.shape, n_entries=declared.n_entries, bounds=declared.bounds, ranks=form.ranks,
            core=form.core, budget=promise.budget, unit=declared.unit, method=self.method, spread=self.spread,
        )  # fmt: skip
        if declared.zeros and not METHODS[chosen.method].zeros:
            raise InputError(
                f'method="{chosen.method}" takes cells without an entry for unknown. With unlisted="zero" leave method '
                "out."
            )
        return chosen


def spend_budget(budget: Budget, noise: str, source: NoiseSource) -> Spend:
    """Return what may be spent: a pure epsilon for Laplace noise, or the exact mu for Gaussian noise."""
    if noise == "laplace":
        return Spend(source=source, epsilon=budget.epsilon)
    return Spend(source=source, mu=gaussian_mu(budget.epsilon, budget.delta))
