"""Eight numbers at a time, every operation rounded by itself: the same bits as one number after the other.

`vector.py` lets a multiplication and the addition after it be rounded once. Here nothing is fused and nothing is
reordered: a lane of a vector goes through the operations of a plain loop, in its order, and ends with its bits. So it
may be chosen freely which numbers stand side by side, and a sum over entries stays what it is by definition.

A *tile* is a block of 8 rows of 8 numbers, kept in registers while terms are added to it. With matrices A and V stored
by rows, `outer_add` adds the product of a column of A' (eight neighbours in a row of A) and a row of V: one step of
A'V. `factor` and `solve` finish a tile of Cholesky's factor U (U'U = G), or of the inverse of U'.

Indices are element offsets into C-contiguous float64 arrays; nothing is bounds-checked. Legend of the code generators:
see `vector.py`; rows are the eight chunks of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic

from tensorveil.kernels.vector import VectorType, chunks_of, data_of, pack, pick, read, splat, token, write

WIDTH = 8
# Of a vector of eight numbers; what `vector.load` and `vector.zero` ask for.
EIGHT = token(WIDTH)

_VECTOR = VectorType(types.float64, WIDTH, 1)
_TILE = VectorType(types.float64, WIDTH, WIDTH)
# Pivots below this are taken to be as large: a factor exists for whatever comes in.
_LEAST_PIVOT = 1e-300


def pad_width(count: int) -> int:
    """Return the least multiple of eight that has room for ``count`` numbers."""
    return -(-count // WIDTH) * WIDTH


def _lanewise(name: str, operation: Callable[[Any, Any, Any], Any]) -> Any:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pairs = zip(*(chunks_of(builder, left, a) for a in args), strict=True)
            return pack(builder, context, left, [operation(builder, x, y) for x, y in pairs])

        return left(left, right), code

    typed.__name__ = typed.__qualname__ = name
    return intrinsic(typed)


add = _lanewise("add", lambda builder, x, y: builder.fadd(x, y))
subtract = _lanewise("subtract", lambda builder, x, y: builder.fsub(x, y))
multiply = _lanewise("multiply", lambda builder, x, y: builder.fmul(x, y))
divide = _lanewise("divide", lambda builder, x, y: builder.fdiv(x, y))
# What is no number is not larger than anything.
larger = _lanewise("larger", lambda builder, x, y: builder.select(builder.fcmp_ordered(">", x, y), x, y))


@intrinsic
def fill(typing: Any, scalar: Any) -> Any:
    """fill(s): s in all lanes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return pack(builder, context, _VECTOR, [splat(builder, _VECTOR, args[0])])

    return _VECTOR(types.float64), code


@intrinsic
def root(typing: Any, vector: Any) -> Any:
    """root(x): the square root, lane by lane."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return pack(builder, context, vector, [_root(builder, x) for x in chunks_of(builder, vector, args[0])])

    return vector(vector), code


@intrinsic
def where_positive(typing: Any, asked: Any, then: Any, otherwise: Any) -> Any:
    """where_positive(a, x, y): x in the lanes where a is above 0, y in the others."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, x, y = (chunks_of(builder, asked, arg)[0] for arg in args)
        above = builder.fcmp_ordered(">", a, ir.Constant(a.type, None))
        return pack(builder, context, asked, [builder.select(above, x, y)])

    return asked(asked, then, otherwise), code


@intrinsic
def zero_tile(typing: Any) -> Any:
    """zero_tile(): a tile of zeros."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(_TILE), None)

    return _TILE(), code


@intrinsic
def unit_tile(typing: Any) -> Any:
    """unit_tile(): ones on the diagonal, zeros elsewhere."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row = ir.VectorType(ir.DoubleType(), WIDTH)
        rows = [ir.Constant(row, [float(j == i) for j in range(WIDTH)]) for i in range(WIDTH)]
        return pack(builder, context, _TILE, rows)

    return _TILE(), code


@intrinsic
def get_tile(typing: Any, array: Any, index: Any, stride: Any) -> Any:
    """get_tile(array, index, stride): the tile whose row i begins at index + i * stride."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = data_of(context, builder, array, args[0])
        rows = [read(builder, data, where, array, _VECTOR)[0] for where in _starts(builder, args[1], args[2])]
        return pack(builder, context, _TILE, rows)

    return _TILE(array, types.int64, types.int64), code


@intrinsic
def gather_tile(typing: Any, array: Any, places: Any, at: Any, offset: Any) -> Any:
    """gather_tile(array, places, at, offset): the tile whose row i begins at places[at + i] + offset."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data, where = (data_of(context, builder, kind, arg) for kind, arg in zip((array, places), args, strict=False))
        rows = []
        for i in range(WIDTH):
            place = builder.load(builder.gep(where, [builder.add(args[2], ir.Constant(ir.IntType(64), i))]))
            rows += read(builder, data, builder.add(place, args[3]), array, _VECTOR)
        return pack(builder, context, _TILE, rows)

    return _TILE(array, places, types.int64, types.int64), code


