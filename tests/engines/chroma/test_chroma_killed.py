"""Chroma's own server, killed half way: what a user reads, the exit code, and a rerun that ends right."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from chroma_proxy import ChromaProxy
from chroma_server import ChromaServer, serving
from faulty_http import Act, Reply, serve
from installed import skip_module_without
from small_world import DOCUMENTS, QUERIES, write_collection
from warm_harness import harness_command

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.doctor.servers import find_servers, left_collections, remove_collections
from harness.engines.chroma.engine import ChromaEngine
from harness.errors import EngineUnavailableError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import random_unit_vectors

skip_module_without("chromadb")

pytestmark = pytest.mark.integration
DEFAULTS = find_cards("backends")["chroma"].defaults
IDS = Ids.of(f"d{row}" for row in range(100))
GIVEN = Inputs(IDS, dense=random_unit_vectors(1, 100, 16))
ASKED = Inputs(Ids.of(f"q{row}" for row in range(10)), dense=random_unit_vectors(2, 10, 16))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """A server that each test kills, and starts again."""
    with serving(tmp_path_factory.mktemp("killed") / "server") as running:
        yield running


class Killing(RecordingProgress, StepClock):
    """Kills the server when so many documents are stored, or when the clock was read so often."""

    def __init__(self, server: ChromaServer, *, documents: int = 10**9, readings: int = 10**9) -> None:
        RecordingProgress.__init__(self)
        StepClock.__init__(self)
        self.server, self.documents, self.readings = server, documents, readings

    def advance(self, amount: int) -> None:
        super().advance(amount)
        self.documents -= amount
        if self.documents == 0:
            self.server.kill()

    def __call__(self) -> int:
        self.readings -= 1
        if self.readings == 0:
            self.server.kill()
        return super().__call__()


def run(server: ChromaServer, folder: Path, killing: Killing) -> np.ndarray:
    """The rows found, int32 (10, 5)."""
    folder.mkdir()
    changed: dict[str, ParameterValue] = {"url": server.url, "upsert_batch": 10, "retry_s": 0.5, "ef_search": 100}
    with closing(ChromaEngine({**DEFAULTS, **changed})) as engine:
        engine.open(folder, IDS)
        report = engine.index(GIVEN, killing, StepClock())
        assert (report.indexed, len(report.missing_rows)) == (100, 0)
        return engine.search(ASKED, 5, killing).rows.reshape(10, 5)


@pytest.mark.parametrize(
    ("when", "busy"),
    [({"documents": 50}, "storing documents 50 to 59"), ({"readings": 15}, "searching for query 'q5'")],
    ids=["ingestion", "queries"],
)
def test_a_server_that_is_killed_half_way(
    when: dict[str, int], busy: str, server: ChromaServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(EngineUnavailableError, match=r"Chroma at .* cannot be reached while") as caught:
        run(server, tmp_path / "killed", Killing(server, **when))
    assert f"{busy} ([Errno 111] Connection refused, " in str(caught.value)
    assert "left behind: the collection 'harness-killed-" in caplog.text
    assert "'harness doctor --chroma-url http://127.0.0.1:" in caplog.text
    server.start()
    left = left_collections(find_servers()["Chroma"], server.url)
    assert [name.startswith("harness-killed-") for name in left] == [True]
    remove_collections(find_servers()["Chroma"], server.url, left)
    found = run(server, tmp_path / "again", Killing(server))
    assert np.array_equal(found, np.argsort(-ASKED.dense @ GIVEN.dense.T, axis=1)[:, :5])
    assert left_collections(find_servers()["Chroma"], server.url) == []


def killed(server: ChromaServer) -> Act:
    """The server is killed while it has the request."""

    def act(_: Callable[[], Reply]) -> Reply:
        server.kill()
        return Reply(None, b"")

    return act


@pytest.mark.parametrize(("operation", "busy"), [("upsert", "storing documents 2 to 3"), ("query", "searching for")])
def test_the_command_line_ends_with_three_and_a_rerun_ends_right(
    operation: str, busy: str, server: ChromaServer, tmp_path: Path
) -> None:
    write_collection(tmp_path / "small")

    def compare(*more: str) -> subprocess.CompletedProcess[str]:
        backend = f"chroma:url={proxy.url};model=random;upsert_batch=2;retry_s=0.5"
        command = [*harness_command(), "compare", "--backends", backend, "--dataset", tmp_path / "small"]
        command += ["--k", "10", "--no-timing", "--out", tmp_path / "out", *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)

    with serve(ChromaProxy(behind=server.url)) as proxy:
        proxy.fail(operation, killed(server), after=1, times=1)
        broken = compare()
        assert broken.returncode == 3, broken.stderr
        assert f"Chroma at {proxy.url} broke the connection while {busy}" in broken.stderr
        assert "Traceback" not in broken.stderr
        server.start()
        mended = compare("--overwrite")
        assert mended.returncode == 0, mended.stderr
    (backend,) = json.loads((tmp_path / "out" / "report.json").read_text())["trials"]
    assert (backend["error"], backend["index"]["documents_indexed"]) == (None, len(DOCUMENTS))
    assert backend["search"]["hits"] == len(DOCUMENTS) * len(QUERIES)
