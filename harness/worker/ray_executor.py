"""Jobs on the nodes of a Ray cluster: each in a separate worker process there, as on this machine.

A Ray task runs :class:`harness.worker.process.Worker` on its node and sends back its reports: deadlines, memory limits,
crashes and the end of a job's processes are the worker's concern, wherever it runs. Losing a node is the cluster's
concern: the jobs that ran there run again on another.
"""

from __future__ import annotations

import importlib
import logging
import os
import queue
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from harness import __version__
from harness.data.progress import Progress
from harness.errors import (
    EngineFailureError,
    EngineTimeoutError,
    EngineUnavailableError,
    HarnessError,
    MachineError,
    MemoryLimitError,
    UsageError,
)
from harness.registry.optional import require
from harness.store.record_files import is_saved, load
from harness.wording import counted
from harness.worker.failure import RemoteError, ReportedError
from harness.worker.jobs import AskJob, ChurnJob, EncodeJob, RerankJob, TrialJob
from harness.worker.process import FinishedProcess, Worker
from harness.worker.ray_files import ReturnedFiles, SentFiles, send_files, write_returned
from harness.worker.threads import Aside

_SEEN = "seen.txt"
"""Holds a number that a node reads to prove that it sees the folder."""
_TRIES = 3
_POLL_S = 0.2
"""Between two messages of progress, and between two looks at whether the waiting thread was interrupted."""
_END_S = 15.0
"""For a job that was interrupted to end with all that it started."""
_CONNECTING_S = 10.0
_PATIENCE_S = 60.0
"""For a node that a job can run on to join the cluster."""
_TIMED = (TrialJob, ChurnJob, AskJob)
_OF_WORKERS = (EngineFailureError, EngineTimeoutError, EngineUnavailableError, MachineError, MemoryLimitError)
"""Errors that a worker or its node raises itself; any other is known by its name."""
_log = logging.getLogger("harness")


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster as a result records it: Ray's version, nodes that are alive, and the seconds that reaching it took.

    ``lost_jobs`` counts the jobs of this run that ran again because their node was lost.
    """

    ray: str
    nodes: int
    cores: int
    gpus: int
    start_seconds: float
    lost_jobs: int = 0

    def __str__(self) -> str:
        gpus = f", {counted(self.gpus, 'GPU')}" if self.gpus else ""
        size = f"{counted(self.nodes, 'node')}, {counted(self.cores, 'core')}{gpus}"
        return f"{size} with Ray {self.ray}, reached in {self.start_seconds:.1f} s"


class Began(NamedTuple):
    """The node that a job began on: its number in the cluster, the name of its machine, and the task's process."""

    node: str
    host: str
    process: int


@dataclass(frozen=True, slots=True)
class NodeError(ReportedError):
    """An error of a job as its node reports it: an exception may lose some of its values when it travels pickled.

    ``remote`` is true for an error that the job itself reported, whose class may be anybody's.
    """

    remote: bool = False


class Waiting(NamedTuple):
    """The job keeps a server's index open for clients."""


class Unseen(NamedTuple):
    """The job's folder is not to be seen on a node."""


_clusters: dict[str, Cluster] = {}
_starting = threading.Lock()


def cluster(executor: str) -> Cluster:
    """Return the cluster that ``--executor`` names, ``ray`` or ``ray:ADDRESS``: the same until it is shut down.

    Raises as :class:`Cluster`.
    """
    with _starting:
        if executor not in _clusters or not _clusters[executor].connected:
            _clusters[executor] = Cluster(executor.partition(":")[2] or None)
        return _clusters[executor]


