"""Variational update of the rows of one mode of a CP model, for any order.

A row f has the prior N(center, 1/alpha) per component. With entries y = x - other biases - own bias b it has, given the
other modes, the Gaussian posterior with precision sum E[hh']/s2 + diag(alpha), h the elementwise product of the other
modes' rows; these are independent, so E[hh'] is the elementwise product of their second moments. The bias has its own
factor of the posterior; both means are solved together.

Where the law of the noise is known and not Gaussian, entries have precisions of their own, looked up by the root of
their expected squared residual just before the row is updated: see :class:`Precisions`.

Legend
    R                   rank; T = R (R + 1) / 2 the length of a packed lower triangle, row by row
    K                   number of other modes; coords (K, n), starts (K,): rows of mode k stand from starts[k] on
    mean, second        (rows of all modes, R) and (.., T): E[f] and the packed E[ff'] of kernels/posterior.py
    i, g                number of the row within its mode, and in the stacked arrays (g = own + i)
    e                   entry; entries of row i are pointers[i] .. pointers[i + 1]
    h, hh               product of the other modes' means, and of their second moments (packed)
    S, v, u             sums over the row's entries of E[hh'] (packed), of y h, and of h
    C, L                covariance of the row and the Cholesky factor it comes from, both (R, R)
    w                   v plus the pull of the prior: the row's mean is C (w - b u) / s2
    s2, beta            variance of the residual; precision of the bias, negative where there are no biases

Threads own ranges of rows and write only those, reading the other modes, which stay fixed during a call. Everything is
float64 and padded nowhere: the inner loops over T are long enough for the compiler's own vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tensorveil.kernels.posterior import Posterior
from tensorveil.kernels.rows import Rows
from tensorveil.kernels.threads import cut_evenly, thread_count, workers

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Precisions:
    """Precision of an entry by the size r of its residual, at r = 0, step, 2 step, ...; beyond the last it stays.

    For noise of density p it is -p'(r) / (r p(r)): a quadratic bound of -log p then touches it at r.
    """

    table: Array
    step: float
    logs: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Sums over all entries: of expected squared residuals, weighed, after the step, and not weighed, before it; of
    weights; and of the logarithms of the density at the residuals before it. The last three with precisions only.
    """

    after: float
    before: float
    weights: float
    evidence: float


# A fixed number of pieces, whatever the number of threads: sums over pieces then come out the same.
PIECES = 16


def cp_bayes_mode(
    rows: Rows,
    posterior: Posterior,
    center: Array,
    alpha: Array,
    variance: float,
    bias_precision: float | None,
    threads: int | None = None,
    precisions: Precisions | None = None,
    first: int = 0,
) -> tuple[Sums, float]:
    """Update the rows of ``rows.mode`` in place, from row ``first`` on; ``bias_precision=None`` leaves biases out.

    Returns sums over the entries, and the sum of the log determinants of the rows' covariances.
    """
    starts = posterior.starts[np.array(rows.others)]
    precision = -1.0 if bias_precision is None else float(bias_precision)
    moments = (posterior.mean, posterior.second, posterior.bias, posterior.bias_variance)
    data = (rows.pointers, rows.coords, rows.values, starts, *moments, int(posterior.starts[rows.mode]) + first)
    with workers(thread_count(threads)) as run:
        pieces = cut_evenly(rows.pointers, PIECES)
        prior = (center, alpha, float(variance), precision, *list_law(precisions))
        parts = run([partial(_update, a, b, *data, *prior) for a, b in pieces])
    after, before, weights, evidence, logdet = (sum(part[k] for part in parts) for k in range(5))
    return Sums(after=after, before=before, weights=weights, evidence=evidence), logdet


def list_law(precisions: Precisions | None) -> tuple[Array, float, Array]:
    """Return what compiled code takes of precisions: the table, steps per unit, and logarithms; empty without any."""
    if precisions is None:
        return np.empty(0), 1.0, np.empty(0)
    return precisions.table, 1.0 / precisions.step, np.empty(0) if precisions.logs is None else precisions.logs


@njit(nogil=True, cache=True, fastmath=True)
def _update(
    low: int, high: int, pointers: Array, coords: Array, values: Array, starts: Array, mean: Array, second: Array,
    bias: Array, bias_variance: Array, own: int, center: Array, alpha: Array, s2: float,
    beta: float, table: Array, per_step: float, logs: Array,
) -> tuple[float, float, float, float, float]:  # fmt: skip
    R, T = mean.shape[1], second.shape[1]
    S, v, u, w, f = np.empty(T), np.empty(R), np.empty(R), np.empty(R), np.empty(R)
    h, hh, L, C = np.empty(R), np.empty(T), np.empty((R, R)), np.empty((R, R))
    twice = np.empty(T)
    residual, unweighed, weights, evidence, logdet = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(low, high):
        first, last, g = pointers[i], pointers[i + 1], own + i
        y_sum, y_square, n, before, logp = collect_row(
            first, last, coords, values, starts, mean, second, bias, bias_variance, S, v, u, h, hh, twice, g, s2,
            table, per_step, logs,
        )  # fmt: skip
        logdet += _covariance(S, alpha, s2, L, C)
        for p in range(R):
            w[p] = v[p] + s2 * alpha[p] * center[p]
        b, b_var = 0.0, 0.0
        if beta >= 0:
            b_var = 1.0 / (n / s2 + beta)
            b = _bias(C, w, u, y_sum, s2, 1.0 / b_var)
        bias[g], bias_variance[g] = b, b_var
        # The expected squared residual after the step needs no second look at the entries: S, v and u suffice.
        linear, quadratic, t = 0.0, 0.0, 0
        for p in range(R):
            total = 0.0
            for q in range(R):
                total += C[p, q] * (w[q] - b * u[q])
            f[p] = total / s2
            linear += f[p] * (v[p] - b * u[p])
            mean[g, p] = f[p]
        for p in range(R):
            for q in range(p + 1):
                moment = C[p, q] + f[p] * f[q]
                second[g, t] = moment
                quadratic += S[t] * moment * (1.0 if p == q else 2.0)
                t += 1
        residual += y_square - 2 * b * y_sum + n * (b * b + b_var) - 2 * linear + quadratic
        unweighed += before
        weights += n
        evidence += logp
    return residual, unweighed, weights, evidence, logdet


