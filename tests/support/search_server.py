"""Real OpenSearch and Elasticsearch servers of one node, from the zips on Maven Central, on free ports of this machine.

They take Java 17 to 23, and Maven to fetch the zip, which Maven's own repository keeps. They refuse to run as root:
started by root they run as ``nobody``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import NamedTuple

from chroma_server import free_port

_PATIENCE_S = 120.0
_FETCHING_S = 300.0
_POLL_S = 0.1
_JAVA = range(17, 24)
"""Java 24 has no security manager, without which they do not start."""


class Distribution(NamedTuple):
    """A minimal distribution on Maven Central: ``main`` is its class, ``prefix`` that of its system properties."""

    product: str
    version: str
    main: str
    prefix: str
    java_options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its artifact, and the beginning of its folder's."""
        return self.product.lower()

    @property
    def group(self) -> str:
        """The group of its artifact."""
        return f"org.{self.name}.distribution.integ-test-zip"

    @property
    def file(self) -> str:
        """The name of its zip."""
        return f"{self.name}-{self.version}.zip"


_SECURED = "org.opensearch.secure_sm.SecuredForkJoinWorkerThreadFactory"
OPENSEARCH = Distribution(
    "OpenSearch",
    "2.19.0",
    "org.opensearch.bootstrap.OpenSearch",
    "opensearch",
    (f"-Djava.util.concurrent.ForkJoinPool.common.threadFactory={_SECURED}",),
)
ELASTICSEARCH = Distribution("Elasticsearch", "7.17.0", "org.elasticsearch.bootstrap.Elasticsearch", "es")
DISTRIBUTIONS = {distribution.product: distribution for distribution in (OPENSEARCH, ELASTICSEARCH)}
_JAVA_OPTIONS = (
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),  # which takes half a second
    *("-Xms256m", "-Xmx256m", "-Xss1m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    *("-Djava.awt.headless=true", "-Dfile.encoding=UTF-8", "-Djna.nosys=true", "-Djava.security.manager=allow"),
    *("-Dio.netty.noUnsafe=true", "-Dio.netty.noKeySetOptimization=true", "-Dio.netty.allocator.numDirectArenas=0"),
    *("-Dlog4j.shutdownHookEnabled=false", "-Dlog4j2.disable.jmx=true", "-Djava.locale.providers=SPI,COMPAT"),
)
"""Those of the servers' own scripts for Java 17, which start three more machines to find them, and a small heap."""


class MissingServerError(Exception):
    """Why there is no server here."""


def archive(distribution: Distribution, folder: Path) -> Path:
    """Return the zip, fetched into ``folder`` unless Maven fetched it before, or ``HARNESS_<PRODUCT>_ZIP`` names it.

    Raises MissingServerError.
    """
    product, version, file = distribution.product, distribution.version, distribution.file
    if named := os.environ.get(f"HARNESS_{product.upper()}_ZIP"):
        return Path(named)
    repository = Path.home() / ".m2/repository" / distribution.group.replace(".", "/") / distribution.name / version
    if (repository / file).is_file():
        return repository / file
    if shutil.which("mvn") is None:
        raise MissingServerError(f"a real {product} needs Maven (mvn), which fetches its zip")
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    artifact = f"-Dartifact={distribution.group}:{distribution.name}:{version}:zip"
    # not with the tests' options for Java, about which it would say something
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    try:
        with _one_maven():
            fetched = subprocess.run(
                ["mvn", "-q", "-B", goal, artifact, f"-DoutputDirectory={folder}"],
                check=False,
                capture_output=True,
                text=True,
                timeout=_FETCHING_S,
                env=environment,
            )
    except subprocess.TimeoutExpired:
        raise MissingServerError(f"a real {product} needs a Maven repository, and none answers") from None
    if fetched.returncode or not (folder / file).exists():
        raise MissingServerError(f"a real {product} needs a Maven repository: {fetched.stdout.strip()[-300:]}")
    return folder / file


