"""What rounds compute of one user after the other: residuals, contributions to a sweep, moments of tastes.

A user's coefficients are of a 1, the traits of the entry's rows, and the products of the bases' rows, the last mode's
index fastest. What a user contributes is a function of the user's entries and the public state alone, to the last bit:
sums take their terms in a fixed order, one after the other (`ridge.py`), and eight entries of one user stand side by
side (`lanes.py`). Designs are laid out a chunk of entries at a time and never stored as a whole.

Legend
    i, p            user; entry (those of user i are pointers[i] .. pointers[i + 1])
    columns, values (released modes, n) coordinates; (n,) values
    q, lane         eight entries of a chunk that stand side by side; which of them
    table, W        (rows of all modes, W): a row's bias, a 1, its traits, its row of the mode's basis, zeros
    M               number of modes
    F               the rows of the table by lanes: number k of mode m at ((q M + m) W + k) 8 + lane
    places          where the rows of eight entries begin in the table
    C               eight entries' latent tastes by lanes, which are contracted in place
    d, D, T, X, G, V, s, w, a0, b0   as in `ridge.py`: G is the inverse once a user is solved

Threads own ranges of users; nothing here is shared between them but the public state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import lanes as l
from tensorveil.kernels import vector as v
from tensorveil.kernels.lanes import pad_width
from tensorveil.kernels.padded import aligned_zeros
from tensorveil.kernels.ridge import CHUNK, add_gram, explain, solve_user, turn_chunk, user_kernel

Array = NDArray[Any]

# Leaving an entry out that has all the leverage would divide by zero.
_LEAST_LEFT = 1e-6
# A row's bias and a 1 stand before its traits.
_PLAIN = 2


class Public(NamedTuple):
    """The public state as these kernels read it.

    Parameters
    ----------
    offset
        The constant part of every value.
    table
        What `lay_out_table` makes of the rows' biases, traits and bases.
    starts
        Where the rows of each mode begin.
    traits
        How many traits a row has.
    ranks
        The number of columns of every mode's basis; zeros before latent features have been started.
    tastes
        The number of a user's coefficients.
    prior
        What `ridge.lay_out_prior` makes of their prior.
    """

    offset: float
    table: Array
    starts: Array
    traits: int
    ranks: Array
    tastes: int
    prior: Array


class Room(NamedTuple):
    """Where one thread works."""

    T: Array
    X: Array
    F: Array
    C: Array
    G: Array
    V: Array
    s: Array
    w: Array
    eight: Array
    places: Array


def lay_out_table(biases: Array, traits: Array, bases: list[tuple[slice, Array]]) -> Array:
    """Return the table of all rows; bases come with the rows that they are of.

    Everything is assigned part by part: an array of another shape is refused here, and never read beyond its end.
    """
    before = _PLAIN + traits.shape[1]
    widest = max((basis.shape[1] for _, basis in bases), default=0)
    table: Array = aligned_zeros((len(biases), pad_width(before + widest)), np.float64)
    table[:, 0], table[:, 1], table[:, _PLAIN:before] = biases, 1.0, traits
    for rows, basis in bases:
        table[rows, before : before + basis.shape[1]] = basis
    return table


def find_residuals(pointers: Array, columns: Array, values: Array, public: Public, out: Array) -> None:
    """Write the values less what is public and what every user's own coefficients explain of them."""
    _find_residuals(pointers, columns, values, public, _make_room(public), out)


def leave_one_out(pointers: Array, columns: Array, values: Array, weights: Array, public: Public, mode: int) -> Array:
    """Return what every entry adds to its row of a mode's basis, times the user's weight; spare numbers follow.

    That is what plain coefficients leave of the entry, times latent ones of unit length, contracted with the other
    modes' rows; all coefficients are fitted without the entry. One factorisation serves all of a user's entries:
    without p the solution is w - B x_p r_p / (1 - h_p), h_p = x_p' B x_p.
    """
    # Eight rows of eight numbers are written at a time.
    out = np.empty((len(values) + 8, pad_width(int(public.ranks[mode]))))
    _leave_one_out(pointers, columns, values, weights, public, mode, _make_room(public), out)
    return out[: len(values)]


