"""A real OpenSearch: the contract, parity to the bit with one and with two shards, and indexes that somebody else made.

The server is that of ``HARNESS_OPENSEARCH_URL``, or one that is started here (``opensearch_server.py``).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np
import orjson
import pyarrow as pa
import pytest
from engine_faults import FaultsOfAServer
from opensearch_server import MissingServerError, serving
from small_world import DOCUMENTS, QUERIES, write_collection

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.opensearch.connection import OPENSEARCH
from harness.engines.opensearch.engine import OpenSearchEngine
from harness.errors import EngineFailureError, IndexChangedError, RejectedInputError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import Bm25, EngineContract, RecordingProgress, StepClock
from harness.testing.expected import count_words
from harness.text.term_texts import term_texts

pytestmark = [pytest.mark.contract, pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
CARD = find_cards("backends")["opensearch"]
TEXTS = ["a b", "c", "a b", "", "b c c", "a b"]
QUESTIONS = ["a b", "c"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a real server, in the environment too."""
    variable = OPENSEARCH.place.url_variable
    if named := os.environ.get(variable):
        yield named
        return
    try:
        with serving() as started, pytest.MonkeyPatch.context() as patch:
            patch.setenv(variable, started)
            yield started
    except MissingServerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, headers={"accept-encoding": "gzip"}, timeout=60) as client:
        yield client


@pytest.fixture
def server(client: httpx.Client) -> Iterator[httpx.Client]:
    """A client of the server; indexes of the harness are gone when the test is over."""
    before = indexes(client)
    yield client
    for name in indexes(client) - before:
        client.delete(f"/{name}")


def indexes(server: httpx.Client) -> set[str]:
    return {str(index["index"]) for index in server.get("/_cat/indices?format=json").raise_for_status().json()}


def major(server: httpx.Client) -> int:
    return int(server.get("/").raise_for_status().json()["version"]["number"].partition(".")[0])


def write_index(server: httpx.Client, documents: Mapping[str, Mapping[str, Any]], **settings: Any) -> str:
    """An index as a user would make one: texts that its own analyzer takes apart."""
    name = f"theirs-{secrets.token_hex(4)}"
    kind = "BM25" if major(server) < OPENSEARCH.legacy_from else "LegacyBM25"
    similarity = {"default": {"type": kind, "k1": 0.9, "b": 0.4}}
    body = {
        "settings": {"number_of_shards": 1, "number_of_replicas": 0, "similarity": similarity, **settings},
        "mappings": {"properties": {"body": {"properties": {"en": {"type": "text", "analyzer": "whitespace"}}}}},
    }
    server.put(f"/{name}", json=body).raise_for_status()
    lines = b"".join(
        orjson.dumps({"index": {"_id": key}}) + b"\n" + orjson.dumps(fields) + b"\n"
        for key, fields in documents.items()
    )
    headers = {"content-type": "application/x-ndjson"}
    answer = server.post(f"/{name}/_bulk?refresh=true", content=lines, headers=headers).raise_for_status()
    assert not answer.json()["errors"]
    return name


class TestOpenSearch(FaultsOfAServer, EngineContract):
    engine = OpenSearchEngine
    bm25 = Bm25(k1_plus_1=True)
    tolerance = 2e-7
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**CARD.defaults, "keep": True, "batch_size": 100}
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"shards": 2}
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"search_type": "dfs_query_then_fetch"}

    @pytest.fixture(autouse=True)
    def _server(self, server: httpx.Client) -> None:
        self.server = server

    def inputs(self, documents: Sequence[str], queries: Sequence[str]) -> tuple[Inputs, Inputs]:
        """Terms, and for an external index the same as texts."""
        sides = super().inputs(documents, queries)
        return tuple(Inputs(side.ids, texts=side.terms, terms=side.terms) for side in sides)  # type: ignore[return-value]

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        assert documents.texts is not None
        texts = zip(documents.ids.to_list(), documents.texts.to_pylist(), strict=True)
        name = write_index(
            self.server, {str(row): {"name": key, "body": {"en": text}} for row, (key, text) in enumerate(texts)}
        )
        return {"external": True, "index": name, "text_field": "body.en", "id_field": "name", "keep": False}


