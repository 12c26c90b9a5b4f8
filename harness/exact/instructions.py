"""What kernels of harness.data.jit can ask of a processor that Numba has no word for.

Vectors have a fixed width, which LLVM cuts to what the processor has. Left to itself it takes half the width of Intel's
processors with AVX-512, which may run slower with all of it; beside a BLAS that takes all of it they do so anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

__all__ = [
    "four_product_sums",
    "four_square_sums",
    "lowest_bit",
    "prefetch",
    "prefetch_one",
    "product_sum",
    "reaching",
    "square_sum",
]

_FLOAT, _DOUBLE, _NUMBER, _WORD = ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_DOUBLES = 8
_FLOATS, _VECTORS_A_WORD = 16, 4
_FUSED = ("contract",)

_Typed = tuple[Any, Callable[..., Any]]
_Term = Callable[[Any, Any, Any], Any]
_Floats = npt.NDArray[np.float32]
_Doubles = npt.NDArray[np.float64]
_Sum = Callable[[_Doubles, _Floats, np.uint64], float]
_FourSums = Callable[[_Doubles, _Floats, npt.NDArray[Any], np.uint64, np.uint64, _Doubles], None]


def contiguous(array: Any) -> Any:  # noqa: ANN401 - Numba has no types
    """The type of an array without gaps; of another there is no such instruction."""
    if array.layout != "C":
        raise TypingError(f"an array of layout '{array.layout}' has gaps")
    return array


def data_of(context: Any, builder: Any, kind: Any, value: Any) -> Any:  # noqa: ANN401 - Numba has no types
    """The address of an array's first element."""
    return context.make_array(kind)(context, builder, value).data


def load_vector(builder: Any, data: Any, place: Any, item: Any, width: int, size: int) -> Any:  # noqa: ANN401 - untyped
    """``width`` items of ``size`` bytes from ``place`` on."""
    vector = ir.VectorType(item, width).as_pointer()
    return builder.load(builder.bitcast(builder.gep(data, [place]), vector), align=size)


def _ask_for(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:  # noqa: ANN401 - Numba has no types
    """LLVM's prefetch of the element of an array (the first argument) at the places that the others give."""
    values, *places = arguments
    indices = [context.cast(builder, *one, types.intp) for one in zip(places, kinds[1:], strict=True)]
    view = context.make_array(kinds[0])(context, builder, values)
    item = cgutils.get_item_pointer(context, builder, kinds[0], view, indices)
    address = ir.IntType(8).as_pointer()
    hint = ir.FunctionType(ir.VoidType(), [address, _NUMBER, _NUMBER, _NUMBER])
    function = builder.module.declare_intrinsic("llvm.prefetch", [address], hint)
    to_read, keep, data = _NUMBER(0), _NUMBER(3), _NUMBER(1)
    builder.call(function, [builder.bitcast(item, address), to_read, keep, data])
    return context.get_dummy_value()


def _prefetch(_: Any, array: Any, row: Any, column: Any) -> _Typed:  # noqa: ANN401 - untyped
    return types.void(array, row, column), lambda context, builder, signature, arguments: _ask_for(
        context, builder, signature.args, arguments
    )


def _prefetch_one(_: Any, array: Any, place: Any) -> _Typed:  # noqa: ANN401 - untyped
    return types.void(array, place), lambda context, builder, signature, arguments: _ask_for(
        context, builder, signature.args, arguments
    )


def _lowest_bit(_: Any, _word: Any) -> _Typed:  # noqa: ANN401 - untyped
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - untyped
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate


def _reaching(
    _: Any,  # noqa: ANN401 - untyped
    line: Any,  # noqa: ANN401 - untyped
    _factor: Any,  # noqa: ANN401 - untyped
    scale: Any,  # noqa: ANN401 - untyped
    shift: Any,  # noqa: ANN401 - untyped
    _start: Any,  # noqa: ANN401 - untyped
    _floor: Any,  # noqa: ANN401 - untyped
) -> _Typed:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - untyped
        kinds = signature.args
        lines, scales, shifts = (data_of(context, builder, kinds[one], arguments[one]) for one in (0, 2, 3))
        vector = ir.VectorType(_FLOAT, _FLOATS)
        factors, floors = (everywhere(builder, arguments[one], vector) for one in (1, 5))
        found = _WORD(0)
        for part in range(_VECTORS_A_WORD):
            place = builder.add(arguments[4], _WORD(part * _FLOATS))
            value, scaled, moved = (
                load_vector(builder, one, place, _FLOAT, _FLOATS, 4) for one in (lines, scales, shifts)
            )
            estimate = builder.fadd(builder.fmul(builder.fmul(value, factors), scaled), moved)
            bits = builder.bitcast(builder.fcmp_ordered(">=", estimate, floors), ir.IntType(_FLOATS))
            found = builder.or_(found, builder.shl(builder.zext(bits, _WORD), _WORD(part * _FLOATS)))
        return found

    arrays = [contiguous(one) for one in (line, scale, shift)]
    return types.uint64(arrays[0], types.float32, *arrays[1:], types.uint64, types.float32), generate


def everywhere(builder: Any, value: Any, vector: Any) -> Any:  # noqa: ANN401 - untyped
    """A vector of that type with one value in all places."""
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _NUMBER(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_NUMBER, vector.count), [0] * vector.count))


