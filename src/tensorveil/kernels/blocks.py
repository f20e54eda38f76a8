"""Blocks of vectors in compiled code: columns of triangular kernels, panels of a core (see :mod:`.vector`).

A block is a vector value whose chunks are read as a small matrix: with a token of ``count`` chunks of ``width`` lanes,
column j of the block is chunks j * count .. (j + 1) * count - 1. `normal.add_gram` keeps such a block of H'H in
registers while it runs over all entries, so that the Gram matrix in memory is touched once per block of entries.

Legend of the code generators: typing, context, builder, signature, args are Numba's; tok is the type of a token, block
and vector are types of values, data a pointer to an array's first element, where an element offset.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tensorveil.kernels.vector import (
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
        data = data_of(context, builder, array, args[1])
        columns, x = chunks_of(builder, block, args[0]), chunks_of(builder, vector, args[3])
        out = []
        for j in range(block.count // vector.count):
            where = builder.gep(data, [builder.add(args[2], ir.Constant(ir.IntType(64), j))])
            s = splat(builder, vector, builder.load(where))
            out += [multiply_add(builder, s, x[c], columns[j * vector.count + c]) for c in range(vector.count)]
        return pack(builder, context, block, out)

    return block(block, array, types.int64, vector), code


@intrinsic
def add_block(typing: Any, tok: Any, array: Any, index: Any, stride: Any, block: Any) -> Any:
    """add_block(token, array, index, stride, block): add column j to the vector at index + j * stride."""
    vector = vector_of(tok, array.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = data_of(context, builder, array, args[1])
        columns = chunks_of(builder, block, args[4])
        for j in range(vector.width):
            where = builder.add(args[2], builder.mul(args[3], ir.Constant(ir.IntType(64), j)))
            old = read(builder, data, where, array, vector)
            new = [builder.fadd(x, columns[j * vector.count + c]) for c, x in enumerate(old)]
            write(builder, data, where, array, new)
        return context.get_dummy_value()

    return types.void(tok, array, types.int64, types.int64, block), code
