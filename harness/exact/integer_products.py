"""Products of vectors of small whole numbers, for kernels of harness.data.jit.

A processor multiplies and adds twice as many numbers of 16 bits at once as float32 numbers, and without rounding. LLVM
makes the instruction for it (``vpmaddwd``, and ``vpdpwssd`` where there is one) of what is written here, and something
slower where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from harness.exact.instructions import contiguous, data_of, everywhere, load_vector

__all__ = ["SIDE", "TALL", "WIDE", "multiply_tile", "round_sixteen", "transpose_square"]

TALL = 6
"""Vectors of the left side that are multiplied together: with ``WIDE`` all sums lie in 12 of AVX2's 16 registers."""
WIDE = 16
"""Vectors of the right side that are multiplied together."""
SIDE = 8
"""Rows and columns of what is transposed at once."""
_FLOAT, _SHORT, _NUMBER, _WORD = ir.FloatType(), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_SUMS = ir.VectorType(_NUMBER, WIDE)

_Typed = tuple[Any, Callable[..., Any]]
_Floats = npt.NDArray[np.float32]
_Shorts = npt.NDArray[np.int16]
_Numbers = npt.NDArray[np.int32]


def _round_sixteen(_: Any, values: Any, _first: Any, _scale: Any, rounded: Any, _row: Any) -> _Typed:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - untyped
        kinds = signature.args
        floats, shorts = ir.VectorType(_FLOAT, WIDE), ir.VectorType(_SHORT, WIDE)
        given = load_vector(builder, data_of(context, builder, kinds[0], arguments[0]), arguments[1], _FLOAT, WIDE, 4)
        scaled = builder.fmul(given, everywhere(builder, arguments[2], floats))
        nearest = builder.module.declare_intrinsic(f"llvm.rint.v{WIDE}f32", (), ir.FunctionType(floats, [floats]))
        numbers = builder.trunc(builder.fptosi(builder.call(nearest, [scaled]), _SUMS), shorts)
        out = builder.gep(data_of(context, builder, kinds[3], arguments[3]), [arguments[4]])
        builder.store(numbers, builder.bitcast(out, shorts.as_pointer()), align=2)
        return context.get_dummy_value()

    arrays = [contiguous(one) for one in (values, rounded)]
    return types.void(arrays[0], types.uint64, types.float32, arrays[1], types.uint64), generate


def _transpose_square(_: Any, given: Any, _first: Any, _stride: Any, turned: Any, _place: Any) -> _Typed:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - untyped
        kinds = signature.args
        source, target = (data_of(context, builder, kinds[one], arguments[one]) for one in (0, 3))
        rows = []
        for row in range(SIDE):
            place = builder.add(arguments[1], builder.mul(arguments[2], _WORD(row)))
            rows.append(load_vector(builder, source, place, _NUMBER, SIDE, 4))
        for row, column in enumerate(_turned(builder, rows)):
            place = builder.add(arguments[4], _WORD(row * WIDE))
            out = builder.bitcast(builder.gep(target, [place]), column.type.as_pointer())
            builder.store(column, out, align=4)
        return context.get_dummy_value()

    arrays = [contiguous(one) for one in (given, turned)]
    return types.void(arrays[0], types.uint64, types.uint64, arrays[1], types.uint64), generate


def _turned(builder: Any, rows: list[Any]) -> list[Any]:  # noqa: ANN401 - untyped
    """The columns of a square: pairs of rows are woven, in steps that stay within halves of 128 bits but the last."""

    def woven(one: Any, other: Any, places: list[int]) -> Any:  # noqa: ANN401 - untyped
        return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(_NUMBER, SIDE), places))

    low, high = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
    pairs = [woven(rows[row], rows[row + 1], half) for row in range(0, SIDE, 2) for half in (low, high)]
    first, second = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
    # fours[4 * h + c] has columns c and c + 4 of the rows 4 * h to 4 * h + 3
    fours = [
        woven(pairs[4 * half + part], pairs[4 * half + 2 + part], which)
        for half in range(2)
        for part in range(2)
        for which in (first, second)
    ]
    lower, upper = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
    return [woven(fours[column], fours[4 + column], which) for which in (lower, upper) for column in range(4)]


