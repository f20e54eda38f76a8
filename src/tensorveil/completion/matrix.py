"""The estimator of low-rank matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from tensorveil.completion.estimator import Completion
from tensorveil.completion.response import Response
from tensorveil.completion.settings import choose, matrix_ranks, whole_number
from tensorveil.errors import InputError
from tensorveil.models import CPModel
from tensorveil.solvers.catalogue import MATRIX_SOLVERS, Solvers
from tensorveil.solvers.task import Array, Solution
from tensorveil.tensor import ObservedTensor

# A component of which less than this share of the strongest one is left has been switched off.
_OFF = 1e-2


@dataclass(eq=False, repr=False)
class LowRankMatrix(Completion[CPModel]):
    """Complete a matrix by one of low rank.

    Parameters
    ----------
    rank
        Number of components, at most the smaller side; or "auto" (default), for the solvers "bayes" (components that
        the data do not support are switched off and dropped) and "sor" (columns beyond a sharp drop are dropped, once;
        it needs little noise and a ``max_rank`` of at most about twice the rank).
    solver
        "bayes" (variational, noise-aware, most accurate, no tuning), "als" (ridge regression in turns), "sgd"
        (stochastic gradients), "lbfgs" and "adam" (any loss; they need a rank), "auto" (default: "bayes" for squared
        error); and, unregularised, "dlnm_qr" (L2,1 shrinkage on CSVD-QR factors), "sor" (nonlinear successive
        over-relaxation), "altmin" (alternating minimisation from a spectral start). The last three fit exactly what
        they are given: for values with little noise.
    baseline
        "mean" (default), "none", or "biases": a mean plus one bias per row and column (not "dlnm_qr", not "sor").
    sweeps
        Maximum number of passes over the data; default 100 (bayes, sgd, altmin), 50 (als), 400 (dlnm_qr), 500 (sor).
    regularization
        Penalty on squared factor entries, on values scaled to unit variance (als: default 3, sgd: 0.01, altmin: 1e-6).
    penalty, growth
        For "dlnm_qr", the paper's mu and rho: columns shrink by 1 / penalty, on values scaled to unit variance (by
        default by a tenth of the longest), and the penalty is multiplied by growth (default 1.1) after every sweep.
    multiplier
        For "dlnm_qr": True adds the paper's multiplier (eq. 22): fewer sweeps, but where values are noisy and growth is
        small it follows the noise. Default: without. Wide matrices are completed as their transposes, for speed.
    noise_variance, noise_law
        For "bayes": variance of noise that is known to have been added to the values, and its law, "gaussian" (default)
        or "laplace" (variance: twice the squared scale). Knowing the law leaves about a seventh less error where such
        noise is all that the model leaves unexplained; where large residuals are structure it costs.
    max_rank
        Where rank="auto" starts from, at most the smaller side.
    **settings
        The keyword arguments of `FitSettings`.

    Attributes
    ----------
    rank_
        The rank of the fitted model: as asked, or as found.

    The other attributes are those of `CP`; the model is a `CPModel` of two modes. A row or a column without entries is
    predicted by the offset (and the other side's bias); with "bayes", by what rows have in common.

    Examples
    --------
    >>> import numpy as np, tensorveil as tv
    >>> truth = np.outer(np.arange(1.0, 9.0), np.arange(1.0, 7.0))
    >>> coords = np.argwhere(np.add.outer(np.arange(8), np.arange(6)) % 2 == 0)
    >>> observed = tv.ObservedTensor(coords, truth[tuple(coords.T)], shape=truth.shape)
    >>> fitted = tv.LowRankMatrix(rank=2, solver="sor", baseline="none").fit(observed)
    >>> bool(fitted.rmse(observed) < 0.01)
    True
    """

    rank: int | str = "auto"
    _: KW_ONLY
    penalty: float | None = None
    growth: float | None = None
    multiplier: bool | None = None
    noise_law: str = "gaussian"
    max_rank: int = 32

    @property
    def rank_(self) -> int:
        """The rank of the fitted model."""
        return self._fitted().rank

    def _solvers(self) -> Solvers:
        return MATRIX_SOLVERS

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        return start_ranks(self.rank, self.max_rank, shape)

    def _core(self) -> bool:
        return False

    def _check(self) -> None:
        super()._check()
        choose("noise_law", self.noise_law, ("gaussian", "laplace"))
        if self.noise_law == "laplace" and (self.solver not in ("auto", "bayes") or not self.noise_variance):
            raise InputError(
                'noise_law="laplace" needs solver="bayes" and a noise_variance: twice the squared scale of the noise.'
            )
        if self.rank == "auto" and self.solver not in ("auto", "bayes", "sor"):
            raise InputError(
                f'rank="auto" has no meaning for solver="{self.solver}". Give a number, or try solver="bayes".'
            )
        if self.baseline == "biases" and self.solver in ("dlnm_qr", "sor"):
            raise InputError(
                f'baseline="biases" has no meaning for solver="{self.solver}". Try baseline="mean" or solver="bayes".'
            )

    def _response(self, tensor: ObservedTensor) -> Response:
        response = super()._response(tensor)
        if self.rank == "auto" and not response.plain:
            raise InputError('rank="auto" is for squared error of listed entries. Give a number: rank=8.')
        return response

    def _solver_settings(self) -> dict[str, Any]:
        numbers = {"penalty": self.penalty, "growth": self.growth, "multiplier": self.multiplier}
        given = {**super()._solver_settings(), **numbers}
        if self.rank == "auto":
            given["estimate_rank"] = True
        if self.noise_law == "laplace":
            given["laplace"] = True
        return given

    def _model(self, solution: Solution, tensor: ObservedTensor) -> CPModel:
        factors = solution.factors
        if self.rank == "auto":
            factors = drop_unsupported(factors)
        return CPModel(
            factors=factors,
            offset=solution.offset,
            biases=solution.biases,
            modes=tensor.modes,
            bounds=tensor.bounds,
            remainder=solution.remainder,
            **self._link(),
        )


def start_ranks(rank: int | str, max_rank: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the rank a fit starts from: as given, or for "auto" the largest that is allowed."""
    if rank != "auto":
        return matrix_ranks(rank, shape)
    largest = whole_number("max_rank", max_rank, 1, 32)
    return matrix_ranks(min(largest, *shape), shape)


def drop_unsupported(factors: tuple[Array, ...]) -> tuple[Array, ...]:
    """Drop the components that were switched off; at least one stays."""
    strength = np.prod([np.sqrt(np.mean(factor.astype(np.float64) ** 2, axis=0)) for factor in factors], axis=0)
    kept = strength > _OFF * strength.max()
    kept[np.argmax(strength)] = True
    return tuple(factor[:, kept] for factor in factors)
