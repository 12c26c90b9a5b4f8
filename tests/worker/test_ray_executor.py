"""Jobs on a real Ray cluster, of three nodes on this machine: equal results, the same errors, and lost nodes."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from installed import skip_module_without
from processes import with_variable
from trial_jobs import job_folder

import harness
from harness.data.progress import SilentDisplay
from harness.encoders import stream
from harness.errors import (
    EngineFailureError,
    EngineTimeoutError,
    EngineUnavailableError,
    MachineError,
    MemoryLimitError,
    UsageError,
)
from harness.registry.lookup import find_cards
from harness.registry.parameters import encoder_parameters
from harness.rerank.rerankers import Keywords
from harness.store.columns import save_table
from harness.store.record_files import load, save
from harness.testing.samples import RecordingProgress
from harness.worker import divided_search, ray_executor, second_stages
from harness.worker.failure import RemoteError
from harness.worker.jobs import EncodeJob, EncodePart, EncodingRecord, TrialJob, TrialRecord
from harness.worker.process import FinishedProcess, Worker
from harness.worker.ray_executor import Cluster, NodeError, RayExecutor, run_on_node
from harness.worker.ray_files import SentFiles
from harness.worker.threads import Aside

skip_module_without("ray")
pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]  # of what is run here

TEXTS, BATCH = 300, 4


class OnThreeNodes(NamedTuple):
    cluster: Any
    """The cluster of Ray's own tests, which can lose nodes."""
    address: str
    calls: Path
    """Gets a line for every text that the model of `slow_model` encodes, on whatever node."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnThreeNodes]:
    from ray.cluster_utils import Cluster as TestCluster

    calls = tmp_path_factory.mktemp("calls") / "calls.txt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALLS", str(calls))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        each = {"num_cpus": 1, "object_store_memory": 80_000_000}
        # nobody looks at what they would tell
        without = {"no_monitor": True, "include_log_monitor": False, "include_dashboard": False}
        cluster = TestCluster(initialize_head=True, head_node_args={**each, **without})
        for _ in range(2):
            cluster.add_node(**each)
        yield OnThreeNodes(cluster, cluster.address, calls)
        import ray

        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def executor(nodes: OnThreeNodes) -> RayExecutor:
    return RayExecutor(Cluster(nodes.address))


def encode_job(folder: Path, texts: int = TEXTS, **parameters: object) -> Path:
    folder.mkdir()
    (folder / "target").mkdir()
    table = pa.table({"id": [f"d{n}" for n in range(texts)], "text": [f"text {n}" for n in range(texts)]})
    save_table(folder / "texts.arrow", table)
    given = {name: one.default for name, one in encoder_parameters("dense").items()}
    values: Any = {**given, "model": "python:slow_model:Dense", "batch_size": BATCH, **parameters}
    save(folder, EncodeJob("dense", values, (EncodePart("documents", folder / "texts.arrow", folder / "target"),)))
    return folder


def run(executor: RayExecutor, folder: Path) -> FinishedProcess:
    return executor.run(folder, SilentDisplay().section(""))


def wait_for(condition: Callable[[], object], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def family(process: int) -> list[int]:
    """Processes of the workers that the Ray task in this process started."""
    import psutil

    marks = set()
    for other in psutil.process_iter():
        try:
            marks.add(other.environ().get("HARNESS_WORKER", ""))
        except psutil.Error:
            continue
    return [
        found.pid for mark in marks if mark.startswith(f"{process}-") for found in with_variable("HARNESS_WORKER", mark)
    ]


def test_a_trial_on_a_node(executor: RayExecutor, tmp_path: Path) -> None:
    progress = RecordingProgress()
    finished = executor.run(job_folder(tmp_path, "BruteForce"), progress)
    record = load(tmp_path, TrialRecord)
    assert record.hits.rows.tolist() == [1, 0]
    assert progress.phases == [("index", 3), ("warm-up", 5), ("search", 4)]
    assert progress.advanced == [3, 5, 4]
    assert finished.peak_rss_bytes is not None
    assert finished.peak_rss_bytes > 10_000_000
    assert executor.running == {}


def test_errors_come_back_as_they_are_here(executor: RayExecutor, tmp_path: Path) -> None:
    for name in ("reported", "crash"):
        (tmp_path / name).mkdir()
    with pytest.raises(RemoteError, match="the engine is not there") as reported:
        run(executor, job_folder(tmp_path / "reported", "Unavailable"))
    assert (reported.value.type_name, reported.value.fix) == ("EngineUnavailableError", "start it")
    with pytest.raises(EngineFailureError, match="killed by signal SIGSEGV") as crash:  # and its node was not lost
        run(executor, job_folder(tmp_path / "crash", "Segfaults"))
    assert any("engines_for_tests.py" in line for line in crash.value.log)


def test_limits_hold_on_the_node(nodes: OnThreeNodes, tmp_path: Path) -> None:
    for name in ("time", "memory"):
        (tmp_path / name).mkdir()
    cluster = Cluster(nodes.address)
    with pytest.raises(EngineTimeoutError, match="still running after 2 s"):
        run(RayExecutor(cluster, deadline_s=2.0), job_folder(tmp_path / "time", "HangsDeaf"))
    limited = RayExecutor(cluster, memory_limit_bytes=400 * 1024**2)
    with pytest.raises(MemoryLimitError, match="more than the 400 MiB it was given"):
        run(limited, job_folder(tmp_path / "memory", "EatsMemory"))


def test_an_interruption_leaves_nothing_behind_and_can_be_resumed(
    executor: RayExecutor, nodes: OnThreeNodes, tmp_path: Path
) -> None:
    folder = encode_job(tmp_path / "job", 2000)
    nodes.calls.unlink(missing_ok=True)
    with Aside[FinishedProcess]() as aside:
        aside.begin(lambda: run(executor, folder))
        wait_for(lambda: len(lines(nodes.calls)) > 100)
        (began,) = executor.running.values()
        assert family(began.process)
    with pytest.raises(KeyboardInterrupt):
        aside.result()
    assert family(began.process) == []
    done = len(lines(nodes.calls))
    assert done < 2000
    run(executor, folder)
    assert load(folder, EncodingRecord).rows["documents"] < 2000
    assert len(np.load(folder / "target" / "documents.npy")) == 2000


def test_a_job_whose_node_is_lost_again_and_again_is_given_up(
    executor: RayExecutor, nodes: OnThreeNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = encode_job(tmp_path / "job", 5000)
    with Aside[FinishedProcess]() as aside, caplog.at_level(logging.WARNING, logger="harness"):
        aside.begin(lambda: run(executor, folder))
        killed: set[int] = set()
        for _ in range(3):
            wait_for(lambda: {began.process for began in list(executor.running.values())} - killed)
            (process,) = {began.process for began in executor.running.values()}
            os.kill(process, signal.SIGKILL)
            killed.add(process)
        with pytest.raises(MachineError, match="its node was lost 3 times"):
            aside.result()
    assert [record.message.rpartition(": ")[2] for record in caplog.records] == [
        "run again (2 of 3)",
        "run again (3 of 3)",
        "given up",
    ]
    assert executor._cluster.facts.lost_jobs == 3
    executor._cluster.begin_run()
    assert executor._cluster.facts.lost_jobs == 0


class TestUnseenFolders:
    """Nodes that do not see the folders of the command get files through the object store, and send them back.

    The nodes of this test would see them: they are shown a wrong number, and what was sent is removed or moved away.
    """

    @pytest.fixture(autouse=True)
    def unseen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ray_executor, "_mark", lambda _: "another number")

    def test_vectors_come_back(self, executor: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder, expected = encode_job(tmp_path / "job", 40), encode_job(tmp_path / "expected", 40)
        Worker(expected).run(SilentDisplay().section(""))
        send = ray_executor.send_files

        def send_and_remove(*arguments: Any) -> SentFiles:
            sent = send(*arguments)
            (folder / "texts.arrow").unlink()
            return sent

        monkeypatch.setattr(ray_executor, "send_files", send_and_remove)
        run(executor, folder)
        assert load(folder, EncodingRecord) == load(expected, EncodingRecord)
        for made in (expected / "target").glob("*.npy"):
            assert (folder / "target" / made.name).read_bytes() == made.read_bytes()
        assert load(folder, EncodeJob).parts[0].target == folder / "target"

    def test_a_node_lost_in_the_middle_costs_a_chunk(
        self, executor: RayExecutor, nodes: OnThreeNodes, tmp_path: Path
    ) -> None:
        folder, expected = encode_job(tmp_path / "job", 600), encode_job(tmp_path / "expected", 600)
        Worker(expected).run(SilentDisplay().section(""))
        nodes.calls.unlink(missing_ok=True)
        with Aside[FinishedProcess]() as aside:
            aside.begin(lambda: run(executor, folder))
            wait_for(lambda: len(lines(nodes.calls)) > 300)
            (began,) = executor.running.values()
            os.kill(began.process, signal.SIGKILL)
            aside.result()
        assert load(folder, EncodingRecord).rows["documents"] < 400
        assert len(lines(nodes.calls)) < 800
        for made in (expected / "target").iterdir():
            if made.suffix == ".npy":
                assert (folder / "target" / made.name).read_bytes() == made.read_bytes()
        assert {path.name for path in (folder / "target").iterdir()} == {
            p.name for p in (expected / "target").iterdir()
        }

    def test_an_index_comes_back_and_is_reused(self, executor: RayExecutor, tmp_path: Path) -> None:
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
        csr = find_cards("backends")["csr"].defaults
        first, second = (
            job_folder(tmp_path / name, "harness.engines.csr:CsrEngine", csr) for name in ("first", "second")
        )
        run(executor, first)
        hits = load(first, TrialRecord).hits
        assert hits.rows.tolist() == [1, 0]
        built = load(first, TrialJob).index_folder
        assert list(built.iterdir())
        save(second, replace(load(second, TrialJob), index_folder=built, built=first))
        run(executor, second)
        assert load(second, TrialRecord).hits.scores.tolist() == hits.scores.tolist()

    def test_an_error_leaves_its_log(self, executor: RayExecutor, tmp_path: Path) -> None:
        with pytest.raises(RemoteError, match="the engine is not there"):
            run(executor, job_folder(tmp_path, "Unavailable"))
        assert (tmp_path / "log.txt").exists()


@pytest.mark.parametrize("named", ["by the option", "by the environment"])
def test_a_cluster_that_is_not_there_is_said_at_once(named: str) -> None:
    """In a process of its own: this one is connected."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    executor, more = (f"ray:{address}", {}) if named == "by the option" else ("ray", {"RAY_ADDRESS": address})
    command = [sys.executable, "-c", f"from harness.worker.ray_executor import cluster; cluster('{executor}')"]
    environment = {**os.environ, **more}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    source = ", the address in RAY_ADDRESS" if more else ""
    assert f"no Ray cluster at '{address}'{source}: " in done.stderr
    assert done.stderr.count("RAY_ADDRESS") == (2 if more else 0), "named where it is the cause"


