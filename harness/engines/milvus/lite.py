"""Milvus Lite: a file of vectors and the server on it, a child of this process that ends with it.

The server is started by the package's program, not through the package: ``milvus_lite`` 2.5.1 imports
``pkg_resources``, which newer setuptools lack, and it leaves its socket in the folder for temporary files when its
process is killed. The server watches a lock on a file next to its own and ends as soon as no process holds the lock, so
that it never outlives its process, however that ends. Its log, errors only, goes to the worker's log, not to temporary
files, which would never be removed.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import psutil

from harness.errors import EngineUnavailableError, MissingExtraError

__all__ = ["PACKAGE", "LiteServer"]

PACKAGE = "milvus-lite"
_MODULE = "milvus_lite"
_REWRITTEN = 3
_START_S = 30.0
_END_S = 10.0
_POLL_S = 0.005
_LOG = {"GLOG_logtostderr": "1", "GLOG_minloglevel": "2"}
"""Variables of the server's log library: otherwise it writes files despite other settings."""
_SOCKET, _LOCK = "milvus.sock", "milvus.lock"


def _version() -> str:
    """Return the version of the package.

    Raises:
        MissingExtraError: It is not installed.
        EngineUnavailableError: It is version 3, a rewrite whose scores are wrong.
    """
    try:
        installed = version(PACKAGE)
    except PackageNotFoundError as error:
        raise MissingExtraError(PACKAGE, extra="milvus", feature="backend milvus") from error
    if int(installed.partition(".")[0]) >= _REWRITTEN:
        raise EngineUnavailableError(
            f"Milvus Lite {installed} is a rewrite in Python, not Milvus's own engine, and scores sparse vectors as "
            "BM25 where their inner product is asked for (version 3 gave 0.186 and 0.172 for 1.5 and 0.5)",
            fix="pip install 'milvus-lite<3', or take a server: url=http://HOST:19530",
        )
    return installed


class LiteServer:
    """The server on one file; it runs from its creation until :meth:`stop`."""

    def __init__(self, file: Path, database: str = "") -> None:
        """Start it and wait until it listens; messages call the file by the name that the user ``database``.

        Raises:
            MissingExtraError: The package is not installed.
            EngineUnavailableError: The file is in use, the server ends or does not listen, or the package is a rewrite.
        """
        self.version, self._folder = _version(), file.parent
        self._lock = self._locked(file)
        (self._folder / _SOCKET).unlink(missing_ok=True)  # left by a killed process
        try:
            self.process = self._started(file)
            self._await_socket(database or str(file))
        except BaseException:
            self.stop()
            raise

    @property
    def address(self) -> str:
        """The socket, in gRPC's form.

        A socket's path has at most about 100 bytes. Linux gives every process's folder a short name.
        """
        short = Path(f"/proc/{self.process.pid}/cwd")
        return f"unix:{(short if short.exists() else self._folder) / _SOCKET}"

    def memory_bytes(self) -> int | None:
        """Return the memory of its process in bytes; None if it cannot be read."""
        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.Error:
            return None

    def stop(self) -> None:
        """End the server and remove its socket and lock; calling it again does nothing."""
        process: subprocess.Popen[bytes] | None = getattr(self, "process", None)
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._lock.close()
        for name in (_SOCKET, _LOCK):
            (self._folder / name).unlink(missing_ok=True)

    def _locked(self, file: Path) -> IO[bytes]:
        lock = (self._folder / _LOCK).open("ab")
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise EngineUnavailableError(
                f"'{file}' is open in another process: Milvus Lite serves one at a time", fix="wait until it is closed"
            ) from error
        return lock

    def _started(self, file: Path) -> subprocess.Popen[bytes]:
        spec = find_spec(_MODULE)
        if spec is None or not spec.submodule_search_locations:
            raise MissingExtraError(PACKAGE, extra="milvus", feature="backend milvus")
        libraries = Path(spec.submodule_search_locations[0]) / "lib"
        library_path = os.environ.get("LD_LIBRARY_PATH")
        environment = {
            **os.environ,
            **_LOG,
            "LD_LIBRARY_PATH": f"{libraries}:{library_path}" if library_path else str(libraries),
        }
        arguments = [str(libraries / "milvus"), str(file), f"unix:{_SOCKET}", "ERROR", str(self._folder / _LOCK)]
        try:
            return subprocess.Popen(arguments, env=environment, cwd=self._folder, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise EngineUnavailableError(
                f"the server of Milvus Lite cannot be started: {error}",
                fix="reinstall it: pip install --force-reinstall 'milvus-lite<3'",
            ) from error

    def _listens(self) -> bool:
        """Whether the server takes connections: its socket exists before it does."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                return probe.connect_ex(self.address.removeprefix("unix:")) == 0
            except OSError:  # it has ended, and its folder's real name is too long for a socket
                return False

    def _await_socket(self, file: str) -> None:
        deadline = time.monotonic() + _START_S
        while not self._listens():
            with suppress(subprocess.TimeoutExpired):
                code = self.process.wait(_POLL_S)
                raise EngineUnavailableError(
                    f"the server of Milvus Lite on '{file}' ended with exit code {code} when it was started",
                    fix="its last lines, in the log, show why; a damaged file must be rebuilt",
                )
            if time.monotonic() > deadline:
                raise EngineUnavailableError(
                    f"the server of Milvus Lite on '{file}' did not listen within {_START_S:g} s", fix="try again"
                )
