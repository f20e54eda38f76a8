"""The Tucker estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from tensorveil.completion.estimator import Completion
from tensorveil.completion.settings import tucker_ranks
from tensorveil.errors import InputError
from tensorveil.models import TuckerModel
from tensorveil.solvers.task import Solution
from tensorveil.tensor import ObservedTensor


@dataclass(eq=False, repr=False)
class Tucker(Completion[TuckerModel]):
    """Complete a tensor by a small core multiplied by one matrix per mode.

    Parameters
    ----------
    rank
        Size of the core: one number for all modes (cut to the size of smaller modes), or one per mode.
    core_regularization
        Penalty on squared core entries (als: default 3, sgd: 0.001).
    **settings
        The keyword arguments of `FitSettings`.

    The attributes are those of `CP`; the model is a `TuckerModel`. The solver "bayes" takes cores of up to 1024
    elements.

    Examples
    --------
    >>> import numpy as np, tensorveil as tv
    >>> coords = np.argwhere(np.ones((4, 3, 2)))
    >>> values = (coords[:, 0] + 1.0) * (coords[:, 1] + 1) * (coords[:, 2] + 1)
    >>> tensor = tv.ObservedTensor(coords[::2], values[::2], shape=(4, 3, 2))
    >>> model = tv.Tucker(rank=(1, 1, 1), solver="als", regularization=1e-6, random_state=0).fit(tensor)
    >>> model.model_.core.shape
    (1, 1, 1)
    """

    rank: int | Sequence[int] = 4
    _: KW_ONLY
    core_regularization: float | None = None

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tucker_ranks(self.rank, shape)

    def _core(self) -> bool:
        return True

    def _solver_settings(self) -> dict[str, Any]:
        return {**super()._solver_settings(), "core_regularization": self.core_regularization}

    def _model(self, solution: Solution, tensor: ObservedTensor) -> TuckerModel:
        if solution.core is None:
            raise InputError("a Tucker model must have a core.")
        return TuckerModel(
            core=solution.core,
            factors=solution.factors,
            offset=solution.offset,
            biases=solution.biases,
            modes=tensor.modes,
            bounds=tensor.bounds,
            remainder=solution.remainder,
            **self._link(),
        )
