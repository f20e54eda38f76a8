"""Noise-aware variational Bayes for CP and Tucker.

Rows have Gaussian posteriors; each component's prior, a center and a precision alpha per mode, is estimated (automatic
relevance: a component that the data do not support shrinks to nothing; one that does not vary along a mode becomes
constant there, which makes biases and lower-order interactions special cases). The variance s2 is that of the residual,
and never less than the noise variance declared as known. Bishop (1999) for relevance determination in factor models,
Zhao, Zhang and Cichocki (2015) for CP.

Laplace noise of a known variance is taken for Gaussian until the fit has converged; then entries are weighed by their
residuals (kernels/bayes_cp.py), which leaves about a seventh less error in planted matrices. The bound stays the
Gaussian one: by then it only tells when the fit stands still, and which of several starts is best.

The variance starts well below that of the data and, like the relevances, is held for the first sweeps: otherwise
components are explained away as noise before they have found their direction, and do not come back.

A spectral start misses components that are much weaker than others, because holes turn the strong ones into noise. When
such a fit has converged, components that were switched off, or else the weakest one, get what the leading directions of
the residual show together, and keep it if the bound rises; otherwise another number of directions is tried, and the
second weakest. A component too weak to lead in any one mode still shows where weak directions of all modes meet. On
planted tensors this took up to two thirds of the error away where components just show.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from tensorveil.errors import InputError
from tensorveil.kernels.bayes_cp import Precisions, cp_bayes_mode
from tensorveil.kernels.bayes_tucker import CorePosterior, tucker_bayes_core, tucker_bayes_mode
from tensorveil.kernels.coupled import RowSolver, cp_coupled_mode
from tensorveil.kernels.posterior import BLOCK, Posterior, random_posterior
from tensorveil.kernels.rows import Rows, build_all_rows
from tensorveil.solvers.bayes_stored import Update, find_update
from tensorveil.solvers.priors.row_prior import PriorFactory, RowPrior
from tensorveil.solvers.spectral import cp_factors, find_spectrum, subtract_biases, tucker_factors
from tensorveil.solvers.task import Array, Scaling, Solution, Task, standard_scaling
from tensorveil.solvers.watch import Watch
from tensorveil.tensor.stored import StoredEntries

Start = Literal["spectral", "random"]

_START_SPREAD = 0.5
_START_VARIANCE = 0.3
_HELD_SWEEPS = 3
_LARGEST_ALPHA = 1e8
_SMALLEST_VARIANCE = 1e-10
# A component of this variance, of values' one, is switched off.
_OFF = 1e-5
# How many leading directions of the residual are searched for components that the start missed; the second number is
# tried where the first finds nothing.
_LOOKS = (16, 8)
# A look that raises the bound by this much per entry is followed by others.
_WORTH_A_LOOK = 1e-4
# Residuals at which the density of scattered values is computed; what is left of the variance at least, and by how
# much the places of its masses are smoothed, in standard deviations and relative to the place; and how many residuals
# are taken to be spread as before the fit.
_SCATTER_STEP, _SCATTER_STEPS, _LEAST_SCATTER, _SMOOTHING, _AS_BEFORE = 0.02, 2001, 0.02, 0.2, 0.25
# The core's covariance has this number squared of elements.
LARGEST_CORE = 1024


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """Values of which some are near what they stand for and the others anywhere.

    ``inside`` is the chance of the former, ``near`` the variance of what was added to them, ``span`` the width of the
    range over which the others are spread. ``shift`` is to be added to the values, one each, before they can be seen
    like this: values that are unbiased on average over both kinds are not unbiased for the former alone. ``places`` and
    ``masses`` tell how true values were spread before the fit: they have heavy tails, or are 0 or 1, and must not be
    mistaken for values that are anywhere.
    """

    inside: float
    near: float
    span: float
    shift: Array
    places: Array
    masses: Array


@dataclass(frozen=True, kw_only=True)
class Bayes:
    """Settings of the variational solver."""

    sweeps: int = 100
    tol: float = 1e-5
    noise_variance: float = 0.0
    # "spectral": from what the data show, for three modes and more; better under much noise, not always under little
    start: Start = "random"
    # For CP: whether the noise that is known has a Laplace law, so that entries are weighed by their residuals.
    laplace: bool = False
    # For CP: how answers in windows are spread, likewise.
    scatter: Scatter | None = None
    # For matrices only: turn the components so that those which are not needed fall off soon; see _rotate.
    estimate_rank: bool = False
    # By mode: priors that take the place of one Gaussian for all rows.
    priors: Mapping[int, PriorFactory] = field(default_factory=dict)
    # How many entries tell as much as one independent entry: the residual's variance is multiplied by it.
    temper: float = 1.0


@dataclass(kw_only=True)
class _State:
    """Everything that is estimated, on the scale of unit variance."""

    posterior: Posterior
    core: CorePosterior | None
    center: list[Array]
    alpha: list[Array]
    beta: list[float] | None
    variance: float
    priors: dict[int, RowPrior] = field(default_factory=dict)
    residual: float = 0.0
    logdet: float = 0.0
    laplace: float = 0.0
    scatter: Scatter | None = None
    weights: float = 0.0
    evidence: float = 0.0


def solve_bayes(task: Task, settings: Bayes, watch: Watch) -> Solution:
    """Fit by coordinate ascent on the evidence bound; ``watch`` sees the bound as criterion."""
    scaling = standard_scaling(task) if task.elsewhere is None else task.elsewhere.scale(task)
    floor = max(settings.noise_variance / scaling.scale**2, _SMALLEST_VARIANCE)
    rows: tuple[Rows, ...] | Update
    if isinstance(task.entries, StoredEntries):  # of which no solver here needs the values but by row
        values = np.empty(0)
        rows = find_update(task, task.entries.stored, scaling)
    else:
        values = scaling.apply(task.values, np.dtype(np.float64))
        rows = build_all_rows(task.columns, values, task.shape, threads=task.threads)
    state = _start(task, floor)
    state.priors = {mode: make(task.ranks[mode]) for mode, make in settings.priors.items()}
    spectral = settings.start == "spectral" and task.order > 2
    if spectral:
        _start_spectrally(state, task, values)
    n = task.n_entries
    # CP fits look again for components that the start missed.
    search = _Search(task, values, _WORTH_A_LOOK * n) if spectral and not task.core else None
    free = _HELD_SWEEPS
    pending = (settings.laplace or settings.scatter is not None) and settings.noise_variance > 0 and not task.core
    for sweep in range(settings.sweeps):
        _sweep(state, rows, task.threads)
        held = sweep < free
        if state.scatter is not None:
            state.variance = max(state.residual / max(state.weights, 1e-9 * n), state.scatter.near, _SMALLEST_VARIANCE)
        elif not held:
            state.variance = max(settings.temper * state.residual / n, floor)
        bound = _bound(state, n)
        _balance(state)
        if settings.estimate_rank and not held and state.laplace == 0 and state.scatter is None and not state.priors:
            _rotate(state)
        if not held:
            _relevance(state)
        error = task.error(state.residual, scaling)
        solution = partial(_solution, state, scaling)
        # A fit that stands still while its variance is held has not converged.
        criterion = np.nan if held else bound
        done = watch.step(train_error=error, criterion=criterion, size=n, bound=bound, solution=solution)
        if done and search is not None:
            state, looking = search.go_on(state, bound)
            if looking:
                free = sweep + 1 + _HELD_SWEEPS
            else:
                search = None
            continue
        if pending and (done or 2 * (sweep + 1) >= settings.sweeps):
            # Weights that follow from residuals mislead a fit that has not found its directions: they come second.
            if search is not None:
                state, search = search.better(state, bound), None
            pending = False
            if settings.scatter is None:
                state.laplace = float(np.sqrt(floor / 2))
            else:
                values, state.scatter = (
                    values + settings.scatter.shift / scaling.scale,
                    _scale(settings.scatter, scaling),
                )
                rows = build_all_rows(task.columns, values, task.shape, threads=task.threads)
                state.variance = max(state.variance - floor, 0.05 * state.variance) + state.scatter.near
        elif done:
            break
    if search is not None:  # no sweeps were left to see whether what was revived stays
        state = search.better(state, bound)
    return watch.result(partial(_solution, state, scaling))


def _start(task: Task, floor: float) -> _State:
    rng = np.random.default_rng(task.seed)
    size = int(np.prod(task.ranks)) if task.core else 0
    if size > LARGEST_CORE:
        raise InputError(
            f'rank must give a core of at most {LARGEST_CORE} elements for solver="bayes"; got {size}. '
            'Try a smaller rank, or solver="als".'
        )
    posterior = random_posterior(task.shape, task.ranks, _START_SPREAD, rng, compact=not task.core)
    core = None
    if task.core:
        core = CorePosterior(mean=rng.standard_normal(task.ranks), covariance=np.zeros((size, size)))
    return _State(
        posterior=posterior,
        core=core,
        center=[np.zeros(r) for r in task.ranks],
        alpha=[np.ones(r) for r in task.ranks],
        beta=[1.0] * task.order if task.baseline == "biases" else None,
        variance=max(_START_VARIANCE, floor),
    )


def _start_spectrally(state: _State, task: Task, values: Array) -> None:
    """Put what the data's spectrum shows in place of the first random components."""
    rng = np.random.default_rng([task.seed, 1])
    if task.baseline == "biases":
        values = subtract_biases(task.columns, values, task.shape)
    found = find_spectrum(task.columns, values, task.shape, task.ranks, rng)
    if found is None:
        return
    if state.core is None:
        starts = cp_factors(found, task.ranks[0], rng)
    else:
        starts, core = tucker_factors(found)
        state.core.mean[tuple(slice(size) for size in core.shape)] = core
    for mode, start in enumerate(starts):
        state.posterior.put(mode, start, np.arange(start.shape[1]))