def test_a_comparison_is_equal_to_the_bit_with_one_and_with_two_shards(server: httpx.Client, tmp_path: Path) -> None:
    before = indexes(server)
    shown = ";analyzer=whitespace;shards="
    compared = harness.compare(
        [
            f"one=opensearch:{shown[1:]}1",
            f"two=opensearch:{shown[1:]}2",
            f"global=opensearch:{shown[1:]}2;search_type=dfs_query_then_fetch",
        ],
        write_collection(tmp_path / "small"),
        k=5,
    )
    scores = {}
    for trial in compared.report.trials:
        assert trial.error is None
        assert trial.parity is not None
        assert (trial.parity.mode, trial.parity.bit_equal) == ("lucene", len(QUERIES))
        assert trial.index is not None
        assert trial.index.state["shards"] == trial.index.state["segments"] == (1 if trial.label == "one" else 2)
        assert trial.index.documents_indexed == len(DOCUMENTS)
        scores[trial.label] = sorted(compared.run(trial.label).scores.tolist())
    assert scores["one"] == scores["global"] != scores["two"]
    assert indexes(server) == before


def test_two_shards_are_equal_to_the_bit_on_cacm(server: httpx.Client) -> None:
    """Statistics, norms and ties of each shard by itself: every query of CACM, held against the reference by shards."""
    compared = harness.compare("opensearch:shards=2", "cacm", k=100, timing=False)
    (trial,) = compared.report.trials
    assert trial.error is None
    assert trial.parity is not None
    assert trial.parity.mode == "lucene"
    assert trial.parity.bit_equal == trial.parity.queries == 64
    assert trial.index is not None
    assert trial.index.state["shards"] == 2
    assert trial.index.documents_indexed == 3204


def test_ties_come_shard_by_shard(server: httpx.Client, tmp_path: Path) -> None:
    counts = count_words(TEXTS, QUESTIONS)
    ids, asked = Ids.of(f"d{row}" for row in range(len(TEXTS))), Ids.of("xy")
    engine = OpenSearchEngine({**CARD.defaults, "shards": 3, "search_type": "dfs_query_then_fetch"})
    folder = tmp_path / "index"
    folder.mkdir()
    engine.open(folder, ids)
    try:
        engine.index(Inputs(ids, terms=term_texts(counts, "documents")), RecordingProgress(), StepClock())
        found = engine.search(Inputs(asked, terms=term_texts(counts, "queries")), 9, StepClock())
        placed = engine.placement()
    finally:
        engine.close()
    same = [row for row, text in enumerate(TEXTS) if text == "a b"]
    assert found.rows[: len(same)].tolist() == [row for row in placed.order if row in same]
    assert placed.shards is None


def test_a_document_that_the_server_refuses_is_named(server: httpx.Client, tmp_path: Path) -> None:
    ids = Ids.of(["a", "b"])
    terms = term_texts(count_words(["a", "b"], ["a"]), "documents")
    metadata = {"lang": ["en", "x" * 40_000]}
    engine = OpenSearchEngine(CARD.defaults)
    folder = tmp_path / "index"
    folder.mkdir()
    engine.open(folder, ids)
    try:
        with pytest.raises(EngineFailureError, match=r"refused 1 of 2 documents \(rows 1 first\).*immense term"):
            engine.index(Inputs(ids, terms=terms, metadata=pa.table(metadata)), RecordingProgress(), StepClock())
    finally:
        engine.close()


def test_a_kept_index_is_searched_as_an_external_one(server: httpx.Client, tmp_path: Path) -> None:
    dataset = write_collection(tmp_path / "small")
    kept = harness.compare("opensearch:analyzer=whitespace;shards=2;keep=true", dataset, k=5)
    (trial,) = kept.report.trials
    assert trial.index is not None
    name = trial.index.state["index"]
    again = harness.compare(f"opensearch:external=true;index={name};text_field=terms", dataset, k=5)
    (external,) = again.report.trials
    assert external.error is None
    assert external.parity is None
    assert external.index is not None
    assert external.index.state["analyzer"] == "whitespace"
    first, second = kept.run(trial.label), again.run(external.label)
    assert first.scores.tolist() == second.scores.tolist()
    assert first.doc_ids.take(first.rows) == second.doc_ids.take(second.rows)
    assert any("its own analyzer" in note for note in external.notes)