def _require_listener(address: str | None) -> None:
    """Raise OSError if nothing listens at ``host:port``: Ray itself would try for minutes, and print its log."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECTING_S).close()


@contextmanager
def _loopback_environment(address: str | None) -> Iterator[None]:
    """Let a cluster that Ray starts in this block listen only on the loopback address.

    Any user who reaches its ports can run code. Nothing changes if ``address``, RAY_ADDRESS or a cluster of
    ``ray start`` on this machine is connected to: its nodes must reach this process.
    """
    constants = importlib.import_module("ray._private.ray_constants")
    services = importlib.import_module("ray._private.services")
    if services.canonicalize_bootstrap_address(address) is not None:
        yield
        return
    variable = constants.ENABLE_RAY_CLUSTERS_ENV_VAR  # processes that Ray starts read it
    former = os.environ.get(variable), constants.ENABLE_RAY_CLUSTER
    os.environ[variable], constants.ENABLE_RAY_CLUSTER = "0", False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = former[1]  # type: ignore[attr-defined]
        if former[0] is None:
            del os.environ[variable]
        else:
            os.environ[variable] = former[0]


class Cluster:
    """A Ray cluster that the harness uses: started by it on this machine, or already running.

    ``start_s`` is the time that starting or reaching it took; no other time includes it.
    """

    def __init__(self, address: str | None = None) -> None:
        """Connect to ``address``, to RAY_ADDRESS or to the cluster of ``ray start`` here; else start a cluster.

        Raises EngineUnavailableError when Ray does not start or cannot be reached, MissingExtraError when it is not
        installed, and UsageError when this process is connected to another cluster.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")  # a job without a GPU sees none
        self._ray: Any = require("ray", extra="ray", feature="--executor ray")
        # Ray prints the last log of a node that is lost to standard output, which is for results
        importlib.import_module("ray._private.worker")._worker_logs_enabled = False  # type: ignore[attr-defined]  # noqa: SLF001
        self._lost, self._runs = 0, 0
        self.sent: dict[Path, tuple[tuple[int, int], object]] = {}
        """Size, time and reference of each file that was put into the object store, see :func:`send_files`."""
        self._lock = threading.Lock()
        started = time.monotonic()
        if not self._ray.is_initialized():
            self._connect(address)
        elif address not in {None, "auto", (current := self._ray.get_runtime_context().gcs_address)}:
            raise UsageError(
                f"--executor ray:{address}: this process is connected to the cluster at '{current}'",
                fix="leave the address out, or call ray.shutdown() first",
            )
        self.start_s = time.monotonic() - started

    def _connect(self, address: str | None) -> None:
        chosen_address = address or os.environ.get("RAY_ADDRESS")
        try:
            _require_listener(chosen_address)
            with _loopback_environment(address):
                self._ray.init(
                    address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=None
                )
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            location = (
                f"at '{chosen_address}'{'' if address else ', the address in RAY_ADDRESS'}"
                if chosen_address
                else "on this machine"
            )
            unset = "" if address or not chosen_address else ", or unset RAY_ADDRESS"
            raise EngineUnavailableError(
                f"no Ray cluster {location}: {error}",
                fix=f"start it with 'ray start --head', or name another: ray:ADDRESS{unset}",
            ) from error

    @property
    def connected(self) -> bool:
        """Whether this process is still connected to a cluster."""
        return bool(self._ray.is_initialized())

    @property
    def exceptions(self) -> Any:
        """Return Ray's exceptions."""
        return self._ray.exceptions

    @property
    def nodes(self) -> list[dict[str, float]]:
        """Return the resources of each node that is alive and runs jobs."""
        alive = (dict(node["Resources"]) for node in self._ray.nodes() if node["Alive"])
        return [resources for resources in alive if resources.get("CPU", 0) >= 1]

    @property
    def facts(self) -> ClusterFacts:
        """Return a result's facts about the cluster."""
        nodes = self.nodes
        return ClusterFacts(
            ray=str(self._ray.__version__),
            nodes=len(nodes),
            cores=int(sum(node["CPU"] for node in nodes)),
            gpus=int(sum(node.get("GPU", 0) for node in nodes)),
            start_seconds=self.start_s,
            lost_jobs=self._lost,
        )

    def put(self, content: npt.NDArray[np.uint8]) -> object:
        """Put a file's content into the object store, and return a reference to it."""
        return self._ray.put(content)

    def begin_run(self) -> None:
        """Count lost jobs from now on; a cluster that an earlier run reached costs this one no time."""
        self._lost = 0
        self._runs += 1
        if self._runs > 1:
            self.start_s = 0.0

    def count_lost(self) -> None:
        """Count a job that has to run again because its node was lost."""
        with self._lock:
            self._lost += 1

    def stream(
        self,
        function: Callable[..., Iterator[object]],
        arguments: tuple[object, ...],
        needs_now: Callable[[], Mapping[str, float]],
    ) -> Iterator[object]:
        """Run a generator on a node that has the resources it needs, and yield its values.

        ``needs_now`` is called again if no node has the needed resources, as when the largest is lost while it waits.
        Any exception in the waiting thread ends it on its node before the exception is passed on. Raises
        EngineUnavailableError when no node of the cluster can run it.
        """
        task = partial(self._ray.remote(function).options, num_returns="streaming", max_retries=0)
        needs, began = needs_now(), False
        stream = task(**needs).remote(*arguments)
        feasible = time.monotonic()
        try:
            while True:
                # in short waits: an exception is raised in a thread between two of them
                ready, _ = self._ray.wait([stream], timeout=_POLL_S, fetch_local=False)
                if ready:
                    try:
                        reference = next(stream)
                    except StopIteration:
                        return
                    began = True
                    yield self._ray.get(reference)
                if ready or self._can_run(needs):
                    feasible = time.monotonic()
                elif not began and self._can_run(fewer := needs_now()):
                    self._end(stream)
                    needs, stream = fewer, task(**fewer).remote(*arguments)
                elif time.monotonic() - feasible > _PATIENCE_S:
                    gpu = " and a GPU" if needs.get("num_gpus") else ""
                    raise EngineUnavailableError(
                        f"no node of the Ray cluster has {counted(int(needs['num_cpus']), 'core')}{gpu} for it",
                        fix="add such a node, or start the cluster's nodes again: ray status shows them",
                    )
        except BaseException:
            self._end(stream)
            raise

    def _can_run(self, needs: Mapping[str, float]) -> bool:
        cores, gpus = needs["num_cpus"], needs.get("num_gpus", 0)
        return any(node["CPU"] >= cores and node.get("GPU", 0) >= gpus for node in self.nodes)

    def _end(self, stream: Any) -> None:
        """Interrupt a task, and wait until it is over: until then it may write into its folder."""
        if not self.connected:
            return
        with suppress(self.exceptions.RayError):  # it has failed, its node is gone, or it does not end in time
            self._ray.cancel(stream)
            self._ray.get(stream.completed(), timeout=_END_S)