@contextlib.contextmanager
def _one_maven() -> Iterator[None]:
    """Wait for a Maven of another test process: two that download the same plug-in disturb each other."""
    with (Path(tempfile.gettempdir()) / f"harness-tests-maven-{os.getuid()}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def java_home(product: str) -> Path:
    """Return the home of a Java that both servers run on; raises MissingServerError."""
    java = shutil.which("java")
    if java is None:
        raise MissingServerError(f"a real {product} needs Java {_JAVA[0]} to {_JAVA[-1]} (java)")
    home = Path(java).resolve().parent.parent
    output = subprocess.run([java, "-version"], check=False, capture_output=True, text=True).stderr
    version = output.partition('version "')[2].partition('"')[0]
    if int(version.partition(".")[0] or 0) not in _JAVA:
        needed = f"Java {_JAVA[0]} to {_JAVA[-1]}"
        raise MissingServerError(f"a real {product} needs {needed}, and this is {version or 'another'}")
    return home


class SearchServer:
    """A process that serves what is below ``folder``; it can be killed, and started again on the same port."""

    def __init__(self, distribution: Distribution, folder: Path) -> None:
        """Unpack the distribution; raises MissingServerError."""
        self.product, self._java = distribution.product, java_home(distribution.product) / "bin" / "java"
        with zipfile.ZipFile(archive(distribution, folder)) as zipped:
            zipped.extractall(folder)
        self._home, self._log = folder / distribution.file.removesuffix(".zip"), folder / "server.log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        prefix = f"-D{distribution.prefix}"
        self._arguments = [
            *(*_JAVA_OPTIONS, *distribution.java_options, f"-Djava.io.tmpdir={folder}"),
            *(f"{prefix}.path.home={self._home}", f"{prefix}.path.conf={self._home / 'config'}"),
            *(
                f"{prefix}.distribution.type=zip",
                f"{prefix}.distribution.flavor=default",
                f"{prefix}.bundled_jdk=false",
            ),
            *("-cp", f"{self._home / 'lib'}/*", distribution.main),
        ]
        (self._home / "config" / f"{distribution.name}.yml").write_text(
            f"discovery.type: single-node\nnetwork.host: 127.0.0.1\nhttp.port: {self.port}\n"
            f"transport.port: {free_port()}\ncluster.routing.allocation.disk.threshold_enabled: false\n"
        )
        self._identity = _unprivileged(folder)
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("JAVA_")}
        self._environment |= {"HOME": str(folder), "LIBFFI_TMPDIR": str(folder)}

    def start(self) -> None:
        """Start, and wait until it answers."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(self._java), *self._arguments],
                cwd=self._home,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._identity,
            )
        deadline = time.monotonic() + _PATIENCE_S
        while not self._answers():
            output = self._log.read_text(errors="replace")[-2000:]
            assert self._process.poll() is None, f"{self.product} ended with {self._process.returncode}: {output}"
            assert time.monotonic() < deadline, f"{self.product} did not answer within {_PATIENCE_S:g} s: {output}"
            time.sleep(_POLL_S)

    def _answers(self) -> bool:
        try:
            with contextlib.closing(HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
                connection.request("GET", "/")
                return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False

    def kill(self) -> None:
        """SIGKILL it, with whatever else it started, which is in its session; wait until it has ended."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextlib.contextmanager
def serving(distribution: Distribution) -> Iterator[SearchServer]:
    """Run a server until the block ends, whatever happens in it. Raises MissingServerError."""
    # not below pytest's own folder, which nobody else may enter
    with tempfile.TemporaryDirectory(prefix=f"{distribution.name}-", ignore_cleanup_errors=True) as name:
        server = SearchServer(distribution, Path(name))
        try:
            server.start()
            yield server
        finally:
            server.kill()


def _unprivileged(folder: Path) -> dict[str, int | list[int]]:
    """Return what makes a process ``nobody``'s, who then owns the folder; nothing unless this one is root's."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
