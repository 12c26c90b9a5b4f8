"""What a plan asks of an engine that cannot do it is refused before anything runs."""

from __future__ import annotations

import pytest
from installed import skip_without

from harness.errors import UsageError
from harness.pipeline.planning import plan_for
from harness.plan.capability_checks import plan_of_backends
from harness.plan.config import CompareRequest
from harness.registry.lookup import find_cards


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (CompareRequest(backends="qdrant:shards=2"), "backend 'qdrant:shards=2': shards cannot be set with mode=edge"),
        (CompareRequest(backends="qdrant:keep=true"), "keep cannot be set with mode=edge"),
        (CompareRequest(backends="usearch:datatype=i8;similarity=l2"), "divides every vector by its length"),
        (CompareRequest(backends="qdrant:external=true;collection=c"), "a collection is on a server, and mode=edge"),
        (CompareRequest(backends="csr:external=true;path=tests", cold=True), "not on an external index"),
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


SERVERS = {
    "weaviate": "HARNESS_WEAVIATE_URL",
    "opensearch": "HARNESS_OPENSEARCH_URL",
    "elasticsearch": "HARNESS_ELASTICSEARCH_URL",
    "milvus:mode=server": "HARNESS_MILVUS_URL",
    "milvus-bm25:mode=server": "HARNESS_MILVUS_URL",
    "milvus-sparse:mode=server;model=package:x": "HARNESS_MILVUS_URL",
    "qdrant:mode=server": "HARNESS_QDRANT_URL",
    "qdrant-dense:mode=server": "HARNESS_QDRANT_URL",
    "qdrant-hybrid:mode=server": "HARNESS_QDRANT_URL",
    "qdrant-splade:mode=server;model=package:x": "HARNESS_QDRANT_URL",
    "chroma:mode=server": "HARNESS_CHROMA_URL",
    "pgvector:mode=server": "HARNESS_POSTGRES_URL",
    "pgvector-sparse:mode=server": "HARNESS_POSTGRES_URL",
}


def test_a_server_that_nothing_names_is_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in SERVERS.values():
        monkeypatch.delenv(variable, raising=False)
    for backend, variable in SERVERS.items():
        for listed in (f"csr,{backend}", f"rrf:csr+({backend})", f"{backend}|keywords"):
            with pytest.raises(UsageError, match=f"backend '{backend}': no .* server is named\n.*or set {variable}"):
                plan_of_backends(CompareRequest(backends=listed, dataset="no such dataset"))
        monkeypatch.setenv(variable, "postgresql://host/db" if "POSTGRES" in variable else "http://host:1")
        assert plan_of_backends(CompareRequest(backends=backend)).trials
        monkeypatch.delenv(variable)


def test_every_engine_of_a_server_is_among_them() -> None:
    cards = find_cards("backends")
    servers = {name for name, card in cards.items() if "url" in card.parameters}
    assert servers == {backend.partition(":")[0] for backend in SERVERS}


def test_a_node_of_a_cluster_may_know_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_WEAVIATE_URL", raising=False)
    assert plan_of_backends(CompareRequest(backends="weaviate", executor="ray")).trials
