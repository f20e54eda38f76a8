"""Explicit SIMD for compiled functions: rows of a factor matrix as values in vector registers.

A vector value is ``count`` chunks of ``width`` lanes. Both numbers are compile-time constants which travel in the
type of a *token*, a nested tuple of zeros made by :func:`token`; so one source function serves every rank, and the
on-disk cache of compiled code keeps one entry per signature without closures.

Indices are element offsets into a C-contiguous array; nothing is bounds-checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

Token = tuple[tuple[int, ...], ...]

# Only contraction (a * b + c in one rounding): results stay the same for every number of threads.
_FLAGS = ("contract",)


def token(width: int, count: int = 1) -> Token:
    """Return the compile-time description of ``count`` chunks of ``width`` lanes."""
    return ((0,) * width,) * count


def wide_token(padded: int, dtype: np.dtype[Any]) -> Token:
    """Return the token of a whole row in the widest registers (64 bytes) that divide it."""
    width = 16 if dtype.itemsize == 4 and padded % 16 == 0 else min(padded, 8)
    return token(width, padded // width)


def narrow_token(padded: int) -> Token:
    """Return the token of one chunk: the block size of the triangular kernels."""
    return token(min(padded, 8))


class VectorType(types.Type):  # type: ignore[misc]
    """The compiler's type of ``count`` chunks of ``width`` lanes."""

    def __init__(self, dtype: Any, width: int, count: int) -> None:
        self.dtype, self.width, self.count = dtype, width, count
        super().__init__(name=f"tensorveil.vector({dtype}, {width}, {count})")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    """Stored as an array of machine vectors; the optimiser splits it into registers."""

    def __init__(self, manager: Any, vector: VectorType) -> None:
        element = manager.lookup(vector.dtype).get_value_type()
        super().__init__(manager, vector, ir.ArrayType(ir.VectorType(element, vector.width), vector.count))


def _vector_of(tok: Any, dtype: Any) -> VectorType:
    return VectorType(dtype, tok[0].count, tok.count)


def _chunks(builder: Any, vector: VectorType, value: Any) -> list[Any]:
    return [builder.extract_value(value, c) for c in range(vector.count)]


def _pack(builder: Any, context: Any, vector: VectorType, chunks: list[Any]) -> Any:
    value = ir.Constant(context.get_value_type(vector), ir.Undefined)
    for c, chunk in enumerate(chunks):
        value = builder.insert_value(value, chunk, c)
    return value


def _splat(builder: Any, vector: VectorType, scalar: Any) -> Any:
    one = builder.insert_element(
        ir.Constant(ir.VectorType(scalar.type, vector.width), ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0)
    )
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.width), [0] * vector.width)
    return builder.shuffle_vector(one, one, mask)


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.fadd(builder.fmul(a, b, flags=_FLAGS), c, flags=_FLAGS)


def _data(context: Any, builder: Any, array: Any, value: Any) -> Any:
    return context.make_array(array)(context, builder, value).data


def _read(builder: Any, data: Any, index: Any, array: Any, vector: VectorType) -> list[Any]:
    pointer = builder.gep(data, [index])
    element = pointer.type.pointee
    pointer = builder.bitcast(pointer, ir.PointerType(ir.VectorType(element, vector.width)))
    bytes_ = array.dtype.bitwidth // 8
    where = [builder.gep(pointer, [ir.Constant(ir.IntType(64), c)]) for c in range(vector.count)]
    return [builder.load(w, align=bytes_) for w in where]


