"""How busy other processes kept the machine, from injected readings."""

from __future__ import annotations

import os
import time

import pytest

from harness.store.cpu_use import (
    BUSY_LOAD,
    BUSY_SHARE,
    SHORTEST_S,
    CpuReading,
    OtherProcesses,
    other_processes,
    read_cpu,
)


def reading(clock_s: float, all_s: float, own_s: float, load: float | None = 0.5) -> CpuReading:
    return CpuReading(clock_s, all_s, own_s, 2, load)


def test_the_time_of_others_is_all_time_less_that_of_the_own_tree() -> None:
    others = other_processes("search", reading(10, 100, 5), reading(14, 107, 8, 1.5))
    assert others == OtherProcesses("search", 4.0, 2, 1.0, 0.5, 1.5)
    assert others.busy, "one of two cores"


@pytest.mark.parametrize(
    ("all_s", "own_s", "used"),
    [(0.0, 0.0, 0.0), (1.0, 1.0, 0.0), (1.0, 1.02, 0.0), (9.0, 1.0, 2.0), (1.25, 0.5, 0.75)],
)
def test_it_is_neither_negative_nor_more_than_the_cores(all_s: float, own_s: float, used: float) -> None:
    assert other_processes("search", reading(0, 0, 0), reading(1, all_s, own_s)).used_cores == used


@pytest.mark.parametrize(
    ("seconds", "used", "load", "busy"),
    [
        (1.0, 0.39, 9.0, False),
        (1.0, 0.4, 0.1, True),
        (1.0, 2.0, None, True),
        (SHORTEST_S / 2, 2.0, 4.0, False),
        (SHORTEST_S / 2, 0.0, 4.1, True),
        (SHORTEST_S / 2, 2.0, None, False),
        (60.0, None, 4.0, False),
        (60.0, None, 4.1, True),
    ],
)
def test_a_fifth_of_the_cores_is_busy_and_the_load_decides_what_is_too_short_or_may_be_the_server(
    seconds: float, used: float | None, load: float | None, *, busy: bool
) -> None:
    assert (BUSY_SHARE, BUSY_LOAD) == (0.2, 2.0), "as the page on timing says"
    assert OtherProcesses("search", seconds, 2, used, load).busy is busy


def test_of_a_server_only_the_load_is_known() -> None:
    others = other_processes("search", reading(0, 0, 0, 5.0), reading(9, 18, 1), server=True)
    assert (others.used_cores, others.busy) == (None, True)


def test_other_processes_are_ignored_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_OTHER_PROCESSES", "ignore")
    others = other_processes("search", read_cpu(), read_cpu())
    assert (others.used_cores, others.load_before, others.busy) == (None, None, False)


def test_work_of_this_process_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_OTHER_PROCESSES", raising=False)
    before, ended = read_cpu(), time.process_time() + 0.05
    while time.process_time() < ended:
        pass
    after = read_cpu()
    assert after.process_s - before.process_s > 0.03  # counted in hundredths of a second, each end rounded down
    assert after.all_s is not None
    assert before.all_s is not None
    assert after.all_s >= before.all_s
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert after.cores == cores
