"""The line every private fit follows: tensor, unit, bounds -> budget charged -> mechanism -> model and guarantee."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, Self

import numpy as np

from tensorveil.completion import settings as rules
from tensorveil.completion.estimator import Fitted, Model, as_tensor
from tensorveil.completion.slices import fit_slices, make_recipe, slice_plan, slice_unit
from tensorveil.errors import InputError
from tensorveil.mechanisms.catalogue import METHODS, Method
from tensorveil.mechanisms.data import Form, Outcome, PrivateData
from tensorveil.mechanisms.planner import Plan, plan
from tensorveil.mechanisms.spend import Spend
from tensorveil.noise import NoiseSource, SecureSource, SeededSource
from tensorveil.privacy import Budget, Composed, Event, Gaussian, Guarantee, Ledger, Pure, Unit, gaussian_mu
from tensorveil.rounds import SharedModel
from tensorveil.solvers.loss import rmse
from tensorveil.solvers.task import Array, Solution
from tensorveil.tensor import Mode, ObservedTensor


class PrivateCompletion(Fitted[Model], Generic[Model]):
    """What PrivateCP and PrivateTucker have in common; see those classes for the parameters."""

    rank: Any
    epsilon: float
    delta: float
    unit: str | Unit
    bounds: Sequence[float]
    method: str
    ledger: str | os.PathLike[str] | Ledger | None
    purpose: str
    sweeps: int
    restarts: int
    shape: Sequence[int] | None
    threads: int | None
    random_state: Any
    noise_seed: int | None
    protect: str | None
    contributions: float | None

    guarantee_: Guarantee
    plan_: Plan
    release_id_: str
    private_model_: Model

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        raise NotImplementedError

    def _core(self) -> bool:
        raise NotImplementedError

    def _model(self, solution: Solution, modes: Sequence[Mode], bounds: tuple[float, float]) -> Model:
        raise NotImplementedError

    def fit(self, tensor: ObservedTensor | Any, values: Any = None) -> Self:
        """Fit privately: charge the ledger (if one is given), then run the mechanism once.

        Values outside the declared bounds are clipped to them: saying that there are any would be a release. Every call
        spends the budget anew.
        """
        observed = as_tensor(tensor, values, self.shape)
        unit, budget, bounds = self._promise(observed)
        if unit.kind == "slice":
            return self._fit_slices(observed, unit, budget, bounds)
        form = self._form(observed)
        chosen = self._choose(observed, form, unit, budget, bounds)
        method = METHODS[chosen.method]
        spend = _spend(budget, chosen.noise, self._source())
        secure = spend.source.secure
        release_id = str(uuid.uuid4())
        self._charge(spend.event, unit, secure, release_id)
        data = PrivateData(
            columns=observed.columns,
            values=np.clip(observed.values.astype(np.float64), *bounds),
            shape=observed.shape,
            bounds=bounds,
        )
        outcome = method.run(data, form, spend)
        self.release_id_ = release_id
        self.plan_ = chosen
        self.n_features_in_ = observed.order
        self.noise_variance_ = None
        # In unit "entry" labels would tell who is in the data.
        modes = observed.modes if unit.kind == "value" else tuple(Mode(mode.name) for mode in observed.modes)
        self.model_ = self._model(outcome.solution, modes, bounds)
        # What the guarantee is about: rows folded in later come from data without noise.
        self.private_model_ = self.model_
        self.guarantee_ = _guarantee(outcome, method, unit, budget, bounds, secure, self._core())
        return self

    def _fit_slices(self, tensor: ObservedTensor, unit: Unit, budget: Budget, bounds: tuple[float, float]) -> Self:
        """Fit in rounds of bounded contributions; the model holds what users share, and nobody's own part."""
        seed = int(np.random.default_rng(self.random_state).integers(2**62))
        recipe = make_recipe(
            tensor, unit=unit, budget=budget, bounds=bounds, shape=self.shape, rank=self._slice_rank(tensor.shape),
            method=self.method, contributions=self.contributions, seed=seed,
        )  # fmt: skip
        source = self._source()
        release_id = str(uuid.uuid4())
        self._charge(Gaussian(recipe.mu), unit, source.secure, release_id)
        self.release_id_ = release_id
        model, self.guarantee_ = fit_slices(recipe, tensor, source, unit, self.threads)
        self.plan_ = slice_plan(recipe)
        self.n_features_in_ = tensor.order
        self.noise_variance_ = None
        shared: Any = model
        self.model_ = self.private_model_ = shared
        return self

    def _slice_rank(self, shape: Sequence[int]) -> int | tuple[int, ...]:
        """One number for CP, one per mode for Tucker."""
        ranks = self._ranks(shape)
        return ranks if self._core() else ranks[0]

    def personalise(self, entries: ObservedTensor) -> Any:
        """Unit "slice": compute people's own parts from their entries; see `SharedModel.personalise`."""
        return self._shared().personalise(entries)

    def predict_for(self, entries: ObservedTensor, coords: ObservedTensor | Any) -> Array:
        """Unit "slice": predict for people from their own entries; see `SharedModel.predict_for`."""
        return self._shared().predict_for(entries, coords)

    def rmse_for(self, entries: ObservedTensor, tensor: ObservedTensor) -> float:
        """Unit "slice": return the error on a tensor when everybody is served from their own entries."""
        return rmse(self.predict_for(entries, tensor), tensor.values)

    def _shared(self) -> SharedModel:
        model: Any = self._fitted()
        if not isinstance(model, SharedModel):
            raise InputError("predictions from people's own entries are for unit 'slice'. Try predict(coords).")
        return model

    def _promise(self, tensor: ObservedTensor) -> tuple[Unit, Budget, tuple[float, float]]:
        """Check everything that the guarantee rests on."""
        unit = slice_unit(self.unit, self.protect)
        if unit.kind not in ("value", "entry", "slice"):
            raise InputError(f'unit must be "value", "entry" or "slice" here; got {str(unit)!r}.')
        if unit.kind == "entry" and self.shape is None:
            raise InputError(
                'shape must be declared for unit="entry": read off the data it would tell which indices occur. '
                "Try shape=(number of users, number of films, ...)."
            )
        if self.shape is not None and tuple(self.shape) != tensor.shape:
            raise InputError("shape must be the shape of the tensor that is fitted.")
        bounds = tuple(float(b) for b in self.bounds)
        if len(bounds) != 2 or not np.isfinite(bounds).all() or bounds[0] >= bounds[1]:
            raise InputError("bounds must be two finite numbers, the lower one first. Try bounds=(1, 5).")
        return unit, Budget(epsilon=self.epsilon, delta=self.delta), (bounds[0], bounds[1])

    def _form(self, tensor: ObservedTensor) -> Form:
        rules.whole_number("sweeps", self.sweeps, 1, 100)
        rules.whole_number("restarts", self.restarts, 1, 1)
        seed = int(np.random.default_rng(self.random_state).integers(2**62))
        return Form(
            ranks=self._ranks(tensor.shape), core=self._core(), sweeps=self.sweeps, restarts=self.restarts,
            threads=self.threads, seed=seed,
        )  # fmt: skip

    def _source(self) -> NoiseSource:
        return SecureSource() if self.noise_seed is None else SeededSource(self.noise_seed)

    def _choose(
        self, tensor: ObservedTensor, form: Form, unit: Unit, budget: Budget, bounds: tuple[float, float]
    ) -> Plan:
        names: list[str] = [name for name, known in METHODS.items() if known.unit == unit.kind]
        rules.choose("method", self.method, ["auto", *names])
        # The number of entries is public in unit "value" only; "entry" has one method and nothing to choose.
        n = tensor.n_entries if unit.kind == "value" else None
        return plan(
            shape=tensor.shape, n_entries=n, bounds=bounds, ranks=form.ranks, core=form.core, budget=budget, unit=unit,
            method=self.method,
        )  # fmt: skip

    def _charge(self, event: Event, unit: Unit, secure: bool, release_id: str) -> None:
        """Charge before anything is computed: a crash may lose a release, never a charge."""
        if self.ledger is None:
            return
        if not secure:
            raise InputError("noise_seed must be None with a ledger: seeded noise protects nothing and is not charged.")
        ledger = self._open_ledger()
        if ledger.unit != unit:
            raise InputError(f"the ledger's unit is {str(ledger.unit)!r}, the fit's is {str(unit)!r}. Use one of them.")
        ledger.charge(event, self.purpose, release_id, delta=self.delta or None)

    def _open_ledger(self) -> Ledger:
        assert self.ledger is not None
        return self.ledger if isinstance(self.ledger, Ledger) else Ledger.open(Path(self.ledger))

    def confirm(self) -> None:
        """Note in the ledger that the release was written."""
        if self.ledger is not None:
            self._open_ledger().confirm(self.release_id_)


def _spend(budget: Budget, noise: str, source: NoiseSource) -> Spend:
    """Pure epsilon by Laplace noise, or Gaussian noise at the exact mu."""
    if noise == "laplace":
        return Spend(source=source, epsilon=budget.epsilon)
    return Spend(source=source, mu=gaussian_mu(budget.epsilon, budget.delta))


def _guarantee(
    outcome: Outcome, method: Method, unit: Unit, budget: Budget, bounds: tuple[float, float], secure: bool, core: bool
) -> Guarantee:
    event = Composed(part.event for part in outcome.parts)
    assert all(isinstance(part.event, Pure | Gaussian) for part in outcome.parts)
    released = ["factors of every mode", "offset", *(["core"] if core else [])]
    if outcome.solution.biases is not None:
        released.append("biases of every mode")
    return Guarantee.prove(
        unit=unit,
        event=event,
        epsilon=budget.epsilon,
        delta=budget.delta,
        composition=outcome.parts,
        released=released,
        proof=", ".join(outcome.proofs),
        secure_noise=secure,
        bounds=bounds,
        mechanism=method.title,
    )
