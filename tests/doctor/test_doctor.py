"""The doctor: every check, fine and broken, and that one which breaks hides no other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace

import psutil
import pytest
from click.testing import CliRunner, Result
from installed import skip_without
from opensearch_stub import serve as serve_indexes
from warm_harness import harness_command

from harness.cli.app import _build
from harness.doctor import CHECKS, Finding, State, examine, machine
from harness.doctor.servers import examine_server, find_servers, left_collections, remove_collections
from harness.errors import BackendError, EngineUnavailableError
from harness.java import jvm
from harness.registry.lookup import find_cards
from harness.store import environment

GIB = 1024**3


def qdrant_server(url: str) -> Finding:
    return examine_server(find_servers()["Qdrant"], url)


def chroma_server(url: str) -> Finding:
    return examine_server(find_servers()["Chroma"], url)


def test_every_default_check_says_something_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the command writes it, without servers; all of it is shown in the width of the terminal, too."""
    command = [*harness_command(), "doctor", "--format", "json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    written = json.loads(result.stdout)
    assert {tuple(one) for one in written} == {("name", "state", "detail", "remedy")}
    found = [Finding(**{**one, "state": State(one["state"])}) for one in written]
    assert result.returncode == (3 if any(one.state is State.FAIL for one in found) else 0)
    assert [one.name for one in found] == [*CHECKS, *(f"{engine} server" for engine in find_servers())]
    assert all(one.detail for one in found)
    assert all(one.remedy for one in found if one.state is not State.OK), "a line that is not fine says what to do"
    assert not any(one.remedy for one in found if one.state is State.OK)
    monkeypatch.setattr("harness.doctor.examine", lambda _: found)
    monkeypatch.setenv("COLUMNS", "80")
    shown = run().stdout.splitlines()
    assert len(shown) > len(found)
    assert [line for line in shown if len(line) > 80 and "/" not in line] == [], "only a path or an address stays whole"


def test_a_check_that_breaks_hides_no_other() -> None:
    def broken() -> Finding:
        raise ZeroDivisionError("oops")

    def unfit() -> Finding:
        raise EngineUnavailableError("no Java", fix="install one")

    found = examine(checks={"a": broken, "b": unfit, "c": machine.python})
    assert found[0] == (
        "a",
        State.FAIL,
        "the check itself failed: ZeroDivisionError: oops",
        "report it with this message",
    )
    assert found[1] == ("b", State.FAIL, "no Java", "install one")
    assert found[2].state is State.OK


def test_every_package_of_the_engines_extras_is_looked_at(repository: Path) -> None:
    extras = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    engines = ("qdrant", "lucene", "chroma", "faiss", "usearch", "hnswlib", "duckdb", "lancedb", "pgvector")
    engines = (*engines, "milvus", "tantivy", "sqlite", "bm25s")
    wanted = {(re.split("[>[]", line)[0], extra) for extra in (*engines, "ray") for line in extras[extra]}
    assert {(one.name, one.extra) for one in machine.PACKAGES} == wanted


def package(**changed: object) -> machine.Package:
    return machine.Package("pytest", "pytest", "qdrant", True)._replace(**changed)  # type: ignore[arg-type]


def test_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.package(package()) == ("pytest", State.OK, metadata.version("pytest"), "")
    absent = machine.package(package(name="no-such-distribution"))
    assert absent[1:] == (State.FAIL, "not installed", "pip install 'retrieval-harness[qdrant]'")
    assert machine.package(package(name="no-such-distribution", needed=False)).state is State.WARN
    assert machine.package(package(name="no-such-distribution", also="; or not")).remedy.endswith("[qdrant]'; or not")
    (tmp_path / "broken_engine.py").write_text("raise ImportError('its library is missing')")
    (tmp_path / "crashing_engine.py").write_text("import os\nos.kill(os.getpid(), 11)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    broken = machine.package(package(module="broken_engine"))
    assert broken.detail.endswith("cannot be imported: ImportError: its library is missing")
    assert broken.remedy == f"pip install --force-reinstall 'pytest=={metadata.version('pytest')}'"
    assert "exit code -11" in machine.package(package(module="crashing_engine")).detail


def test_pyserini_without_what_it_requires_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `pip install --no-deps pyserini` leaves it: its Python code would fail, and nobody imports it."""
    record = tmp_path / "pyserini-1.6.0.dist-info" / "METADATA"
    record.parent.mkdir()
    record.write_text("Metadata-Version: 2.1\nName: pyserini\nVersion: 1.6.0\nRequires-Dist: torch>=2\n")
    (tmp_path / "pyserini").mkdir()
    (tmp_path / "pyserini" / "__init__.py").write_text("import no_such_torch")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = CHECKS["pyserini"]()
    assert found == ("pyserini", State.OK, "1.6.0 (only its files are used)", "")


def test_a_package_whose_program_is_started_is_judged_by_the_program_and_not_by_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """milvus-lite 2.5.1 imports ``pkg_resources``, which setuptools 82 lacks; the engine starts its program."""
    record = tmp_path / "milvus_lite-2.5.1.dist-info" / "METADATA"
    record.parent.mkdir()
    record.write_text("Metadata-Version: 2.1\nName: milvus-lite\nVersion: 2.5.1\n")
    (tmp_path / "milvus_lite" / "lib").mkdir(parents=True)
    (tmp_path / "milvus_lite" / "__init__.py").write_text("from pkg_resources import get_distribution")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert CHECKS["milvus-lite"]() == (
        "milvus-lite",
        State.WARN,
        "2.5.1, without its program 'milvus_lite/lib/milvus'",
        "pip install --force-reinstall 'retrieval-harness[milvus]'",
    )
    (tmp_path / "milvus_lite" / "lib" / "milvus").touch()
    assert CHECKS["milvus-lite"]() == ("milvus-lite", State.OK, "2.5.1 (only its files are used)", "")


def test_the_packages_of_every_card_are_checked_and_recorded(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extras = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    required = {
        (re.split(r"[\[<>=]", requirement)[0], card.extra)
        for card in find_cards("backends").values()
        if card.extra is not None
        for requirement in extras[card.extra]
    }
    assert len(required) > 15
    assert required <= {(one.name, one.extra) for one in machine.PACKAGES}
    monkeypatch.setattr(environment, "_installed_version", lambda name: "1.0")
    assert {name for name, _ in required} <= environment.package_versions().keys()


def test_lucene_is_offered_without_torch_in_the_extras_own_versions(repository: Path) -> None:
    extras = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert sorted(re.findall(r"'(.+?)'", jvm.WITHOUT_TORCH)) == sorted(extras["lucene"])
    assert re.search(r"--no-deps 'pyserini[^']*'$", jvm.WITHOUT_TORCH)
    lucene = [one for one in machine.PACKAGES if one.extra == "lucene"]
    assert [one.also for one in lucene] == [jvm.WITHOUT_TORCH] * 3


def test_options_of_the_environment_are_not_the_version_of_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS: -Xint' >&2\necho 'openjdk version \"21.0.8\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setattr("harness.java.jvm.find_java", lambda: tmp_path)
    assert machine.java().detail == f"openjdk version \"21.0.8\" in '{tmp_path}'"


def test_java_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'Could not reserve enough space' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setattr("harness.java.jvm.find_java", lambda: tmp_path)
    found = machine.java()
    assert (found.state, found.detail) == (State.FAIL, f"'{tmp_path}' does not start: Could not reserve enough space")


CARD = """
name = "mine"
summary = "an engine of my own"
engine = "my_engine:Mine"
encoder = "bm25"
[reference]
kind = "sparse"
[parameters.effort]
type = "int"
default = 1
scope = "search"
help = "a number"
"""
ENGINE = """
from harness.engines.csr import CsrEngine

class Mine(CsrEngine):
    pass
"""


def test_a_card_that_disagrees_with_its_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "backends").mkdir()
    (tmp_path / "backends" / "mine.toml").write_text(CARD)
    monkeypatch.chdir(tmp_path)
    (found,) = examine(checks={"cards": machine.cards})[:1]
    assert (found.state, "module 'my_engine' of 'engine' cannot be imported" in found.detail) == (State.FAIL, True)
    (tmp_path / "my_engine.py").write_text(ENGINE)
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = examine(checks={"cards": machine.cards})[:1]
    assert (found.state, "its scope is 'search', but 'Mine' opens no index" in found.detail) == (State.FAIL, True)


SERVER_CARD = f"""{CARD.replace('scope = "search"', 'scope = "engine"')}
[parameters.url]
type = "str"
default = ""
scope = "engine"
help = "the server's address"
"""
SERVER_ENGINE = """
import os
from collections.abc import Iterable

from harness.engines.csr import CsrEngine
from harness.engines.http_server import HttpRetrier
from harness.engines.remote_server import AddressRules, ServerConnection, ServerKind, read_address

RULES = AddressRules("Mine", 7, "MY_URL", "MY_KEY")


class Retrier(HttpRetrier):
    def words_of(self, answer):
        return answer.text


class Connection(ServerConnection):
    version = "3.2"
    stored = ["harness-a-01234567", "mine"]

    def __init__(self, parameters):
        self.address = read_address(RULES, parameters["url"], RULES.key_variable, os.environ)
        self.retrier = Retrier(parameters["retry_s"])

    def list_names(self):
        return self.stored

    def remove(self, name):
        self.stored.remove(name)

    def close(self):
        pass


class Mine(CsrEngine):
    def __init__(self, parameters):
        super().__init__(parameters)
        self.effort, self.address = parameters["effort"], parameters["url"]

    @classmethod
    def server_kind(cls):
        return ServerKind(RULES, Connection)
"""


@pytest.fixture
def plugged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A card and an engine on a server, as another package brings them; the file of the engine."""
    (tmp_path / "backends").mkdir()
    (tmp_path / "backends" / "mine.toml").write_text(SERVER_CARD.replace("my_engine", "my_server_engine"))
    (tmp_path / "my_server_engine.py").write_text(SERVER_ENGINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "my_server_engine.py"
    sys.modules.pop("my_server_engine", None)


def test_the_server_of_a_plug_in_is_examined_by_its_own_class(
    plugged_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert examine_server(find_servers()["Mine"], "") == ("Mine server", State.OK, "not configured (MY_URL)", "")
    monkeypatch.setenv("MY_URL", "http://host")
    assert "Mine server" in {finding.name for finding in examine(checks={})}
    left = examine_server(find_servers()["Mine"], "")
    assert left.state is State.WARN
    assert left.detail == "http://host:7, Mine 3.2, 2 collections, 1 of them made by harness: harness-a-01234567"
    removed = run("--remove-left-collections", "--yes")
    assert (removed.exit_code, removed.stdout.splitlines()) == (0, ["harness-a-01234567"])
    assert examine_server(find_servers()["Mine"], "").detail == "http://host:7, Mine 3.2, 1 collection"


def test_a_plug_in_that_fails_to_name_its_server_hides_no_other_check(plugged_in: Path) -> None:
    plugged_in.write_text(SERVER_ENGINE.replace("return ServerKind(RULES, Connection)", "raise ValueError('no')"))
    first, servers = examine(checks={"Python": machine.python})
    assert (first.state, servers.name, servers.state) == (State.OK, "servers", State.FAIL)
    assert "mine.toml': server_kind of its engine raised ValueError: no" in servers.detail


def test_an_engine_that_cannot_be_imported_hides_no_server(plugged_in: Path) -> None:
    plugged_in.write_text("import no_such_client")
    assert "Mine" not in find_servers()
    assert "Qdrant" in find_servers()


def test_finding_the_servers_loads_no_client() -> None:
    clients = ("qdrant_client", "qdrant_edge", "chromadb", "pymilvus", "psycopg", "faiss", "lancedb", "pandas")
    loaded = f"print([name for name in {clients} if name in sys.modules])"
    code = f"import sys\nfrom harness.doctor.servers import find_servers\nfind_servers()\n{loaded}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(("free", "state"), [(20, State.OK), (2, State.WARN), (0.5, State.FAIL)])
def test_memory(free: float, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=free * GIB, total=32 * GIB))
    assert machine.memory().state is state


@pytest.mark.parametrize(("free", "state"), [(20, State.OK), (1, State.WARN), (0.1, State.FAIL)])
def test_disk(free: float, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free * GIB))
    assert machine.disk().state is state


def test_the_disk_of_a_cache_that_is_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "not" / "yet"))
    assert str(tmp_path) in machine.disk().detail
    assert not (tmp_path / "not").exists()


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file"))
    (found, *_) = examine(checks={"cache": machine.cache})
    assert found.state is State.FAIL
    assert "cannot be written" in found.detail


