"""The Java classes that are shipped are those of the sources beside them."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.java.jvm import find_jar

pytestmark = pytest.mark.packaging

FOLDER = Path(__file__).parents[2] / "harness" / "java"
CLASSES = FOLDER / "classes"


def test_sources_and_classes_are_those_that_make_java_wrote_down() -> None:
    lines = (line.split() for line in (CLASSES / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
    written = {name: digest for digest, name in lines}
    files = [*FOLDER.glob("*.java"), *CLASSES.rglob("*.class")]
    found = {str(path.relative_to(FOLDER)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert found == written, "run make java"


def test_the_compiler_makes_the_same_classes(tmp_path: Path) -> None:
    compiler = shutil.which("javac")
    version = subprocess.run([compiler, "-version"], capture_output=True, text=True, check=True) if compiler else None
    if compiler is None or version is None or re.match(r"javac 17\b", version.stdout) is None:
        pytest.skip("there is no Java compiler of version 17, which made the classes")
    sources = map(str, FOLDER.glob("*.java"))
    options = ["--release", "17", "-Xlint:all", "-Werror", "-cp", str(find_jar()), "-d", str(tmp_path)]
    subprocess.run([compiler, *options, *sources], check=True)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.class")}
    assert made == {path.relative_to(CLASSES): path.read_bytes() for path in CLASSES.rglob("*.class")}
