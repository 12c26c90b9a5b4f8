"""Workers that are copies of a process which has imported what they need, instead of new interpreters.

A worker stays what it is in all else: a child of the process that started it, in a session of its own, with the same
pipes, log and environment. As a script, ``warm_workers.py NUMBER MODULE…`` is what is copied, asked through that
socket.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import marshal
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from warm_process import CHEAP_TO_COPY, Request, import_for_workers, path_with_package

from harness.worker import spawn
from harness.worker.spawn import MARK_VARIABLE, WorkerProcess

_PR_SET_CHILD_SUBREAPER = 36
_STARTING = threading.Lock()
_starters: dict[frozenset[str], _Starter] = {}
"""Modules that workers need beside the usual ones -> what starts them."""


class _Worker:
    """What the harness uses of a worker's `Popen`."""

    def __init__(self, pid: int, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


class _Starter:
    """Starts workers through the socket of a server, which is a child of this process."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._one_at_a_time = threading.Lock()
        _adopt_orphans()

    def start(self, log: BinaryIO, modules: Sequence[str] = ()) -> WorkerProcess:
        read_stdin, write_stdin = os.pipe()
        read_stdout, write_stdout = os.pipe()
        mark = f"warm-{os.getpid()}-{time.time_ns()}"
        environment = {**os.environ, MARK_VARIABLE: mark}
        request = {"kind": "worker", "arguments": modules, "folder": str(Path.cwd()), "environment": environment}
        with self._one_at_a_time:
            socket.send_fds(self._server, [marshal.dumps(request)], [read_stdin, write_stdout, log.fileno()])
            pid = int(self._server.recv(32))
            self._server.recv(32)
        os.close(read_stdin)
        os.close(write_stdout)
        process = _Worker(pid, os.fdopen(write_stdin, "wb"), os.fdopen(read_stdout, "rb"))
        return WorkerProcess(cast("subprocess.Popen[bytes]", process), mark)


def worker_starter(*modules: str) -> Callable[..., WorkerProcess]:
    """In place of `harness.worker.spawn.start_worker`, for tests that run the harness in their own process.

    What is copied has imported ``modules`` too, which start no thread. One that has imported more will do.
    """

    def start(log: BinaryIO, early: Sequence[str] = ()) -> WorkerProcess:
        with _STARTING:
            fitting = (starter for imported, starter in _starters.items() if imported.issuperset(modules))
            starter = next(fitting, None) or _starters.setdefault(frozenset(modules), _new_starter(*modules))
        return starter.start(log, early)

    return start


def _new_starter(*modules: str) -> _Starter:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, __file__, str(theirs.fileno()), *modules]
    environment = {**os.environ, **CHEAP_TO_COPY, "PYTHONPATH": path_with_package(os.environ)}
    server = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], start_new_session=True)
    theirs.close()
    atexit.register(server.wait)
    atexit.register(ours.close)  # first, and then the server ends
    return _Starter(ours)


def fork_workers_from_here() -> None:
    """Workers that this process starts from now on are copies of what it is now. It must have no thread of its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _serve(theirs)
    theirs.close()
    spawn.start_worker = _Starter(ours).start


def _adopt_orphans() -> None:
    """Processes below this one whose parent ended become its children: workers have to."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def _serve(connection: socket.socket) -> NoReturn:
    """A worker for each request, until the other side is gone. Its parent ends at once, so that it is an orphan."""
    while request := Request.receive(connection):
        between = os.fork()
        if between == 0:
            parent = os.getpid()
            worker = os.fork()
            if worker == 0:
                connection.close()
                _be_worker(request, parent)
            connection.send(str(worker).encode())
            os._exit(0)
        request.close_streams()
        os.waitpid(between, 0)
        connection.send(b"an orphan, and adopted")
    os._exit(0)


def _be_worker(request: Request, parent: int) -> NoReturn:
    os.setsid()
    while os.getppid() == parent:  # it is about to end; on a busy machine that takes a while
        time.sleep(0.001)
    request.take_over()
    faulthandler.enable()
    from harness.worker import main as worker

    sys.argv[1:] = request.arguments
    code = worker.main()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    import_for_workers(*sys.argv[2:])
    _serve(socket.socket(fileno=int(sys.argv[1])))
