"""Java's and Lucene's classes in a file that Java machines map, instead of finding, checking and linking each of them.

Tests start more than a hundred machines, most of which index a few documents: classes are a third of what each costs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import HarnessError
from harness.java.jvm import find_jar, find_java, java_version

__all__ = ["archive", "options", "writing_archive"]


def archive() -> Path | None:
    """Return where the file for this environment's Java and jar is, made or not; None if it has no Java or no jar."""
    try:
        return Path(sys.prefix, f"{find_jar().stem}-java-{java_version(find_java())}-for-tests.jsa")
    except HarnessError:
        return None


def options() -> tuple[str, ...]:
    """Return the options of machines that map the file; nothing if it was not made (by ``make kernels``)."""
    path = archive()
    if path is None or not path.exists() or " " in str(path):
        return ()
    # a Java or jar that the file was not made of works without it, and would say so on its standard output
    return "-Xlog:disable", f"-XX:SharedArchiveFile={path}"


@contextmanager
def writing_archive(path: Path) -> Iterator[None]:
    """Write the file, with the classes that this process's Java machine, which starts in the block, loads.

    A Java that makes no such files leaves none.
    """
    with tempfile.TemporaryDirectory() as folder:
        noted, listed, written = (Path(folder) / name for name in ("noted", "listed", "written"))
        os.environ["JAVA_TOOL_OPTIONS"] = f"-XX:DumpLoadedClassList={noted}"
        try:
            yield
        finally:
            del os.environ["JAVA_TOOL_OPTIONS"]
        if not noted.exists():
            return
        # the harness's classes lie in a folder, and only those of jars can be archived
        lines = noted.read_text(encoding="utf-8").splitlines(keepends=True)
        listed.write_text("".join(line for line in lines if "retrieval_harness" not in line), encoding="utf-8")
        command = [find_java() / "bin" / "java", "-Xshare:dump", "-Xlog:disable", "-cp", find_jar()]
        files = [f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={written}"]
        if subprocess.run([*command, *files], check=False, stdout=subprocess.DEVNULL).returncode == 0:
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_bytes(written.read_bytes())
            unfinished.replace(path)
