"""Levels of load: each that cannot be measured fails alone, and a verdict names the highest knee."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from harness.data.progress import Progress
from harness.errors import EngineUnavailableError
from harness.pipeline.probes.load import LoadProbe
from harness.pipeline.probes.load_runs import LoadRuns
from harness.plan.config import CompareRequest
from harness.results.schema import TrialResult
from harness.results.schema_costs import KneeStats
from harness.testing import RecordingProgress
from harness.worker.jobs import TrialJob
from harness.worker.process import FinishedProcess


class NoClients:
    """Starts none."""

    def run(self, folder: Path, progress: Progress) -> FinishedProcess:
        raise EngineUnavailableError("no client starts here")


def test_a_full_disk_fails_the_levels_that_need_copies_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path, progress: Progress) -> None:
        (target / "half").touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("harness.pipeline.probes.load_runs.copy_folder", full)
    (tmp_path / "index").mkdir()
    job = TrialJob(
        engine="",
        parameters={},
        corpus="",
        queries="",
        document_vectors=(),
        query_vectors=(),
        index_folder=tmp_path / "index",
        k=10,
        repeats=1,
        warm_up_queries=0,
        warm_up_seconds=0.0,
    )
    request = CompareRequest(concurrency=(1, 2, 3))
    alone, *several = LoadRuns(request, job, tmp_path, NoClients(), shared=False, terms=np.ones(1, bool)).run(
        RecordingProgress()
    )
    assert alone.failures == ("no client starts here",)
    assert [len(level.failures) for level in several] == [2, 3]  # half a copy is not taken for a whole one
    assert all("No space left on device" in level.failures[0] for level in several)
    assert [len(level.samples) for level in several] == [0, 0]


def test_the_verdict_names_the_backend_with_the_highest_knee() -> None:
    def trial(label: str, qps: float | None, beyond: float | None) -> TrialResult:
        knee = KneeStats(
            rate=qps,
            qps=qps,
            p99_ms=qps and 4.0,
            unloaded_p99_ms=2.0,
            unsustained_rate=beyond,
            limit=None,
            highest_qps=900.0,
        )
        return TrialResult.model_construct(label=label, knee=knee)

    trials = [trial("slow", 50.0, 100.0), trial("none", None, 10.0), trial("fast", 800.0, None)]
    (verdict,) = LoadProbe().verdicts(trials)
    assert verdict.headline == "fast answers most queries a second before its latency rises, 800"
    said = "fast: 800 queries/s, p99 4.000 ms (its rates ended before saturation); slow: 50 queries/s, p99 4.000 ms"
    assert verdict.detail == said
    assert LoadProbe().verdicts(trials[1:2]) == []
