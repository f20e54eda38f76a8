"""Explicit SIMD for compiled functions: rows of a factor matrix as values in vector registers.

A vector value is ``count`` chunks of ``width`` lanes. Both numbers are compile-time constants which travel in the
type of a *token*, a nested tuple of zeros made by :func:`token`; so one source function serves every rank, and the
on-disk cache of compiled code keeps one entry per signature without closures.

Indices are element offsets into a C-contiguous array; nothing is bounds-checked.

Legend of the code generators: each ``@intrinsic`` gets the types of its arguments, of which ``tok`` is a token's, and
returns the type of the call and a function ``code`` that writes its LLVM instructions. context and builder are Numba's;
chunks are LLVM values of ``width`` lanes, data is a pointer to an array's first element. Sums over lanes are fixed
trees, and `FLAGS` lets the compiler fuse a multiplication with an addition but never reorder: the same bits for every
number of threads and every run on one machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

Token = tuple[tuple[int, ...], ...]

# Only contraction (a * b + c in one rounding): results stay the same for every number of threads.
FLAGS = ("contract",)


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


def vector_of(tok: Any, dtype: Any) -> VectorType:
    """Return the vector type that a token describes."""
    return VectorType(dtype, tok[0].count, tok.count)


def chunks_of(builder: Any, vector: VectorType, value: Any) -> list[Any]:
    """Return the chunks of a vector value."""
    return [builder.extract_value(value, c) for c in range(vector.count)]


def pack(builder: Any, context: Any, vector: VectorType, chunks: list[Any]) -> Any:
    """Return a vector value made of chunks."""
    value = ir.Constant(context.get_value_type(vector), ir.Undefined)
    for c, chunk in enumerate(chunks):
        value = builder.insert_value(value, chunk, c)
    return value


def splat(builder: Any, vector: VectorType, scalar: Any) -> Any:
    """Return a chunk with one scalar in all lanes."""
    one = builder.insert_element(
        ir.Constant(ir.VectorType(scalar.type, vector.width), ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0)
    )
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.width), [0] * vector.width)
    return builder.shuffle_vector(one, one, mask)


def multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, which the compiler may round once."""
    return builder.fadd(builder.fmul(a, b, flags=FLAGS), c, flags=FLAGS)


def data_of(context: Any, builder: Any, array: Any, value: Any) -> Any:
    """Return a pointer to an array's first element."""
    return context.make_array(array)(context, builder, value).data


def read(builder: Any, data: Any, index: Any, array: Any, vector: VectorType) -> list[Any]:
    """Load chunks from an element on, however aligned."""
    pointer = builder.gep(data, [index])
    element = pointer.type.pointee
    pointer = builder.bitcast(pointer, ir.PointerType(ir.VectorType(element, vector.width)))
    bytes_ = array.dtype.bitwidth // 8
    where = [builder.gep(pointer, [ir.Constant(ir.IntType(64), c)]) for c in range(vector.count)]
    return [builder.load(w, align=bytes_) for w in where]


