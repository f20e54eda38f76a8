"""The watch over a fit: history, progress, convergence, and early stopping on a validation part."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tensorveil.solvers.loss import GAUSSIAN, Loss
from tensorveil.solvers.task import Progress, Record, Solution

Evaluate = Callable[[Solution], float]


class Watch:
    """Collects the history of one fit and decides when to stop.

    Without a validation part a fit stops when its criterion changes by at most ``tol`` times ``size``; with one, when
    the validation error has not improved for ``patience`` iterations, and the best solution is kept. ``evaluate``
    returns the validation error of a solution by the measure of ``loss``.
    """

    def __init__(
        self,
        *,
        iterations: int,
        tol: float,
        patience: int,
        evaluate: Evaluate | None = None,
        progress: Progress | None = None,
        restart: int = 0,
        loss: Loss = GAUSSIAN,
    ) -> None:
        self.iterations = iterations
        self.history: list[Record] = []
        self.best: Solution | None = None
        self.best_error = np.inf
        self.converged = False  # whether the last iteration was one after which a fit should stop
        self._tol, self._patience = tol, patience
        self._evaluate, self._progress, self._restart = evaluate, progress, restart
        self._measure = loss.measure
        self._last: float | None = None
        self._since_best = 0
        self._began = time.perf_counter()

    def step(
        self,
        *,
        train_error: float,
        criterion: float,
        size: float,
        solution: Callable[[], Solution],
        bound: float | None = None,
    ) -> bool:
        """Record an iteration; return True when the fit should stop."""
        error = self._validate(solution)
        record = Record(
            restart=self._restart,
            iteration=len(self.history) + 1,
            iterations=self.iterations,
            seconds=time.perf_counter() - self._began,
            train_error=train_error,
            validation_error=error,
            bound=bound,
            measure=self._measure,
        )
        self.history.append(record)
        if self._progress is not None:
            self._progress(record)
        if error is not None:
            self.converged = self._since_best >= self._patience
        else:
            last, self._last = self._last, criterion
            self.converged = last is not None and bool(abs(last - criterion) <= self._tol * size)
        return self.converged

    def _validate(self, solution: Callable[[], Solution]) -> float | None:
        if self._evaluate is None:
            return None
        current = solution()
        error = self._evaluate(current)
        if error < self.best_error:
            self.best, self.best_error, self._since_best = current, error, 0
        else:
            self._since_best += 1
        return error

    def result(self, final: Callable[[], Solution]) -> Solution:
        """Return the best solution on the validation part, or the final one without such a part."""
        return self.best if self.best is not None else final()
