"""Numba behind one typed decorator.

Kernels are compiled on first use, cached on disk, and release the GIL. Numba's own decorator has no types, so that a
strict type checker would lose every function it touches.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy.typing as npt
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

_LOGGER = logging.getLogger(__name__)
_INNER: dict[str, Any] = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

P = ParamSpec("P")
R = TypeVar("R")
Array = TypeVar("Array", bound=npt.NDArray[Any])


class _Cache(FunctionCache):  # type: ignore[misc]  # Numba has no types
    """Numba's cache on disk, with two differences.

    Numba reads a function's index before it checks whether the index matches this source. An index names modules of the
    package. An earlier version's index, which an upgrade leaves behind, may name removed modules: its content is then
    useless, and it is emptied.

    Numba registers everything that it can compile before it loads compiled code. That takes longer than importing
    Numba, in every process; compiled code needs only its runtime.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for a signature, None if it is not compiled."""
        rtsys.initialize(target_context)
        try:
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except (ImportError, AttributeError):
            self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled code for a signature; if Numba loses track of it, the next process compiles it again."""
        try:
            super().save_overload(sig, data)
        except RuntimeError as error:  # seen once, on a busy machine: "no compiled object yet for Library …"
            _LOGGER.info("compiled code of %s is not kept: %s", data.entry_point, error)


@functools.cache
def _sources() -> str:
    """SHA-256 of all modules of this package that have kernels.

    Numba checks only the file of a kernel: after a change in another file it would keep the old inlined code.
    """
    package = Path(__file__).parents[1]
    texts = (path.read_bytes() for path in sorted(package.rglob("*.py")))
    return hashlib.sha256(b"\0".join(text for text in texts if b"harness.data.jit" in text)).hexdigest()


def _compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Compile ``function`` on first use, without the GIL, and keep it on disk."""
    dispatcher = numba.njit(nogil=True, **options)(function)
    cache = _Cache(function)
    cache._cache_file._version = f"{numba.__version__} {_sources()}"  # noqa: SLF001 - an index of another is not read
    dispatcher._cache = cache  # noqa: SLF001 - what cache=True does, with Numba's own class
    compiler = dispatcher._compiler  # noqa: SLF001 - compiled code from the cache does not pass it
    compiler.compile = delay_interrupts(compiler.compile)
    return cast("Callable[P, R]", dispatcher)


def delay_interrupts(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` with SIGINT raised after each call in place of during it.

    LLVM calls back into Python while it compiles. Python only prints a KeyboardInterrupt that such a call raises, and
    the run would go on.
    """

    @functools.wraps(function)
    def delayed(*args: P.args, **keywords: P.kwargs) -> R:
        former = signal.getsignal(signal.SIGINT)
        if former is None or threading.current_thread() is not threading.main_thread():
            return function(*args, **keywords)
        interrupted = threading.Event()
        signal.signal(signal.SIGINT, lambda *_: interrupted.set())
        try:
            return function(*args, **keywords)
        finally:
            signal.signal(signal.SIGINT, former)
            if interrupted.is_set():
                signal.raise_signal(signal.SIGINT)

    return delayed


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` with Numba: no Python, no GIL, cached on disk."""
    return _compiled(function)


def inline_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`kernel`, for small functions called from kernels: LLVM inlines them into each caller."""
    return _compiled(function, inline="never")


def reordering_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`inner_kernel`; sums may be added in any order, and products be fused with them."""
    return _compiled(function, fastmath={"reassoc", "contract"}, **_INNER)


def inner_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`inline_kernel`, for functions that only kernels call (Python would crash in the attempt).

    They work on buffers of their caller, so that no references are counted (which takes a locked instruction for every
    array used, and slows short queries), and they have no entry for Python (which would take a third of the time to
    compile). A kernel that makes its own array does not compile.
    """
    return _compiled(function, **_INNER)


def read_only(array: Array) -> Array:
    """Return a read-only view: arrays in memory and mapped from disk then share one compiled signature."""
    view = array.view()
    view.flags.writeable = False
    return view
