"""Several jobs at a time: their order, and their end when one of them or the user ends everything."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from harness.worker.threads import side_by_side


@pytest.mark.parametrize("jobs", [1, 2, 8])
def test_results_keep_the_order_of_the_items(jobs: int) -> None:
    def work(item: int) -> int:
        time.sleep(0.02 * (5 - item))
        return item * item

    assert side_by_side(work, range(5), jobs=jobs) == [0, 1, 4, 9, 16]


def test_jobs_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3)
    assert side_by_side(lambda _: meeting.wait(30) >= 0, range(3), jobs=3) == [True] * 3


class Work:
    """Never ends by itself; remembers how it ended."""

    def __init__(self, jobs: int) -> None:
        self.started = threading.Semaphore(0)
        self.interrupted: list[int] = []
        self._all_begun = threading.Barrier(jobs)

    def __call__(self, item: int) -> None:
        self._all_begun.wait(30)
        try:
            self.started.release()
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            self.interrupted.append(item)  # two threads that count in one number may lose one
            raise


def test_an_interruption_reaches_every_thread_and_starts_nothing_more() -> None:
    work = Work(2)

    def interrupt() -> None:
        for _ in range(2):
            work.started.acquire()
        signal.raise_signal(signal.SIGINT)

    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            side_by_side(work, range(5), jobs=2)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert sorted(work.interrupted) == [0, 1]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("trial")]


def test_a_defect_in_one_ends_the_others() -> None:
    work = Work(1)

    def one_fails(item: int) -> None:
        if item == 0:
            work.started.acquire()
            raise RuntimeError("a defect")
        work(item)

    with pytest.raises(RuntimeError, match="a defect"):
        side_by_side(one_fails, range(2), jobs=2)
    assert work.interrupted == [1]
