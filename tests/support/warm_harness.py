"""Runs of the command line in copies of a process that has imported it: a command starts in hundredths of a second.

As a script, ``warm_harness.py SOCKET OWNER`` forks itself for every request on the socket. The copy runs ``harness``
or a Python script as the interpreter would, and its exit code goes back. The first command starts such a server, which
serves all of pytest's processes.
"""

from __future__ import annotations

import atexit
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

from warm_process import WARM, Request, import_everything, path_with_package
from warm_workers import fork_workers_from_here

_ASKING = Path(__file__).with_name("ask_warm_harness.py")
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
    environment = {**os.environ, "PYTHONPATH": path_with_package(os.environ)}
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
    """Answer requests until the owner has ended, which gives None; a request is given in the copy that is to run it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"{address}.new")
        listener.listen()
        Path(f"{address}.new").rename(address)
        children: set[int] = set()
        while owner not in select.select([listener, owner], [], [])[0]:
            connection, _ = listener.accept()
            child = os.fork()
            if child == 0:
                listener.close()
                os.close(owner)
                return _receive_and_fork(connection)
            connection.close()
            children.add(child)
            children -= {one for one in children if os.waitpid(one, os.WNOHANG)[0]}
    return None


def _receive_and_fork(connection: socket.socket) -> Request:
    """Gives the request in a further copy; this one waits for that and tells how it ended."""
    request = Request.receive(connection)
    if request is None:
        os._exit(1)
    child = os.fork()
    if child:
        request.close_streams()
        _wait_and_tell(child, connection)
    connection.close()
    return request


def _wait_and_tell(child: int, connection: socket.socket) -> NoReturn:
    """Send the exit code when the child has ended; when the caller goes away before, ask the child to end."""
    ended, gone = os.pidfd_open(child), select.poll()
    gone.register(ended, select.POLLIN)
    gone.register(connection, 0)
    if ended not in dict(gone.poll()):
        os.kill(child, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        connection.sendall(bytes([code if code >= 0 else 128 - code]))
    except BrokenPipeError:  # the caller is gone
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
