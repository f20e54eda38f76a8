"""Guo's private matrix completion: noise by his recipe on every observed value, then a matrix solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.completion import settings as rules
from tensorveil.errors import InputError
from tensorveil.privacy import Guarantee
from tensorveil.solvers.catalogue import MATRIX_SOLVERS
from tensorveil.solvers.task import Solution, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor import ObservedTensor
from tensorveil_evidence.published.claims import recipe_claim
from tensorveil_evidence.published.estimator import Published
from tensorveil_evidence.published.noise import uniform_times_exponential

SOLVERS = ("dlnm_qr", "sor", "altmin")


@dataclass(kw_only=True, eq=False, repr=False)
class MatrixPerturbation(Published):
    """Private matrix completion as printed (Guo 2025, sections 3 to 5). For study: writes no release.

    Parameters
    ----------
    rank
        Rank of the matrix, at most its smaller side.
    epsilon
        The budget that the paper's claim is about; the noise has beta = sensitivity / epsilon.
    sensitivity
        What the paper calls the sensitivity of a value; its tables have 1.
    solver
        "dlnm_qr" (the paper's), or those it compares with: "sor", "altmin".
    multiplier
        For "dlnm_qr": with the multiplier of eq. 22, fed back into the next step as alternating directions have it; the
        paper computes it and uses it in no other equation. Default: without.
    growth
        For "dlnm_qr": rho, by which mu grows in every sweep; not printed. Default: 1.1.
    sweeps
        Iterations, all of which are made. "dlnm_qr" and "altmin" run on the matrix as given, "sor" on the
        transpose of a wide one.
    shape
        Shape of the matrix when ``fit`` gets coordinates.
    random_state
        Seed of the noise.
    verbose
        Print on standard error what is claimed and what is true.

    Attributes
    ----------
    model_, guarantee_, history_
        The model (it refuses to be saved), what is claimed and true, one record per sweep.
    sensitivity_
        The sensitivity by which the noise was scaled.
    perturbed_
        The perturbed values, in the order of the entries.

    Guarantee: none, for no epsilon (docs/published.md#matrix-perturbation).

    Examples
    --------
    >>> import numpy as np, tensorveil as tv
    >>> from tensorveil_evidence.published import MatrixPerturbation
    >>> matrix = tv.ObservedTensor.from_dense(np.outer(np.arange(1.0, 7.0), np.arange(1.0, 6.0)))
    >>> fit = MatrixPerturbation(1, epsilon=10.0, sweeps=5, random_state=0, verbose=False).fit(matrix)
    >>> fit.guarantee_.status
    'refuted'
    """

    rank: int = field(default=10, kw_only=False)
    epsilon: float
    sensitivity: float = 1.0
    solver: str = "dlnm_qr"
    multiplier: bool = False
    growth: float = 1.1
    sweeps: int = 400
    shape: Sequence[int] | None = None
    random_state: Any = None
    verbose: bool = True

    def complete(self, tensor: ObservedTensor) -> NDArray[Any]:
        """Return the completed matrix as the paper's tables measure it: perturbed values kept where observed."""
        out: NDArray[Any] = self._fitted().dense()
        out[tuple(tensor.columns)] = self.perturbed_
        return out

    def _core(self) -> bool:
        return False

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        return rules.matrix_ranks(self.rank, shape)

    def _settings(self) -> Any:
        rules.number("epsilon", self.epsilon, above=0.0, remedy=1.0)
        rules.choose("solver", self.solver, SOLVERS)
        rules.whole_number("sweeps", self.sweeps, 1, 400)
        if not isinstance(self.multiplier, bool) or (self.multiplier and self.solver != "dlnm_qr"):
            raise InputError('multiplier must be True or False, and belongs to solver="dlnm_qr". Leave it out.')
        growth = rules.number("growth", self.growth, at_least=1.0, remedy=1.1)
        own: dict[str, Any] = {"multiplier": self.multiplier, "growth": growth, "as_given": True}
        options = own if self.solver == "dlnm_qr" else {}
        return MATRIX_SOLVERS[self.solver][0](sweeps=self.sweeps, tol=-1.0, **options)  # all sweeps, as printed

    def _check_own(self, tensor: ObservedTensor) -> None:
        self.sensitivity_ = rules.number("sensitivity", self.sensitivity, above=0.0, remedy=1.0)

    def _solve(self, task: Task, settings: Any, watch: Watch, noise: np.random.Generator) -> Solution:
        scale = self.sensitivity_ / self.epsilon
        self.perturbed_ = task.values + uniform_times_exponential(noise, len(task.values), scale)
        return MATRIX_SOLVERS[self.solver][1](task.with_values(self.perturbed_), settings, watch)

    def _guarantee(self) -> Guarantee:
        return recipe_claim(self.epsilon)
