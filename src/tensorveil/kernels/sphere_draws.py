"""Random vectors near a unit vector u, rounded to a grid, wherever double precision settles every coordinate.

Legend
    d, u            dimension; (d,) the unit vector
    g, s            (d,) Gaussian vector; s = <g, u>, its height
    gamma           height of the cap; a the height that replaces s, b the radius beside it
    y               (1 - a^2) / (1 - gamma^2), for points of the sphere
    flat            whether vectors are Gaussian with their height conditioned, rather than points of the sphere
    step, out       grid, a power of two; (n, d) results in grid steps
    words, trials   random 64-bit words of the Gaussians and of the height's rejection trials
    e, e_x, off     bounds on errors: of g's coordinates, of x, and of u's length
    verdicts        SETTLED, AGAIN (rejected: draw anew), DOUBTFUL (left to interval arithmetic on the same bits)

Error bounds as in noise_draws: first-order terms, each rounded up, and the sum times one and a half. Sums run over
blocks, so that a sum of d terms is off by at most BLOCK + d / BLOCK + 2 roundings of the sum of their sizes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.noise_draws import E48, E49, E50, E51, E53, FEW, QUARTER, UNIT62, UNIT63, UNIT64, polar

Array = NDArray[Any]

SETTLED, AGAIN, DOUBTFUL = 0, 1, 2
SMALLEST_NORM = 2.0**-10
BLOCK = 32
TOP = np.uint64(1 << 63)


@kernel(error_model="numpy")
def pair_of(word_r: Any, word_a: Any) -> tuple[float, float, float]:
    """Return two independent Gaussians and a bound on their error, also where their radius is next to 0.

    There polar gives up, because the logarithm of a number next to 1 is known to few digits; the distance from 1 is
    known to many.
    """
    x, y, error, _ = polar(word_r, word_a)
    w = word_r >> np.uint64(1)
    if error < math.inf or w < FEW or TOP - w < FEW:
        return x, y, error
    distance = np.float64(TOP - w) - 0.5
    radius = math.sqrt(-2.0 * math.log1p(-distance * UNIT63))
    angle = (np.float64(word_a >> np.uint64(2)) + 0.5) * UNIT62 * QUARTER
    x, y = radius * math.cos(angle), radius * math.sin(angle)
    return (
        -x if word_a & np.uint64(1) else x,
        -y if word_a & np.uint64(2) else y,
        radius * (E48 + 1.0 / distance),
    )


@kernel(error_model="numpy")
def roundings(d: int) -> float:
    """Return a bound on the relative error of a sum of d terms of one sign, taken by blocks."""
    return (BLOCK + d / BLOCK + 4) * E53


@kernel(error_model="numpy")
def off_unit(u: Array, d: int) -> float:
    """Return a bound on how far u's length is from 1."""
    total = 0.0
    for start in range(0, d, BLOCK):
        part = 0.0
        for j in range(start, min(start + BLOCK, d)):
            part += u[j] * u[j]
        total += part
    off: float = abs(total - 1.0) + roundings(d) + E50
    return off