class _Search:
    """Looks for components that a start missed, for as long as a look raises the bound."""

    def __init__(self, task: Task, values: Array, least_gain: float) -> None:
        self.task, self.values, self.least_gain = task, values, least_gain
        self.rng = np.random.default_rng([task.seed, 2])
        self.bound, self.tried = -np.inf, 0
        self.state: _State | None = None

    def better(self, state: _State, bound: float) -> _State:
        """Return the state with the higher bound: this one, or the one that the last look began from."""
        return state if self.state is None or bound >= self.bound else self.state

    def go_on(self, state: _State, bound: float) -> tuple[_State, bool]:
        """Take a converged state; return the state to go on from, and whether there is anything left to look for."""
        if bound > self.bound + self.least_gain:
            self.tried = 0
        if bound > self.bound:
            self.bound, self.state = bound, state
        assert self.state is not None
        while self.tried < len(_LOOKS):
            state, self.tried = copy.deepcopy(self.state), self.tried + 1
            if _revive(state, self.task, self.values, self.tried - 1, self.rng):
                return state, True
        return self.state, False


def _revive(state: _State, task: Task, values: Array, look: int, rng: np.random.Generator) -> bool:
    """Restart components that were switched off, or the weakest, from the residual; return whether it shows any."""
    posterior = state.posterior
    factors = [posterior.factor(mode) for mode in range(task.order)]
    strength = np.prod([np.mean(factor**2, axis=0) for factor in factors], axis=0)
    off = np.flatnonzero(strength < _OFF)
    if not len(off):  # one of them may follow chance, or share a direction with another
        off = np.argsort(strength)[look : look + 1]
    if not len(off):
        return False
    residual = values.copy()
    for component in np.setdiff1d(np.arange(len(strength)), off):
        pairs = zip(factors, task.columns, strict=True)
        residual -= np.prod([factor[:, component][column] for factor, column in pairs], axis=0)
    if state.beta is not None:
        for mode, column in enumerate(task.columns):
            residual -= posterior.bias[posterior.rows(mode)][column]
    width = max(_LOOKS[look], len(off))
    found = find_spectrum(task.columns, residual, task.shape, (width,) * task.order, rng, least=width)
    if found is None:
        return False
    for mode, start in enumerate(cp_factors(found, len(off), rng)):
        back = off[: start.shape[1]]
        posterior.put(mode, start, back)
        state.center[mode][back] = 0.0
        state.alpha[mode][back] = 1.0 / np.maximum(np.mean(start**2, axis=0), 1e-6)
    return True