def _multiply_tile(
    _: Any,  # noqa: ANN401 - untyped
    left: Any,  # noqa: ANN401 - untyped
    _left_first: Any,  # noqa: ANN401 - untyped
    right: Any,  # noqa: ANN401 - untyped
    _right_first: Any,  # noqa: ANN401 - untyped
    _pairs: Any,  # noqa: ANN401 - untyped
    products: Any,  # noqa: ANN401 - untyped
    _place: Any,  # noqa: ANN401 - untyped
    _stride: Any,  # noqa: ANN401 - untyped
) -> _Typed:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - untyped
        data = [data_of(context, builder, signature.args[one], arguments[one]) for one in (0, 2, 5)]
        lefts, rights = (builder.gep(one, [first]) for one, first in zip(data[:2], arguments[1:4:2], strict=True))
        sums = [cgutils.alloca_once_value(builder, ir.Constant(_SUMS, [0] * WIDE)) for _ in range(TALL)]
        with cgutils.for_range(builder, arguments[4]) as loop:
            _add_pair(builder, lefts, rights, loop.index, sums)
        floats = ir.VectorType(_FLOAT, WIDE)
        for row, total in enumerate(sums):
            place = builder.add(arguments[6], builder.mul(arguments[7], _WORD(row)))
            out = builder.bitcast(builder.gep(data[2], [place]), floats.as_pointer())
            builder.store(builder.sitofp(builder.load(total), floats), out, align=4)
        return context.get_dummy_value()

    arrays = [contiguous(one) for one in (left, right, products)]
    words = types.uint64, types.uint64
    return types.void(arrays[0], words[0], arrays[1], *words, arrays[2], *words), generate


def _add_pair(builder: Any, lefts: Any, rights: Any, pair: Any, sums: list[Any]) -> None:  # noqa: ANN401 - untyped
    """Add the products of the two numbers in the place ``pair`` of each vector of both sides."""
    shorts, wide = ir.VectorType(_SHORT, 2 * WIDE), ir.VectorType(_NUMBER, 2 * WIDE)
    right = load_vector(builder, rights, builder.mul(pair, _WORD(WIDE)), _NUMBER, WIDE, 4)
    right = builder.sext(builder.bitcast(right, shorts), wide)
    for row, total in enumerate(sums):
        left = builder.load(builder.gep(lefts, [builder.add(builder.mul(pair, _WORD(TALL)), _WORD(row))]))
        left = builder.sext(builder.bitcast(everywhere(builder, left, _SUMS), shorts), wide)
        products = builder.mul(left, right)
        even, odd = (
            builder.shuffle_vector(products, products, ir.Constant(_SUMS, list(range(half, 2 * WIDE, 2))))
            for half in range(2)
        )
        builder.store(builder.add(builder.load(total), builder.add(even, odd)), total)


round_sixteen = cast("Callable[[_Floats, np.uint64, np.float32, _Shorts, np.uint64], None]", intrinsic(_round_sixteen))
"""In a kernel: ``round_sixteen(x, i, scale, out, o)`` writes ``x[i] * scale`` and the next 15, rounded to float32 and
then to the nearest whole number, to ``out[o]`` on. They are below 2**15.
"""

transpose_square = cast(
    "Callable[[_Numbers, np.uint64, np.uint64, _Numbers, np.uint64], None]", intrinsic(_transpose_square)
)
"""In a kernel: ``transpose_square(x, i, stride, out, o)`` writes column ``c`` of the eight rows of eight numbers each
that begin at ``x[i + r * stride]`` to ``out[o + c * WIDE]`` on.
"""

multiply_tile = cast(
    "Callable[[_Numbers, np.uint64, _Numbers, np.uint64, np.uint64, _Floats, np.uint64, np.uint64], None]",
    intrinsic(_multiply_tile),
)
"""In a kernel: ``multiply_tile(left, l, right, r, pairs, out, o, stride)`` writes the inner products of ``TALL`` and
``WIDE`` vectors, rounded to float32, to ``out[o + row * stride + column]``.

The numbers of a vector have 16 bits; two of them lie in an int32. Those in the place ``p`` of each vector lie side by
side, from ``left[l + p * TALL]`` and ``right[r + p * WIDE]`` on. No sum of products may leave int32.
"""