@njit(nogil=True, cache=True, fastmath=True)
def collect_row(
    first: int, last: int, coords: Array, values: Array, starts: Array, mean: Array, second: Array, bias: Array,
    bias_variance: Array, S: Array, v: Array, u: Array, h: Array, hh: Array, twice: Array, g: int, s2: float,
    table: Array, per_step: float, logs: Array,
) -> tuple[float, float, float, float, float]:  # fmt: skip
    """Fill S, v, u from the entries of row g; return the sums of y, of E[y^2] and of weights, of E[r^2] and of log p.

    Weights are 1 without a table of precisions, and E[r^2] and log p are then not computed.
    """
    R, T, K = len(v), len(S), coords.shape[0]
    S[:], v[:], u[:] = 0.0, 0.0, 0.0
    y_sum, y_square, count, squares, logp = 0.0, 0.0, 0.0, 0.0, 0.0
    weight, t = 1.0, 0
    # <E[ff'], hh'> over packed triangles: what lies off the diagonal counts twice.
    for p in range(R):
        for q in range(p + 1):
            twice[t] = second[g, t] * (1.0 if p == q else 2.0)
            t += 1
    for e in range(first, last):
        j = starts[0] + coords[0, e]
        y, spread = values[e] - bias[j], bias_variance[j]
        for r in range(R):
            h[r] = mean[j, r]
        for t in range(T):
            hh[t] = second[j, t]
        for k in range(1, K):
            j = starts[k] + coords[k, e]
            y -= bias[j]
            spread += bias_variance[j]
            for r in range(R):
                h[r] *= mean[j, r]
            for t in range(T):
                hh[t] *= second[j, t]
        if len(table) > 0:
            own, along, square = y - bias[g], 0.0, spread + bias_variance[g]
            for r in range(R):
                along += mean[g, r] * h[r]
            for t in range(T):
                square += twice[t] * hh[t]
            square = max(square + own * (own - 2 * along), 1e-12)
            squares += square
            # Linear interpolation in the table; a weight of 1 stands for the precision 1 / s2.
            place = min(np.sqrt(square) * per_step, len(table) - 1.0)
            low = min(int(place), len(table) - 2)
            weight = s2 * (table[low] + (place - low) * (table[low + 1] - table[low]))
            if len(logs) > 0:
                logp += logs[low] + (place - low) * (logs[low + 1] - logs[low])
        for r in range(R):
            v[r] += weight * y * h[r]
            u[r] += weight * h[r]
        for t in range(T):
            S[t] += weight * hh[t]
        y_sum += weight * y
        y_square += weight * (y * y + spread)
        count += weight
    return y_sum, y_square, count, squares, logp


@njit(nogil=True, cache=True, fastmath=True)
def _covariance(S: Array, alpha: Array, s2: float, L: Array, C: Array) -> float:
    """Set C to the inverse of S/s2 + diag(alpha) by Cholesky; return its log determinant."""
    R, t, logdet = len(alpha), 0, 0.0
    for p in range(R):
        for q in range(p + 1):
            total = S[t] / s2 + (alpha[p] if p == q else 0.0)
            for k in range(q):
                total -= L[p, k] * L[q, k]
            # alpha > 0 keeps the pivot positive, except for rounding
            L[p, q] = np.sqrt(max(total, 1e-300)) if p == q else total / L[q, q]
            t += 1
        logdet -= 2 * np.log(L[p, p])
    # The inverse of L, column by column, into the lower triangle of C.
    for c in range(R):
        for p in range(c, R):
            total = 1.0 if p == c else 0.0
            for k in range(c, p):
                total -= L[p, k] * C[k, c]
            C[p, c] = total / L[p, p]
    # Its product with itself, which is the inverse; L is free again and takes it, because C is still being read.
    for p in range(R):
        for q in range(p + 1):
            total = 0.0
            for k in range(p, R):
                total += C[k, p] * C[k, q]
            L[p, q] = total
    for p in range(R):
        for q in range(p + 1):
            C[p, q] = L[p, q]
            C[q, p] = L[p, q]
    return logdet


@njit(nogil=True, cache=True, fastmath=True)
def _bias(C: Array, w: Array, u: Array, y_sum: float, s2: float, precision: float) -> float:
    """Return the bias at which row and bias are both at their means."""
    R, linear, square = len(w), 0.0, 0.0
    for p in range(R):
        cw, cu = 0.0, 0.0
        for q in range(R):
            cw += C[p, q] * w[q]
            cu += C[p, q] * u[q]
        linear += u[p] * cw
        square += u[p] * cu
    return (y_sum - linear / s2) / s2 / (precision - square / (s2 * s2))
