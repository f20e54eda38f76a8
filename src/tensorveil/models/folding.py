"""New rows for a fitted model: ridge regression against the other modes' fixed factors.

With the other modes fixed, a prediction is linear in the row w of one mode (and in its bias):
value = known part + x . w. Under a Gaussian prior w ~ N(m, S S') and noise of a given variance the best row
is m + S z, where z solves the ridge system (S'X'XS + variance I) z = S'X'(y - X m): one small system per row.
By default the prior is that of the rows which the model already has; with ``regularization`` given it is
N(0, I / regularization), which is plain ridge regression with penalty regularization * variance.

Models of counts, of yes and no and of positive values are solved by the same systems again and again (iteratively
reweighted least squares): each entry by its working value, m + (x - mean) / slope, weighed by slope^2 / variance, with
slope and variance those of the link and the loss at the last rows. Unlisted zeros count as entries, all or a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models.contract import Floats, Multilinear
from tensorveil.models.evaluate import baseline_at
from tensorveil.models.indexing import label_positions
from tensorveil.models.link import SLOPES
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.modes import find_axis
from tensorveil.tensor.unlisted import known_cells

CHUNK = 1 << 16
# EM on the noise variance settles to a few per cent within this many rounds.
NOISE_ROUNDS = 8
# Reweighted systems settle within this many.
ROUNDS = 20
# The variance of values around their mean, by loss.
VARIANCES: Final[dict[str, Callable[[Floats], Floats]]] = {
    "poisson": lambda mean: mean,
    "bernoulli": lambda mean: mean * (1 - mean),
    "gamma": lambda mean: mean**2,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class NewRows:
    """Rows (k, rank) of new indices of one mode, and their biases where the model has biases."""

    rows: Floats
    biases: Floats | None = None


def solve_rows(
    model: Multilinear,
    tensor: ObservedTensor,
    mode: str | int,
    regularization: float | None,
    noise_variance: float | None,
) -> NewRows:
    """Compute the rows of ``mode`` that explain the tensor best while the other modes stay fixed."""
    position = find_axis(model.modes, mode)
    columns = _match_columns(model, tensor, position)
    prior = _row_prior(model, position) if regularization is None else _zero_prior(model, position, regularization)
    if noise_variance is not None and not 0 < noise_variance < np.inf:
        raise InputError("noise_variance must be positive, or None to estimate it. Try noise_variance=None.")
    n_rows, values, weights = tensor.shape[position], tensor.values, np.ones(tensor.n_entries)
    if tensor.unlisted == "zero":
        shape = tuple(n_rows if m == position else size for m, size in enumerate(model.shape))
        cells = known_cells(ObservedTensor.from_columns(columns, values, shape, unlisted="zero"))
        columns, values, weights = cells.columns, cells.values, cells.weights
    if model.loss == "gaussian":
        systems = _normal_equations(model, columns, values, position, n_rows, weights)
        solution = _solve(systems, prior, noise_variance)
    else:
        solution = _reweighted(model, columns, values, position, n_rows, weights, prior)
    rank = model.factors[position].shape[1]
    biases = None if model.biases is None else solution[:, rank].astype(model.dtype)
    return NewRows(rows=solution[:, :rank].astype(model.dtype), biases=biases)


def _reweighted(
    model: Multilinear,
    columns: NDArray[np.int32],
    values: Floats,
    position: int,
    n_rows: int,
    weights: Floats,
    prior: _Prior,
) -> Floats:
    """Solve the rows of a model whose values are not spread evenly around its predictions."""
    if model.loss not in VARIANCES or model.link.name not in SLOPES:
        raise InputError("a model with a loss of your own cannot be folded into. Refit it with the new entries.")
    nonnegative = all(np.all(factor >= 0) for factor in model.factors) and model.link.name in ("identity", "odds")
    rank = model.factors[position].shape[1]
    solution = np.tile(prior.mean, (n_rows, 1))
    for _ in range(ROUNDS):
        linear = np.asarray(baseline_at(model, columns, without=position), dtype=np.float64) + np.zeros(len(values))
        linear += np.einsum("nr,nr->n", model.design(columns, position), solution[columns[position], :rank])
        if model.biases is not None:
            linear += solution[columns[position], rank]
        linear = np.maximum(linear, 1e-6) if nonnegative else np.clip(linear, -30.0, 30.0)
        mean, slope = model.link.mean(linear.copy()), np.maximum(SLOPES[model.link.name](linear), 1e-9)
        spread = np.maximum(VARIANCES[model.loss](mean), 1e-9)
        # A working value far away would throw the next round off.
        working = linear + np.clip((values - mean) / slope, -4.0, 4.0)
        systems = _normal_equations(model, columns, working, position, n_rows, weights * slope**2 / spread)
        solution = _solve(systems, prior, 1.0)
        if nonnegative:
            solution = np.maximum(solution, 0.0)
    return solution


def append_labels(known: Mode, new: Mode) -> Mode:
    """Return the mode with the labels of the new rows after its own."""
    if known.labels is None:
        return known
    if new.labels is None:
        raise InputError(f"mode {known.name!r} has labels in the model, so the new rows need labels too.")
    if (known.labels.dtype.kind == "T") != (new.labels.dtype.kind == "T"):
        raise InputError(f"new labels of mode {known.name!r} must be of the model's kind, text or numbers.")
    if not set(known.labels.tolist()).isdisjoint(new.labels.tolist()):
        raise InputError(
            f"the new rows of mode {known.name!r} include labels that the model already has. "
            "Fold in only rows that are new; refit to update the others."
        )
    return Mode(known.name, np.concatenate([known.labels, new.labels]), known.bins)


def append_rows(parts: Sequence[Floats], position: int, new: Floats) -> tuple[Floats, ...]:
    """Append new rows to one of the parts."""
    return tuple(np.concatenate([p, new]) if m == position else p for m, p in enumerate(parts))


def _match_columns(model: Multilinear, tensor: ObservedTensor, position: int) -> NDArray[np.int32]:
    """Return the tensor's columns in the model's indices: by label where both sides have labels."""
    if tensor.order != len(model.shape):
        raise InputError(f"tensor must have {len(model.shape)} modes like the model; got {tensor.order}.")
    columns = []
    for m, (known, new) in enumerate(zip(model.modes, tensor.modes, strict=True)):
        column = tensor.columns[m]
        if m != position:
            if known.labels is not None and new.labels is not None:
                # Only labels that occur need to be known; a mode may list more of them.
                used, inverse = np.unique(column, return_inverse=True)
                column = label_positions(new.labels[used], known, model.shape[m])[inverse]
            elif tensor.shape[m] > model.shape[m]:
                raise InputError(
                    f"tensor is larger than the model in mode {known.name!r}. Fold in new rows of one mode at a time."
                )
        columns.append(column)
    return np.ascontiguousarray(np.stack(columns), dtype=np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Prior:
    mean: Floats  # (R,)
    root: Floats  # (R, R): the covariance is root root'


def _row_prior(model: Multilinear, position: int) -> _Prior:
    """Return the Gaussian that the existing rows of the mode (with their biases) look drawn from."""
    rows = model.factors[position].astype(np.float64)
    if model.biases is not None:
        rows = np.column_stack([rows, model.biases[position]])
    size, rank = rows.shape
    mean = rows.mean(axis=0)
    centred = rows - mean
    # Few rows say little about a covariance: lean on its diagonal, and that on the columns' mean size.
    trust = size / (size + rank)
    covariance = trust * (centred.T @ centred / size) + (1 - trust) * np.diag(np.mean(rows**2, axis=0))
    if not rows.any():
        covariance = np.eye(rank)  # rows of zeros say nothing about the spread
    eigenvalues, vectors = np.linalg.eigh(covariance)
    return _Prior(mean=mean, root=vectors * np.sqrt(np.maximum(eigenvalues, 0.0)))


def _zero_prior(model: Multilinear, position: int, regularization: float) -> _Prior:
    if not 0 < regularization < np.inf:
        raise InputError("regularization must be positive, or None to learn the prior from the existing rows.")
    rank = model.factors[position].shape[1] + (model.biases is not None)
    return _Prior(mean=np.zeros(rank), root=np.eye(rank) / np.sqrt(regularization))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Systems:
    grams: Floats  # (k, R, R): X'X per row
    moments: Floats  # (k, R): X'y per row
    squares: float  # y'y over all rows
    n_entries: int


def _normal_equations(
    model: Multilinear,
    columns: NDArray[np.int32],
    values: Floats,
    position: int,
    n_rows: int,
    weights: Floats,
) -> _Systems:
    order = np.argsort(columns[position], kind="stable")
    rank = model.factors[position].shape[1] + (model.biases is not None)
    grams, moments = np.zeros((n_rows, rank, rank)), np.zeros((n_rows, rank))
    squares = 0.0
    for start in range(0, len(order), CHUNK):
        picked = order[start : start + CHUNK]
        part = columns[:, picked]
        x = model.design(part, position).astype(np.float64)
        if model.biases is not None:
            x = np.column_stack([x, np.ones(len(x))])
        y = values[picked] - np.asarray(baseline_at(model, part, without=position), dtype=np.float64)
        w = np.sqrt(weights[picked])
        x, y = x * w[:, None], y * w
        squares += float(y @ y)
        edges = np.flatnonzero(np.diff(part[position])) + 1
        for rows in np.split(np.arange(len(picked)), edges):
            row = part[position, rows[0]]
            grams[row] += x[rows].T @ x[rows]
            moments[row] += x[rows].T @ y[rows]
    return _Systems(grams=grams, moments=moments, squares=squares, n_entries=max(1, round(float(weights.sum()))))


def _solve(systems: _Systems, prior: _Prior, noise_variance: float | None) -> Floats:
    """Solve every row's ridge system, estimating the noise variance by EM when it is not known."""
    shifted = systems.moments - systems.grams @ prior.mean
    squares = systems.squares - np.sum((systems.moments + shifted) @ prior.mean)
    eigenvalues, vectors = np.linalg.eigh(prior.root.T @ systems.grams @ prior.root)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    rotated = np.einsum("krs,kr->ks", vectors, shifted @ prior.root)
    if noise_variance is None:
        noise_variance = _estimate_noise(eigenvalues, rotated, float(squares), systems.n_entries)
    whitened = np.einsum("krs,ks->kr", vectors, rotated / (eigenvalues + noise_variance))
    solution: Floats = prior.mean + whitened @ prior.root.T
    return solution


def _estimate_noise(eigenvalues: Floats, rotated: Floats, squares: float, n_entries: int) -> float:
    """Estimate the noise variance: expected squared residual under the rows' posterior."""
    # An exact fit would drive the estimate to zero; the floor keeps the systems solvable.
    floor = max(squares / n_entries * 1e-10, float(np.finfo(np.float64).tiny))
    variance = max(squares / n_entries, floor)
    for _ in range(NOISE_ROUNDS):
        rows = rotated / (eigenvalues + variance)
        residual = squares - 2 * np.sum(rows * rotated) + np.sum(eigenvalues * rows**2)
        spread = np.sum(eigenvalues * variance / (eigenvalues + variance))
        variance = max(float(residual + spread) / n_entries, floor)
    return variance
