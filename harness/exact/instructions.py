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

__all__ = ["contiguous", "data_of", "everywhere", "load_vector", "lowest_bit", "prefetch_one"]

_NUMBER = ir.IntType(32)

_Typed = tuple[Any, Callable[..., Any]]


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


def _prefetch_one(_: Any, array: Any, place: Any) -> _Typed:  # noqa: ANN401 - untyped
    return types.void(array, place), lambda context, builder, signature, arguments: _ask_for(
        context, builder, signature.args, arguments
    )


def _lowest_bit(_: Any, _word: Any) -> _Typed:  # noqa: ANN401 - untyped
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - untyped
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate


def everywhere(builder: Any, value: Any, vector: Any) -> Any:  # noqa: ANN401 - untyped
    """A vector of that type with one value in all places."""
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _NUMBER(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_NUMBER, vector.count), [0] * vector.count))


prefetch_one = cast("Callable[[npt.NDArray[Any], Any], None]", intrinsic(_prefetch_one))
"""In a kernel: ask for the cache line that holds ``array[place]``, and go on without waiting for it."""

lowest_bit = cast("Callable[[np.uint64], np.uint64]", intrinsic(_lowest_bit))
"""In a kernel: the number of the lowest bit that is set in a word that is not 0."""