def _sum(term: _Term) -> Callable[..., _Typed]:
    """The sum of terms of a float64 and a float32 vector."""

    def typed(_: Any, wide: Any, narrow: Any, _count: Any) -> _Typed:  # noqa: ANN401 - untyped
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - untyped
            x, y = (data_of(context, builder, *one) for one in zip(signature.args[:2], arguments[:2], strict=True))
            return _added(builder, x, [y], arguments[2], term)[0]

        return types.float64(contiguous(wide), contiguous(narrow), types.uint64), generate

    return typed


def _four_sums(term: _Term) -> Callable[..., _Typed]:
    """The sums of terms of a float64 vector and of four rows of a float32 table each."""

    def typed(_: Any, wide: Any, table: Any, rows: Any, _first: Any, _count: Any, sums: Any) -> _Typed:  # noqa: ANN401
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - untyped
            kinds = signature.args
            x, begin, listed, out = (data_of(context, builder, kinds[one], arguments[one]) for one in (0, 1, 2, 5))
            columns = builder.extract_value(context.make_array(table)(context, builder, arguments[1]).shape, 1)
            places = [builder.add(arguments[3], _WORD(one)) for one in range(4)]
            numbers = [
                context.cast(builder, builder.load(builder.gep(listed, [place])), rows.dtype, types.int64)
                for place in places
            ]
            vectors = [builder.gep(begin, [builder.mul(number, columns)]) for number in numbers]
            for place, total in zip(places, _added(builder, x, vectors, arguments[4], term), strict=True):
                builder.store(total, builder.gep(out, [place]))
            return context.get_dummy_value()

        arrays = [contiguous(one) for one in (wide, table, rows, sums)]
        return types.void(*arrays[:3], types.uint64, types.uint64, arrays[3]), generate

    return typed


def _added(builder: Any, wide: Any, vectors: list[Any], count: Any, term: _Term) -> list[Any]:  # noqa: ANN401
    """For each of the vectors the sum of its terms: 8 partial sums at once, four times, which hides the delay of an
    addition. With more of them the 16 registers of AVX2 did not suffice, and four sums took 150 cycles instead of 90.
    """
    kind, parts = ir.VectorType(_DOUBLE, _DOUBLES), 4 // len(vectors)
    zero, step = ir.Constant(kind, [0.0] * _DOUBLES), _WORD(_DOUBLES * parts)
    sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(parts)] for _ in vectors]
    steps = builder.udiv(count, step)
    with cgutils.for_range(builder, steps) as loop:
        for part in range(parts):
            place = builder.add(builder.mul(loop.index, step), _WORD(part * _DOUBLES))
            x = load_vector(builder, wide, place, _DOUBLE, _DOUBLES, 8)
            for vector, own in zip(vectors, sums, strict=True):
                y = builder.fpext(load_vector(builder, vector, place, _FLOAT, _DOUBLES, 4), kind)
                _add(builder, own[part], term(builder, x, y))
    totals = [cgutils.alloca_once_value(builder, _across(builder, own)) for own in sums]
    with cgutils.for_range_slice(builder, builder.mul(steps, step), count, _WORD(1)) as (place, _):
        x = builder.load(builder.gep(wide, [place]))
        for vector, total in zip(vectors, totals, strict=True):
            y = builder.fpext(builder.load(builder.gep(vector, [place])), _DOUBLE)
            _add(builder, total, term(builder, x, y))
    return [builder.load(total) for total in totals]


