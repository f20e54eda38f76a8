"""The CP estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorveil.completion.estimator import Completion
from tensorveil.completion.settings import cp_ranks
from tensorveil.models import CPModel
from tensorveil.solvers.task import Solution
from tensorveil.tensor import ObservedTensor


@dataclass(eq=False, repr=False)
class CP(Completion[CPModel]):
    """Complete a tensor by a sum of ``rank`` components, each a product of one vector per mode.

    Parameters
    ----------
    rank
        Number of components. The solver "bayes" switches off those that the data do not support.
    **settings
        The keyword arguments of `FitSettings`.

    Attributes
    ----------
    model_
        The fitted `CPModel`: predict, slice, dense, top, fold_in, save, to_tensorly.
    history_
        One `Record` per sweep. Computed from the data: a diagnostic, not something to publish.
    n_iter_, converged_
        How many sweeps were made, and whether the fit stopped by itself: by ``tol``, or because the validation error no
        longer fell. Otherwise more ``sweeps`` may give a better model.
    noise_variance_
        Residual variance as estimated by "bayes"; None otherwise.

    Examples
    --------
    >>> import numpy as np, tensorveil as tv
    >>> coords = np.argwhere(np.ones((4, 3, 2)))
    >>> values = (coords[:, 0] + 1.0) * (coords[:, 1] + 1) * (coords[:, 2] + 1)
    >>> tensor = tv.ObservedTensor(coords[::2], values[::2], shape=(4, 3, 2))
    >>> model = tv.CP(rank=1, solver="als", baseline="none", regularization=1e-6, random_state=0).fit(tensor)
    >>> bool(model.rmse(tensor) < 0.01)
    True
    """

    rank: int = 8

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        return cp_ranks(self.rank, shape)

    def _core(self) -> bool:
        return False

    def _model(self, solution: Solution, tensor: ObservedTensor) -> CPModel:
        return CPModel(
            factors=solution.factors,
            offset=solution.offset,
            biases=solution.biases,
            modes=tensor.modes,
            bounds=tensor.bounds,
            remainder=solution.remainder,
            **self._link(),
        )