def test_another_version_on_a_node_is_refused(tmp_path: Path) -> None:
    (refused,) = run_on_node(str(tmp_path), "1234", "0.0.0", ".", None, None, None)
    assert isinstance(refused, NodeError)
    assert refused.type == EngineUnavailableError.__name__
    assert f"has version {harness.__version__} of the harness, and this machine 0.0.0" in refused.problem


def test_a_job_that_no_node_can_run_is_refused(
    executor: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_executor, "_PATIENCE_S", 1.0)
    with pytest.raises(EngineUnavailableError, match="no node of the Ray cluster has 1 core and a GPU for it"):
        run(executor, encode_job(tmp_path / "job", device="cuda"))
    assert executor.slots("auto") == executor.slots("cpu") == 3
    assert executor.slots("cuda") == 1


def test_a_job_takes_a_smaller_node_where_the_largest_is_lost_while_it_waits(
    executor: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = iter([2])  # those of a node that is gone
    monkeypatch.setattr(ray_executor, "_PATIENCE_S", 1.0)
    monkeypatch.setattr(executor, "_needs", lambda _: {"num_cpus": next(cores, 1)})
    run(executor, job_folder(tmp_path, "BruteForce"))
    assert load(tmp_path, TrialRecord).hits.rows.tolist() == [1, 0]


def test_a_model_on_a_gpu_is_placed_where_one_is(executor: RayExecutor, nodes: OnThreeNodes, tmp_path: Path) -> None:
    """The GPU is one that Ray was told of: only where the job runs is real."""
    with_gpu = nodes.cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=80_000_000)
    try:
        wait_for(lambda: executor._cluster.facts.gpus == 1)
        assert executor._needs(encode_job(tmp_path / "auto", device="auto")) == {"num_cpus": 1, "num_gpus": 1}
        folder = encode_job(tmp_path / "job", 5000, device="cuda")
        with Aside[FinishedProcess]() as aside:
            aside.begin(lambda: run(executor, folder))
            wait_for(lambda: list(executor.running.values()))
            (began,) = executor.running.values()
            assert began.node == with_gpu.node_id
    finally:
        nodes.cluster.remove_node(with_gpu)


