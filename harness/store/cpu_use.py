"""Other processes' use of the processor during a timed phase.

Read once before and once after each timed phase, never for a query. The time that all processes spent on the cores that
this process may use, less the time of this process and all that it started, is the time of the others.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

VARIABLE, IGNORE = "HARNESS_OTHER_PROCESSES", "ignore"
BUSY_SHARE = 0.2
"""The share of the cores from which on the machine counts as busy: one core half busy, on two cores."""
SHORTEST_S = 0.5
"""Seconds from which on processor times, which the system counts in hundredths of a second, say how busy it was."""
BUSY_LOAD = 2.0
"""Runnable processes for each core above which a phase that cannot be judged otherwise is one of a busy machine."""
_IDLE = frozenset({"idle", "iowait", "guest", "guest_nice"})
"""Times that no process took, and times that are part of another one."""


@dataclass(frozen=True, slots=True)
class CpuReading:
    """Seconds of a clock, of all processes on these cores, and of this process and all that it started.

    ``all_s`` is None if other processes are not to be measured. ``load`` is the average number of runnable processes
    over the last minute; also None then, and if the system does not report it.
    """

    clock_s: float
    all_s: float | None
    process_s: float
    cores: int
    load: float | None = None


@dataclass(frozen=True, slots=True)
class OtherProcesses:
    """Other processes' use while a phase ran.

    Attributes:
        phase: The name of the phase, for readers.
        seconds: Duration of the phase.
        cores: Cores that the measured process may use.
        used_cores: Cores that other processes used on average, at most ``cores``; None if one of them may be the
            measured server, or they are not to be measured.
        load_before: Runnable processes in the minute before, including the harness's.
        load_after: The same in the minute until the end.
    """

    phase: str
    seconds: float
    cores: int
    used_cores: float | None
    load_before: float | None = None
    load_after: float | None = None

    @property
    def busy(self) -> bool:
        """Whether other processes took so much that times do not represent a quiet machine."""
        if self.used_cores is not None and self.seconds >= SHORTEST_S:
            return self.used_cores >= BUSY_SHARE * self.cores
        return self.load_before is not None and self.load_before > BUSY_LOAD * self.cores


def read_cpu() -> CpuReading:
    """Return the processor times of now; takes some milliseconds.

    With ``HARNESS_OTHER_PROCESSES=ignore`` other processes are not looked at: no machine is busy then.
    """
    import psutil

    if os.environ.get(VARIABLE) == IGNORE:
        return CpuReading(time.perf_counter(), None, 0.0, os.cpu_count() or 1)
    numbers = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    process_times = os.times()
    process_s = process_times.user + process_times.system + process_times.children_user + process_times.children_system
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            times = process.cpu_times()
            process_s += times.user + times.system + times.children_user + times.children_system
    by_core = psutil.cpu_times(percpu=True)
    cores = [by_core[number] for number in numbers or range(len(by_core)) if number < len(by_core)]
    all_s = sum(seconds for core in cores for name, seconds in core._asdict().items() if name not in _IDLE)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return CpuReading(time.perf_counter(), all_s, process_s, len(cores), load)


def other_processes(phase: str, before: CpuReading, after: CpuReading, *, server: bool = False) -> OtherProcesses:
    """Return other processes' use between two readings; with ``server`` only the load, which includes earlier time."""
    seconds = max(after.clock_s - before.clock_s, 0.0)
    used = None
    if not server and before.all_s is not None and after.all_s is not None:
        others_s = (after.all_s - before.all_s) - (after.process_s - before.process_s)
        used = min(max(others_s / seconds, 0.0), float(after.cores)) if seconds > 0 else 0.0
    return OtherProcesses(phase, seconds, after.cores, used, before.load, after.load)
