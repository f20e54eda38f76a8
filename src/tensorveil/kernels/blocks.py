"""Blocks of vectors in compiled code: columns of triangular kernels, panels of a core (see :mod:`.vector`)."""

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
    pick,
    read,
    splat,
    tree_sum,
    vector_of,
    write,
)


@intrinsic
def regroup(typing: Any, tok: Any, vector: Any) -> Any:
    """regroup(token, x): the same numbers in wider or narrower chunks."""
    wide = vector_of(tok, vector.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        chunks, width = chunks_of(builder, vector, args[1]), vector.width
        while width < wide.width:
            width *= 2
            pairs = zip(chunks[::2], chunks[1::2], strict=True)
            chunks = [pick(builder, x, y, list(range(width))) for x, y in pairs]
        while width > wide.width:
            width //= 2
            halves = [list(range(width)), list(range(width, 2 * width))]
            chunks = [pick(builder, x, x, half) for x in chunks for half in halves]
        return pack(builder, context, wide, chunks)

    return wide(tok, vector), code


def _lane_sums(builder: Any, chunks: list[Any], width: int) -> list[Any]:
    """Chunks whose lanes are the sums of the given chunks, in order; the last is filled up with zeros."""
    empty = ir.Constant(chunks[0].type, None)
    near = 16 // (4 if isinstance(chunks[0].type.element, ir.FloatType) else 8)
    out = []
    for first in range(0, len(chunks), width):
        group = chunks[first : first + width]
        group += [empty] * (width - len(group))
        unit = 1
        while len(group) > 1:
            # Halves of 128-bit lanes first: those moves are the cheapest.
            low, high = _interleave(width, unit, min(width, max(near, 2 * unit)))
            pairs = list(zip(group[::2], group[1::2], strict=True))
            group = [builder.fadd(pick(builder, x, y, low), pick(builder, x, y, high)) for x, y in pairs]
            unit *= 2
        out += group
    return out


def _interleave(width: int, unit: int, block: int) -> tuple[list[int], list[int]]:
    """Lanes of two chunks, unit by unit in turn, from the lower and from the upper half of every block."""
    sides = []
    for half in (0, block // 2):
        starts = [b + half + u for b in range(0, width, block) for u in range(0, block // 2, unit)]
        sides.append([lane for s in starts for side in (0, width) for lane in range(side + s, side + s + unit)])
    return sides[0], sides[1]


@intrinsic
def totals(typing: Any, block: Any) -> Any:
    """totals(b): for a block of as many chunks as lanes, the chunk whose lane i is the sum of chunk i."""
    single = VectorType(block.dtype, block.width, 1)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sums = _lane_sums(builder, chunks_of(builder, block, args[0]), block.width)
        return pack(builder, context, single, sums)

    return single(block), code


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


def _groups(builder: Any, block: VectorType, value: Any, size: int) -> list[list[Any]]:
    chunks = chunks_of(builder, block, value)
    return [chunks[k : k + size] for k in range(0, len(chunks), size)]


@intrinsic
def store_dots(typing: Any, array: Any, index: Any, block: Any, vector: Any) -> Any:
    """store_dots(array, index, block, x): array[index + p] = <vector p of the block, x>, then zeros to a full chunk."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x = chunks_of(builder, vector, args[3])
        parts = []
        for group in _groups(builder, block, args[2], vector.count):
            parts.append(tree_sum(builder, [builder.fmul(a, b) for a, b in zip(group, x, strict=True)]))
        data = data_of(context, builder, array, args[0])
        write(builder, data, args[1], array, _lane_sums(builder, parts, vector.width))
        return context.get_dummy_value()

    return types.void(array, types.int64, block, vector), code


@intrinsic
def weigh(typing: Any, start: Any, array: Any, index: Any, block: Any) -> Any:
    """weigh(x, array, index, block): x + sum_p array[index + p] * (vector p of the block)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = data_of(context, builder, array, args[1])
        # Two chains, so that one sum need not wait for the other.
        totals = [
            chunks_of(builder, start, args[0]),
            [ir.Constant(c.type, None) for c in chunks_of(builder, start, args[0])],
        ]
        for p, group in enumerate(_groups(builder, block, args[3], start.count)):
            where = builder.gep(data, [builder.add(args[2], ir.Constant(ir.IntType(64), p))])
            s = splat(builder, start, builder.load(where))
            totals[p % 2] = [multiply_add(builder, s, x, t) for x, t in zip(group, totals[p % 2], strict=True)]
        return pack(builder, context, start, [builder.fadd(x, y) for x, y in zip(*totals, strict=True)])

    return start(start, array, types.int64, block), code
