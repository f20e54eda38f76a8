"""The line every published algorithm follows: tensor -> task -> its own noise -> model that refuses to be saved."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self

import numpy as np

from tensorveil.completion import settings as rules
from tensorveil.completion.estimator import Predictor, as_tensor
from tensorveil.errors import InputError
from tensorveil.privacy import Guarantee
from tensorveil.solvers.task import Record, Solution, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.entries import MemoryEntries
from tensorveil_evidence.published.claims import explain
from tensorveil_evidence.published.descent import CORE_REGULARIZATION, STARTS, DescentSettings, descend
from tensorveil_evidence.published.refusal import StudyModel, make_study_model, refuse


class PublishedFit(Predictor[Any]):
    """What all algorithms of this folder share: one road from a tensor to a model that writes nothing."""

    rank: Any
    shape: Sequence[int] | None
    random_state: Any

    model_: StudyModel
    history_: list[Record]

    def _core(self) -> bool:
        raise NotImplementedError

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        raise NotImplementedError

    def _settings(self) -> Any:
        raise NotImplementedError

    def _solve(self, task: Task, settings: Any, watch: Watch, noise: np.random.Generator) -> Solution:
        raise NotImplementedError

    def _check_own(self, tensor: ObservedTensor) -> None:
        """Check the parameters that only this algorithm has."""

    def _state_claim(self) -> None:
        """Set ``guarantee_``, where something is claimed."""

    def fit(self, tensor: ObservedTensor | Any, values: Any = None) -> Self:
        """Fit to an observed tensor, or to coordinates (n, order) and their values."""
        observed = as_tensor(tensor, values, {"shape": self.shape})
        settings = self._settings()
        self._check_own(observed)
        rng = np.random.default_rng(self.random_state)
        # The first number drawn seeds the descent: with and without noise it starts from the same factors.
        seed, noise_seed = (int(rng.integers(2**62)) for _ in range(2))
        task = Task(
            entries=MemoryEntries(
                columns=observed.columns, values=observed.values.astype(np.float64), shape=observed.shape
            ),
            ranks=self._ranks(observed.shape), core=self._core(), baseline="none", dtype=np.dtype(np.float64),
            threads=1, seed=seed,
        )  # fmt: skip
        watch = Watch(iterations=settings.sweeps, tol=settings.tol, patience=1)
        self._state_claim()  # what is claimed does not depend on whether the descent ends well
        solution = self._solve(task, settings, watch, np.random.default_rng(noise_seed))
        self.history_ = watch.history
        self.n_iter_ = len(watch.history)
        self.noise_variance_ = None
        self.n_features_in_ = observed.order
        self.model_ = make_study_model(solution, observed)
        return self

    def save(self, path: str | os.PathLike[str]) -> NoReturn:
        """Refuse: published algorithms write no release."""
        refuse()

    def write_release(self, path: str | os.PathLike[str], **options: Any) -> NoReturn:
        """Refuse: published algorithms write no release."""
        refuse()


class Published(PublishedFit):
    """A published algorithm with noise: it has an epsilon, and a claim beside what is true."""

    epsilon: float
    verbose: bool

    guarantee_: Guarantee
    sensitivity_: float

    def _guarantee(self) -> Guarantee:
        raise NotImplementedError

    def _state_claim(self) -> None:
        self.guarantee_ = self._guarantee()

    def fit(self, tensor: ObservedTensor | Any, values: Any = None) -> Self:
        """Fit to an observed tensor, or to coordinates (n, order) and their values; print what is claimed and true."""
        super().fit(tensor, values)
        if self.verbose:
            print(explain(self.guarantee_), file=sys.stderr)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedDescent(PublishedFit):
    """The published descent without noise (Wei, Li, Mao and Wang, objectives 6 and 7). For study: writes no release.

    With the same ``random_state`` it starts and walks as the perturbed algorithms do, which add noise to it.

    Parameters
    ----------
    model
        "cp" or "tucker".
    rank
        Number of components; for Tucker one number or one per mode.
    passes, learning_rate, regularization, core_regularization
        Of the descent; the last one for Tucker only (default 0.0001).
    start
        The law of the first factors and core, which the papers do not print: "normal" (factors such that predictions
        have variance 1) or "uniform" (numbers from 0 to 1). Much depends on it: docs/studies/wei-readings.md.
    shape
        Shape of the tensor when ``fit`` gets coordinates.
    random_state
        Seed of start and order.

    Attributes
    ----------
    model_, history_
        The model (it refuses to be saved), and one record per pass.

    Guarantee: none, and none is claimed.

    Examples
    --------
    >>> import tensorveil as tv
    >>> from tensorveil_evidence.published import PublishedDescent
    >>> problem = tv.paper_problem(random_state=0)
    >>> fit = PublishedDescent("cp", 3, passes=2, random_state=1).fit(problem.train)
    >>> fit.model_.rank, len(fit.history_)
    (3, 2)
    """

    model: str = field(default="cp", kw_only=False)
    rank: int | Sequence[int] = field(default=3, kw_only=False)
    passes: int = 100
    learning_rate: float = 0.005
    regularization: float = 0.01
    core_regularization: float | None = None
    start: str = "normal"
    shape: Sequence[int] | None = None
    random_state: Any = None

    def _core(self) -> bool:
        return self.model == "tucker"

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        return rules.tucker_ranks(self.rank, shape) if self._core() else rules.cp_ranks(self.rank, shape)

    def _settings(self) -> DescentSettings:
        rules.choose("model", self.model, ("cp", "tucker"))
        rules.choose("start", self.start, STARTS)
        core_regularization = CORE_REGULARIZATION
        if self.core_regularization is not None:
            if not self._core():
                raise InputError('core_regularization has no meaning for model="cp". Leave it out.')
            core_regularization = rules.number(
                "core_regularization", self.core_regularization, at_least=0.0, remedy=CORE_REGULARIZATION
            )
        return DescentSettings(
            sweeps=rules.whole_number("passes", self.passes, 1, 100),
            learning_rate=rules.number("learning_rate", self.learning_rate, above=0.0, remedy=0.005),
            regularization=rules.number("regularization", self.regularization, at_least=0.0, remedy=0.01),
            core_regularization=core_regularization,
            start=self.start,
        )

    def _solve(self, task: Task, settings: Any, watch: Watch, noise: np.random.Generator) -> Solution:
        return descend(task, settings, watch)


@dataclass(kw_only=True, eq=False, repr=False)
class PerturbedDescent(PublishedDescent, Published):
    """What the three perturbed algorithms add to the descent: an epsilon, and a claim that is printed."""

    epsilon: float
    verbose: bool = True

    def _settings(self) -> DescentSettings:
        settings = super()._settings()
        rules.number("epsilon", self.epsilon, above=0.0, remedy=1.0)
        return settings