def _add(builder: Any, total: Any, value: Any) -> None:  # noqa: ANN401 - untyped
    builder.store(builder.fadd(builder.load(total), value, flags=_FUSED), total)


def _across(builder: Any, partial: list[Any]) -> Any:  # noqa: ANN401 - untyped
    """One sum of all partial sums."""
    values = [builder.load(one) for one in partial]
    while len(values) > 1:
        values = [builder.fadd(*values[:2]), *values[2:]]
    total, width = values[0], _DOUBLES
    while width > 1:
        width //= 2
        kind = ir.VectorType(_NUMBER, width)
        halves = [ir.Constant(kind, list(range(begin, begin + width))) for begin in (0, width)]
        total = builder.fadd(*(builder.shuffle_vector(total, total, half) for half in halves))
    return builder.extract_element(total, _NUMBER(0))


def _product(builder: Any, x: Any, y: Any) -> Any:  # noqa: ANN401 - untyped
    return builder.fmul(x, y, flags=_FUSED)


def _square(builder: Any, x: Any, y: Any) -> Any:  # noqa: ANN401 - untyped
    difference = builder.fsub(x, y)
    return builder.fmul(difference, difference, flags=_FUSED)


prefetch = cast("Callable[[npt.NDArray[Any], int, int], None]", intrinsic(_prefetch))
"""In a kernel: ask for the cache line that holds ``array[row, column]``, and go on without waiting for it."""

prefetch_one = cast("Callable[[npt.NDArray[Any], Any], None]", intrinsic(_prefetch_one))
"""The same for ``array[place]`` of an array with one axis."""

lowest_bit = cast("Callable[[np.uint64], np.uint64]", intrinsic(_lowest_bit))
"""In a kernel: the number of the lowest bit that is set in a word that is not 0."""

reaching = cast(
    "Callable[[_Floats, np.float32, _Floats, _Floats, np.uint64, np.float32], np.uint64]", intrinsic(_reaching)
)
"""In a kernel: ``reaching(line, factor, scale, shift, start, floor)`` has bit ``i`` (0 to 63) set where, with
``p = start + i``, ``line[p] * factor * scale[p] + shift[p]``, each step rounded to float32, is at least ``floor``. The
arrays have no gaps, and go on to ``start + 64`` at least.
"""

product_sum = cast("_Sum", intrinsic(_sum(_product)))
"""In a kernel: ``product_sum(x, y, n)`` is the sum of ``x[i] * y[i]`` over the first ``n``, in float64, added in any
order, with or without fused multiplication. ``x`` is float64, ``y`` float32.
"""

square_sum = cast("_Sum", intrinsic(_sum(_square)))
"""In a kernel: as :data:`product_sum`, of ``(x[i] - y[i]) ** 2``."""

four_product_sums = cast("_FourSums", intrinsic(_four_sums(_product)))
"""In a kernel: ``four_product_sums(x, table, rows, p, n, sums)`` writes :data:`product_sum` of ``table[rows[p]]`` to
``sums[p]``, and the next three as well: four in the time of two or three, as they wait for memory together.
"""

four_square_sums = cast("_FourSums", intrinsic(_four_sums(_square)))
"""In a kernel: as :data:`four_product_sums`, of squared differences."""
