"""A worker with every process that it started: their use of resources, and their end, even if it died before them.

A worker leads its own session and process group, which holds its children unless they leave it; children that did are
found by an environment variable that they inherited.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from harness.worker.spawn import MARK_VARIABLE

_POLL_S = 0.02
_GUARD = "trap '' TERM; read _ || kill -9 0"


def guard_group() -> subprocess.Popen[bytes]:
    """Let the group of this process, which leads it, end with its parent: when standard input ends, all are killed.

    After a job the parent writes nothing to that pipe but a line before the next job, which ends the guard. Without
    such a line the pipe ends only when the parent is gone. A separate process watches it, because native code may keep
    every thread of this one from running.
    """
    nothing = subprocess.DEVNULL
    return subprocess.Popen(["/bin/sh", "-c", _GUARD], stdout=nothing, stderr=nothing)


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the process is over. It is not reaped yet, so that its group's number stays its own."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def family_memory(leader: int, limit: int) -> int:
    """Return the bytes that a process, all that it started and all that is left in its session hold in memory.

    Up to ``limit`` it is the sum of their resident memory, which is cheap and counts a page that several share several
    times; above it such a page counts once if the system can tell (Linux).
    """
    members = _family(leader)
    resident = sum(_bytes(member, "rss") for member in members)
    if resident <= limit:
        return resident
    return sum(_bytes(member, "pss") for member in members)


class ResourceUse(NamedTuple):
    """Bytes of memory: ``resident``, and of these ``anonymous``, memory that is not a copy of a file."""

    resident: int
    anonymous: int


def started_by(leader: int) -> list[psutil.Process]:
    """Return the processes that a worker started, and their descendants, without the process that guards it."""
    guard = ["/bin/sh", "-c", _GUARD]
    started = []
    with suppress(psutil.Error):
        for child in psutil.Process(leader).children(recursive=True):
            with suppress(psutil.Error):  # gone in the meantime
                if child.cmdline() not in ([], guard):  # a zombie has no command
                    started.append(child)
    return started


def memory_of(processes: Iterable[psutil.Process]) -> ResourceUse:
    """Return the joint use of processes; a page shared by several counts once if the system can tell (Linux).

    Shared memory without a file name, such as PostgreSQL's buffers, is anonymous.
    """
    used = [_used(process) for process in processes]
    return ResourceUse(sum(resident for resident, _ in used), sum(anonymous for _, anonymous in used))


def _used(process: psutil.Process) -> ResourceUse:
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:  # gone in the meantime, or not Linux, or another user's
        resident = _bytes(process, "rss")
        return ResourceUse(resident, resident)
    kibibytes = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines[1:])}
    anonymous = kibibytes.get("Pss_Anon", 0) + kibibytes.get("Pss_Shmem", 0)
    return ResourceUse(kibibytes.get("Pss", 0) * 1024, anonymous * 1024)


def _family(leader: int) -> list[psutil.Process]:
    members = set()
    for number in psutil.pids():
        with suppress(OSError, psutil.Error):  # gone in the meantime
            if os.getsid(number) == leader:
                members.add(psutil.Process(number))
    with suppress(psutil.Error):  # the processes that left the session
        members |= {child for child in psutil.Process(leader).children(recursive=True) if child.is_running()}
    return list(members)


def _bytes(process: psutil.Process, kind: str) -> int:
    try:
        memory = process.memory_info() if kind == "rss" else process.memory_full_info()
    except psutil.Error:  # gone in the meantime
        return 0
    return int(getattr(memory, kind, memory.rss))


def end_family(process: subprocess.Popen[bytes], mark: str, *, grace_s: float) -> None:
    """End a process by SIGTERM, by SIGKILL after ``grace_s`` or an interruption, and then all that it started.

    ``mark`` is the value of MARK_VARIABLE in its environment.
    """
    try:
        if not has_ended(process):
            _signal_group(process.pid, signal.SIGTERM)
            deadline = time.monotonic() + grace_s
            while not has_ended(process) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        _kill_strays(mark)


def has_descendants(leader: int, mark: str, before: Collection[int]) -> bool:
    """Return whether anything runs that a worker started, except its guard.

    ``mark`` is as in :func:`end_family`; ``before`` are the processes of the machine when the worker got its job.
    """
    guard = ["/bin/sh", "-c", _GUARD]
    for number in set(psutil.pids()).difference(before):
        with suppress(OSError, psutil.Error):  # gone in the meantime, or another user's
            member = psutil.Process(number)
            marked = os.getsid(number) == leader or member.environ().get(MARK_VARIABLE) == mark
            if marked and number != leader and member.cmdline() != guard:
                return True
    return False


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS refuses a group with only its dead leader left
        return


def _kill_strays(mark: str) -> None:
    for number in psutil.pids():
        try:
            process = psutil.Process(number)
            if process.environ().get(MARK_VARIABLE) == mark:
                process.kill()
        except psutil.Error:  # gone in the meantime, or another user's
            continue