def _sweep(state: _State, rows: tuple[Rows, ...] | Update, threads: int | None) -> None:
    """Update the rows of every mode, then the core."""
    state.logdet = 0.0
    if not isinstance(rows, tuple):
        for mode in range(len(state.posterior.shape)):
            beta = None if state.beta is None else state.beta[mode]
            state.residual, logdet = rows(
                mode, state.posterior, state.center[mode], state.alpha[mode], state.variance, beta
            )
            state.logdet += logdet
        return
    precisions = None
    if state.scatter is not None:
        precisions = scatter_precisions(state.scatter, state.variance)
    elif state.laplace > 0:
        precisions = laplace_precisions(state.laplace, state.variance)
    for mode, grouped in enumerate(rows):
        beta = None if state.beta is None else state.beta[mode]
        prior = (state.center[mode], state.alpha[mode])
        solve = _row_solver(state, mode)
        if state.core is None:
            if solve is not None:
                sums, logdet = cp_coupled_mode(grouped, state.posterior, solve, state.variance, threads, precisions)
            else:
                sums, logdet = cp_bayes_mode(
                    grouped, state.posterior, *prior, state.variance, beta, threads, precisions
                )
            state.residual = sums.before if state.laplace > 0 else sums.after
            state.weights, state.evidence = sums.weights, sums.evidence
        else:
            kronecker, logdet = tucker_bayes_mode(
                grouped, state.posterior, state.core, *prior, state.variance, beta, threads, solve
            )
        state.logdet += logdet
    if state.core is not None:
        # The last mode's sums hold for the core too: they involve the other modes only, and its own new rows.
        state.residual, logdet = tucker_bayes_core(kronecker, state.core, 1.0, state.variance)
        state.logdet += logdet


