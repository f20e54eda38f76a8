"""Algorithm 1: noise on every observed value, then descent as published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorveil.errors import InputError
from tensorveil.privacy import Guarantee
from tensorveil.solvers.task import Solution, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.checks import as_bounds
from tensorveil_evidence.published.claims import input_claim
from tensorveil_evidence.published.descent import DescentSettings, descend
from tensorveil_evidence.published.estimator import PerturbedDescent
from tensorveil_evidence.published.noise import laplace


@dataclass(kw_only=True, eq=False, repr=False)
class InputPerturbation(PerturbedDescent):
    """Private input perturbation as printed (Wei, Li, Mao and Wang, Algorithm 1). For study: writes no release.

    Parameters
    ----------
    model
        "cp" or "tucker".
    rank
        Number of components; for Tucker one number or one per mode.
    epsilon
        The budget that the paper's claim is about.
    bounds
        Declared (low, high) of the values, which must lie within; or "data": the smallest and largest value observed,
        for which the claim is false.
    clamp
        Clamp the perturbed values to the range before the descent (the paper's option).
    passes, learning_rate, regularization, core_regularization, start
        Of the descent, as for `PublishedDescent`.
    shape
        Shape of the tensor when ``fit`` gets coordinates.
    random_state
        Seed of start, order and noise.
    verbose
        Print on standard error what is claimed and what is true.

    Attributes
    ----------
    model_, guarantee_, history_
        The model (it refuses to be saved), what is claimed and true, one record per pass.
    sensitivity_
        The range of the values, by which the noise was scaled.

    Guarantee: epsilon for single values with declared bounds and exact arithmetic; none as drawn here, and none with
    bounds="data" (docs/published.md#input-perturbation).

    Examples
    --------
    >>> import tensorveil as tv
    >>> from tensorveil_evidence.published import InputPerturbation
    >>> problem = tv.paper_problem(random_state=0)
    >>> fit = InputPerturbation("cp", 3, epsilon=10.0, bounds=(-1, 2), passes=2, random_state=1, verbose=False)
    >>> fit.fit(problem.train).guarantee_.private
    False
    """

    bounds: tuple[float, float] | str
    clamp: bool = False

    def _read_bounds(self) -> tuple[float, float] | None:
        """Return the declared bounds, or None where they are to be read off the data."""
        if isinstance(self.bounds, str):
            if self.bounds != "data":
                raise InputError(f'bounds must be (low, high) or "data"; got {self.bounds!r}. Try bounds=(1, 5).')
            return None
        limits = as_bounds(self.bounds)
        if limits is None:
            raise InputError('bounds must be (low, high) or "data"; got None. Try bounds=(1, 5).')
        return limits

    def _check_own(self, tensor: ObservedTensor) -> None:
        if not isinstance(self.clamp, bool):
            raise InputError("clamp must be True or False.")
        limits = self._read_bounds()
        if limits is not None:
            tensor.with_bounds(limits)  # raises if values lie outside
        elif np.ptp(tensor.values) == 0:
            raise InputError('bounds="data" needs values that are not all equal. Declare bounds=(low, high).')

    def _solve(self, task: Task, settings: DescentSettings, watch: Watch, noise: np.random.Generator) -> Solution:
        low, high = self._read_bounds() or (float(task.values.min()), float(task.values.max()))
        self.sensitivity_ = high - low
        perturbed = task.values + laplace(noise, len(task.values), self.sensitivity_ / self.epsilon)
        if self.clamp:
            perturbed = np.clip(perturbed, low, high)
        return descend(task.with_values(perturbed), settings, watch)

    def _guarantee(self) -> Guarantee:
        return input_claim(self.epsilon, self._read_bounds(), self._core())