class RayExecutor:
    """Runs jobs on a cluster.

    A job whose times are measured has a node to itself; any other has one core, and a GPU if its model runs on one.
    """

    def __init__(
        self, cluster: Cluster, *, deadline_s: float | None = None, memory_limit_bytes: int | None = None
    ) -> None:
        """Both limits are for one job, on its node; None sets none."""
        self._cluster, self._deadline_s, self._memory_limit_bytes = cluster, deadline_s, memory_limit_bytes
        self.running: dict[Path, Began] = {}
        """The jobs that run now, by folder."""

    def slots(self, device: str = "cpu") -> int:
        """Return how many jobs run at once: as many as there are cores, or GPUs for a model on one."""
        facts = self._cluster.facts
        return max(1, facts.gpus if self._needs_gpu(device) else facts.cores)

    def run(self, folder: Path, progress: Progress, on_waiting: Callable[[], None] | None = None) -> FinishedProcess:
        """Run one job on a node; again on another, up to three times, when its node is lost.

        A node that does not see the folder gets the files through Ray's object store. Raises as
        :meth:`harness.worker.process.Worker.run`, EngineUnavailableError when no node can run the job, and
        EngineFailureError when nodes go on being lost.
        """
        exceptions = self._cluster.exceptions
        folder = folder.absolute()
        for tries in range(1, _TRIES + 1):
            limits = self._deadline_s, self._memory_limit_bytes
            node_arguments = (str(folder), _mark(folder), __version__, str(Path.cwd()), *limits)
            try:
                finished = self._follow((*node_arguments, None), folder, progress, on_waiting)
                if finished is None:
                    sent = send_files(folder, self._cluster.put, self._cluster.sent)
                    finished = self._follow((*node_arguments, sent), folder, progress, on_waiting)
                if finished is not None:
                    return finished
            except exceptions.OutOfMemoryError as error:
                raise MachineError(
                    f"Ray ended it because its node ran out of memory: {_reason(error)}",
                    fix="run it on a machine with more memory, or reduce its need",
                ) from error
            except (exceptions.NodeDiedError, exceptions.WorkerCrashedError, exceptions.ObjectLostError) as error:
                host = self.running[folder].host if folder in self.running else "a machine that had not begun"
                again = f"run again ({tries + 1} of {_TRIES})" if tries < _TRIES else "given up"
                _log.warning("a node of the cluster was lost (%s, %s): %s", host, _reason(error), again)
                self._cluster.count_lost()
                _clear_indexes(folder)
            except exceptions.RayError as error:
                raise EngineFailureError(
                    f"Ray did not run it: {_reason(error)}", log=str(error).splitlines()
                ) from error
            finally:
                self.running.pop(folder, None)
        raise MachineError(
            f"its node was lost {_TRIES} times", fix="look at the nodes' memory and logs: ray status, ray logs"
        )

    def _follow(
        self,
        arguments: tuple[object, ...],
        folder: Path,
        progress: Progress,
        on_waiting: Callable[[], None] | None,
    ) -> FinishedProcess | None:
        """Pass on the node's reports of the job until it has ended; raise the error that it failed with.

        None if the node cannot see the folder of the job.
        """
        for message in self._cluster.stream(run_on_node, arguments, lambda: self._needs(folder)):
            match message:
                case Began():
                    self.running[folder] = message
                case FinishedProcess():
                    return message
                case Unseen():
                    return None
                case ReturnedFiles():
                    write_returned(message)
                case NodeError():
                    raise _error(message)
                case Waiting():
                    if on_waiting is not None:
                        on_waiting()
                case (str(phase), total):
                    progress.start(phase, cast("int | None", total))
                case int(amount):
                    progress.advance(amount)
                case _:
                    raise AssertionError(f"a node sent an unknown message: {message!r}")
        raise EngineFailureError("its node did not report how it ended", fix="this is a defect of the harness")

    def _needs(self, folder: Path) -> dict[str, float]:
        """Return the resources that a job takes of a node: all cores of the largest kind if it is timed, else one core.

        Nodes are of one kind if times are compared; otherwise the largest are taken.
        """
        if any(is_saved(folder, kind) for kind in _TIMED):
            return {"num_cpus": max((node["CPU"] for node in self._cluster.nodes), default=1)}
        return {"num_cpus": 1, **({"num_gpus": 1} if self._needs_gpu(_device(folder)) else {})}

    def _needs_gpu(self, device: str) -> bool:
        """Return whether a model on the ``device`` of its parameters uses a GPU: 'auto' does if there are any."""
        return device.startswith("cuda") or (device == "auto" and self._cluster.facts.gpus > 0)