def _row_solver(state: _State, mode: int) -> RowSolver | None:
    """Return what solves the rows of a mode with a prior of its own; None for the other modes."""
    if mode not in state.priors:
        return None
    beta = None if state.beta is None else state.beta[mode]
    return partial(
        state.priors[mode].solve, center=state.center[mode], alpha=state.alpha[mode], variance=state.variance,
        beta=beta, bias=state.posterior.bias[state.posterior.rows(mode)].copy(),
    )  # fmt: skip


def laplace_precisions(scale: float, variance: float) -> Precisions:
    """Return precisions for Laplace noise of a scale plus Gaussian noise, of this variance together.

    Their sum has the density p(r) proportional to t1 + t2, t1 = exp(-r/b) erfc((s/b - r) / sqrt(2 s)) and t2 the same
    at -r, s the Gaussian variance and b the scale; and -p'/p = (t1 - t2) / (b (t1 + t2)).
    """
    from scipy.special import log_ndtr

    spread = np.sqrt(max(variance - 2 * scale**2, 1e-4 * scale**2))
    step = 0.01 * (scale + spread)
    r = step * np.arange(2001)
    r[0] = 0.25 * step  # the precision is even in r; as s goes to 0 it has a pole
    # erfc(x) is 2 Phi(-sqrt(2) x); the ratio of t1 and t2 is the exponential of a difference of logarithms.
    gap = log_ndtr((r - spread**2 / scale) / spread) - log_ndtr((-r - spread**2 / scale) / spread) - 2 * r / scale
    return Precisions(table=np.tanh(0.5 * gap) / (scale * r), step=step)


