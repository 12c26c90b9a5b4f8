"""A whole comparison against a server, through the command line: results, faults, secrets, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_http import Act, Reply, dead, slow
from installed import skip_module_without
from qdrant_stub import Stub, error, serve
from small_world import DOCUMENTS, write_collection
from warm_harness import harness_command, script_command

import harness
from harness.results.schema import TrialResult

skip_module_without("qdrant_client")

pytestmark = pytest.mark.integration
KEY, PASSWORD = "key-0f-the-house", "w0rd-of-passage"


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serve() as serving:
        yield serving


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("data") / "small")


def compare(backends: str, collection: Path, out: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*harness_command(), "compare", "--backends", backends, "--dataset", str(collection)]
    return subprocess.run(
        [*command, "--k", "3", "--out", str(out), "--format", "json"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def qdrant(stub: Stub, *more: str) -> str:
    return ";".join([f"qdrant:url={stub.url}", "transport=rest", "analyzer=whitespace", "retry_s=0.5", *more])


def test_a_comparison(stub: Stub, collection: Path, tmp_path: Path) -> None:
    result = compare(f"{qdrant(stub)},csr:analyzer=whitespace", collection, tmp_path / "out")
    assert result.returncode == 0, result.stderr
    served, exact = json.loads(result.stdout)["trials"]
    assert served["engine"] == {"name": "Qdrant", "version": stub.version, "mode": "server, rest"}
    assert served["metrics"] == exact["metrics"]
    assert served["parity"]["different"] == 0
    assert served["index"]["documents_indexed"] == len(DOCUMENTS)
    assert served["index"]["log_bytes"] == 0
    assert served["index"]["state"]["server"] == stub.url
    assert re.fullmatch(r"harness-[0-9a-f]{32}-[0-9a-f]{8}", served["index"]["state"]["collection"])
    assert stub.collections == {}


def test_a_server_that_dies_half_way_through_upload_fails_one_backend(
    stub: Stub, collection: Path, tmp_path: Path
) -> None:
    stub.fail("upsert", dead, after=2)
    backends = f"{qdrant(stub, 'batch_size=1', 'upload_threads=1')},csr:analyzer=whitespace"
    result = compare(backends, collection, tmp_path / "out")
    assert result.returncode == 3, result.stderr
    assert "Traceback" not in result.stderr
    failed, fine = json.loads(result.stdout)["trials"]
    assert (failed["status"], failed["error"]["type"]) == ("failed", "EngineUnavailableError")
    assert f"{stub.url} broke the connection while storing documents 2 to 2 " in failed["error"]["message"]
    assert fine["status"] == "ok"
    assert stub.collections == {}


def in_process(backends: str, collection: Path) -> TrialResult:
    """The only backend of a comparison without workers."""
    (backend,) = harness.compare(backends, collection, k=3, isolation="none").report.trials
    return backend


def test_a_server_that_dies_half_way_through_search(stub: Stub, collection: Path) -> None:
    stub.fail("query", dead, after=3)
    failed = in_process(qdrant(stub), collection)
    assert failed.error is not None
    assert f"{stub.url} broke the connection while searching for query 'q" in failed.error.message
    assert stub.collections == {}


def test_lost_points_are_named(stub: Stub, collection: Path) -> None:
    stub.losing = frozenset({1, 3})
    failed = in_process(qdrant(stub), collection)
    assert failed.error is not None
    assert failed.error.message.startswith("the engine lost 2 documents that are not empty: d2, d4\n")


def test_a_server_that_is_not_there(collection: Path) -> None:
    failed = in_process("qdrant:url=http://127.0.0.1:9;analyzer=whitespace", collection)
    assert failed.error is not None
    assert failed.error.message.startswith("Qdrant at http://127.0.0.1:9 cannot be reached")


def test_busy_for_a_while_and_queries_sent_together(stub: Stub, collection: Path) -> None:
    for operation in ("upsert", "query_batch"):
        stub.fail(operation, error(503, "Service is starting"), times=1, after=3 if operation == "query_batch" else 0)
    fine = in_process(qdrant(stub, "search_batch=2"), collection)
    assert fine.index is not None
    assert fine.search is not None
    assert fine.index.state["repeated_calls"] == 1
    assert fine.search.queries_per_call == 2
    assert any("2 queries were sent in one call" in note for note in fine.notes)


def test_secrets_are_written_nowhere(stub: Stub, collection: Path, tmp_path: Path) -> None:
    """Not by a run that works nor by one that fails; looked for in every file while a query is answered, too."""
    cache, seen = tmp_path / "cache", list[str]()

    def look(carry_out: object) -> Reply:
        seen.extend(holding(cache))
        return carry_out()  # type: ignore[operator,no-any-return]

    stub.api_key = KEY
    stub.fail("query", look)
    url = stub.url.replace("http://", f"http://me:{PASSWORD}@")
    secrets = {"HARNESS_QDRANT_URL": url, "HARNESS_CACHE": str(cache)}
    backends = "qdrant:mode=server;transport=rest;analyzer=whitespace;retry_s=0"
    fine = compare(backends, collection, tmp_path / "fine", QDRANT_API_KEY=KEY, **secrets)
    assert fine.returncode == 0, fine.stderr
    assert stub.headers[-1]["authorization"].startswith("Basic ")
    assert stub.headers[-1]["api-key"] == KEY
    stub.api_key = "another"
    refused = compare(backends, collection, tmp_path / "refused", QDRANT_API_KEY=KEY, **secrets)
    assert refused.returncode == 3
    assert "Invalid API key ***" in refused.stdout
    everything = "".join((fine.stdout, fine.stderr, refused.stdout, refused.stderr))
    assert [secret for secret in (KEY, PASSWORD, "bWU6") if secret in everything] == []
    assert seen == []
    assert holding(tmp_path) == []
    assert (tmp_path / "fine" / "report.json").is_file()


def holding(folder: Path) -> list[str]:
    """Files that hold a secret, plainly or as the header that it is sent in (``me:`` in base 64 is ``bWU6``)."""
    secrets = (KEY.encode(), PASSWORD.encode(), b"bWU6")
    return [
        f"{path}: {secret!r}"
        for path in folder.rglob("*")
        if path.is_file()
        for secret in secrets
        if secret in path.read_bytes()
    ]


SECRET_URLS = (
    f"http://me:{PASSWORD}@host",
    f"me:{PASSWORD}@127.0.0.1:1",
    f"http://me:1/{PASSWORD}@127.0.0.1:1",
    f"http://me:1#{PASSWORD}@127.0.0.1:1",
    f"https:/me:{PASSWORD}@127.0.0.1:1",
    f"http://127.0.0.1:1?api_key={PASSWORD}",
)


@pytest.mark.parametrize("url", SECRET_URLS)
def test_a_secret_on_the_command_line_is_refused_unread(url: str, collection: Path, tmp_path: Path) -> None:
    result = compare(f"qdrant:url={url}", collection, tmp_path / "out")
    assert result.returncode == 2
    assert result.stderr == (
        "harness: a 'url' in the backends is not of the form http(s)://HOST[:PORT][/PATH] or "
        "postgresql://HOST[:PORT]/DATABASE; reports would store any user name, password or key in it\n"
        "  leave such a URL out and put it into an environment variable: `harness backends NAME` names the variables "
        "of the address (as HARNESS_QDRANT_URL or HARNESS_POSTGRES_URL, with mode=server) and of the API key; a key of "
        "a `rerank:` endpoint goes into the variable that `api_key_env` names\n"
    )
    assert result.stdout == ""
    assert not (tmp_path / "out").exists()


def test_a_variable_that_holds_no_url_is_refused_unread(collection: Path, tmp_path: Path) -> None:
    url = f"http://me:1/{PASSWORD}@127.0.0.1:1"
    result = compare("qdrant:mode=server", collection, tmp_path / "out", HARNESS_QDRANT_URL=url)
    assert result.returncode == 2, "before anything is loaded"
    assert "http(s)://[USER:PASSWORD@]HOST[:PORT][/PATH]" in result.stderr
    assert PASSWORD not in result.stdout + result.stderr
    assert holding(tmp_path) == []


PROGRAM = """
import os, signal, sys
from pathlib import Path
Path(sys.argv.pop(1)).write_text(str(os.getpid()))
signal.signal(signal.SIGINT, signal.default_int_handler)
from harness.cli.app import main
main()
"""


def interrupted(stub: Stub, operation: str, collection: Path, out: Path) -> tuple[int, str]:
    """Exit code and messages of a comparison that got Ctrl-C in a call of ``operation``."""
    stub.fail(operation, slow(1.0), after=1)
    program, number = out.with_name("program.py"), out.with_name("pid")
    program.write_text(PROGRAM)
    backends = qdrant(stub, "batch_size=1", "upload_threads=2")
    command = [*script_command(), program, number, "compare", "--backends", backends, "--dataset", collection]
    with subprocess.Popen(
        [*command, "--out", out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while stub.calls[operation] < 2:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        os.kill(int(number.read_text()), signal.SIGINT)
        _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.parametrize("operation", ["upsert", "query"])
def test_ctrl_c_removes_the_collection(operation: str, stub: Stub, collection: Path, tmp_path: Path) -> None:
    code, err = interrupted(stub, operation, collection, tmp_path / "out")
    assert code == 130
    assert err.endswith("harness: interrupted\n")
    assert stub.collections == {}


@pytest.mark.parametrize(("act", "why"), [(error(503, "busy"), "503"), (slow(10), "no answer within 2 s")])
def test_ctrl_c_names_the_collection_that_cannot_be_removed(
    act: Act, why: str, stub: Stub, collection: Path, tmp_path: Path
) -> None:
    stub.fail("delete", act)
    code, err = interrupted(stub, "upsert", collection, tmp_path / "out")
    assert code == 130
    (name,) = stub.collections
    (line,) = [line for line in err.splitlines() if line.startswith("left behind: ")]
    assert line.startswith(f"left behind: the collection '{name}' could not be removed: {why}")
    assert line.endswith(f"'harness doctor --url {stub.url} --remove-left-collections' does it")


def test_two_comparisons_at_once_do_no_harm(stub: Stub, collection: Path, tmp_path: Path) -> None:
    """The same backend twice: each has a collection of its own."""
    names = set[str]()
    stub.fail("query", slow(0.2), times=3)
    command = [*harness_command(), "compare", "--backends", qdrant(stub), "--dataset", str(collection)]
    running = [
        subprocess.Popen([*command, "--k", "3", "--out", str(tmp_path / name)], stdout=subprocess.DEVNULL)
        for name in ("one", "other")
    ]
    while any(process.poll() is None for process in running):
        names |= set(stub.collections)
        time.sleep(0.01)
    assert [process.returncode for process in running] == [0, 0]
    assert len(names) == 2
    assert stub.collections == {}
