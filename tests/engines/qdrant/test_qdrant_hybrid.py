"""Qdrant's own hybrid query through harness.compare: held against the fusion of the exact lists, in each mode."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from installed import skip_module_without, skip_without
from small_world import write_collection

import harness
from harness.errors import UsageError
from harness.results import schema, schema_base
from harness.testing.samples import random_texts

skip_module_without("qdrant_edge")
pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

BASE = "model=random;analyzer=snowball-english"
GRAPH = "indexing_threshold_kb=1;full_scan_threshold_kb=1;m=4;ef_construct=8;hnsw_ef=1"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 documents and 10 queries of random words, without judgments."""
    documents, queries = (
        {f"{name}{row}": text for row, text in enumerate(random_texts(seed, count))}
        for name, seed, count in (("d", 1, 300), ("q", 2, 10))
    )
    return write_collection(tmp_path_factory.mktemp("few"), judged=False, documents=documents, queries=queries)


@pytest.fixture(scope="module")
def compared(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> harness.Comparison:
    backends = [
        f"qdrant-hybrid:{BASE}",
        f"qdrant-hybrid:fusion=dbsf;{BASE}",
        f"qdrant-hybrid:candidates=30;{GRAPH};{BASE}",
    ]
    return harness.compare(
        backends, k=50, sample_queries=30, timing=False, isolation="none", out=tmp_path_factory.mktemp("out") / "out"
    )


def parity_of(result: schema.TrialResult) -> schema_base.ParityStats:
    assert result.parity is not None
    return result.parity


def test_every_difference_from_the_fusion_of_the_exact_lists_has_a_proven_cause(compared: harness.Comparison) -> None:
    assert compared.failed == []
    by_ranks, by_distributions, graph = compared.report.trials
    assert [parity_of(one).reference for one in compared.report.trials] == ["fusion"] * 3
    assert [parity_of(one).mode for one in compared.report.trials] == ["rrf", "dbsf", "rrf"]
    assert parity_of(by_ranks).causes.keys() <= {"ties and rounding in the lists"}
    assert parity_of(by_ranks).tie_equivalent > parity_of(by_ranks).queries / 2
    assert parity_of(by_distributions).causes.keys() <= {"ties and rounding in the lists"}
    missed = parity_of(graph).causes
    assert missed.get("approximate search in the dense list", 0) > 0
    assert "unknown" not in missed
    assert graph.index is not None
    assert graph.index.state["vectors_in_graph"] == graph.index.documents_indexed


def test_lists_are_as_long_as_the_candidates_of_both_allow(compared: harness.Comparison) -> None:
    run = compared.run(compared.report.trials[2].label)
    lengths = np.diff(run.indptr)
    assert lengths.max() <= 50
    assert lengths.min() >= 30
    assert run.scores[run.indptr[:-1]].max() <= 1.0


def test_what_approximation_loses_is_measured_against_the_exact_fusion(compared: harness.Comparison) -> None:
    for result in compared.report.trials:
        assert parity_of(result).loss.keys() == result.metrics.keys()


def test_a_stored_outcome_has_its_lists(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))

    def parity(name: str) -> tuple[bool, schema_base.ParityStats]:
        options: Mapping[str, object] = {"k": 20, "timing": False, "resume": "missing"}
        compared = harness.compare([f"qdrant-hybrid:{BASE}"], few, out=tmp_path / name, isolation="none", **options)  # type: ignore[arg-type]
        (result,) = compared.report.trials
        return result.reused, parity_of(result)

    (first, measured), (second, stored) = parity("one"), parity("two")
    assert (first, second) == (False, True)
    assert stored == measured


def test_a_server_fuses_with_the_constant_that_it_is_told(few: Path, tmp_path: Path) -> None:
    skip_without("qdrant_client")
    from qdrant_stub import serve

    with serve() as stub:
        backends = {
            constant: f"qdrant-hybrid:url={stub.url};transport=rest;rrf_k={constant};{BASE}" for constant in (2, 60)
        }
        options = {"k": 20, "timing": False, "isolation": "none", "out": tmp_path / "out"}
        compared = harness.compare([*backends.values()], few, **options)  # type: ignore[arg-type]
    assert compared.failed == []
    for constant, backend in backends.items():
        assert parity_of(compared.trial(backend)).causes.keys() <= {"ties and rounding in the lists"}
        assert 1 / constant <= float(compared.run(backend).scores.max()) <= 2 / constant


def test_a_constant_without_the_method_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="rrf_k cannot be set with fusion=dbsf"):
        harness.compare([f"qdrant-hybrid:fusion=dbsf;rrf_k=60;{BASE}"], out=tmp_path / "out")