@kernel(error_model="numpy")
def gaussians(words: Array, d: int, u: Array, off: float, g: Array, e: Array) -> tuple[float, float, float, float]:
    """Fill g and its errors; return <g, u>, |g| and bounds on the errors of both."""
    squares, doubts, s = 0.0, 0.0, 0.0
    for pair in range((d + 1) // 2):
        x, y, error = pair_of(words[2 * pair], words[2 * pair + 1])
        g[2 * pair], e[2 * pair] = x, error
        g[2 * pair + 1], e[2 * pair + 1] = y, error
        doubts += 2.0 * error * error
    for start in range(0, d, BLOCK):
        part, part_s = 0.0, 0.0
        for j in range(start, min(start + BLOCK, d)):
            part += g[j] * g[j]
            part_s += g[j] * u[j]
        squares += part
        s += part_s
    norm = math.sqrt(squares)
    doubt = math.sqrt(doubts) * (1.0 + d * E53)
    return s, norm, doubt + norm * (2.0 * roundings(d) + off), doubt + norm * roundings(d)


@kernel(error_model="numpy")
def height(words: Array, d: int, gamma: float, flat: bool) -> tuple[float, float, float, float, int]:
    """Draw a height above gamma by rejection; return it, the radius beside it, their errors and a verdict.

    flat: a = sqrt(gamma^2 - 2 ln U); else y = U^(2 / (d - 1)), a = sqrt(1 - (1 - gamma^2) y). Kept with chance gamma/a.
    """
    rest = (1.0 - gamma) * (1.0 + gamma)
    for i in range(len(words)):
        w = words[i, 0] >> np.uint64(1)
        wide = np.float64(np.int64(w)) + 0.5
        log = -math.log(wide * UNIT63)
        e_log = 1.0 / wide + E51 + log * E50
        if w < FEW:
            return 0.0, 0.0, 0.0, 0.0, DOUBTFUL
        if flat:
            a, b, e_b = math.sqrt(gamma * gamma + 2.0 * log), 0.0, 0.0
            e_inner = 2.0 * e_log + a * a * E50
        else:
            power = 2.0 / (d - 1)
            y = math.exp(-power * log)
            e_y = y * (power * e_log + power * log * E51 + E50)
            a, b = math.sqrt(1.0 - rest * y), math.sqrt(rest * y)
            e_inner = rest * e_y + E50
            e_b = b * (e_y / y + E50)
        if not a > 0.0:
            return 0.0, 0.0, 0.0, 0.0, DOUBTFUL
        e_a = e_inner / a + a * E51
        reach = np.float64(words[i, 1]) * UNIT64 * a
        margin = e_a + 4.0 * UNIT64 * a + (a + gamma) * E50
        if abs(reach - gamma) <= margin or e_a > 0.01 * a:
            return 0.0, 0.0, 0.0, 0.0, DOUBTFUL
        if reach < gamma:
            return a, b, e_a, e_b, SETTLED
    # Which trial is kept says nothing about its height: starting over does not change the law.
    return 0.0, 0.0, 0.0, 0.0, AGAIN


@kernel(error_model="numpy")
def round_surely(value: float, error: float, step: float) -> tuple[int, bool]:
    """Return value / step to the nearest integer, and whether the error leaves no doubt (the step is a power of 2)."""
    x = value / step
    room = 1.5 * error / step + (abs(x) + 1.0) * E50
    low = math.floor(x + 0.5 - room)
    whole: int = np.int64(low)  # type: ignore[assignment]
    return whole, low == math.floor(x + 0.5 + room)


@kernel(error_model="numpy")
def plain(g: Array, e: Array, d: int, sign: float, norm: float, e_norm: float, step: float, out: Array) -> bool:
    """Write sign * g / norm on the grid; tell whether every coordinate is certain."""
    certain = True
    for j in range(d):
        y = sign * g[j] / norm
        out[j], sure = round_surely(y, (e[j] + abs(y) * e_norm) / norm + abs(y) * E50, step)
        certain = certain and sure
    return certain


@kernel(error_model="numpy")
def lift(
    g: Array, e: Array, d: int, u: Array, off: float, s: float, e_s: float, a: float, e_a: float, step: float,
    out: Array,
) -> bool:  # fmt: skip
    """Write g + (a - s) u on the grid: the Gaussian vector with its height replaced."""
    certain = True
    for j in range(d):
        y = g[j] + (a - s) * u[j]
        error = e[j] + (e_a + e_s + (abs(a) + abs(s)) * off) * abs(u[j]) + (abs(g[j]) + abs((a - s) * u[j])) * E50
        out[j], sure = round_surely(y, error, step)
        certain = certain and sure
    return certain


@kernel(error_model="numpy")
def tilt(
    g: Array, e: Array, d: int, u: Array, off: float, s: float, e_s: float, a: float, b: float, e_a: float,
    e_b: float, step: float, out: Array,
) -> bool:  # fmt: skip
    """Write a u + b w on the grid, w the direction of g - s u; g and e are overwritten by it and its errors."""
    squares, doubts = 0.0, 0.0
    for start in range(0, d, BLOCK):
        part = 0.0
        for j in range(start, min(start + BLOCK, d)):
            along = s * u[j]
            e[j] += (e_s + abs(s) * off) * abs(u[j]) + (abs(g[j]) + abs(along)) * E51
            g[j] -= along
            part += g[j] * g[j]
            doubts += e[j] * e[j]
        squares += part
    n = math.sqrt(squares)
    if not n > SMALLEST_NORM:
        return False
    e_n = math.sqrt(doubts) * (1.0 + d * E53) + n * roundings(d)
    certain = True
    for j in range(d):
        w = g[j] / n
        y = a * u[j] + b * w
        error = (e_a + a * off) * abs(u[j]) + e_b * abs(w) + b * (e[j] + abs(w) * e_n) / n
        out[j], sure = round_surely(y, error + (abs(a * u[j]) + abs(b * w)) * E50, step)
        certain = certain and sure
    return certain


@kernel(error_model="numpy")
def caps(
    words: Array, trials: Array, u: Array, inside: Array, gamma: float, flat: bool, step: float, out: Array,
    verdicts: Array,
) -> None:  # fmt: skip
    """Write one vector per row: in the cap <v, u> >= gamma where inside, else outside of it.

    flat: v is Gaussian with its height along u conditioned; else v is uniform on the sphere, conditioned.
    """
    d = u.shape[1]
    g, e = np.empty(d + 1), np.empty(d + 1)
    for i in range(len(words)):
        verdicts[i] = DOUBTFUL
        off = off_unit(u[i], d)
        s, norm, e_s, e_norm = gaussians(words[i], d, u[i], off, g, e)
        if not (norm > SMALLEST_NORM and e_norm < 0.01 * norm):
            continue
        size, e_size = (1.0, 0.0) if flat else (norm, e_norm)
        sure = False
        if gamma == 0.0:
            # The cap is a half: turn the vector round where it lies in the other one.
            if abs(s) > 1.5 * e_s:
                sign = 1.0 if (s > 0.0) == inside[i] else -1.0
                sure = plain(g, e, d, sign, size, e_size, step, out[i])
        elif inside[i]:
            a, b, e_a, e_b, verdict = height(trials[i], d, gamma, flat)
            if verdict == AGAIN:
                verdicts[i] = AGAIN
            elif verdict == SETTLED:
                if flat:
                    sure = lift(g, e, d, u[i], off, s, e_s, a, e_a, step, out[i])
                else:
                    sure = tilt(g, e, d, u[i], off, s, e_s, a, b, e_a, e_b, step, out[i])
        else:
            gap = s - gamma * size
            margin = 1.5 * (e_s + gamma * e_size) + (abs(s) + gamma * size) * E49
            if gap > margin:
                verdicts[i] = AGAIN
                continue
            if gap < -margin:
                sure = plain(g, e, d, 1.0, size, e_size, step, out[i])
        if sure:
            verdicts[i] = SETTLED
