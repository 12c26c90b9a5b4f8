"""Runs of the command line in copies of a process that has imported it: a command starts in hundredths of a second.

As a script, ``warm_harness.py SOCKET OWNER`` forks itself for every request on the socket. The copy runs ``harness``
or a Python script as the interpreter would, and its exit code goes back. The first command starts such a server, which
serves all of pytest's processes.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NoReturn

from warm_process import CHEAP_TO_COPY, WARM, Request, import_everything, path_with_package
from warm_workers import fork_workers_from_here

_ASKING = Path(__file__).with_name("ask_warm_harness.py")
_WITHOUT_WORKERS = {"backends", "datasets", "diff", "eval", "init", "judge", "report"}
"""Verbs that start no worker."""
_STARTED_S = 600.0
"""Kernels may have to be compiled."""


def harness_command() -> list[str]:
    """What is followed by the arguments of `harness`: a program that exits as it, and writes and reads the same."""
    return [*_asking(), "harness"] if WARM else [sys.executable, "-m", "harness"]


def script_command() -> list[str]:
    """What is followed by a Python script and its arguments."""
    return [*_asking(), "script"] if WARM else [sys.executable]


def _asking() -> list[str]:
    return [sys.executable, "-S", "-I", str(_ASKING), str(_server())]


@functools.cache
def _server() -> Path:
    """The address of a server that is ready; one serves all of pytest's processes."""
    if run := os.environ.get("PYTEST_XDIST_TESTRUNUID"):
        owner, folder = os.getppid(), Path("/tmp", f"warm-{run}")
        folder.mkdir(mode=0o700, exist_ok=True)
    else:
        owner, folder = os.getpid(), Path(tempfile.mkdtemp(prefix="warm-", dir="/tmp"))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "socket").exists():
            _start(folder / "socket", owner)
    return folder / "socket"


def _start(address: Path, owner: int) -> None:
    """Start a server and wait until it is ready; it ends when the process ``owner`` does."""
    environment = {**os.environ, **CHEAP_TO_COPY, "PYTHONPATH": path_with_package(os.environ)}
    command = [sys.executable, __file__, str(address), str(owner)]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
    atexit.register(server.poll)  # so that it is kept until then: it may serve others afterwards
    deadline = time.monotonic() + _STARTED_S
    while not address.exists():
        assert server.poll() is None, f"the server ended with {server.returncode}"
        assert time.monotonic() < deadline, f"the server was not ready within {_STARTED_S:g} s"
        time.sleep(0.02)


def main() -> None:
    """Be the server; in a copy of it, run what was asked for and end as the interpreter would."""
    owner = os.pidfd_open(int(sys.argv[2]))
    import_everything()
    request = _serve(Path(sys.argv[1]), owner)
    if request is None:
        shutil.rmtree(Path(sys.argv[1]).parent)
        return
    request.take_over()
    if request.kind == "script" or not _WITHOUT_WORKERS & set(request.arguments[:1]):
        fork_workers_from_here()
    _end(_run(request))


def _run(request: Request) -> int:
    """Its exit code."""
    try:
        if request.kind == "harness":
            from harness.cli.app import main as command_line

            sys.argv[:] = ["harness", *request.arguments]
            command_line()
        script, *arguments = request.arguments
        sys.argv[:] = [script, *arguments]
        sys.path[0] = str(Path(script).parent)
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return int(ended.code or 0) & 0xFF
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except Exception:  # noqa: BLE001 - whatever a script raises; the interpreter catches it too
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _end(code: int) -> NoReturn:
    """As the interpreter ends, but for taking down what was imported, which would copy the memory of all of it."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os._exit(120)
    os._exit(code)


def _serve(address: Path, owner: int) -> Request | None:
    """Answer requests until the owner has ended, which gives None; a request is given in the copy that is to run it.

    A copy whose caller goes away is asked to end. Each copy is one fork, of which every one takes milliseconds.
    """
    copies: dict[int, tuple[int, socket.socket]] = {}
    """What tells that a copy has ended -> its number, and its caller, which sends nothing more and waits."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"{address}.new")
        listener.listen()
        Path(f"{address}.new").rename(address)
        while True:
            callers = {caller: pid for pid, caller in copies.values() if caller.fileno() >= 0}
            ready = set(select.select([listener, owner, *copies, *callers], [], [])[0])
            if owner in ready:
                return None
            for ended in ready & copies.keys():
                _tell(*copies.pop(ended))
                os.close(ended)
            for caller in ready & callers.keys():
                if caller.fileno() >= 0:
                    os.kill(callers[caller], signal.SIGTERM)
                    caller.close()
            if listener in ready:
                connection, _ = listener.accept()
                request = Request.receive(connection)
                if request is None:
                    connection.close()
                    continue
                child = os.fork()
                if child == 0:
                    for stream in (owner, *copies):
                        os.close(stream)
                    for caller in (connection, *callers):
                        caller.close()
                    return request
                request.close_streams()
                copies[os.pidfd_open(child)] = child, connection


def _tell(child: int, caller: socket.socket) -> None:
    """Send the exit code of a copy that has ended."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if caller.fileno() >= 0:
        with contextlib.suppress(BrokenPipeError):  # the caller has gone away just now
            caller.sendall(bytes([code if code >= 0 else 128 - code]))
        caller.close()


if __name__ == "__main__":
    main()
