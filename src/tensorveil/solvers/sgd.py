"""Stochastic gradient descent for CP and Tucker on objectives (6) and (7) of Wei, Li, Mao and Wang (2021).

Per entry, f = (x - prediction)^2 + lambda * (squared norms of the rows it touches) [+ lambda_g * |core|^2], and every
row moves by -learning_rate * gradient. Entries lie in cache-sized tiles that several threads visit; all rows of an
entry move at once from the same residual; values are centred and scaled. The learning rate grows while the error falls
and is halved when it rises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tensorveil.errors import InputError
from tensorveil.kernels.cp_sgd import cp_sgd_pass
from tensorveil.kernels.padded import Padded, pad, unpad
from tensorveil.kernels.tiles import build_tiles
from tensorveil.kernels.tucker_sgd import TILES, tucker_sgd_pass
from tensorveil.solvers.task import Array, Scaling, Solution, Task, standard_scaling, start_spread
from tensorveil.solvers.watch import Watch

Pass = Callable[[int, float], float]

_GROW, _SHRINK = 1.05, 0.5
# Values have unit variance: a mean squared error of this size means that the pass has diverged.
_BLOW_UP, _TRIES = 100.0, 8


@dataclass(frozen=True, kw_only=True)
class SGD:
    """Settings of stochastic gradient descent; the papers say passes for what is called sweeps here."""

    sweeps: int = 100
    tol: float = 1e-4
    learning_rate: float = 0.005
    regularization: float = 0.01
    core_regularization: float = 0.001


@dataclass(frozen=True, kw_only=True)
class _State:
    """What the passes change in place."""

    factors: Padded
    core: Array | None
    biases: tuple[Array, ...]


def solve_sgd(task: Task, settings: SGD, watch: Watch) -> Solution:
    """Fit by passes over the entries."""
    scaling = standard_scaling(task)
    rng = np.random.default_rng(task.seed)
    state = _start(task, rng)
    one_pass = _tiled_pass(task, settings, scaling, state, rng)
    rate, last = settings.learning_rate, np.inf
    for sweep in range(settings.sweeps):
        error, rate = _careful_pass(one_pass, sweep, rate, state, task)
        rate, last = rate * (_GROW if error < last else _SHRINK), error
        error *= scaling.scale
        if watch.step(train_error=error, criterion=error, size=error, solution=lambda: _solution(state, scaling)):
            break
    return watch.result(lambda: _solution(state, scaling))


def _careful_pass(one_pass: Pass, sweep: int, rate: float, state: _State, task: Task) -> tuple[float, float]:
    """Make a pass, again from the same start with a tenth of the rate as long as it diverges."""
    parts = (*state.factors.arrays, *state.biases, *(() if state.core is None else (state.core,)))
    start = [part.copy() for part in parts]
    for _ in range(_TRIES):
        total = one_pass(sweep, 2 * rate)
        if np.isfinite(total) and total <= _BLOW_UP * len(task.values):
            return _check_error(total, task), rate
        rate /= 10
        for part, before in zip(parts, start, strict=True):
            part[...] = before
    return _check_error(np.inf, task), rate


def _tiled_pass(task: Task, settings: SGD, scaling: Scaling, state: _State, rng: np.random.Generator) -> Pass:
    """Return a function that visits all entries tile by tile and returns the sum of squared errors."""
    row_bytes = max(array.shape[1] for array in state.factors.arrays) * task.dtype.itemsize
    values = scaling.apply(task.values, task.dtype)
    sizes = TILES if task.core else {}
    seed = int(rng.integers(2**62))
    tiles = build_tiles(task.columns, values, task.shape, row_bytes, task.threads, seed, task.dtype, **sizes)

    def one_pass(sweep: int, step: float) -> float:
        decay, core_decay = step * settings.regularization, step * settings.core_regularization
        if state.core is None:
            return cp_sgd_pass(tiles, state.factors, state.biases, 0.0, step, decay, sweep)
        return tucker_sgd_pass(tiles, state.core, state.factors, state.biases, 0.0, step, decay, core_decay, sweep)

    return one_pass


def _start(task: Task, rng: np.random.Generator) -> _State:
    # Equal values are the offset alone; a random start would only add noise to them.
    spread = start_spread(task) if task.baseline == "none" or np.ptp(task.values) > 0 else 0.0
    shapes = zip(task.shape, task.ranks, strict=True)
    factors = [spread * rng.standard_normal(shape) for shape in shapes]
    # Nothing moves a row without entries: at a random start it would predict at random.
    for factor, column in zip(factors, task.columns, strict=True):
        factor[np.bincount(column, minlength=len(factor)) == 0] = 0.0
    return _State(
        factors=pad(factors, task.dtype),
        core=rng.standard_normal(task.ranks).astype(task.dtype) if task.core else None,
        biases=tuple(np.zeros(size, task.dtype) for size in task.shape) if task.baseline == "biases" else (),
    )


def _check_error(total: float, task: Task) -> float:
    if not np.isfinite(total):
        raise InputError(
            "learning_rate must be small enough for the fit to stay finite; it diverged. Try a tenth of learning_rate."
        )
    return task.loss.summary(total / task.n_entries)


def _solution(state: _State, scaling: Scaling) -> Solution:
    core = None if state.core is None else state.core.copy()
    return scaling.undo(tuple(unpad(state.factors)), core, tuple(b.copy() for b in state.biases) or None)
