"""A real OpenSearch server of one node, from the zip on Maven Central, on a free port of this machine.

It takes Java 17 or newer, and Maven to fetch the zip (49 MB, kept in Maven's own repository). It refuses to run as
root: started by root it runs as ``nobody``.
"""

from __future__ import annotations

import contextlib
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

from chroma_server import free_port

VERSION = "2.19.0"
ARTIFACT = f"org.opensearch.distribution.integ-test-zip:opensearch:{VERSION}:zip"
ARCHIVE_VARIABLE = "HARNESS_OPENSEARCH_ZIP"
_PATIENCE_S = 120.0
_FETCHING_S = 300.0
_POLL_S = 0.1
_SECURED = "org.opensearch.secure_sm.SecuredForkJoinWorkerThreadFactory"
_JAVA_OPTIONS = (
    *("-Xms256m", "-Xmx256m", "-Xss1m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    *("-Djava.awt.headless=true", "-Dfile.encoding=UTF-8", "-Djna.nosys=true", "-Djava.security.manager=allow"),
    *("-Dio.netty.noUnsafe=true", "-Dio.netty.noKeySetOptimization=true", "-Dio.netty.allocator.numDirectArenas=0"),
    *("-Dlog4j.shutdownHookEnabled=false", "-Dlog4j2.disable.jmx=true", "-Djava.locale.providers=SPI,COMPAT"),
    f"-Djava.util.concurrent.ForkJoinPool.common.threadFactory={_SECURED}",
)
"""Those of the server's own script for Java 17, which starts three more machines to find them, and a small heap."""


class MissingServerError(Exception):
    """Why there is no server here."""


def archive(folder: Path) -> Path:
    """Return the zip, fetched into ``folder`` unless ``HARNESS_OPENSEARCH_ZIP`` names it; raises MissingServerError."""
    if named := os.environ.get(ARCHIVE_VARIABLE):
        return Path(named)
    kept = Path.home() / ".m2/repository/org/opensearch/distribution/integ-test-zip/opensearch" / VERSION
    if (fetched_before := kept / f"opensearch-{VERSION}.zip").is_file():
        return fetched_before
    if shutil.which("mvn") is None:
        raise MissingServerError("a real OpenSearch needs Maven (mvn), which fetches its zip")
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    command = ["mvn", "-q", "-B", goal, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={folder}"]
    try:
        # not with the tests' options for Java, about which it would say something
        environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
        fetched = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=_FETCHING_S, env=environment
        )
    except subprocess.TimeoutExpired:
        raise MissingServerError("a real OpenSearch needs a Maven repository, and none answers") from None
    found = folder / f"opensearch-{VERSION}.zip"
    if fetched.returncode or not found.exists():
        raise MissingServerError(f"a real OpenSearch needs a Maven repository: {fetched.stdout.strip()[-300:]}")
    return found


def java_home() -> Path:
    """Return the home of Java 17 or newer; raises MissingServerError."""
    java = shutil.which("java")
    if java is None:
        raise MissingServerError("a real OpenSearch needs Java 17 or newer (java)")
    home = Path(java).resolve().parent.parent
    said = subprocess.run([java, "-version"], check=False, capture_output=True, text=True).stderr
    version = said.partition('version "')[2].partition('"')[0]
    if int(version.partition(".")[0] or 0) < 17:
        raise MissingServerError(f"a real OpenSearch needs Java 17 or newer, and this is {version or 'another'}")
    return home


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Run a server until the block ends, whatever happens in it; yields its URL. Raises MissingServerError."""
    home = java_home()
    # not below pytest's own folder, which nobody else may enter
    with tempfile.TemporaryDirectory(prefix="opensearch-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with zipfile.ZipFile(archive(folder)) as zipped:
            zipped.extractall(folder)
        server = next(path for path in folder.iterdir() if path.is_dir() and path.name.startswith("opensearch-"))
        port = free_port()
        _configure(server, port)
        identity = _unprivileged(folder)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("JAVA_")}
        environment |= {"HOME": str(folder)}
        places = (f"-Djava.io.tmpdir={folder}", f"-Dopensearch.path.home={server}")
        places += (f"-Dopensearch.path.conf={server / 'config'}", "-Dopensearch.distribution.type=zip")
        main = ("-Dopensearch.bundled_jdk=false", "-cp", f"{server / 'lib'}/*", "org.opensearch.bootstrap.OpenSearch")
        log = folder / "server.log"
        with log.open("wb") as written:
            process = subprocess.Popen(
                [str(home / "bin" / "java"), *_JAVA_OPTIONS, *places, *main],
                cwd=server,
                env=environment,
                stdout=written,
                stderr=written,
                start_new_session=True,
                **identity,
            )
        try:
            _wait_for(process, port, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            # whatever else it started is in its session
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _configure(server: Path, port: int) -> None:
    (server / "config" / "opensearch.yml").write_text(
        f"discovery.type: single-node\nnetwork.host: 127.0.0.1\nhttp.port: {port}\ntransport.port: {free_port()}\n"
        "cluster.routing.allocation.disk.threshold_enabled: false\n"
    )


def _unprivileged(folder: Path) -> dict[str, int | list[int]]:
    """Return what makes a process ``nobody``'s, who then owns the folder; nothing unless this one is root's."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        said = log.read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"OpenSearch ended with {process.returncode}: {said}"
        assert time.monotonic() < deadline, f"OpenSearch did not answer within {_PATIENCE_S:g} s: {said}"
        with (
            contextlib.suppress(OSError, HTTPException),
            contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=10)) as connection,
        ):
            connection.request("GET", "/")
            if connection.getresponse().status == 200:
                return
        time.sleep(_POLL_S)