def _mark(folder: Path) -> str:
    """Leave a number in a job's folder, with which a node proves that it sees the folder, and return it."""
    number = secrets.token_hex(8)
    (folder / _SEEN).write_text(number)
    return number


def run_on_node(
    folder: str,
    number: str,
    version: str,
    directory: str,
    deadline_s: float | None,
    memory_limit_bytes: int | None,
    sent: SentFiles | None,
) -> Iterator[object]:
    """Run the job in ``folder`` in a worker on this node, in ``directory`` if it exists here, and yield its progress.

    Runs as a Ray task. Yields :class:`Began`, a pair (phase, total) for each phase, a whole number for the units done
    since the message before, and at last :class:`FinishedProcess` or :class:`NodeError`. An interruption of the task
    ends the worker with every process that it started. If the folder is not visible, yields :class:`Unseen`; with its
    files ``sent``, runs the job in a separate folder, and yields its output: finished chunks of an encoding at once,
    and each file that it left before the last message.
    """
    job_folder, host = Path(folder), socket.gethostname()
    if version != __version__:
        yield NodeError(
            EngineUnavailableError.__name__,
            f"node '{host}' has version {__version__} of the harness, and this machine {version}",
            "install the same version on every node",
            (),
        )
        return
    seen = job_folder / _SEEN
    if sent is None and (seen.read_text() if seen.is_file() else "") != number:
        yield Unseen()
        return
    import ray

    yield Began(str(ray.get_runtime_context().get_node_id()), host, os.getpid())
    if Path(directory).is_dir():  # paths in a backend's parameters may be relative to it
        os.chdir(directory)
    if sent is None:
        yield from _run(Worker(job_folder, deadline_s=deadline_s, memory_limit_bytes=memory_limit_bytes))
        return
    last: FinishedProcess | NodeError | None = None
    with tempfile.TemporaryDirectory(prefix="harness-node-") as local_folder:
        unpacked = sent.unpack(Path(local_folder), ray.get)
        worker = Worker(unpacked.local_path(job_folder), deadline_s=deadline_s, memory_limit_bytes=memory_limit_bytes)
        for message in _run(worker):
            if isinstance(message, FinishedProcess | NodeError):
                last = message
                yield from unpacked.changes()
            else:
                if isinstance(message, int):  # chunks are finished, and not to be lost with the node
                    yield from unpacked.finished_chunks()
                yield message
    if last is not None:
        yield last  # the caller that gets it ends this task