def scatter_precisions(scatter: Scatter, variance: float) -> Precisions:
    """Return precisions for values of which those that are near have this variance around the model.

    It is how likely a value of this residual is one of them, over the variance.
    """
    step = _SCATTER_STEP * variance**0.5
    r = step * np.arange(_SCATTER_STEPS)
    left = max(variance - scatter.near, _LEAST_SCATTER * variance)
    before = float(scatter.masses @ scatter.places**2)
    density = (1.0 - _AS_BEFORE) * _spread_density(r, scatter, min((left / before) ** 0.5, 1.0))
    density += _AS_BEFORE * _spread_density(r, scatter, 1.0)
    near, far = scatter.inside * density, max(1.0 - scatter.inside, 1e-12) / scatter.span
    return Precisions(table=near / (near + far) / variance, step=step, logs=np.log(near + far))


def _spread_density(r: Array, scatter: Scatter, shrink: float) -> Array:
    """Return the density of the masses, smoothed, on both sides alike."""
    middles = scatter.places * shrink
    square = float(scatter.masses @ middles**2)
    widths = np.sqrt(scatter.near + _SMOOTHING**2 * (middles**2 + square))
    off = np.stack([r[:, None] - middles, r[:, None] + middles]) / widths
    density: Array = 0.5 * np.exp(-0.5 * off**2).sum(axis=0) @ (scatter.masses / (np.sqrt(2 * np.pi) * widths))
    return density


def _scale(scatter: Scatter, scaling: Scaling) -> Scatter:
    scale = scaling.scale
    return replace(scatter, near=scatter.near / scale**2, span=scatter.span / scale, places=scatter.places / scale)


def _bound(state: _State, n: int) -> float:
    """Return the evidence lower bound, up to a constant."""
    posterior = state.posterior
    if state.scatter is not None:
        bound = state.evidence + 0.5 * n * np.log(2 * np.pi)
    else:
        bound = -0.5 * n * np.log(state.variance) - 0.5 * state.residual / state.variance
    bound += 0.5 * state.logdet
    for mode, size in enumerate(posterior.shape):
        alpha, center = state.alpha[mode], state.center[mode]
        if mode in state.priors:
            bound += state.priors[mode].evidence(posterior, mode, center, alpha)
        else:
            bound += 0.5 * size * np.sum(np.log(alpha) + 1) - 0.5 * np.sum(alpha * _spread(posterior, mode, center))
        if state.beta is not None:
            square, spread = _bias_squares(posterior, mode)
            bound += 0.5 * (size * (np.log(state.beta[mode]) + 1) - state.beta[mode] * square + np.log(spread).sum())
    if state.core is not None:
        bound += 0.5 * (state.core.mean.size - _core_square(state.core))
    return float(bound)


def _spread(posterior: Posterior, mode: int, center: Array) -> Array:
    """Return sum over rows of E[(f - center)^2], per component."""
    size = posterior.shape[mode]
    spread: Array = posterior.squares(mode) - 2 * center * posterior.sums(mode) + size * center**2
    return spread


def _bias_squares(posterior: Posterior, mode: int) -> tuple[float, Array]:
    rows = posterior.rows(mode)
    spread = posterior.bias_variance[rows]
    return float(np.sum(posterior.bias[rows] ** 2 + spread)), spread


def _core_square(core: CorePosterior) -> float:
    return float(np.sum(core.mean**2) + np.trace(core.covariance))


def _balance(state: _State) -> None:
    """Move scale between the modes (CP), or between core and modes (Tucker), where the model does not see it."""
    posterior = state.posterior
    modes = range(len(posterior.shape))
    if state.core is not None:
        scale = np.sqrt(_core_square(state.core) / state.core.mean.size)
        state.core.mean /= scale
        state.core.covariance /= scale**2
        for mode in modes:
            _rescale(state, mode, np.full(posterior.ranks[mode], scale ** (1.0 / len(posterior.shape))))
        return
    powers = np.stack([posterior.squares(m) / posterior.shape[m] for m in modes]) + 1e-300
    common = np.exp(np.log(powers).mean(axis=0))
    for mode in modes:
        _rescale(state, mode, np.sqrt(common / powers[mode]))


