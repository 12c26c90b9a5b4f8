"""What a plan asks of an engine that cannot do it is refused before anything runs."""

from __future__ import annotations

import pytest
from installed import skip_without

from harness.errors import UsageError
from harness.pipeline.planning import plan_for
from harness.plan.config import CompareRequest


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (CompareRequest(backends="qdrant:shards=2"), "backend 'qdrant:shards=2': shards cannot be set with mode=edge"),
        (CompareRequest(backends="qdrant:keep=true"), "keep cannot be set with mode=edge"),
        (CompareRequest(backends="usearch:datatype=i8;similarity=l2"), "divides every vector by its length"),
        (CompareRequest(backends="qdrant:external=true;collection=c"), "a collection is on a server, and mode=edge"),
        (CompareRequest(backends="csr:external=true;path=tests", cold=True), "not on an external one"),
        (
            CompareRequest(backends="qdrant", concurrency=2, clients="threads"),
            "--clients threads: this engine's client holds",
        ),
    ],
)
def test_it_is_refused_with_the_backend_named(request_: CompareRequest, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_for(request_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("index=HNSV32", "FAISS makes no index of 'HNSV32' for any number of dimensions and similarity=cosine"),
        ("index='PCA64,PQ48'", "multiple of the number of subquantizers"),
        ("index=PQ8x4fs", "the scores of FAISS's IndexPQFastScan are estimates"),
        ("index=HNSW8_PQ8x4", "FAISS's factory makes 'HNSW8_PQ8x4' for l2 only"),
    ],
)
def test_an_index_of_faiss_that_cannot_be_is_refused_before_texts_are_encoded(parameters: str, message: str) -> None:
    skip_without("faiss")
    with pytest.raises(UsageError, match=message):
        plan_for(CompareRequest(backends=f"faiss:{parameters}"))


def test_an_index_of_faiss_that_can_be_is_not_refused() -> None:
    """The last would take 96 GB before its first vector: what such an index says is left to a worker's limits."""
    skip_without("faiss")
    for index in ("OPQ24_48,IVF8,PQ12x4,RFlat", "IVF8,PQ8+16", "IVF500000000,Flat"):
        assert len(plan_for(CompareRequest(backends=f"faiss:similarity=l2;index='{index}'")).trials) == 1


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(UsageError, match="shards cannot be set") as raised:
        plan_for(CompareRequest(backends="qdrant:shards=2,qdrant:mode=edge;url=http://127.0.0.1:6333"))
    assert "url cannot be set with mode=edge" in str(raised.value)


def test_an_engine_that_is_not_installed_is_left_to_its_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "harness.engines.qdrant.engine", None)
    assert len(plan_for(CompareRequest(backends="qdrant:shards=2,csr")).trials) == 2