def write(builder: Any, data: Any, index: Any, array: Any, chunks: list[Any]) -> None:
    """Store chunks from an element on, however aligned."""
    pointer = builder.bitcast(builder.gep(data, [index]), ir.PointerType(chunks[0].type))
    for c, chunk in enumerate(chunks):
        where = builder.gep(pointer, [ir.Constant(ir.IntType(64), c)])
        builder.store(chunk, where, align=array.dtype.bitwidth // 8)


@intrinsic
def zero(typing: Any, tok: Any, like: Any) -> Any:
    """zero(token, array): a vector of zeros of the array's type."""
    vector = vector_of(tok, like.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(vector), None)

    return vector(tok, like), code


@intrinsic
def load(typing: Any, tok: Any, array: Any, index: Any) -> Any:
    """load(token, array, index): the vector that starts at an element."""
    vector = vector_of(tok, array.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = data_of(context, builder, array, args[1])
        return pack(builder, context, vector, read(builder, data, args[2], array, vector))

    return vector(tok, array, types.int64), code


@intrinsic
def peek(typing: Any, array: Any, index: Any) -> Any:
    """peek(array, index): one element, without the check for negative indices."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.gep(data_of(context, builder, array, args[0]), [args[1]]))

    return array.dtype(array, types.int64), code


@intrinsic
def store(typing: Any, array: Any, index: Any, vector: Any) -> Any:
    """store(array, index, vector): write the vector from an element on."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = data_of(context, builder, array, args[0])
        write(builder, data, args[1], array, chunks_of(builder, vector, args[2]))
        return context.get_dummy_value()

    return types.void(array, types.int64, vector), code


def _lanewise(name: str, operation: Callable[[Any, Any, Any], Any]) -> Any:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pairs = zip(*(chunks_of(builder, left, a) for a in args), strict=True)
            return pack(builder, context, left, [operation(builder, x, y) for x, y in pairs])

        return left(left, right), code

    typed.__name__ = typed.__qualname__ = name
    return intrinsic(typed)


add = _lanewise("add", lambda builder, x, y: builder.fadd(x, y, flags=FLAGS))
mul = _lanewise("mul", lambda builder, x, y: builder.fmul(x, y, flags=FLAGS))


@intrinsic
def scale(typing: Any, scalar: Any, vector: Any) -> Any:
    """scale(s, x): s * x."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        s = splat(builder, vector, args[0])
        chunks = [builder.fmul(s, x, flags=FLAGS) for x in chunks_of(builder, vector, args[1])]
        return pack(builder, context, vector, chunks)

    return vector(vector.dtype, vector), code


@intrinsic
def axpy(typing: Any, scalar: Any, left: Any, right: Any) -> Any:
    """axpy(s, x, y): s * x + y."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        s = splat(builder, left, args[0])
        pairs = zip(chunks_of(builder, left, args[1]), chunks_of(builder, left, args[2]), strict=True)
        return pack(builder, context, left, [multiply_add(builder, s, x, y) for x, y in pairs])

    return left(left.dtype, left, right), code


@intrinsic
def fma(typing: Any, left: Any, right: Any, plus: Any) -> Any:
    """fma(x, y, z): x * y + z, lane by lane."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        triples = zip(*(chunks_of(builder, left, a) for a in args), strict=True)
        return pack(builder, context, left, [multiply_add(builder, x, y, z) for x, y, z in triples])

    return left(left, right, plus), code


def tree_sum(builder: Any, chunks: list[Any]) -> Any:
    """Return the sum of chunks, added in pairs."""
    while len(chunks) > 1:
        paired = [builder.fadd(x, y) for x, y in zip(chunks[::2], chunks[1::2], strict=False)]
        chunks = paired + chunks[2 * len(paired) :]
    return chunks[0]


def pick(builder: Any, left: Any, right: Any, lanes: list[int]) -> Any:
    """Return a chunk made of numbered lanes of two others."""
    return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))


def add_halves(builder: Any, value: Any, width: int) -> Any:
    """Return the lower ``width`` lanes plus the upper ones."""
    low, high = list(range(width)), list(range(width, 2 * width))
    return builder.fadd(pick(builder, value, value, low), pick(builder, value, value, high))


@intrinsic
def fold(typing: Any, tok: Any, vector: Any) -> Any:
    """fold(token, x): add chunks, then halves of the chunk, until as wide as the token's single chunk."""
    single = VectorType(vector.dtype, tok[0].count, 1)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, width = tree_sum(builder, chunks_of(builder, vector, args[1])), vector.width
        while width > single.width:
            width //= 2
            value = add_halves(builder, value, width)
        return pack(builder, context, single, [value])

    return single(tok, vector), code


@intrinsic
def total(typing: Any, vector: Any) -> Any:
    """total(x): the sum of all lanes, added as a fixed tree."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, width = tree_sum(builder, chunks_of(builder, vector, args[0])), vector.width
        while width > 1:
            width //= 2
            value = add_halves(builder, value, width)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return vector.dtype(vector), code
