"""Run one job in a spawned process: its progress shown by the parent, its memory watched, its end explained.

The child gets a job folder and talks back through one pipe, a JSON line per message. It is spawned, never forked, in a
process group of its own, so that the terminal's Ctrl-C reaches the parent alone and the parent can end the whole group.
A child whose parent dies sees the end of its standard input and leaves.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil

from harness.errors import EngineFailureError, EngineTimeoutError, HarnessError
from harness.protocols import Progress

__all__ = ["Finished", "RemoteError", "Worker"]

_POLL_S = 0.02
_LOG_LINES = 15
_GRACE_S = 3.0
_LINGER_S = 10.0


class RemoteError(HarnessError):
    """A failure that the worker reported itself, with the type it had there."""

    def __init__(self, type_name: str, what: str, fix: str | None, log: list[str]) -> None:
        self.type_name, self.log = type_name, log
        super().__init__(what, fix=fix)


@dataclass(frozen=True, slots=True)
class Finished:
    """A job that ended well: memory as the parent saw it, in bytes (None where the system does not tell)."""

    peak_rss_bytes: int | None
    peak_anonymous_bytes: int | None


class Worker:
    """One job in one process. Use :meth:`run`; everything is over when it returns or raises."""

    def __init__(self, job: Path, *, deadline_s: float | None = None) -> None:
        self._job = job
        self._log = job / "log.txt"
        self._deadline_s = deadline_s
        self._peak_rss: int | None = None
        self._base_anonymous: int | None = None
        self._peak_anonymous: int | None = None

    def run(self, progress: Progress) -> Finished:
        """Run the job to its end.

        Raises RemoteError for a failure that the job reported, EngineFailureError when the process died, and
        EngineTimeoutError when it outlived the deadline; each with the last lines of its log.
        """
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "harness.execution.worker", str(self._job)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._listen(process, progress)
        finally:
            self._end(process)
        if process.returncode != 0:
            raise self._explain(process.returncode)
        peak = None if self._peak_anonymous is None else max(0, self._peak_anonymous - (self._base_anonymous or 0))
        return Finished(self._peak_rss, peak)

    def log_tail(self) -> list[str]:
        """The last lines that the worker wrote to standard error (or to standard output, which goes there too)."""
        with self._log.open(errors="replace") as log:
            return [line.rstrip("\n") for line in deque(log, maxlen=_LOG_LINES)]

    def _listen(self, process: subprocess.Popen[bytes], progress: Progress) -> None:
        stdout = process.stdout
        if stdout is None:
            raise AssertionError("the worker was started without a pipe")
        pipe, pending, started = stdout.fileno(), b"", time.monotonic()
        watched = psutil.Process(process.pid)
        while True:
            readable, _, _ = select.select([pipe], [], [], _POLL_S)
            self._watch(watched)
            if self._deadline_s is not None and time.monotonic() - started > self._deadline_s:
                raise EngineTimeoutError(
                    f"still running after {self._deadline_s:g} s; log: {' | '.join(self.log_tail()) or 'empty'}",
                    fix="give it more time with --deadline, or look at why it hangs",
                )
            if not readable:
                continue
            received = os.read(pipe, 65536)
            if not received:
                self._await_exit(process)
                return
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                self._take(orjson.loads(line), progress)

    def _await_exit(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(_LINGER_S)
        except subprocess.TimeoutExpired as error:
            raise EngineTimeoutError(
                f"the worker said nothing more and did not end within {_LINGER_S:g} s",
                fix="this is a defect of the engine",
            ) from error

    def _take(self, message: dict[str, object], progress: Progress) -> None:
        match message["event"]:
            case "start":
                total = message["total"]
                progress.start(str(message["phase"]), int(str(total)) if total is not None else None)
            case "advance":
                progress.advance(int(str(message["amount"])))
            case "memory_baseline":
                self._base_anonymous = int(str(message["anonymous_bytes"]))
                self._peak_anonymous = self._base_anonymous
            case "peak_rss":
                self._peak_rss = int(str(message["bytes"]))
            case other:
                raise AssertionError(f"the worker sent an unknown event: {other}")

    def _watch(self, process: psutil.Process) -> None:
        try:
            memory = process.memory_info()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            return
        self._peak_rss = max(self._peak_rss or 0, int(memory.rss))
        if self._peak_anonymous is not None and hasattr(memory, "shared"):
            self._peak_anonymous = max(self._peak_anonymous, int(memory.rss - memory.shared))

    def _explain(self, code: int) -> HarnessError:
        report = self._job / "error.json"
        if report.exists():
            error = orjson.loads(report.read_bytes())
            return RemoteError(error["type"], error["what"], error["fix"], self.log_tail())
        reason = f"was killed by signal {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        hint = (
            " (SIGKILL without a sender is usually the system running out of memory)" if code == -signal.SIGKILL else ""
        )
        tail = "\n    ".join(self.log_tail())
        return EngineFailureError(f"the worker {reason}{hint}", fix=f"its last words:\n    {tail}" if tail else None)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            _signal_group(process, signal.SIGTERM)
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                _signal_group(process, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _signal_name(number: int) -> str:
    known = {int(member): member.name for member in signal.Signals}
    return known.get(number, str(number))


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return
