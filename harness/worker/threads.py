"""Work in threads that can be interrupted: several trials at a time, or work in parallel with the caller."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Generic, TypeVar

_POLL_S = 0.2
Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item], *, jobs: int) -> list[Result]:
    """Return ``work`` of every item, ``jobs`` of them at a time in threads, in the order of the items.

    One job runs in the calling thread. When anything is raised here, an interruption too, KeyboardInterrupt is raised
    in the threads that still work, and all of them are over before it is passed on.
    """
    if jobs == 1:
        return list(map(work, items))
    threads = _Threads(jobs, "trial")
    try:
        futures = [threads.submit(partial(work, item)) for item in items]
        # in short waits: the system may hand a signal to another thread, which does not end a long one in this thread
        waiting: set[Future[Result]] = set(futures)
        while waiting:
            done, waiting = wait(waiting, _POLL_S, FIRST_EXCEPTION)
            for future in done:
                future.result()
        return [future.result() for future in futures]
    finally:
        threads.end()


class Aside(Generic[Result]):
    """Work in a thread parallel to the caller, which is interrupted when the ``with`` block ends before it."""

    def __init__(self) -> None:
        self._threads = _Threads(1, "aside")
        self._future: Future[Result] | None = None

    def begin(self, work: Callable[[], Result]) -> None:
        """Start ``work``, once."""
        self._future = self._threads.submit(work)

    def result(self) -> Result | None:
        """Return the work's result when it is over; raises its exception. None if nothing was begun."""
        return None if self._future is None else self._future.result()

    def __enter__(self) -> Aside[Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.end()


class _Threads:
    """A pool of threads whose work can be interrupted."""

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._busy: set[int] = set()

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        def run() -> Result:
            self._busy.add(threading.get_ident())
            try:
                return work()
            finally:
                self._busy.discard(threading.get_ident())

        return self._pool.submit(run)

    def end(self) -> None:
        """Wait until all threads are over; unfinished threads are interrupted, and again by every further Ctrl-C."""
        while True:
            for thread in tuple(self._busy):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))
            try:
                self._pool.shutdown(cancel_futures=True)
            except KeyboardInterrupt:
                continue
            return
