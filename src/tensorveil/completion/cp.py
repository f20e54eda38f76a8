"""The CP estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorveil.completion.estimator import Completion
from tensorveil.completion.settings import cp_ranks
from tensorveil.models import CPModel
from tensorveil.solvers.task import Baseline, Solution
from tensorveil.tensor import ObservedTensor


class CP(Completion[CPModel]):
    """Complete a tensor by a sum of ``rank`` components, each a product of one vector per mode.

    Parameters
    ----------
    rank
        Number of components. The solver "bayes" switches off those that the data do not support.
    solver
        "bayes" (variational, most accurate, no tuning), "als" (alternating least squares, fast), or "sgd" (stochastic
        gradient descent, fastest per pass on many millions of entries).
    baseline
        "mean" (default), "none", or "biases": a mean plus one bias per index of every mode, as for ratings.
    sweeps
        At most so many passes over the data; default 100 (bayes, sgd) or 50 (als).
    regularization
        Penalty on squared factor entries, on values scaled to unit variance (als: default 3, sgd: 0.01).
    learning_rate
        For "sgd": first step size (default 0.005).
    noise_variance
        For "bayes": variance of noise that is known to have been added to the values.
    tol
        Stop when the relative change of error (or evidence bound) is at most this.
    validation_fraction, patience
        Hold out a part of the entries, stop when its error has not fallen for ``patience`` sweeps, keep the best.
    restarts
        Fit from so many starts and keep the best; the second of "bayes" is the data's spectrum, the others are random.
    shape
        Shape of the tensor when ``fit`` gets coordinates instead of an `ObservedTensor`.
    dtype
        "float32" or "float64"; default: as the values.
    threads
        Number of threads; default: all processors this process may use.
    random_state
        Seed of starting points and shuffles. It never seeds noise.
    verbose
        Show a progress bar.

    Attributes
    ----------
    model_
        The fitted `CPModel`: predict, slice, dense, top, fold_in, save, to_tensorly.
    history_
        One `Record` per sweep. Computed from the data: a diagnostic, not something to publish.
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

    def __init__(
        self,
        rank: int = 8,
        *,
        solver: str = "bayes",
        baseline: Baseline = "mean",
        sweeps: int | None = None,
        regularization: float | None = None,
        learning_rate: float | None = None,
        noise_variance: float | None = None,
        tol: float | None = None,
        validation_fraction: float = 0.0,
        patience: int = 5,
        restarts: int = 1,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        threads: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.rank = rank
        self.solver = solver
        self.baseline = baseline
        self.sweeps = sweeps
        self.regularization = regularization
        self.learning_rate = learning_rate
        self.noise_variance = noise_variance
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.restarts = restarts
        self.shape = shape
        self.dtype = dtype
        self.threads = threads
        self.random_state = random_state
        self.verbose = verbose

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
        )