def taste_moments(
    pointers: Array, columns: Array, values: Array, public: Public, mean: Array, root: Array, spread: float,
    tastes: Array, moments: Array, errors: Array,
) -> None:  # fmt: skip
    """Write every user's posterior of standardised tastes z ~ N(0, 1), residuals having variance ``spread``.

    Coefficients are mean + root z, root lower triangular; ``public.prior`` is that of z. tastes[i] = mean of z,
    moments[i] = packed lower triangle of E[zz'], errors[i] = mean squared residual over spread, and the share of the
    entries that the tastes leave free.
    """
    d = public.tastes
    wide = np.zeros_like(public.prior)
    wide[:d, :d] = np.tril(root)
    room = _make_room(public)
    _taste_moments(pointers, columns, values, public, mean, wide, spread, room, tastes, moments, errors)


def ridge_users(pointers: Array, design: Array, target: Array, prior: Array, out: Array) -> None:
    """Solve (X'X + P) w = X'y + P mean for every user: ``design`` holds X by entry, ``prior`` P and P mean."""
    empty = np.zeros(0, dtype=np.int64)
    room = _make_room(Public(0.0, np.zeros((1, 8)), empty, 0, empty, design.shape[1], prior))
    _ridge_users(pointers, design, target, prior, room, out)


def _make_room(public: Public) -> Room:
    D, modes, width = len(public.prior), len(public.ranks), public.table.shape[1]
    sizes = {"T": CHUNK * D, "X": CHUNK * D, "F": CHUNK * modes * width, "C": D * 8, "G": D * D, "V": D * D}
    numbers = {
        name: aligned_zeros((size,), np.float64) for name, size in (sizes | {"s": D, "w": D, "eight": 8}).items()
    }
    return Room(**numbers, places=np.zeros(modes * 8, dtype=np.int64))


