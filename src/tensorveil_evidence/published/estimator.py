"""The line every published algorithm follows: tensor -> task -> its own noise -> model that refuses to be saved."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, Self

import numpy as np

from tensorveil.completion import settings as rules
from tensorveil.completion.estimator import as_tensor
from tensorveil.completion.params import Params
from tensorveil.errors import InputError, NotFittedError
from tensorveil.privacy import Guarantee
from tensorveil.solvers.loss import rmse
from tensorveil.solvers.sgd import SGD
from tensorveil.solvers.task import Array, Record, Solution, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.entries import MemoryEntries
from tensorveil_evidence.published.claims import explain
from tensorveil_evidence.published.refusal import StudyModel, refuse, study_model

CORE_REGULARIZATION = 0.0001  # lambda_g of the papers' simulation


class Published(Params):
    """What the three algorithms have in common; see those classes for the parameters."""

    model: str
    rank: Any
    epsilon: float
    passes: int
    learning_rate: float
    regularization: float
    core_regularization: float | None
    shape: Sequence[int] | None
    random_state: Any
    verbose: bool

    model_: StudyModel
    guarantee_: Guarantee
    history_: list[Record]
    sensitivity_: float

    def _check_own(self, tensor: ObservedTensor) -> None:
        raise NotImplementedError

    def _solve(self, task: Task, settings: SGD, watch: Watch, noise: np.random.Generator) -> Solution:
        raise NotImplementedError

    def _guarantee(self) -> Guarantee:
        raise NotImplementedError

    def fit(self, tensor: ObservedTensor | Any, values: Any = None) -> Self:
        """Fit to an observed tensor, or to coordinates (n, order) and their values; print what is claimed and true."""
        observed = as_tensor(tensor, values, self.shape)
        settings = self._settings()
        self._check_own(observed)
        rng = np.random.default_rng(self.random_state)
        # The first number drawn seeds the fit, as in `CP` and `Tucker`: without noise the same fit comes out.
        seed, noise_seed = (int(rng.integers(2**62)) for _ in range(2))
        task = Task(
            entries=MemoryEntries(
                columns=observed.columns, values=observed.values.astype(np.float64), shape=observed.shape
            ),
            ranks=self._ranks(observed.shape), core=self._core(), baseline="none", dtype=np.dtype(np.float64),
            threads=1, seed=seed,
        )  # fmt: skip
        watch = Watch(iterations=settings.sweeps, tol=settings.tol, patience=1)
        self.guarantee_ = self._guarantee()  # what is claimed does not depend on whether the descent ends well
        solution = self._solve(task, settings, watch, np.random.default_rng(noise_seed))
        self.history_ = watch.history
        self.n_iter_ = len(watch.history)
        self.n_features_in_ = observed.order
        self.model_ = study_model(solution, observed)
        if self.verbose:
            print(explain(self.guarantee_), file=sys.stderr)
        return self

    def _core(self) -> bool:
        return self.model == "tucker"

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        return rules.tucker_ranks(self.rank, shape) if self._core() else rules.cp_ranks(self.rank, shape)

    def _settings(self) -> SGD:
        rules.choose("model", self.model, ("cp", "tucker"))
        rules.number("epsilon", self.epsilon, above=0.0, remedy=1.0)
        core_regularization = CORE_REGULARIZATION
        if self.core_regularization is not None:
            if not self._core():
                raise InputError('core_regularization has no meaning for model="cp". Leave it out.')
            core_regularization = rules.number(
                "core_regularization", self.core_regularization, at_least=0.0, remedy=CORE_REGULARIZATION
            )
        return SGD(
            sweeps=rules.whole_number("passes", self.passes, 1, 100),
            tol=-1.0,  # all passes are made, as printed
            learning_rate=rules.number("learning_rate", self.learning_rate, above=0.0, remedy=0.005),
            regularization=rules.number("regularization", self.regularization, at_least=0.0, remedy=0.01),
            core_regularization=core_regularization,
            schedule="published",
        )

    def _fitted(self) -> StudyModel:
        if not hasattr(self, "model_"):
            raise NotFittedError(f"{type(self).__name__} must be fitted first. Try .fit(tensor).")
        return self.model_

    def predict(self, coords: ObservedTensor | Any) -> Array:
        """Predict at (n, order) coordinates, or at those of an observed tensor."""
        return self._fitted().predict(coords.coords if isinstance(coords, ObservedTensor) else coords)

    def rmse(self, tensor: ObservedTensor | Any, values: Any = None) -> float:
        """Return the root mean squared error on a tensor, or on coordinates and values."""
        observed = as_tensor(tensor, values, self._fitted().shape)
        return rmse(self.predict(observed), observed.values)

    def score(self, tensor: ObservedTensor | Any, values: Any = None) -> float:
        """Return the coefficient of determination R^2."""
        observed = as_tensor(tensor, values, self._fitted().shape)
        truth = observed.values.astype(np.float64)
        total = float(np.sum((truth - truth.mean()) ** 2))
        error = float(np.sum((truth - self.predict(observed)) ** 2))
        if total == 0.0:
            return 1.0 if error == 0.0 else 0.0
        return 1.0 - error / total

    def save(self, path: str | os.PathLike[str]) -> NoReturn:
        """Refuse: published algorithms write no release."""
        refuse()

    def write_release(self, path: str | os.PathLike[str], **options: Any) -> NoReturn:
        """Refuse: published algorithms write no release."""
        refuse()
