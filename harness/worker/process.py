"""Run one job in a spawned process: its progress shown by the parent, its memory watched, its end explained.

The child gets the path of a job folder and replies through one pipe, a JSON line per message. It is spawned, never
forked, in its own session, so that the terminal's Ctrl-C reaches only the parent and the parent can end the child with
every process that it started. A child whose parent dies is ended too.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil

from harness.data.progress import Progress
from harness.engines.interface import LEFT_BEHIND
from harness.errors import EngineFailureError, EngineTimeoutError, HarnessError, MemoryLimitError
from harness.store.machine_state import killed_error
from harness.store.record_files import decoder
from harness.worker import spawn
from harness.worker.descendants import (
    ResourceUse,
    end_family,
    family_memory,
    has_descendants,
    has_ended,
    memory_of,
    started_by,
)
from harness.worker.failure import RemoteError, ReportedError
from harness.worker.spawn import WorkerProcess

_POLL_S = 0.02
_FAMILY_POLL_S = 0.2
"""Less often: every process of the machine is looked at."""
_LOG_LINES = 40
_GRACE_S = 3.0
"""Time between SIGTERM and SIGKILL, in which engines tidy up."""
_LINGER_S = 10.0
_MEBIBYTE = 1024**2
_messages = logging.getLogger("harness")


@dataclass(frozen=True, slots=True)
class FinishedProcess:
    """A job that ended well: memory in bytes as the parent saw it (None if it could not), and its last log lines.

    Both peaks include the server processes that an engine started, whose own peak is ``peak_server_bytes``; None
    without any.
    """

    peak_rss_bytes: int | None
    peak_anonymous_bytes: int | None
    log: tuple[str, ...]
    peak_server_bytes: int | None = None


class Worker:
    """One job in one process: with :meth:`run` everything is over when it returns or raises."""

    def __init__(
        self,
        job: Path,
        *,
        deadline_s: float | None = None,
        memory_limit_bytes: int | None = None,
    ) -> None:
        """``deadline_s`` limits the job's own work: its clock stops while the job waits for clients.

        ``memory_limit_bytes`` is for the resident memory of the process and of all that it started, at any time.
        """
        self._job = job
        self._log = job / "log.txt"
        self._deadline_s, self._memory_limit_bytes = deadline_s, memory_limit_bytes
        self._worked_s, self._working_since = 0.0, time.monotonic()
        self._waiting = False
        self._on_waiting: Callable[[], None] | None = None
        self._family_seen = 0.0
        self._finished = self._stays = False
        self._measures_memory = True
        self.started = False
        """True from the worker's first message on, which precedes everything that its engine does."""
        self._reported: ReportedError | None = None
        self._worker_peak_rss = 0
        self._servers, self._servers_seen, self._peak_servers = ResourceUse(0, 0), 0.0, 0
        self._peak_rss: int | None = None
        self._base_anonymous: int | None = None
        self._peak_anonymous: int | None = None

    def run(self, progress: Progress, on_waiting: Callable[[], None] | None = None) -> FinishedProcess:
        """Run the job to its end; ``on_waiting`` is called when it waits for clients of its index.

        Raises RemoteError for a failure that the job reported, EngineFailureError when the process died, MachineError
        when the system ended it or had no room left, EngineTimeoutError when it outlived the deadline and
        MemoryLimitError when it outgrew its limit, each with the last lines of its log.
        """
        with self._log.open("wb") as log:
            worker = spawn.take_worker(log)
        self._on_waiting = on_waiting
        self._run_in(worker, progress)
        peak = None if self._peak_anonymous is None else max(0, self._peak_anonymous - (self._base_anonymous or 0))
        return FinishedProcess(self._peak_rss, peak, tuple(self._log_tail()), self._peak_servers or None)

    def run_pooled(
        self, idle: WorkerProcess | None, progress: Progress
    ) -> tuple[FinishedProcess, WorkerProcess | None]:
        """Run the job in an ``idle`` worker, or in a new one, without figures of memory; raises as :meth:`run` does.

        With the result comes the worker if it is idle again. It is not, and has ended, if it left anything running or
        left its process in a different state than before the job.
        """
        self._measures_memory = False
        with self._log.open("wb") as log:
            worker = spawn.take_worker(log) if idle is None else idle
        stays = self._run_in(worker, progress, first=idle is None, last=False)
        return FinishedProcess(None, None, tuple(self._log_tail())), worker._replace(early_log=None) if stays else None

    def _run_in(self, worker: WorkerProcess, progress: Progress, *, first: bool = True, last: bool = True) -> bool:
        """Send the job to a worker and follow it to its end; return whether the worker waits for another one."""
        process, stays = worker.process, False
        before = () if last else psutil.pids()
        try:
            spawn.send_job(worker, self._job, first=first, last=last)
            self._listen(process, progress)
            stays = self._stays and not has_descendants(process.pid, worker.mark, before)
        finally:
            if not stays:
                end_family(process, worker.mark, grace_s=0.0 if self._stays else _GRACE_S)
            worker.keep_early_log(self._log)
            for line in self._log_tail():  # also after Ctrl-C, when the log is never read
                if line.startswith(LEFT_BEHIND):
                    _messages.warning(line)
        if not self._stays and (process.returncode != 0 or not self._finished):
            raise self._explain(process.returncode)
        return stays

    def _log_tail(self) -> list[str]:
        """Return the last lines that the worker wrote to standard error (which includes standard output)."""
        with self._log.open(errors="replace") as log:
            return [line.rstrip("\n") for line in deque(log, maxlen=_LOG_LINES)]

    def _listen(self, process: subprocess.Popen[bytes], progress: Progress) -> None:
        stdout = process.stdout
        if stdout is None:
            raise AssertionError("the worker was started without a pipe")
        pipe, pending = stdout.fileno(), b""
        self._working_since = time.monotonic()
        watched = psutil.Process(process.pid)
        while True:
            ended = has_ended(process)  # checked before reading, so that no output is missed
            readable, _, _ = select.select([pipe], [], [], 0 if ended else _POLL_S)
            if self._measures_memory:
                self._watch(watched)
            self._check_deadline()
            self._check_memory(process.pid)
            if readable:
                received = os.read(pipe, 65536)
                if not received:
                    self._await_exit(process)
                    return
                # the data read may end inside a message, whose rest comes with the next piece
                *lines, pending = (pending + received).split(b"\n")
                for line in lines:
                    self._take(orjson.loads(line), progress, process.pid)
                if self._stays:
                    return
            elif ended:  # a process that it forked may keep the pipe open
                return

    def _pause(self) -> None:
        """Stop the clock of the deadline."""
        self._worked_s += time.monotonic() - self._working_since
        self._waiting = True

    def _resume(self) -> None:
        """Let the clock of the deadline go on."""
        self._working_since, self._waiting = time.monotonic(), False

    def _check_deadline(self) -> None:
        worked_s = self._worked_s + (0.0 if self._waiting else time.monotonic() - self._working_since)
        if self._deadline_s is not None and worked_s > self._deadline_s:
            raise EngineTimeoutError(
                f"still running after {self._deadline_s:g} s",
                fix="give it more time with --deadline, or look at why it hangs",
                log=self._log_tail(),
            )

    def _check_memory(self, leader: int) -> None:
        limit, used, whose = self._memory_limit_bytes, self._worker_peak_rss, ""
        if limit is None:
            return
        if used <= limit and time.monotonic() - self._family_seen > _FAMILY_POLL_S:
            used, whose = family_memory(leader, limit), " with the processes that it started"
            self._family_seen = time.monotonic()
        if used > limit:
            raise MemoryLimitError(
                f"used {-(-used // _MEBIBYTE):,} MiB of memory{whose}, "
                f"more than the {limit // _MEBIBYTE:,} MiB it was given",
                fix="give it more with --memory-limit, or make it need less",
                log=self._log_tail(),
            )

    def _await_exit(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _LINGER_S
        while not has_ended(process):
            if time.monotonic() > deadline:
                raise EngineTimeoutError(
                    f"the worker stopped reporting and did not end within {_LINGER_S:g} s",
                    fix="this is a defect of the engine",
                    log=self._log_tail(),
                )
            time.sleep(_POLL_S)

    def _take(self, message: dict[str, object], progress: Progress, leader: int) -> None:
        self.started = True
        match message["event"]:
            case "start":
                phase, total = str(message["phase"]), message["total"]
                if self._base_anonymous is not None:  # the engine is open: has it started servers?
                    self._watch_servers(leader)
                progress.start(phase, int(str(total)) if total is not None else None)
            case "advance":
                progress.advance(int(str(message["amount"])))
            case "waiting":
                self._pause()
                if self._on_waiting is not None:
                    self._on_waiting()
            case "resumed":
                self._resume()
            case "memory_baseline":
                if self._measures_memory:
                    self._base_anonymous = int(str(message["anonymous_bytes"]))
                    self._peak_anonymous = self._base_anonymous
            case "failed":
                self._reported = decoder(ReportedError).decode(orjson.dumps(message))
            case "finished":
                self._finished, self._stays = True, bool(message["stays"])
                self._worker_peak_rss = int(str(message["peak_rss_bytes"]))
                self._peak_rss = max(self._peak_rss or 0, self._worker_peak_rss)
            case other:
                raise AssertionError(f"the worker sent an unknown event: {other}")

    def _watch(self, process: psutil.Process) -> None:
        try:
            memory = process.memory_info()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            return
        if self._peak_servers and time.monotonic() - self._servers_seen > _FAMILY_POLL_S:
            self._watch_servers(process.pid)
        self._worker_peak_rss = max(self._worker_peak_rss, int(memory.rss))
        self._peak_rss = max(self._peak_rss or 0, int(memory.rss) + self._servers.resident)
        if self._peak_anonymous is not None and hasattr(memory, "shared"):
            used = int(memory.rss - memory.shared) + self._servers.anonymous
            self._peak_anonymous = max(self._peak_anonymous, used)

    def _watch_servers(self, leader: int) -> None:
        """Check the processes that the job's engine started: repeatedly, from the first one on."""
        self._servers = memory_of(started_by(leader))
        self._peak_servers = max(self._peak_servers, self._servers.resident)
        self._servers_seen = time.monotonic()

    def _explain(self, code: int) -> HarnessError:
        log = self._log_tail()
        if self._reported is not None:
            error = self._reported
            return RemoteError(error.type, error.problem, error.fix, [*log, *error.log])
        state = killed_error(_signal_name(-code) if code < 0 else "", log, self._job)
        if state is not None:
            return state
        if code < 0:
            reason = f"was killed by signal {_signal_name(-code)}"
        else:
            reason = f"ended with exit code {code}" + (" and left no result" if code == 0 else "")
        return EngineFailureError(f"the worker {reason}", log=log)


def _signal_name(number: int) -> str:
    names = {int(member): member.name for member in signal.Signals}
    return names.get(number, str(number))
