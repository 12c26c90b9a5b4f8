"""Numba behind one typed decorator.

Kernels are compiled on first use, cached on disk, and release the GIL. Numba's own decorator has no types, so that a
strict type checker would lose every function it touches.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

__all__ = ["inline_kernel", "inner_kernel", "kernel", "prefetch", "prefetch_one", "reordering_kernel"]

P = ParamSpec("P")
R = TypeVar("R")


class _Cache(FunctionCache):  # type: ignore[misc]  # Numba has no types
    """Numba's cache on disk, which reads a function's index before it looks whether that is of this source.

    An index names modules of the package. Those of an earlier version, which an upgrade leaves behind, may name some
    that are gone: what it holds is of no use then, and it is emptied.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401 - Numba has no types
        """The compiled code for a signature, None where there is none."""
        try:
            return super().load_overload(sig, target_context)
        except (ImportError, AttributeError):
            self.flush()
            return None


@functools.cache
def _sources() -> str:
    """SHA-256 of all modules of this package that have kernels.

    Numba looks at the file of a kernel alone: after a change in another it would go on with what it inlined from that.
    """
    texts = (path.read_bytes() for path in sorted(Path(__file__).parent.rglob("*.py")))
    return hashlib.sha256(b"\0".join(text for text in texts if b"harness.jit" in text)).hexdigest()


def _compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:  # noqa: ANN401 - Numba's own options
    """Compile ``function`` on first use, without the GIL, and keep it on disk."""
    dispatcher = numba.njit(nogil=True, **options)(function)
    cache = _Cache(function)
    cache._cache_file._version = f"{numba.__version__} {_sources()}"  # noqa: SLF001 - an index of another is not read
    dispatcher._cache = cache  # noqa: SLF001 - what cache=True does, with Numba's own class
    return cast("Callable[P, R]", dispatcher)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` with Numba: no Python, no GIL, cached on disk."""
    return _compiled(function)


def inline_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`kernel`, for small functions called from kernels: LLVM inlines them into each caller."""
    return _compiled(function, inline="never")


def inner_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`inline_kernel`, for functions that only kernels call (Python would crash in the attempt).

    They work on buffers of their caller, so that no references are counted (which takes a locked instruction for every
    array that is touched, and short queries feel it), and they have no entry for Python (which would take a third
    of the time to compile). One that makes an array of its own does not compile.
    """
    return _compiled(function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def reordering_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`inline_kernel`, but sums may be taken in any order and products fused with them; nothing else."""
    return _compiled(function, inline="never", fastmath={"reassoc", "contract"})


def _ask_for(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:  # noqa: ANN401 - Numba has no types
    """LLVM's prefetch of the element of an array (the first argument) at the places that the others give."""
    values, *places = arguments
    indices = [context.cast(builder, *one, types.intp) for one in zip(places, kinds[1:], strict=True)]
    view = context.make_array(kinds[0])(context, builder, values)
    item = cgutils.get_item_pointer(context, builder, kinds[0], view, indices)
    address, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    hint = ir.FunctionType(ir.VoidType(), [address, number, number, number])
    function = builder.module.declare_intrinsic("llvm.prefetch", [address], hint)
    to_read, keep, data = number(0), number(3), number(1)
    builder.call(function, [builder.bitcast(item, address), to_read, keep, data])
    return context.get_dummy_value()


def _prefetch(_: Any, array: Any, row: Any, column: Any) -> tuple[Any, Callable[..., Any]]:  # noqa: ANN401 - untyped
    return types.void(array, row, column), lambda context, builder, signature, arguments: _ask_for(
        context, builder, signature.args, arguments
    )


def _prefetch_one(_: Any, array: Any, place: Any) -> tuple[Any, Callable[..., Any]]:  # noqa: ANN401 - untyped
    return types.void(array, place), lambda context, builder, signature, arguments: _ask_for(
        context, builder, signature.args, arguments
    )


prefetch = cast("Callable[[npt.NDArray[Any], int, int], None]", intrinsic(_prefetch))
"""In a kernel: ask for the cache line that holds ``array[row, column]``, and go on without waiting for it."""
prefetch_one = cast("Callable[[npt.NDArray[Any], Any], None]", intrinsic(_prefetch_one))
"""The same for ``array[place]`` of an array with one axis."""