@pytest.fixture
def stub() -> Iterator[object]:
    skip_without("qdrant_client")
    from qdrant_stub import serve

    with serve() as serving:
        yield serving


def test_no_server_is_fine_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_QDRANT_URL", raising=False)
    assert qdrant_server("").state is State.OK


@pytest.mark.parametrize(("named", "state"), [(True, State.FAIL), (False, State.WARN)])
def test_a_server_that_is_not_there(named: bool, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without("qdrant_client")
    monkeypatch.setenv("HARNESS_QDRANT_URL", "http://127.0.0.1:9")
    found = qdrant_server("http://127.0.0.1:9" if named else "")
    assert found.state is state
    assert found.detail.startswith("Qdrant at http://127.0.0.1:9 cannot be reached")
    assert "docker run" in found.remedy


def test_a_server_that_is_fine_and_one_with_leftovers(stub: SimpleNamespace) -> None:
    found = qdrant_server(stub.url)
    assert found == ("Qdrant server", State.OK, f"{stub.url}, Qdrant 1.19.1 over rest, 0 collections", "")
    stub.collections.update(dict.fromkeys(["harness-a-01234567", "mine"], SimpleNamespace(shards=[], folder="")))
    left = qdrant_server(stub.url)
    stub.collections.clear()
    assert left.state is State.WARN
    assert left.detail.endswith("2 collections, 1 of them made by harness: harness-a-01234567")


def test_a_server_that_wants_a_key(stub: SimpleNamespace) -> None:
    stub.api_key = "sesame"
    found = qdrant_server(stub.url)
    assert (found.state, "QDRANT_API_KEY" in found.remedy) == (State.FAIL, True)


@pytest.mark.usefixtures("only_servers")
@pytest.mark.parametrize("url", ["http://me:s3same@host", "me:s3same@host:1", "http://host?api_key=s3same"])
def test_a_url_with_a_secret_is_refused_unread(url: str) -> None:
    skip_without("qdrant_client")
    result = run("--url", url)
    assert result.exit_code == 3
    assert "not of the form http(s)://HOST[:PORT][/PATH]" in " ".join(result.stdout.split())
    assert "s3same" not in result.stdout + result.stderr


def run(*arguments: str) -> Result:
    return CliRunner().invoke(_build(), ["doctor", *arguments])


@pytest.fixture
def only_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the checks that import every engine's package in a process of its own."""
    monkeypatch.setattr("harness.doctor.examine", partial(examine, checks={"Python": machine.python}))


def test_left_collections_are_removed_and_no_other(stub: SimpleNamespace) -> None:
    ours, others = ["harness-a-01234567", "harness-b-89abcdef"], ["mine", "harness-mine", "harness-a-01234567-b"]
    stub.collections.update({name: SimpleNamespace(shards=[], folder=mkdtemp()) for name in [*ours, *others]})
    asked = run("--url", stub.url, "--remove-left-collections")
    assert asked.exit_code != 0, "nobody said yes"
    assert sorted(stub.collections) == sorted([*ours, *others])
    removed = run("--url", stub.url, "--remove-left-collections", "--yes")
    assert (removed.exit_code, removed.stdout.splitlines(), removed.stderr) == (0, ours, "2 removed\n")
    assert sorted(stub.collections) == sorted(others)
    again = run("--url", stub.url, "--remove-left-collections", "--yes")
    assert again.stdout == "no collection that harness made is on the server\n"


@pytest.mark.usefixtures("only_servers")
def test_the_command_fails_when_what_was_asked_for_is_not_there() -> None:
    skip_without("qdrant_client")
    result = run("--url", "http://127.0.0.1:9")
    assert result.exit_code == 3
    assert "fail Qdrant server Qdrant at http://127.0.0.1:9 cannot be reached" in " ".join(result.stdout.split())
    assert result.stdout.splitlines()[-1].endswith("1 fail")
    assert result.stderr == ""


def test_no_chroma_server_is_fine_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_CHROMA_URL", raising=False)
    assert chroma_server("").state is State.OK


@pytest.mark.parametrize(("named", "state"), [(True, State.FAIL), (False, State.WARN)])
def test_a_chroma_server_that_is_not_there(named: bool, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without("chromadb")
    monkeypatch.setenv("HARNESS_CHROMA_URL", "http://127.0.0.1:9")
    found = chroma_server("http://127.0.0.1:9" if named else "")
    assert found.state is state
    assert found.detail.startswith("Chroma at http://127.0.0.1:9 cannot be reached")


def test_a_chroma_server_that_is_fine_and_one_with_leftovers(chroma_url: str) -> None:
    skip_without("chromadb")
    from chroma_indexes import served

    server = find_servers()["Chroma"]
    remove_collections(server, chroma_url, left_collections(server, chroma_url))  # what other tests left
    with served(chroma_url) as client:
        client.create_collection("harness-a-01234567", embedding_function=None)
        client.create_collection("mine", embedding_function=None)
        left = chroma_server(chroma_url)
        remove_collections(server, chroma_url, left_collections(server, chroma_url))
        found = chroma_server(chroma_url)
        client.delete_collection("mine")
    assert left.state is State.WARN
    assert left.detail.endswith("2 collections, 1 of them made by harness: harness-a-01234567")
    assert found == ("Chroma server", State.OK, f"{chroma_url}, Chroma 1.0.0, 1 collection", "")


def test_the_command_removes_what_was_left_on_chroma(chroma_url: str) -> None:
    skip_without("chromadb")
    from chroma_indexes import served

    with served(chroma_url) as client:
        client.create_collection("harness-a-01234567", embedding_function=None)
        removed = run("--chroma-url", chroma_url, "--remove-left-collections", "--yes")
        assert [one.name for one in client.list_collections()] == []
    assert (removed.exit_code, removed.stdout) == (0, "harness-a-01234567\n")


def test_the_command_removes_indexes_that_were_left_on_elasticsearch() -> None:
    with serve_indexes() as stub:
        stub.indexes = {name: {} for name in ("mine", "harness-a-01234567", "harness--b-1-89abcdef")}
        stub.documents = {name: {} for name in stub.indexes}
        found = examine_server(find_servers()["Elasticsearch"], stub.url)
        removed = run("--elasticsearch-url", stub.url, "--remove-left-collections", "--yes")
        assert list(stub.indexes) == ["mine"]
        wrong = examine_server(find_servers()["OpenSearch"], stub.url)
        with pytest.raises(BackendError, match="removing the index 'harness-a-01234567'"):
            remove_collections(find_servers()["Elasticsearch"], stub.url, ["harness-a-01234567"])
    assert found.state is State.WARN
    assert found.detail.startswith(f"{stub.url}, Elasticsearch 8.19.2, 3 indexes, 2 of them made by harness")
    assert (removed.exit_code, removed.stdout) == (0, "harness--b-1-89abcdef\nharness-a-01234567\n")
    assert (wrong.state, wrong.detail) == (State.FAIL, f"the server at {stub.url} is Elasticsearch 8.19.2")
