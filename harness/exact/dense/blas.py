"""BLAS on one thread, where the caller's own threads divide the work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["single_threaded_blas"]


class _Limit:
    """The limit is the process's, so that it is lifted by the last of its concurrent users, not by the first."""

    def __init__(self) -> None:
        self.controller = ThreadpoolController()
        self.lock = threading.Lock()
        self.users = 0
        self.limited: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.users == 0:
                self.limited = self.controller.limit(limits=1, user_api="blas")
            self.users += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.limited.restore_original_limits()


@cache
def _limit() -> _Limit:
    """Made once: looking for loaded libraries takes milliseconds, and NumPy's BLAS is there from the start."""
    return _Limit()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Products of NumPy take one thread each until the last concurrent user is done; then as many as before."""
    with _limit():
        yield