def _rotate(state: _State) -> None:
    """Turn the components of a matrix to its principal directions, which the model does not see (A B' stays).

    Relevance determination switches off directions only along the components. Two components that share one direction
    would stay for hundreds of sweeps: their means are nearly parallel, and each alone is relevant. Luttinen and Ilin
    (2010) derive such rotations; here both second moments become diagonal and equal.
    """
    posterior = state.posterior
    roots = [np.linalg.cholesky(posterior.moment(mode)) for mode in (0, 1)]
    left, values, _ = np.linalg.svd(roots[0].T @ roots[1])
    turn = np.linalg.solve(roots[0].T, left) * np.sqrt(values)
    back = np.linalg.inv(turn).T
    for mode, matrix in enumerate((turn, back)):
        posterior.transform(mode, matrix)
        state.center[mode] = state.center[mode] @ matrix
        state.alpha[mode] = 1.0 / ((1.0 / state.alpha[mode]) @ matrix**2)


def _rescale(state: _State, mode: int, scales: Array) -> None:
    """Multiply the components of a mode, and their prior with them."""
    state.posterior.rescale(mode, scales)
    state.center[mode] = state.center[mode] * scales
    state.alpha[mode] = state.alpha[mode] / scales**2
    if mode in state.priors:
        state.priors[mode].rescale(scales)


def _relevance(state: _State) -> None:
    """Re-estimate the priors' centers and precisions, with one more row at zero as a prior of theirs.

    MacKay's (1992) fixed point, precision = well-determined rows / squared means: the plain expectation step creeps
    towards zero variance, and under heavy noise stops hundreds of sweeps too early.
    """
    posterior = state.posterior
    for mode, size in enumerate(posterior.shape):
        if mode in state.priors:
            state.center[mode], state.alpha[mode] = state.priors[mode].learn(posterior, mode, state.alpha[mode])
        else:
            factor = posterior.factor(mode)
            uncertain = posterior.squares(mode) - _sum_squares(factor, 0.0)
            center = posterior.sums(mode) / (size + 1)
            square = _sum_squares(factor, center) + center**2
            state.center[mode] = center
            state.alpha[mode] = _precision(size + 1, state.alpha[mode], uncertain, square)
        if state.beta is not None:
            rows = posterior.rows(mode)
            uncertain, square = np.sum(posterior.bias_variance[rows]), np.sum(posterior.bias[rows] ** 2)
            state.beta[mode] = float(_precision(size, state.beta[mode], uncertain, square))


def _sum_squares(factor: Array, center: Array | float) -> Array:
    """Return the sum over rows of (f - center)^2, by blocks of rows: long modes leave no room for a copy."""
    blocks = [factor[low : low + BLOCK] for low in range(0, len(factor), BLOCK)]
    total: Array = np.sum([np.sum((block - center) ** 2, axis=0) for block in blocks], axis=0)
    return total


def _precision(size: int, old: Array | float, uncertain: Array, square: Array) -> Array:
    determined = np.maximum(size - old * uncertain, 1e-3)
    precision: Array = np.clip(determined / np.maximum(square, 1e-300), 1e-6, _LARGEST_ALPHA)
    return precision


def _solution(state: _State, scaling: Scaling) -> Solution:
    posterior = state.posterior
    modes = range(len(posterior.shape))
    biases = None
    if state.beta is not None:
        biases = tuple(posterior.bias[posterior.rows(m)] for m in modes)
    factors = tuple(posterior.factor(m) for m in modes)
    if state.core is None:  # scaling copies factors; with many rows there is no room for a copy of the copy
        return scaling.undo(factors, None, biases, state.variance)
    return scaling.undo(tuple(f.copy() for f in factors), state.core.mean.copy(), biases, state.variance)
