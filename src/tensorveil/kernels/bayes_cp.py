"""Variational update of the rows of one mode of a CP model, for any order.

A row f has the prior N(center, 1/alpha) per component. With entries y = x - other biases - own bias b it has, given the
other modes, the Gaussian posterior with precision sum E[hh']/s2 + diag(alpha), h the elementwise product of the other
modes' rows; these are independent, so E[hh'] is the elementwise product of their second moments. The bias has its own
factor of the posterior; both means are solved together.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tensorveil.kernels.posterior import Posterior
from tensorveil.kernels.rows import Rows
from tensorveil.kernels.threads import balanced, thread_count, workers

Array = NDArray[Any]

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
) -> tuple[float, float]:
    """Update the rows of ``rows.mode`` in place; ``bias_precision=None`` leaves biases out.

    Returns the expected residual sum of squares after the step, and the sum of the log determinants of the rows'
    covariances.
    """
    starts = posterior.starts[np.array(rows.others)]
    precision = -1.0 if bias_precision is None else float(bias_precision)
    moments = (posterior.mean, posterior.second, posterior.bias, posterior.bias_variance)
    data = (rows.pointers, rows.coords, rows.values, starts, *moments, int(posterior.starts[rows.mode]))
    with workers(thread_count(threads)) as run:
        pieces = balanced(rows.pointers, PIECES)
        parts = run([partial(_update, a, b, *data, center, alpha, float(variance), precision) for a, b in pieces])
    return sum(p[0] for p in parts), sum(p[1] for p in parts)


@njit(nogil=True, cache=True, fastmath=True)
def _update(
    low: int, high: int, pointers: Array, coords: Array, values: Array, starts: Array, mean: Array, second: Array,
    bias: Array, bias_variance: Array, own: int, center: Array, alpha: Array, s2: float,
    beta: float,
) -> tuple[float, float]:  # fmt: skip
    # R rank, T packed triangle, S sum of E[hh'] (packed), v sum of y h, u sum of h, C covariance of the row,
    # w what the mean is C w / s2 of: v and the pull of the prior
    R, T = mean.shape[1], second.shape[1]
    S, v, u, w, f = np.empty(T), np.empty(R), np.empty(R), np.empty(R), np.empty(R)
    h, hh, L, C = np.empty(R), np.empty(T), np.empty((R, R)), np.empty((R, R))
    residual, logdet = 0.0, 0.0
    for i in range(low, high):
        first, last = pointers[i], pointers[i + 1]
        y_sum, y_square = _collect(
            first, last, coords, values, starts, mean, second, bias, bias_variance, S, v, u, h, hh
        )
        logdet += _covariance(S, alpha, s2, L, C)
        for p in range(R):
            w[p] = v[p] + s2 * alpha[p] * center[p]
        n = last - first
        b, b_var = 0.0, 0.0
        if beta >= 0:
            b_var = 1.0 / (n / s2 + beta)
            b = _bias(C, w, u, y_sum, s2, 1.0 / b_var)
        g = own + i
        bias[g], bias_variance[g] = b, b_var
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
    return residual, logdet


@njit(nogil=True, cache=True, fastmath=True)
def _collect(
    first: int, last: int, coords: Array, values: Array, starts: Array, mean: Array, second: Array, bias: Array,
    bias_variance: Array, S: Array, v: Array, u: Array, h: Array, hh: Array,
) -> tuple[float, float]:  # fmt: skip
    """Fill S, v, u from the entries of a row; return the sums of y and of E[y^2]."""
    R, T, K = len(v), len(S), coords.shape[0]
    S[:], v[:], u[:] = 0.0, 0.0, 0.0
    y_sum, y_square = 0.0, 0.0
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
        for r in range(R):
            v[r] += y * h[r]
            u[r] += h[r]
        for t in range(T):
            S[t] += hh[t]
        y_sum += y
        y_square += y * y + spread
    return y_sum, y_square


@njit(nogil=True, cache=True, fastmath=True)
def _covariance(S: Array, alpha: Array, s2: float, L: Array, C: Array) -> float:
    """Set C to the inverse of S/s2 + diag(alpha) by Cholesky; return its log determinant."""
    R, t, logdet = len(alpha), 0, 0.0
    for p in range(R):
        for q in range(p + 1):
            total = S[t] / s2 + (alpha[p] if p == q else 0.0)
            for k in range(q):
                total -= L[p, k] * L[q, k]
            # alpha > 0 keeps the pivot positive but for rounding
            L[p, q] = np.sqrt(max(total, 1e-300)) if p == q else total / L[q, q]
            t += 1
        logdet -= 2 * np.log(L[p, p])
    for c in range(R):
        for p in range(c, R):
            total = 1.0 if p == c else 0.0
            for k in range(c, p):
                total -= L[p, k] * C[k, c]
            C[p, c] = total / L[p, p]
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