def _run(worker: Worker) -> Iterator[object]:
    """Run a job in a worker of this node, and yield how it goes."""
    messages: queue.SimpleQueue[object] = queue.SimpleQueue()

    def work() -> None:
        try:
            messages.put(worker.run(_Sent(messages), lambda: messages.put(Waiting())))
        except HarnessError as error:
            remote = isinstance(error, RemoteError)
            kind = error.type_name if isinstance(error, RemoteError) else type(error).__name__
            messages.put(NodeError(kind, error.problem, error.fix, tuple(error.log), remote))
        except BaseException as error:
            messages.put(NodeError(EngineFailureError.__name__, f"its node failed: {error!r}", None, ()))
            raise

    with Aside[None]() as aside:
        aside.begin(work)
        yield from _batched(messages)


class _Sent:
    """Progress that goes into a queue: phases as they begin, units as they are done."""

    def __init__(self, messages: queue.SimpleQueue[object]) -> None:
        self._messages = messages

    def start(self, phase: str, total: int | None) -> None:
        """Report that a phase begins."""
        self._messages.put((phase, total))

    def advance(self, amount: int) -> None:
        """Report that ``amount`` more units are done."""
        self._messages.put(amount)


def _batched(messages: queue.SimpleQueue[object]) -> Iterator[object]:
    """Yield messages up to the last one; numbers that come within a short time as their sum."""
    done, sent = 0, time.monotonic()
    while True:
        try:
            message = messages.get(timeout=_POLL_S)
        except queue.Empty:
            message = 0
        if isinstance(message, int):
            done += message
            if not done or time.monotonic() - sent < _POLL_S:
                continue
        if done:
            yield done
            done, sent = 0, time.monotonic()
        if not isinstance(message, int):
            yield message
        if isinstance(message, FinishedProcess | NodeError):
            return


def _error(failed: NodeError) -> HarnessError:
    """Return the error that a node reported, of the class that it had there."""
    kind = next((kind for kind in _OF_WORKERS if kind.__name__ == failed.type), None)
    if failed.remote or kind is None:
        return RemoteError(failed.type, failed.problem, failed.fix, list(failed.log))
    return kind(failed.problem, fix=failed.fix, log=failed.log)


def _device(folder: Path) -> str:
    """Return the device requested for a job's model, 'cpu' for a job without a model."""
    kinds: tuple[type[EncodeJob | RerankJob], ...] = (EncodeJob, RerankJob)
    for kind in kinds:
        if is_saved(folder, kind):
            return str(load(folder, kind).parameters.get("device", "cpu"))
    return "cpu"


def _clear_indexes(folder: Path) -> None:
    """Remove the indexes that a job began on a node that is lost."""
    if is_saved(folder, ChurnJob):
        churn = load(folder, ChurnJob)
        trial = churn.trial
        shutil.rmtree(churn.fresh_folder, ignore_errors=True)
    elif is_saved(folder, TrialJob):
        trial = load(folder, TrialJob)
    else:
        return
    if trial.built is None and not trial.external:
        shutil.rmtree(trial.index_folder, ignore_errors=True)
        trial.index_folder.mkdir(parents=True)


def _reason(error: Exception) -> str:
    """Return the first sentence of one of Ray's errors."""
    return str(error).strip().partition("\n")[0].partition(". ")[0]
