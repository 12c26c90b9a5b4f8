"""Numba behind one typed decorator.

Kernels are compiled on first use, cached on disk, and release the GIL. Numba's own decorator has no types, so that a
strict type checker would lose every function it touches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

__all__ = ["inline_kernel", "kernel", "reordering_kernel"]

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` with Numba: no Python, no GIL, cached on disk."""
    return cast("Callable[P, R]", numba.njit(cache=True, nogil=True)(function))


def inline_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`kernel`, for small functions called from kernels: LLVM inlines them into each caller."""
    return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, inline="never")(function))


def reordering_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`inline_kernel`, but sums may be taken in any order and products fused with them; nothing else."""
    compiled = numba.njit(cache=True, nogil=True, inline="never", fastmath={"reassoc", "contract"})(function)
    return cast("Callable[P, R]", compiled)