@intrinsic
def put_tile(typing: Any, array: Any, index: Any, stride: Any, tile: Any) -> Any:
    """put_tile(array, index, stride, tile): write row i from index + i * stride on."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = data_of(context, builder, array, args[0])
        for where, row in zip(_starts(builder, args[1], args[2]), chunks_of(builder, tile, args[3]), strict=True):
            write(builder, data, where, array, [row])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, tile), code


@intrinsic
def turn(typing: Any, tile: Any) -> Any:
    """turn(tile): its transpose."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = chunks_of(builder, tile, args[0])
        for half in (4, 2, 1):  # swap the blocks of this size that lie across the diagonal
            low = [j if j & half == 0 else j - half + WIDTH for j in range(WIDTH)]
            high = [j + half if j & half == 0 else j + WIDTH for j in range(WIDTH)]
            swapped = list(rows)
            for i in range(WIDTH):
                if i & half == 0:
                    swapped[i] = pick(builder, rows[i], rows[i + half], low)
                    swapped[i + half] = pick(builder, rows[i], rows[i + half], high)
            rows = swapped
        return pack(builder, context, tile, rows)

    return tile(tile), code


def _outer(name: str, operation: str) -> Any:
    def typed(typing: Any, tile: Any, left: Any, at: Any, right: Any, index: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = data_of(context, builder, left, args[1])
            row = read(builder, data_of(context, builder, right, args[3]), args[4], right, _VECTOR)[0]
            out = []
            for i, old in enumerate(chunks_of(builder, tile, args[0])):
                scalar = builder.load(builder.gep(data, [builder.add(args[2], ir.Constant(ir.IntType(64), i))]))
                term = builder.fmul(splat(builder, _VECTOR, scalar), row)
                out.append(getattr(builder, operation)(old, term))
            return pack(builder, context, tile, out)

        return tile(tile, left, types.int64, right, types.int64), code

    typed.__name__ = typed.__qualname__ = name
    return intrinsic(typed)


# outer_add(tile, a, at, b, index): row i gains (outer_subtract: loses) a[at + i] * b[index .. index + 7].
outer_add = _outer("outer_add", "fadd")
outer_subtract = _outer("outer_subtract", "fsub")


@intrinsic
def factor(typing: Any, tile: Any) -> Any:
    """factor(tile): Cholesky's U of a symmetric tile, of which the upper triangle is read; zeros below the diagonal."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = chunks_of(builder, tile, args[0])
        least = ir.Constant(ir.DoubleType(), _LEAST_PIVOT)
        for i in range(WIDTH):
            lane = ir.Constant(ir.IntType(32), i)
            pivot = builder.extract_element(rows[i], lane)
            pivot = _root(builder, builder.select(builder.fcmp_ordered(">", pivot, least), pivot, least))
            right = ir.Constant(ir.VectorType(ir.IntType(1), WIDTH), [j > i for j in range(WIDTH)])
            row = builder.fdiv(rows[i], splat(builder, _VECTOR, pivot))
            row = builder.select(right, row, ir.Constant(row.type, None))
            for below in range(i + 1, WIDTH):
                scalar = builder.extract_element(row, ir.Constant(ir.IntType(32), below))
                rows[below] = builder.fsub(rows[below], builder.fmul(splat(builder, _VECTOR, scalar), row))
            rows[i] = builder.insert_element(row, pivot, lane)
        return pack(builder, context, tile, rows)

    return tile(tile), code


@intrinsic
def solve(typing: Any, tile: Any, upper: Any, index: Any, stride: Any) -> Any:
    """solve(tile, U, index, stride): the tile X with U'X = tile, where U's triangular tile begins at an element."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data, rows = data_of(context, builder, upper, args[1]), chunks_of(builder, tile, args[0])
        starts = _starts(builder, args[2], args[3])
        for i in range(WIDTH):

            def factor_at(j: int, start: Any = starts[i]) -> Any:
                scalar = builder.load(builder.gep(data, [builder.add(start, ir.Constant(ir.IntType(64), j))]))
                return splat(builder, _VECTOR, scalar)

            rows[i] = builder.fdiv(rows[i], factor_at(i))
            for below in range(i + 1, WIDTH):
                rows[below] = builder.fsub(rows[below], builder.fmul(factor_at(below), rows[i]))
        return pack(builder, context, tile, rows)

    return tile(tile, upper, types.int64, types.int64), code


def _starts(builder: Any, index: Any, stride: Any) -> list[Any]:
    """Return where the rows of a tile begin."""
    return [builder.add(index, builder.mul(stride, ir.Constant(ir.IntType(64), i))) for i in range(WIDTH)]


def _root(builder: Any, value: Any) -> Any:
    """Return square roots, of a number or of lanes."""
    name = "llvm.sqrt.f64" if isinstance(value.type, ir.DoubleType) else f"llvm.sqrt.v{WIDTH}f64"
    return builder.call(
        get_or_insert_function(builder.module, ir.FunctionType(value.type, [value.type]), name), [value]
    )
