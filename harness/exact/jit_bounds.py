"""What exact sparse search asks of a processor: rows of half bytes looked up and added, and bounds compared.

Both work on a whole vector at a time. A look-up in sixteen bytes is written as picking elements one by one, which LLVM
turns into the one instruction that most processors have for it, and into sixteen moves on those that have none.
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

__all__ = ["ROW_PART", "add_rows", "bounds_reaching"]

_BYTE, _FLOAT, _DOUBLE, _NUMBER, _WORD = ir.IntType(8), ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_WIDTH, _VECTORS = 32, 2
ROW_PART = _WIDTH * _VECTORS
"""Bytes of a row that :func:`add_rows` takes at a time: two documents each."""
_TABLE = 16
_LANES, _PARTS = 16, 4

_Bytes = npt.NDArray[np.uint8]
_Typed = tuple[Any, Callable[..., Any]]


def _constant(value: int) -> Any:  # noqa: ANN401 - llvmlite has no types
    return ir.Constant(ir.VectorType(_BYTE, _WIDTH), [value] * _WIDTH)


def _looked_up(builder: Any, table: Any, codes: Any) -> Any:  # noqa: ANN401 - llvmlite has no types
    """The byte of ``table`` that each code names."""
    found = ir.Constant(codes.type, ir.Undefined)
    for lane in map(_NUMBER, range(_WIDTH)):
        code = builder.zext(builder.extract_element(codes, lane), _NUMBER)
        found = builder.insert_element(found, builder.extract_element(table, code), lane)
    return found


def _add_row(builder: Any, table: Any, codes: list[Any], totals: list[Any]) -> None:  # noqa: ANN401 - untyped
    """Low halves of all vectors of codes to the first half of the totals, high halves to the second."""
    low = [builder.and_(one, _constant(_TABLE - 1)) for one in codes]
    high = [builder.lshr(one, _constant(4)) for one in codes]
    for halves, total in zip(low + high, totals, strict=True):
        builder.store(builder.add(builder.load(total), _looked_up(builder, table, halves)), total)


def _add_rows(
    _: Any,  # noqa: ANN401 - untyped
    codes: Any,  # noqa: ANN401 - untyped
    starts: Any,  # noqa: ANN401 - untyped
    tables: Any,  # noqa: ANN401 - untyped
    _rows: Any,  # noqa: ANN401 - untyped
    _first: Any,  # noqa: ANN401 - untyped
    sums: Any,  # noqa: ANN401 - untyped
    _place: Any,  # noqa: ANN401 - untyped
) -> _Typed:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - untyped
        begin, origins, looked, out = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 1, 2, 5))
        totals = [cgutils.alloca_once_value(builder, _constant(0)) for _ in range(2 * _VECTORS)]
        twice = ir.Constant(ir.VectorType(_NUMBER, _WIDTH), [*range(_TABLE)] * (_WIDTH // _TABLE))
        with cgutils.for_range(builder, arguments[3]) as loop:
            table = load_vector(builder, looked, builder.mul(loop.index, _WORD(_TABLE)), _BYTE, _TABLE, 1)
            table = builder.shuffle_vector(table, table, twice)
            origin = builder.add(builder.load(builder.gep(origins, [loop.index])), arguments[4])
            places = [builder.add(origin, _WORD(_WIDTH * vector)) for vector in range(_VECTORS)]
            _add_row(builder, table, [load_vector(builder, begin, at, _BYTE, _WIDTH, 1) for at in places], totals)
        half = builder.udiv(
            builder.extract_value(context.make_array(sums)(context, builder, arguments[5]).shape, 0), _WORD(2)
        )
        for number, total in enumerate(totals):
            at = builder.add(arguments[6], _WORD(_WIDTH * (number % _VECTORS)))
            at = builder.add(at, half) if number >= _VECTORS else at
            target = builder.bitcast(builder.gep(out, [at]), ir.VectorType(_BYTE, _WIDTH).as_pointer())
            builder.store(builder.load(total), target, align=1)
        return context.get_dummy_value()

    arrays = [contiguous(one) for one in (codes, starts, tables, sums)]
    return types.void(*arrays[:3], types.uint64, types.uint64, arrays[3], types.uint64), generate


def _bounds_reaching(
    _: Any,  # noqa: ANN401 - untyped
    sums: Any,  # noqa: ANN401 - untyped
    _start: Any,  # noqa: ANN401 - untyped
    levels: Any,  # noqa: ANN401 - untyped
    _place: Any,  # noqa: ANN401 - untyped
    _unit: Any,  # noqa: ANN401 - untyped
    _floor: Any,  # noqa: ANN401 - untyped
) -> _Typed:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - untyped
        totals, said = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 2))
        vector = ir.VectorType(_FLOAT, _LANES)
        units, floors = (everywhere(builder, arguments[n], vector) for n in (4, 5))
        found = _WORD(0)
        for part in range(_PARTS):
            total, level = (builder.add(arguments[n], _WORD(part * _LANES)) for n in (1, 3))
            sum_ = builder.fptrunc(load_vector(builder, totals, total, _DOUBLE, _LANES, 8), vector)
            codes = builder.zext(load_vector(builder, said, level, _BYTE, _LANES, 1), ir.VectorType(_NUMBER, _LANES))
            bound = builder.fadd(sum_, builder.fmul(builder.sitofp(codes, vector), units))
            bits = builder.bitcast(builder.fcmp_ordered(">=", bound, floors), ir.IntType(_LANES))
            found = builder.or_(found, builder.shl(builder.zext(bits, _WORD), _WORD(part * _LANES)))
        return found

    arrays = [contiguous(one) for one in (sums, levels)]
    scalars = (types.uint64, types.float32, types.float32)
    return types.uint64(arrays[0], types.uint64, arrays[1], *scalars), generate


add_rows = cast(
    "Callable[[_Bytes, npt.NDArray[np.uint64], _Bytes, np.uint64, np.uint64, _Bytes, np.uint64], None]",
    intrinsic(_add_rows),
)
"""In a kernel: ``add_rows(codes, starts, tables, rows, first, sums, place)`` looks :data:`ROW_PART` bytes of each of
``rows`` rows up, which begin at ``codes[starts[row] + first]``, and writes the sums over the rows.

``tables`` holds sixteen bytes for each row: what it adds for each code. The low halves of the bytes go to
``sums[place]`` and behind it, the high halves as far behind the middle of ``sums``. Sums wrap at 256.
"""

bounds_reaching = cast(
    "Callable[[npt.NDArray[np.float64], np.uint64, _Bytes, np.uint64, np.float32, np.float32], np.uint64]",
    intrinsic(_bounds_reaching),
)
"""In a kernel: ``bounds_reaching(sums, start, levels, place, unit, floor)`` has bit ``i`` (0 to 63) set where
``sums[start + i] + unit * levels[place + i]``, each step rounded to float32, is at least ``floor``. The memory of both
goes on for 64 elements, whatever their length says.
"""