def _write(builder: Any, data: Any, index: Any, array: Any, chunks: list[Any]) -> None:
    pointer = builder.bitcast(builder.gep(data, [index]), ir.PointerType(chunks[0].type))
    for c, chunk in enumerate(chunks):
        where = builder.gep(pointer, [ir.Constant(ir.IntType(64), c)])
        builder.store(chunk, where, align=array.dtype.bitwidth // 8)


def _row_start(context: Any, builder: Any, array: Any, value: Any, row: Any) -> Any:
    """Element offset of a row of a 2-D C-contiguous array."""
    shape = context.make_array(array)(context, builder, value).shape
    return builder.mul(row, builder.extract_value(shape, 1))


@intrinsic
def zero(typing: Any, tok: Any, like: Any) -> Any:
    """zero(token, array): a vector of zeros of the array's type."""
    vector = _vector_of(tok, like.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(vector), None)

    return vector(tok, like), code


@intrinsic
def load(typing: Any, tok: Any, array: Any, index: Any) -> Any:
    """load(token, array, index): the vector that starts at an element."""
    vector = _vector_of(tok, array.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data(context, builder, array, args[1])
        return _pack(builder, context, vector, _read(builder, data, args[2], array, vector))

    return vector(tok, array, types.int64), code


@intrinsic
def store(typing: Any, array: Any, index: Any, vector: Any) -> Any:
    """store(array, index, vector): write the vector from an element on."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data(context, builder, array, args[0])
        _write(builder, data, args[1], array, _chunks(builder, vector, args[2]))
        return context.get_dummy_value()

    return types.void(array, types.int64, vector), code


def _lanewise(name: str, operation: Callable[[Any, Any, Any], Any]) -> Any:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pairs = zip(*(_chunks(builder, left, a) for a in args), strict=True)
            return _pack(builder, context, left, [operation(builder, x, y) for x, y in pairs])

        return left(left, right), code

    typed.__name__ = typed.__qualname__ = name
    return intrinsic(typed)


add = _lanewise("add", lambda builder, x, y: builder.fadd(x, y, flags=_FLAGS))
mul = _lanewise("mul", lambda builder, x, y: builder.fmul(x, y, flags=_FLAGS))


@intrinsic
def scale(typing: Any, scalar: Any, vector: Any) -> Any:
    """scale(s, x): s * x."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        s = _splat(builder, vector, args[0])
        chunks = [builder.fmul(s, x, flags=_FLAGS) for x in _chunks(builder, vector, args[1])]
        return _pack(builder, context, vector, chunks)

    return vector(vector.dtype, vector), code


@intrinsic
def axpy(typing: Any, scalar: Any, left: Any, right: Any) -> Any:
    """axpy(s, x, y): s * x + y."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        s = _splat(builder, left, args[0])
        pairs = zip(_chunks(builder, left, args[1]), _chunks(builder, left, args[2]), strict=True)
        return _pack(builder, context, left, [_fma(builder, s, x, y) for x, y in pairs])

    return left(left.dtype, left, right), code


@intrinsic
def fma(typing: Any, left: Any, right: Any, plus: Any) -> Any:
    """fma(x, y, z): x * y + z, lane by lane."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        triples = zip(*(_chunks(builder, left, a) for a in args), strict=True)
        return _pack(builder, context, left, [_fma(builder, x, y, z) for x, y, z in triples])

    return left(left, right, plus), code


@intrinsic
def total(typing: Any, vector: Any) -> Any:
    """total(x): the sum of all lanes, added as a fixed tree."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        chunks = _chunks(builder, vector, args[0])
        while len(chunks) > 1:
            paired = [builder.fadd(x, y) for x, y in zip(chunks[::2], chunks[1::2], strict=False)]
            chunks = paired + chunks[2 * len(paired) :]
        value, width = chunks[0], vector.width
        while width > 1:
            width //= 2
            halves = [
                builder.shuffle_vector(
                    value, value, ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(s, s + width)))
                )
                for s in (0, width)
            ]
            value = builder.fadd(*halves)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return vector.dtype(vector), code


# -- one entry of a tensor: a tuple of row numbers, a tuple of rows ------------------------------------------------


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
    vector = _vector_of(tok, arrays[0].dtype)
    result = types.UniTuple(vector, len(arrays))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = []
        for m, row in enumerate(cgutils.unpack_tuple(builder, args[2])):
            value = builder.extract_value(args[1], m)
            start = builder.mul(row, ir.Constant(ir.IntType(64), vector.width * vector.count))
            data = _data(context, builder, arrays[m], value)
            rows.append(_pack(builder, context, vector, _read(builder, data, start, arrays[m], vector)))
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
            chunks = _chunks(builder, vector, builder.extract_value(args[2], m))
            _write(builder, _data(context, builder, arrays[m], value), start, arrays[m], chunks)
        return context.get_dummy_value()

    return types.void(arrays, index, rows), code


def _products(builder: Any, vector: VectorType, rows: list[list[Any]]) -> list[list[Any]]:
    """For every row the product of the others, from running products of both ends."""

    def times(x: list[Any] | None, y: list[Any] | None) -> list[Any] | None:
        if x is None or y is None:
            return x or y
        return [builder.fmul(a, b, flags=_FLAGS) for a, b in zip(x, y, strict=True)]

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
        split = [_chunks(builder, vector, r) for r in cgutils.unpack_tuple(builder, args[0])]
        packed = [_pack(builder, context, vector, p) for p in _products(builder, vector, split)]
        return context.make_tuple(builder, rows, packed)

    return rows(rows), code


@intrinsic
def product(typing: Any, rows: Any) -> Any:
    """product(rows): the elementwise product of all rows."""
    vector = rows[0]

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        split = [_chunks(builder, vector, r) for r in cgutils.unpack_tuple(builder, args[0])]
        out = split[0]
        for row in split[1:]:
            out = [builder.fmul(a, b, flags=_FLAGS) for a, b in zip(out, row, strict=True)]
        return _pack(builder, context, vector, out)

    return vector(rows), code


@intrinsic
def blend(typing: Any, keep: Any, rows: Any, gain: Any, steps: Any) -> Any:
    """blend(k, rows, g, steps): k * row + g * step for every pair."""
    vector = rows[0]

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        k, g = _splat(builder, vector, args[0]), _splat(builder, vector, args[2])
        out = []
        pairs = zip(cgutils.unpack_tuple(builder, args[1]), cgutils.unpack_tuple(builder, args[3]), strict=True)
        for row, step in pairs:
            chunks = zip(_chunks(builder, vector, row), _chunks(builder, vector, step), strict=True)
            mixed = [_fma(builder, k, x, builder.fmul(g, y, flags=_FLAGS)) for x, y in chunks]
            out.append(_pack(builder, context, vector, mixed))
        return context.make_tuple(builder, rows, out)

    return rows(vector.dtype, rows, vector.dtype, steps), code


@intrinsic
def sum_at(typing: Any, start: Any, arrays: Any, index: Any) -> Any:
    """sum_at(s, arrays, rows): s plus one element of every 1-D array; an empty tuple of arrays gives s."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = args[0]
        for m in range(len(arrays)):
            data = _data(context, builder, arrays[m], builder.extract_value(args[1], m))
            value = builder.fadd(value, builder.load(builder.gep(data, [builder.extract_value(args[2], m)])))
        return value

    return start(start, arrays, index), code


@intrinsic
def blend_at(typing: Any, keep: Any, arrays: Any, index: Any, gain: Any) -> Any:
    """blend_at(k, arrays, rows, g): x <- k * x + g for one element of every 1-D array, if there are any."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for m in range(len(arrays)):
            data = _data(context, builder, arrays[m], builder.extract_value(args[1], m))
            where = builder.gep(data, [builder.extract_value(args[2], m)])
            builder.store(_fma(builder, args[0], builder.load(where), args[3]), where)
        return context.get_dummy_value()

    return types.void(keep, arrays, index, keep), code


# -- blocks of columns, for the triangular kernels -----------------------------------------------------------------


@intrinsic
def zero_block(typing: Any, tok: Any, like: Any) -> Any:
    """zero_block(token, array): width columns of zeros, each as long as the token's vector."""
    vector = VectorType(like.dtype, tok[0].count, tok[0].count * tok.count)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(vector), None)

    return vector(tok, like), code


@intrinsic
def rank_one(typing: Any, block: Any, array: Any, index: Any, vector: Any) -> Any:
    """rank_one(block, array, index, x): column j of the block gains array[index + j] * x."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data(context, builder, array, args[1])
        columns, x = _chunks(builder, block, args[0]), _chunks(builder, vector, args[3])
        out = []
        for j in range(vector.width):
            where = builder.gep(data, [builder.add(args[2], ir.Constant(ir.IntType(64), j))])
            s = _splat(builder, vector, builder.load(where))
            out += [_fma(builder, s, x[c], columns[j * vector.count + c]) for c in range(vector.count)]
        return _pack(builder, context, block, out)

    return block(block, array, types.int64, vector), code


@intrinsic
def add_block(typing: Any, tok: Any, array: Any, index: Any, stride: Any, block: Any) -> Any:
    """add_block(token, array, index, stride, block): add column j to the vector at index + j * stride."""
    vector = _vector_of(tok, array.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data(context, builder, array, args[1])
        columns = _chunks(builder, block, args[4])
        for j in range(vector.width):
            where = builder.add(args[2], builder.mul(args[3], ir.Constant(ir.IntType(64), j)))
            old = _read(builder, data, where, array, vector)
            new = [builder.fadd(x, columns[j * vector.count + c]) for c, x in enumerate(old)]
            _write(builder, data, where, array, new)
        return context.get_dummy_value()

    return types.void(tok, array, types.int64, types.int64, block), code