def test_an_index_that_was_begun_on_a_lost_node_is_removed(tmp_path: Path) -> None:
    job_folder(tmp_path, "BruteForce")
    half = tmp_path / "index" / "half"
    half.touch()
    trial = load(tmp_path, TrialJob)
    save(tmp_path, replace(trial, built=tmp_path))
    ray_executor._clear_indexes(tmp_path)
    assert half.exists()  # another trial built it
    save(tmp_path, trial)
    ray_executor._clear_indexes(tmp_path)
    assert list(trial.index_folder.iterdir()) == []


def test_a_process_is_connected_to_one_cluster(nodes: OnThreeNodes) -> None:
    assert Cluster(nodes.address).connected
    assert Cluster().facts.nodes == 3
    with pytest.raises(UsageError, match="this process is connected to the cluster at"):
        Cluster("127.0.0.1:1")


class TestComparison:
    """`harness compare --executor ray:ADDRESS` on a collection that is encoded in shards."""

    @pytest.fixture
    def collection(self, tmp_path: Path) -> Path:
        folder = tmp_path / "collection"
        (folder / "qrels").mkdir(parents=True)
        documents = [{"_id": f"d{n}", "title": "", "text": f"text {n}"} for n in range(TEXTS)]
        queries = [{"_id": f"q{n}", "text": f"query text {n}"} for n in range(8)]
        for name, records in (("corpus", documents), ("queries", queries)):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td7\t1\n")
        return folder

    def compare(self, collection: Path, cache: Path, executor: str, patch: pytest.MonkeyPatch) -> harness.Comparison:
        patch.setenv("HARNESS_CACHE", str(cache))
        dense = f"flat:model=python:gated_model:Dense;batch_size={BATCH}"
        reranked = f"csr:analyzer=whitespace|keywords:candidates={TEXTS}"
        return harness.compare([dense, reranked], collection, k=TEXTS, timing=False, executor=executor)

    def digests(self, cache: Path) -> dict[str, str]:
        files = [path for path in cache.glob("embeddings/**/*") if path.suffix == ".npy"]
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def made(self, cache: Path) -> dict[str, Any]:
        (path,) = cache.glob("embeddings/**/documents*/**/made.json")
        return {name: value for name, value in json.loads(path.read_bytes()).items() if name != "took_ns"}

    def test_a_node_lost_in_the_middle_costs_its_shard_and_changes_no_bit(
        self,
        nodes: OnThreeNodes,
        collection: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(stream, "_SHARD_CHUNKS", 2)
        monkeypatch.setattr(divided_search, "_LEAST_ROWS", 100)
        monkeypatch.setattr(Keywords, "group", 2048)
        parts: list[int] = []
        merged = divided_search.merged
        monkeypatch.setattr(
            divided_search, "merged", lambda tops, *others: parts.append(len(tops)) or merged(tops, *others)
        )
        reranked: list[int] = []
        joined = second_stages._joined
        monkeypatch.setattr(
            second_stages,
            "_joined",
            lambda found: reranked.extend(len(part.scores) for part in found) or joined(found),
        )
        monkeypatch.setenv("CALLS", str(nodes.calls))
        local = self.compare(collection, tmp_path / "local", "local", monkeypatch)
        nodes.calls.unlink()
        made: list[RayExecutor] = []
        monkeypatch.setattr(RayExecutor, "__init__", _noting(made, RayExecutor.__init__))
        gate = nodes.calls.with_name("gate")
        gate.mkdir()
        with Aside[harness.Comparison]() as aside, caplog.at_level(logging.WARNING, logger="harness"):
            executor = f"ray:{nodes.address}"
            aside.begin(lambda: self.compare(collection, tmp_path / "ray", executor, monkeypatch))
            wait_for(lambda: len(list(gate.iterdir())) == 3)  # a job on every node, each in the middle of a shard
            waiting = {int(process.name) for process in gate.iterdir()}
            lost = next(iter(nodes.cluster.worker_nodes))
            (began,) = (began for began in made[0].running.values() if began.node == lost.node_id)
            assert waiting & set(family(began.process))
            nodes.cluster.remove_node(lost, allow_graceful=False)
            wait_for(lambda: family(began.process) == [])
            gate.rename(gate.with_name("open"))
            comparison = aside.result()
        assert comparison is not None
        assert "a node of the cluster was lost" in caplog.text
        assert self.digests(tmp_path / "ray") == self.digests(tmp_path / "local")
        assert self.made(tmp_path / "ray") == self.made(tmp_path / "local")
        assert not list((tmp_path / "ray").rglob("shards"))
        for trial, expected in zip(comparison.report.trials, local.report.trials, strict=True):
            assert trial.status == "ok"
            assert trial.metrics == expected.metrics
            assert trial.parity == expected.parity
            hits, exact = (result.contents["collection"].runs[trial.label] for result in (comparison, local))
            assert np.array_equal(hits.rows, exact.rows)
            assert np.array_equal(hits.scores, exact.scores)
        assert [count > 1 for count in parts] == [True, True]  # the exact references, on the nodes that were left
        assert reranked == [8 * TEXTS, 2048, 8 * TEXTS - 2048]  # all pairs here, two groups of them there
        assert comparison.report.cluster is not None
        assert comparison.report.cluster.lost_jobs == 1
        assert local.report.cluster is None
        encoded = Counter(line for line in lines(nodes.calls) if line.startswith("text"))
        assert len(encoded) == TEXTS
        assert encoded.total() - TEXTS == BATCH  # what was encoded there of a chunk, and no finished shard


def _noting(made: list[RayExecutor], init: Callable[..., None]) -> Callable[..., None]:
    def noting(self: RayExecutor, *arguments: object, **named: object) -> None:
        made.append(self)
        init(self, *arguments, **named)

    return noting


_LISTENING = """
import psutil
from harness.worker.ray_executor import cluster

started = cluster("ray")
assert started.facts.nodes == 1
processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
sockets = [each for process in processes for each in process.net_connections("inet")]
print(*sorted({each.laddr.ip.removeprefix("::ffff:") for each in sockets if each.status == psutil.CONN_LISTEN}))
"""


def test_a_cluster_that_starts_here_listens_on_the_loopback_address_only() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # a short path, as Ray's sockets need; other clusters are not seen in it
        environment["RAY_TMPDIR"] = folder
        command = [sys.executable, "-c", _LISTENING]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["127.0.0.1"]