def test_a_check_sends_the_text_of_its_questions(server: httpx.Client, tmp_path: Path) -> None:
    name = write_index(server, {key: {"body": {"en": text}} for key, text in DOCUMENTS.items()})
    golden = tmp_path / "golden.jsonl"
    golden.write_bytes(orjson.dumps({"id": "q", "question": "light rail", "expected_relevant_doc_ids": ["d4"]}) + b"\n")
    checked = harness.check(golden, against=f"opensearch:external=true;index={name};text_field=body.en", k=3)
    (trial,) = checked.report.trials
    assert trial.error is None
    assert [(question.id, question.values["MRR@3"]) for question in trial.questions] == [("q", 1.0)]


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"index": "nothing-of-that-name"}, "no index 'nothing-of-that-name'"),
        ({"text_field": "body"}, r"no text field 'body'"),
        ({"id_field": "body.name"}, "1 of 2 documents have no text or whole number in the field 'body.name'"),
    ],
)
def test_an_external_index_that_cannot_be_searched_is_refused(
    parameters: Mapping[str, ParameterValue], says: str, server: httpx.Client, tmp_path: Path
) -> None:
    name = write_index(server, {"x": {"body": {"en": "a", "name": 7}}, "y": {"body": {"en": "b"}}})
    chosen = {**CARD.defaults, "external": True, "index": name, "text_field": "body.en", **parameters}
    engine = OpenSearchEngine(chosen)
    with pytest.raises(Exception, match=says) as raised:
        engine.attach(tmp_path, RecordingProgress())
    assert isinstance(raised.value, RejectedInputError) or "index" in parameters
    assert name in indexes(server)


def test_an_external_index_that_changes_is_noticed(server: httpx.Client, tmp_path: Path) -> None:
    name = write_index(server, {key: {"body": {"en": "a b c"}} for key in ("x", "z")})
    engine = OpenSearchEngine({**CARD.defaults, "external": True, "index": name, "text_field": "body.en"})
    attached = engine.attach(tmp_path, RecordingProgress())
    try:
        assert attached.changed is not None
        assert attached.changed() is None
        server.put(f"/{name}/_doc/y?refresh=true", json={"body": {"en": "a"}}).raise_for_status()
        assert attached.changed() == f"the index '{name}' was written to"
        ids, terms = Ids.of(["q"]), term_texts(count_words(["a"], ["a"]), "queries")
        with pytest.raises(IndexChangedError, match="'y' was added"):
            engine.search(Inputs(ids, texts=terms), 3, StepClock())
    finally:
        engine.close()


def test_the_older_similarity_is_the_only_one_before_version_3(server: httpx.Client, tmp_path: Path) -> None:
    engine = OpenSearchEngine({**CARD.defaults, "k1_plus_1": False})
    engine.open(tmp_path, Ids.of("a"))
    try:
        documents = Inputs(Ids.of("a"), terms=term_texts(count_words(["a"], ["a"]), "documents"))
        if major(server) < OPENSEARCH.legacy_from:
            with pytest.raises(RejectedInputError, match=r"always scores with k1 \+ 1"):
                engine.index(documents, RecordingProgress(), StepClock())
    finally:
        engine.close()


def test_measured_scores(server: httpx.Client) -> None:
    """The numbers of the reference's test are the server's: `a a b` and `b c`, query `a b`."""
    name = write_index(server, {"0": {"body": {"en": "a a b"}}, "1": {"body": {"en": "b c"}}})
    query = {"query": {"match": {"body.en": "a b"}}}
    hits = server.post(f"/{name}/_search", json=query).raise_for_status().json()["hits"]["hits"]
    assert [np.float32(hit["_score"]) for hit in hits] == [np.float32(1.0619229), np.float32(0.1895027)]
    server.delete(f"/{name}")
