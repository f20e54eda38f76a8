"""One entry of a tensor in compiled code: a tuple of row numbers, a tuple of rows (see :mod:`.vector`).

The number of modes is the length of the tuples, so loops over modes are unrolled when the code is generated, and one
source function serves every order. A loop over a tuple in plain Numba is a loop at run time, and rows would not stay in
registers.

Legend of the code generators: typing, context, builder, signature, args are Numba's; like is a tuple of arrays that
only lends its length, tok the type of a token, m a mode, vector the type of a padded row, start an element offset.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tensorveil.kernels.vector import (
    FLAGS,
    VectorType,
    chunks_of,
    data_of,
    multiply_add,
    pack,
    read,
    splat,
    vector_of,
    write,
)


@intrinsic
def column(typing: Any, like: Any, table: Any, index: Any) -> Any:
    """column(arrays, table, t): the first len(arrays) integers of table[:, t], as a tuple."""
    order = len(like)
    result = types.UniTuple(types.int64, order)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(table)(context, builder, args[1])
        length = builder.extract_value(array.shape, 1)
        out = []
        for m in range(order):
            where = builder.add(builder.mul(ir.Constant(ir.IntType(64), m), length), args[2])
            raw = builder.load(builder.gep(array.data, [where]))
            out.append(context.cast(builder, raw, table.dtype, types.int64))
        return context.make_tuple(builder, result, out)

    return result(like, table, types.int64), code


@intrinsic
def shift(typing: Any, left: Any, right: Any) -> Any:
    """shift(t, u): the sum of two tuples of integers."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = zip(*(cgutils.unpack_tuple(builder, a) for a in args), strict=True)
        return context.make_tuple(builder, left, [builder.add(x, y) for x, y in pairs])

    return left(left, right), code


@intrinsic
def load_rows(typing: Any, tok: Any, arrays: Any, index: Any) -> Any:
    """load_rows(token, arrays, rows): one row of every 2-D array."""
    vector = vector_of(tok, arrays[0].dtype)
    result = types.UniTuple(vector, len(arrays))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = []
        for m, row in enumerate(cgutils.unpack_tuple(builder, args[2])):
            value = builder.extract_value(args[1], m)
            start = builder.mul(row, ir.Constant(ir.IntType(64), vector.width * vector.count))
            data = data_of(context, builder, arrays[m], value)
            rows.append(pack(builder, context, vector, read(builder, data, start, arrays[m], vector)))
        return context.make_tuple(builder, result, rows)

    return result(tok, arrays, index), code


@intrinsic
def store_rows(typing: Any, arrays: Any, index: Any, rows: Any) -> Any:
    """store_rows(arrays, rows, vectors): write one row of every 2-D array."""
    vector = rows[0]

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for m, row in enumerate(cgutils.unpack_tuple(builder, args[1])):
            value = builder.extract_value(args[0], m)
            start = builder.mul(row, ir.Constant(ir.IntType(64), vector.width * vector.count))
            chunks = chunks_of(builder, vector, builder.extract_value(args[2], m))
            write(builder, data_of(context, builder, arrays[m], value), start, arrays[m], chunks)
        return context.get_dummy_value()

    return types.void(arrays, index, rows), code


def _products(builder: Any, vector: VectorType, rows: list[list[Any]]) -> list[list[Any]]:
    """Return for every row the product of the others, from running products of both ends."""

    def times(x: list[Any] | None, y: list[Any] | None) -> list[Any] | None:
        if x is None or y is None:
            return x or y
        return [builder.fmul(a, b, flags=FLAGS) for a, b in zip(x, y, strict=True)]

    # 3 order - 6 products instead of order (order - 2), and no division, which could meet a zero.
    order = len(rows)
    before: list[list[Any] | None] = [None] * order
    after: list[list[Any] | None] = [None] * order
    for m in range(1, order):
        before[m] = times(before[m - 1], rows[m - 1])
        after[order - 1 - m] = times(after[order - m], rows[order - m])
    return [times(b, a) or [] for b, a in zip(before, after, strict=True)]


@intrinsic
def others(typing: Any, rows: Any) -> Any:
    """others(rows): for every row the elementwise product of all the others (two rows at least)."""
    vector = rows[0]

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        split = [chunks_of(builder, vector, r) for r in cgutils.unpack_tuple(builder, args[0])]
        packed = [pack(builder, context, vector, p) for p in _products(builder, vector, split)]
        return context.make_tuple(builder, rows, packed)

    return rows(rows), code


@intrinsic
def product(typing: Any, rows: Any) -> Any:
    """product(rows): the elementwise product of all rows."""
    vector = rows[0]

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        split = [chunks_of(builder, vector, r) for r in cgutils.unpack_tuple(builder, args[0])]
        out = split[0]
        for row in split[1:]:
            out = [builder.fmul(a, b, flags=FLAGS) for a, b in zip(out, row, strict=True)]
        return pack(builder, context, vector, out)

    return vector(rows), code


@intrinsic
def blend(typing: Any, keep: Any, rows: Any, gain: Any, steps: Any) -> Any:
    """blend(k, rows, g, steps): k * row + g * step for every pair."""
    vector = rows[0]

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        k, g = splat(builder, vector, args[0]), splat(builder, vector, args[2])
        out = []
        pairs = zip(cgutils.unpack_tuple(builder, args[1]), cgutils.unpack_tuple(builder, args[3]), strict=True)
        for row, step in pairs:
            chunks = zip(chunks_of(builder, vector, row), chunks_of(builder, vector, step), strict=True)
            mixed = [multiply_add(builder, k, x, builder.fmul(g, y, flags=FLAGS)) for x, y in chunks]
            out.append(pack(builder, context, vector, mixed))
        return context.make_tuple(builder, rows, out)

    return rows(vector.dtype, rows, vector.dtype, steps), code


@intrinsic
def sum_at(typing: Any, start: Any, arrays: Any, index: Any) -> Any:
    """sum_at(s, arrays, rows): s plus one element of every 1-D array; an empty tuple of arrays gives s."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = args[0]
        for m in range(len(arrays)):
            data = data_of(context, builder, arrays[m], builder.extract_value(args[1], m))
            value = builder.fadd(value, builder.load(builder.gep(data, [builder.extract_value(args[2], m)])))
        return value

    return start(start, arrays, index), code


@intrinsic
def blend_at(typing: Any, keep: Any, arrays: Any, index: Any, gain: Any) -> Any:
    """blend_at(k, arrays, rows, g): x <- k * x + g for one element of every 1-D array, if there are any."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for m in range(len(arrays)):
            data = data_of(context, builder, arrays[m], builder.extract_value(args[1], m))
            where = builder.gep(data, [builder.extract_value(args[2], m)])
            builder.store(multiply_add(builder, args[0], builder.load(where), args[3]), where)
        return context.get_dummy_value()

    return types.void(keep, arrays, index, keep), code
