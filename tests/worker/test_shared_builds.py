"""Backends that differ only in how an index is searched share one build, and answer as if they had their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_world import write_cards, write_collection

import harness
from harness.pipeline.planning import plan_for
from harness.plan.config import CompareRequest
from harness.registry.lookup import load_engine
from harness.worker.builds import SharedBuilds

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "small")


def test_a_sweep_is_searched_on_one_build(collection: Path) -> None:
    swept = harness.compare("lucene", str(collection), k=3, sweep="lucene:b=0.1,0.9", timing=False)
    assert [backend.label for backend in swept.report.trials] == ["lucene", "lucene:b=0.1", "lucene:b=0.9"]
    built_by = [backend.index.built_by for backend in swept.report.trials if backend.index is not None]
    assert built_by == [None, "lucene", "lucene"]
    assert swept.report.trials[1].notes[0].startswith("searched the index that 'lucene' built")
    for backend in swept.report.trials:
        assert backend.parity is not None
        assert backend.parity.bit_equal == backend.parity.queries
    label = swept.report.trials[2].label
    assert {row.a for row in swept.report.differences} <= {"lucene"}, "the plain backend is the reference"
    alone = harness.compare([label], str(collection), k=3, timing=False)
    assert alone.trial(label).metrics == swept.trial(label).metrics
    assert alone.run(label).scores.tolist() == swept.run(label).scores.tolist()


def test_a_build_that_failed_is_not_searched_by_the_next(collection: Path, tmp_path: Path) -> None:
    cards = write_cards(tmp_path, good="BruteForce", crashing="Segfaults")
    card = cards / "backends" / "crashing.toml"
    depth = '\n[parameters.depth]\ntype = "int"\ndefault = 1\nscope = "search"\nhelp = "nothing"\n'
    card.write_text(card.read_text(encoding="utf-8") + depth, encoding="utf-8")
    swept = harness.compare("crashing", str(collection), k=3, sweep="crashing:depth=1,2", cards=cards, timing=False)
    assert [backend.status for backend in swept.report.trials] == ["failed", "failed"]
    assert all("SIGSEGV" in backend.error.message for backend in swept.report.trials if backend.error is not None)


def test_servers_and_other_indexes_are_shared_by_none() -> None:
    request = CompareRequest(
        backends=[
            "lucene:b=0.1",
            "lucene:b=0.2;segments=single",
            "qdrant:url=http://127.0.0.1:6333",
            "qdrant:url=http://127.0.0.1:6333;search_batch=2",
        ]
    )
    plan = plan_for(request)
    builds = SharedBuilds(plan.trials)
    for trial in plan.trials:
        assert trial.spec.card is not None
        with builds.of(trial, load_engine(trial.spec.card).capabilities) as build:
            assert build is None