@user_kernel
def _lay_out(first: int, last: int, columns: Array, values: Array, public: Public, room: Room) -> None:
    """Write entries from first to last by lanes, the target after the coefficients."""
    D, M, W, T, F = len(public.prior), len(public.ranks), public.table.shape[1], room.T, room.F
    for q in range((last - first + 7) // 8):
        begin, at, of_rows = first + q * 8, q * D * 8, q * M * W * 8
        for lane in range(8):
            p = min(begin + lane, last - 1)  # beyond the last entry stands the last one again, which nobody reads
            room.eight[lane] = values[p]
            for m in range(M):
                room.places[m * 8 + lane] = (public.starts[m] + columns[m, p]) * W
        for m in range(M):
            for k in range(0, W, 8):
                tile = l.turn(l.gather_tile(public.table, room.places, m * 8, k))
                l.put_tile(F, of_rows + (m * W + k) * 8, 8, tile)
        left = l.subtract(v.load(l.EIGHT, room.eight, 0), l.fill(public.offset))
        v.store(T, at, v.load(l.EIGHT, F, of_rows + 8))
        for m in range(M):
            left = l.subtract(left, v.load(l.EIGHT, F, of_rows + m * W * 8))
            for k in range(public.traits):
                trait = v.load(l.EIGHT, F, of_rows + (m * W + _PLAIN + k) * 8)
                v.store(T, at + (1 + m * public.traits + k) * 8, trait)
        _multiply_bases(public, F, of_rows, T, at + (1 + public.traits * M) * 8)
        v.store(T, at + public.tastes * 8, left)


@user_kernel
def _multiply_bases(public: Public, F: Array, of_rows: int, T: Array, at: int) -> None:
    """Write the products of eight entries' basis rows."""
    W, basis, count = public.table.shape[1], _PLAIN + public.traits, public.ranks[0]
    for a in range(count):
        v.store(T, at + a * 8, v.load(l.EIGHT, F, of_rows + (basis + a) * 8))
    for m in range(1, len(public.ranks)):
        width = public.ranks[m]
        for a in range(count - 1, -1, -1):  # from the end, so that nothing is overwritten before it is read
            x = v.load(l.EIGHT, T, at + a * 8)
            for b in range(width):
                y = v.load(l.EIGHT, F, of_rows + (m * W + basis + b) * 8)
                v.store(T, at + (a * width + b) * 8, l.multiply(x, y))
        count *= width


@user_kernel
def _solve(low: int, high: int, columns: Array, values: Array, public: Public, room: Room) -> None:
    """Solve one user's regression; what the last chunk of entries is laid out as stays there."""
    D = len(public.prior)
    _begin(public.prior, room.G)
    for first in range(low, high, CHUNK):
        last = min(first + CHUNK, high)
        _lay_out(first, last, columns, values, public, room)
        turn_chunk(D, last - first, room.T, room.X)
        add_gram(D, last - first, room.X, room.G)
    solve_user(public.tastes, D, room.G, room.V, room.s, room.w)


@user_kernel
def _begin(prior: Array, G: Array) -> None:
    D = len(prior)
    for a in range(D):
        for b in range(D):
            G[a * D + b] = prior[a, b]


@user_kernel
def _find_residuals(pointers: Array, columns: Array, values: Array, public: Public, room: Room, out: Array) -> None:
    D, d, left = len(public.prior), public.tastes, np.empty(8)
    for i in range(len(pointers) - 1):
        low, high = pointers[i], pointers[i + 1]
        _solve(low, high, columns, values, public, room)
        for first in range(low, high, CHUNK):
            last = min(first + CHUNK, high)
            if high - low > CHUNK:
                _lay_out(first, last, columns, values, public, room)
            for begin in range(first, last, 8):
                at = (begin - first) * D
                target = v.load(l.EIGHT, room.T, at + d * 8)
                v.store(left, 0, l.subtract(target, explain(d, at, room.T, room.w)))
                for p in range(begin, min(begin + 8, last)):
                    out[p] = left[p - begin]


@user_kernel
def _leave_one_out(
    pointers: Array, columns: Array, values: Array, weights: Array, public: Public, mode: int, room: Room, out: Array
) -> None:
    D = len(public.prior)
    for i in range(len(pointers) - 1):
        low, high = pointers[i], pointers[i + 1]
        _solve(low, high, columns, values, public, room)
        for first in range(low, high, CHUNK):
            last = min(first + CHUNK, high)
            if high - low > CHUNK:
                _lay_out(first, last, columns, values, public, room)
            for begin in range(first, last, 8):
                left = _leave_out_eight((begin - first) * D, public, room)
                _contract((begin - first) // 8, public, mode, room)
                _write_eight(begin, l.multiply(l.fill(weights[i]), left), room.C, out)


@user_kernel
def _leave_out_eight(at: int, public: Public, room: Room) -> Any:
    """Write eight entries' latent tastes, of unit length, into C; return what plain ones leave of the entries."""
    D, d, T, C = len(public.prior), public.tastes, room.T, room.C
    plain, zero = 1 + public.traits * len(public.ranks), v.zero(l.EIGHT, room.T)
    leverage, explained = zero, zero
    for a0 in range(0, D, 8):
        tile = l.zero_tile()
        for b in range(d):
            tile = l.outer_add(tile, room.G, b * D + a0, T, at + b * 8)
        l.put_tile(C, a0 * 8, 8, tile)
        for a in range(a0, min(a0 + 8, d)):
            x = v.load(l.EIGHT, T, at + a * 8)
            leverage = l.add(leverage, l.multiply(v.load(l.EIGHT, C, a * 8), x))
            explained = l.add(explained, l.multiply(l.fill(room.w[a]), x))
    target = v.load(l.EIGHT, T, at + d * 8)
    free = l.larger(l.subtract(l.fill(1.0), leverage), l.fill(_LEAST_LEFT))
    step = l.divide(l.subtract(target, explained), free)
    before, square = zero, zero
    for a in range(d):
        taste = l.subtract(l.fill(room.w[a]), l.multiply(v.load(l.EIGHT, C, a * 8), step))
        if a < plain:
            before = l.add(before, l.multiply(taste, v.load(l.EIGHT, T, at + a * 8)))
        else:
            square = l.add(square, l.multiply(taste, taste))
            v.store(C, (a - plain) * 8, taste)
    length = l.where_positive(square, l.root(square), l.fill(1.0))
    for a in range(d - plain):
        v.store(C, a * 8, l.divide(v.load(l.EIGHT, C, a * 8), length))
    return l.subtract(target, before)


@user_kernel
def _contract(q: int, public: Public, mode: int, room: Room) -> None:
    """Contract eight entries' latent tastes with the rows of all modes but one, from the last mode to the first."""
    M, W, C, F = len(public.ranks), public.table.shape[1], room.C, room.F
    before, of_rows = 1, (q * M * W + _PLAIN + public.traits) * 8
    for m in range(M):
        before *= public.ranks[m]
    for m in range(M - 1, -1, -1):
        width, after = public.ranks[m], public.ranks[mode] if m < mode else 1
        before //= width
        if m == mode:
            continue
        for a in range(before):
            for b in range(after):
                total = v.zero(l.EIGHT, C)
                for k in range(width):
                    x = v.load(l.EIGHT, C, ((a * width + k) * after + b) * 8)
                    total = l.add(total, l.multiply(x, v.load(l.EIGHT, F, of_rows + (m * W + k) * 8)))
                v.store(C, (a * after + b) * 8, total)


@user_kernel
def _write_eight(begin: int, weight: Any, C: Array, out: Array) -> None:
    """Write eight entries' numbers times a weight; what stands beyond the user's last is written again, or is spare."""
    width = out.shape[1]
    for k in range(width):
        v.store(C, k * 8, l.multiply(weight, v.load(l.EIGHT, C, k * 8)))
    for k in range(0, width, 8):
        l.put_tile(out, begin * width + k, width, l.turn(l.get_tile(C, k * 8, 8)))


@user_kernel
def _taste_moments(
    pointers: Array, columns: Array, values: Array, public: Public, mean: Array, root: Array, spread: float,
    room: Room, tastes: Array, moments: Array, errors: Array,
) -> None:  # fmt: skip
    D, d, left = len(public.prior), public.tastes, np.empty(8)
    for i in range(len(pointers) - 1):
        low, high = pointers[i], pointers[i + 1]
        _begin(public.prior, room.G)
        for first in range(low, high, CHUNK):
            last = min(first + CHUNK, high)
            _lay_out(first, last, columns, values, public, room)
            _standardise(D, d, last - first, mean, root, room.T)
            turn_chunk(D, last - first, room.T, room.X)
            add_gram(D, last - first, room.X, room.G)
        solve_user(d, D, room.G, room.V, room.s, room.w)
        square = 0.0
        for first in range(low, high, CHUNK):
            last = min(first + CHUNK, high)
            if high - low > CHUNK:
                _lay_out(first, last, columns, values, public, room)
                _standardise(D, d, last - first, mean, root, room.T)
            for begin in range(first, last, 8):
                at = (begin - first) * D
                target = v.load(l.EIGHT, room.T, at + d * 8)
                v.store(left, 0, l.subtract(target, explain(d, at, room.T, room.w)))
                for p in range(begin, min(begin + 8, last)):
                    square += left[p - begin] ** 2
        n = high - low
        at, free = 0, float(n - d)
        for a in range(d):
            tastes[i, a] = room.w[a]
            free += spread * room.G[a * D + a]
            for b in range(a + 1):
                moments[i, at] = room.w[a] * room.w[b] + spread * room.G[a * D + b]
                at += 1
        errors[i, 0] = square / (n * spread)
        errors[i, 1] = free / n


@user_kernel
def _standardise(D: int, d: int, n: int, mean: Array, root: Array, T: Array) -> None:
    """Turn coefficients into standardised ones: designs times root, and targets less designs times mean."""
    for q in range((n + 7) // 8):
        at = q * D * 8
        target = v.load(l.EIGHT, T, at + d * 8)
        for a in range(d):
            target = l.subtract(target, l.multiply(v.load(l.EIGHT, T, at + a * 8), l.fill(mean[a])))
        for b0 in range(0, D, 8):  # a block reads itself and those after it, which are as they were
            tile = l.zero_tile()
            for a in range(b0, d):
                tile = l.outer_add(tile, root, a * D + b0, T, at + a * 8)
            l.put_tile(T, at + b0 * 8, 8, tile)
        v.store(T, at + d * 8, target)


@user_kernel
def _ridge_users(pointers: Array, design: Array, target: Array, prior: Array, room: Room, out: Array) -> None:
    D, d = len(prior), design.shape[1]
    for i in range(len(pointers) - 1):
        low, high = pointers[i], pointers[i + 1]
        _begin(prior, room.G)
        for first in range(low, high, CHUNK):
            last = min(first + CHUNK, high)
            for p in range(first, last):
                for a in range(d):
                    room.X[(a // 8 * CHUNK + p - first) * 8 + a % 8] = design[p, a]
                room.X[(d // 8 * CHUNK + p - first) * 8 + d % 8] = target[p]
            add_gram(D, last - first, room.X, room.G)
        solve_user(d, D, room.G, room.V, room.s, room.w)
        for a in range(d):
            out[i, a] = room.w[a]
