"""A real OpenSearch: the contract, parity to the bit with one and with two shards, and indexes that somebody else made.

The server is that of ``HARNESS_OPENSEARCH_URL``, or one that is started here (``search_server.py``). A real
Elasticsearch passes the same tests in ``test_elasticsearch_server.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np
import orjson
import pyarrow as pa
import pytest
from engine_faults import FaultsOfAServer
from explained_engines import require_agreement, write_rooms
from external_filters import OF_TYPED, TYPED, checked, in_container, require_filtered
from external_matches import CHUNKS, require_matches
from search_indexes import FIELD, has_legacy_similarity, index_names, write_index
from small_world import write_collection
from titled_cacm import write_titled_cacm

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.doctor.servers import examine_server, find_servers, left_collections, remove_collections
from harness.engines.interface import SearchResult
from harness.engines.opensearch.connection import OPENSEARCH, Product
from harness.engines.opensearch.engine import ElasticsearchEngine, OpenSearchEngine
from harness.errors import (
    EngineFailureError,
    EngineUnavailableError,
    IndexChangedError,
    LostDocumentsError,
    RejectedInputError,
)
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import Bm25, EngineContract, RecordingProgress, StepClock
from harness.testing.expected import count_words
from harness.text.term_texts import term_texts

pytestmark = [pytest.mark.contract, pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
CARDS = find_cards("backends")
TEXTS = ["a b", "c", "a b", "", "b c c", "a b"]
QUESTIONS = ["a b", "c"]


@pytest.fixture(scope="module")
def product() -> Product:
    return OPENSEARCH


def texts_of(texts: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    """Documents of :func:`write_index`."""
    return {key: {"body": {"en": text}} for key, text in texts.items()}


def ask(engine: OpenSearchEngine, question: str, k: int) -> SearchResult:
    """Search for words, as texts and as terms."""
    terms = term_texts(count_words([question], [question]), "queries")
    return engine.search(Inputs(Ids.of(["q"]), texts=terms, terms=terms), k, StepClock())


class ServerContract(FaultsOfAServer, EngineContract):
    """The contract on a real server, which the environment names."""

    bm25 = Bm25(k1_plus_1=True)
    tolerance = 2e-7
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"shards": 2}
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"search_type": "dfs_query_then_fetch"}

    @pytest.fixture(autouse=True)
    def _server(self, server: httpx.Client, product: Product) -> None:
        self.server, self.product = server, product

    def inputs(self, documents: Sequence[str], queries: Sequence[str]) -> tuple[Inputs, Inputs]:
        """Terms, and for an external index the same as texts."""
        sides = super().inputs(documents, queries)
        return tuple(Inputs(side.ids, texts=side.terms, terms=side.terms) for side in sides)  # type: ignore[return-value]

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        assert documents.texts is not None
        texts = zip(documents.ids.to_list(), documents.texts.to_pylist(), strict=True)
        fields = {str(row): {"name": key, "body": {"en": text}} for row, (key, text) in enumerate(texts)}
        name = write_index(self.server, self.product, fields)
        return {"external": True, "index": name, "text_field": FIELD, "id_field": "name", "keep": False}


class ServerTests:
    """What a real server of either product does."""

    engine: ClassVar[type[OpenSearchEngine]]

    @pytest.fixture(autouse=True)
    def _server(self, server: httpx.Client) -> None:
        self.server = server

    @property
    def backend(self) -> str:
        return self.engine.name

    def write_index(self, documents: Mapping[str, Mapping[str, Any]], **options: Any) -> str:
        return write_index(self.server, self.engine.product, documents, **options)

    def make(self, **parameters: ParameterValue) -> OpenSearchEngine:
        return self.engine({**CARDS[self.backend].defaults, **parameters})

    @contextmanager
    def opened(self, folder: Path, ids: Ids, **parameters: ParameterValue) -> Iterator[OpenSearchEngine]:
        engine = self.make(**parameters)
        folder.mkdir(exist_ok=True)
        engine.open(folder, ids)
        try:
            yield engine
        finally:
            engine.close()

    def index(self, engine: OpenSearchEngine, texts: Sequence[str], ids: Ids) -> None:
        terms = term_texts(count_words(texts, QUESTIONS), "documents")
        engine.index(Inputs(ids, terms=terms), RecordingProgress(), StepClock())

    def test_cacm_is_equal_to_the_bit_with_one_and_with_two_shards(self) -> None:
        """Statistics, norms and ties of each shard by itself, or of all: every query, held against the reference."""
        before = index_names(self.server)
        compared = harness.compare(
            [
                f"one={self.backend}",
                f"two={self.backend}:shards=2",
                f"global={self.backend}:shards=2;search_type=dfs_query_then_fetch",
            ],
            "cacm",
            k=100,
            timing=False,
        )
        scores = {}
        for trial in compared.report.trials:
            assert trial.error is None
            assert trial.parity is not None
            assert trial.parity.mode == "lucene"
            assert trial.parity.bit_equal == trial.parity.queries == 64
            assert trial.index is not None
            assert trial.index.state["shards"] == trial.index.state["segments"] == (1 if trial.label == "one" else 2)
            assert trial.index.documents_indexed == 3204
            scores[trial.label] = sorted(compared.run(trial.label).scores.tolist())
        assert scores["one"] == scores["global"] != scores["two"]
        assert index_names(self.server) == before

    def test_cacm_with_a_weighted_title_is_equal_to_the_bit(self, tmp_path: Path) -> None:
        """The sum of two fields by ``multi_match``, each field with the statistics of its shard, or of all shards."""
        compared = harness.compare(
            [
                f"one={self.backend}:fields=title^3+text",
                f"two={self.backend}:fields=title^0.7+text^2.3;shards=2",
                f"global={self.backend}:fields=title+text;shards=2;search_type=dfs_query_then_fetch",
            ],
            write_titled_cacm(tmp_path / "titled"),
            k=100,
            timing=False,
        )
        for trial in compared.report.trials:
            assert trial.error is None
            assert trial.parity is not None
            assert trial.parity.mode == "lucene"
            assert trial.parity.bit_equal == trial.parity.queries == 64

    def test_explanations_have_every_number_of_the_reference(self, tmp_path: Path) -> None:
        """Statistics of one shard or of all, one text and fields, with a filter."""
        backends = [
            f"one={self.backend}:k1=1.2;b=0.75",
            f"two={self.backend}:shards=2",
            f"global={self.backend}:fields=title^3+text^0.7;shards=2;search_type=dfs_query_then_fetch",
        ]
        rooms, before = str(write_rooms(tmp_path / "rooms")), index_names(self.server)
        explanation = harness.explain(
            query="q1", dataset=rooms, backends=backends, filter=["room=shed"], engine_explanation=True
        )
        require_agreement(explanation, documents=3)
        assert index_names(self.server) == before

    def test_fields_of_an_external_index_are_added_with_their_weights(self, tmp_path: Path) -> None:
        texts = {"x": ("a", "b c"), "y": ("b", "a a"), "z": ("c", "a b")}
        documents = {name: {"title": title, "body": {"en": text}} for name, (title, text) in texts.items()}
        name = self.write_index(documents, fields={"title": {"type": "text", "analyzer": "whitespace"}})
        scores = []
        for parameters in ({"text_field": "title"}, {"text_field": FIELD}, {"fields": f"title^3+{FIELD}"}):
            engine = self.make(external=True, index=name, **parameters)
            engine.attach(tmp_path, RecordingProgress())
            try:
                hits = ask(engine, "a b", 3)
                state = engine.loaded.state
                trees = engine.explain(Inputs(Ids.of("q"), texts=pa.chunked_array([["a b"]])), hits.rows).trees
            finally:
                engine.close()
            assert [np.float32(tree.value) for tree in trees if tree is not None] == hits.scores.tolist()
            scores.append(dict(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True)))
        of_title, of_text, together = scores
        expected = {row: 3 * of_title.get(row, 0.0) + score for row, score in of_text.items()}
        assert together == pytest.approx(expected, rel=1e-6)
        assert state["text_field"] == f"title, {FIELD}"
        with pytest.raises(RejectedInputError, match=r"no text field 'headline'\n.*\(fields=\): body.en, title"):
            self.make(external=True, index=name, fields="title+headline").attach(tmp_path, RecordingProgress())
        with pytest.raises(RejectedInputError, match="text_field and fields name searched fields twice"):
            self.make(external=True, index=name, fields="title", text_field=FIELD)

    def test_an_index_is_made_as_its_parameters_say_and_removed(self, tmp_path: Path) -> None:
        before, ids = index_names(self.server), Ids.of(f"d{row}" for row in range(len(TEXTS)))
        with self.opened(tmp_path / "index", ids, shards=2, k1=1.2, b=0.75, batch_size=2) as engine:
            self.index(engine, TEXTS, ids)
            (name,) = index_names(self.server) - before
            settings = self.server.get(f"/{name}/_settings").json()[name]["settings"]["index"]
            mappings = self.server.get(f"/{name}/_mapping").json()[name]["mappings"]
            state = engine.loaded.state
            assert ask(engine, "", 5).indptr.tolist() == [0, 0]
        kind = "LegacyBM25" if has_legacy_similarity(self.server, self.engine.product) else "BM25"
        assert settings["similarity"] == {"default": {"type": kind, "k1": "1.2", "b": "0.75"}}
        assert (settings["number_of_shards"], settings["number_of_replicas"]) == ("2", "0")
        assert (settings["refresh_interval"], settings["max_result_window"]) == ("-1", "10000")
        assert mappings["properties"]["terms"] == {"type": "text", "analyzer": "whitespace"}
        by_shard = [int(count) for count in str(state["documents_by_shard"]).split(" + ")]
        assert (len(by_shard), sum(by_shard), state["segments"]) == (2, len(TEXTS), 2)
        assert index_names(self.server) == before

    def test_ties_come_shard_by_shard(self, tmp_path: Path) -> None:
        ids = Ids.of(f"d{row}" for row in range(len(TEXTS)))
        with self.opened(tmp_path / "index", ids, shards=3, search_type="dfs_query_then_fetch") as engine:
            self.index(engine, TEXTS, ids)
            rows = ask(engine, "a b", 9).rows
            placed = engine.placement()
        same = [row for row, text in enumerate(TEXTS) if text == "a b"]
        assert rows[: len(same)].tolist() == [row for row in placed.order if row in same]
        assert placed.shards is None

    def test_a_document_that_the_server_refuses_is_named(self, tmp_path: Path) -> None:
        ids = Ids.of(["a", "b"])
        terms = term_texts(count_words(["a", "b"], ["a"]), "documents")
        metadata = pa.table({"lang": ["en", "x" * 40_000]})
        with (
            self.opened(tmp_path / "index", ids) as engine,
            pytest.raises(EngineFailureError, match=r"refused 1 of 2 documents \(rows 1 first\).*immense term"),
        ):
            engine.index(Inputs(ids, terms=terms, metadata=metadata), RecordingProgress(), StepClock())

    def test_a_query_of_too_many_terms_is_named(self, tmp_path: Path) -> None:
        ids = Ids.of(["a"])
        with self.opened(tmp_path / "index", ids) as engine:
            self.index(engine, ["a"], ids)
            assert ask(engine, " ".join(f"w{number}" for number in range(1024)), 1).rows.tolist() == []
            with pytest.raises(
                EngineFailureError, match=r"searching for query 'q' \(400 .*maxClauseCount is set to 1024"
            ):
                ask(engine, " ".join(f"w{number}" for number in range(1025)), 1)

    def test_a_kept_index_is_not_opened_when_documents_or_all_of_it_are_gone(self, tmp_path: Path) -> None:
        ids = Ids.of(["a", "b"])
        with self.opened(tmp_path / "index", ids, keep=True) as engine:
            self.index(engine, ["a", "b"], ids)
            name = str(engine.loaded.state["index"])
        self.server.delete(f"/{name}/_doc/0?refresh=true").raise_for_status()
        with pytest.raises(LostDocumentsError), self.opened(tmp_path / "index", ids, keep=True):
            pass
        self.server.delete(f"/{name}").raise_for_status()
        with (
            pytest.raises(EngineUnavailableError, match=f"there is no index '{name}'"),
            self.opened(tmp_path / "index", ids, keep=True),
        ):
            pass

    def test_a_kept_index_is_searched_as_an_external_one(self, tmp_path: Path) -> None:
        dataset = write_collection(tmp_path / "small")
        kept = harness.compare(f"{self.backend}:analyzer=whitespace;shards=2;keep=true", dataset, k=5)
        (trial,) = kept.report.trials
        assert trial.index is not None
        name = trial.index.state["index"]
        again = harness.compare(f"{self.backend}:external=true;index={name};text_field=terms", dataset, k=5)
        (external,) = again.report.trials
        assert external.error is None
        assert external.parity is None
        assert external.index is not None
        assert external.index.state["analyzer"] == "whitespace"
        first, second = kept.run(trial.label), again.run(external.label)
        assert first.scores.tolist() == second.scores.tolist()
        assert first.doc_ids.take(first.rows) == second.doc_ids.take(second.rows)
        assert any("its own analyzer" in note for note in external.notes)

    def test_a_golden_set_is_checked_against_an_index_with_the_standard_analyzer(self, tmp_path: Path) -> None:
        """Unlike the whitespace analyzer it lowers capitals, drops marks and cuts at hyphens; it stems nothing."""
        texts = {
            "rail": "Light rail: the city's new trams",
            "lamp": "LIGHT bulbs, railings",
            "boat": "Rowing-boats on the river.",
        }
        questions = [("light RAIL?", "rail"), ("boats", "boat"), ("light", "rail"), ("railing", "lamp")]
        name = self.write_index(texts_of(texts), analyzer="standard")
        golden = tmp_path / "golden.jsonl"
        golden.write_bytes(
            b"".join(
                orjson.dumps({"id": question, "question": question, "expected_relevant_doc_ids": [expected]}) + b"\n"
                for question, expected in questions
            )
        )
        against = f"{self.backend}:external=true;index={name};text_field={FIELD}"
        (trial,) = harness.check(golden, against=against, k=3).report.trials
        assert trial.error is None
        assert trial.index is not None
        assert trial.index.state["analyzer"] == "standard"
        ranks = {question.id: question.values["MRR@3"] for question in trial.questions}
        assert ranks == {"light RAIL?": 1.0, "boats": 1.0, "light": 0.5, "railing": 0.0}

    @pytest.mark.parametrize(
        ("parameters", "kind", "says"),
        [
            (
                {"index": "nothing-of-that-name"},
                EngineUnavailableError,
                "no index 'nothing-of-that-name' .*\n.*check 'index' and 'url'",
            ),
            ({"text_field": "body"}, RejectedInputError, r"no text field 'body'"),
            ({"text_field": "note"}, RejectedInputError, r"no text field 'note'"),
            (
                {"id_field": "body.number"},
                RejectedInputError,
                "2 of 2 documents have no text or whole number in the field 'body.number'",
            ),
        ],
    )
    def test_an_external_index_that_cannot_be_searched_is_refused(
        self, parameters: Mapping[str, ParameterValue], kind: type[Exception], says: str, tmp_path: Path
    ) -> None:
        name = self.write_index({"x": {"body": {"en": "a", "name": 7}}, "y": {"body": {"en": "b"}}})
        engine = self.make(**{"external": True, "index": name, "text_field": FIELD, **parameters})
        with pytest.raises(kind, match=says):
            engine.attach(tmp_path, RecordingProgress())
        assert name in index_names(self.server)

    def test_an_external_index_that_changes_is_noticed(self, tmp_path: Path) -> None:
        name = self.write_index(texts_of({"x": "a b c", "z": "a b c"}))
        engine = self.make(external=True, index=name, text_field=FIELD)
        attached = engine.attach(tmp_path, RecordingProgress())
        try:
            assert attached.changed is not None
            assert attached.changed() is None
            self.server.put(f"/{name}/_doc/y?refresh=true", json={"body": {"en": "a"}}).raise_for_status()
            assert attached.changed() == f"the index '{name}' was written to"
            with pytest.raises(IndexChangedError, match="'y' was added"):
                ask(engine, "a", 3)
        finally:
            engine.close()

    def test_an_external_index_that_returns_few_documents_at_once(self, tmp_path: Path) -> None:
        name = self.write_index(texts_of({"x": "a", "y": "a a", "z": "a b"}), max_result_window=2)
        engine = self.make(external=True, index=name, text_field=FIELD)
        engine.attach(tmp_path, RecordingProgress())
        try:
            assert sorted(engine.ids.to_list()) == ["x", "y", "z"]
            assert len(ask(engine, "a", 2).rows) == 2
            with pytest.raises(RejectedInputError, match=r"at most 2 of the 3 documents .*max_result_window"):
                ask(engine, "a", 3)
        finally:
            engine.close()

    def test_questions_are_filtered_by_the_mapping_of_an_index(self, tmp_path: Path) -> None:
        """Its own mapping of texts has a field of keywords; each field is compared by its type."""
        fields = {"score": {"type": "float"}, "year": {"type": "integer"}}
        documents = {
            name: {"body": {"en": "words"}, **record, "metadata": record, "nested": [{"a": "x"}]}
            for name, record in TYPED.items()
        }
        mapping = {**fields, "nested": {"type": "nested"}, "short": {"type": "keyword", "ignore_above": 3}}
        name = self.write_index(documents, fields=mapping)
        against = f"{self.backend}:external=true;index={name};text_field={FIELD}"
        cases = [*OF_TYPED, *in_container(OF_TYPED[:-1], "metadata")]
        require_filtered(checked(against, tmp_path, cases, question="words"), cases, proven=False)
        for conditions, says in (
            (
                {"body.en": "words"},
                "the text of the field 'body.en' is analysed, so that its values cannot be compared",
            ),
            ({"nested.a": "x"}, "the field 'nested.a' is inside a nested object, by which the harness does not filter"),
            (
                {"short": "four"},
                "the field 'short' ignores values of more than 3 characters, and a filter has one of 4",
            ),
            ({"tenat": "x"}, "no document of the external index has the metadata field 'tenat'"),
        ):
            (trial,) = checked(against, tmp_path, [(conditions, "a")], question="words").report.trials
            assert trial.error is not None
            assert trial.error.message.startswith(says)

    def test_numbers_are_compared_within_the_range_and_precision_of_their_type(self, tmp_path: Path) -> None:
        """The server rejects a query for a number outside the range of a field's type."""
        types: Mapping[str, Mapping[str, Any]] = {
            "byte": {"type": "byte"},
            "short": {"type": "short"},
            "integer": {"type": "integer"},
            "long": {"type": "long"},
            "half_float": {"type": "half_float"},
            "float": {"type": "float"},
            "double": {"type": "double"},
        }
        whole = {"byte": 127, "short": -(2**15), "integer": 2**31 - 1, "long": -(2**63)}
        outside = {"byte": 128, "short": -(2**15) - 1, "integer": 2**31, "long": -(2**63) - 1}
        fractions = ("half_float", "float", "double")
        record = {**whole, **dict.fromkeys(fractions, 0.3)}
        documents = {"a": {"body": {"en": "words"}, **record}, "b": {"body": {"en": "words"}}}
        name = self.write_index(documents, fields=types)
        against = f"{self.backend}:external=true;index={name};text_field={FIELD}"
        cases = [({field: str(value)}, "a") for field, value in whole.items()]
        cases += [({field: str(value)}, "") for field, value in outside.items()]
        cases += [({field: "0.3"}, "a") for field in fractions]
        cases += [({field: text}, "") for field in fractions for text in ("0.31", "70000.5", "1e+39", "1e+300")]
        require_filtered(checked(against, tmp_path, cases, question="words"), cases, proven=False)

    def test_documents_are_matched_by_a_field_and_by_text(self, tmp_path: Path) -> None:
        documents = {
            name: {"body": {"en": text}, "metadata": {"source": file}} for name, (file, text) in CHUNKS.items()
        }
        name = self.write_index(documents, analyzer="standard")
        against = f"{self.backend}:external=true;index={name};text_field={FIELD}"
        require_matches(against, tmp_path, of_texts=True)

    def test_the_older_similarity_is_the_only_one_before_opensearch_3(self, tmp_path: Path) -> None:
        if has_legacy_similarity(self.server, self.engine.product):
            pytest.skip("this server has the newer similarity as well")
        ids = Ids.of("a")
        with (
            self.opened(tmp_path / "index", ids, k1_plus_1=False) as engine,
            pytest.raises(RejectedInputError, match=r"always scores with k1 \+ 1"),
        ):
            self.index(engine, ["a"], ids)

    def test_measured_scores(self) -> None:
        """The numbers of the reference's test are the server's: `a a b` and `b c`, query `a b`."""
        name = self.write_index(texts_of({"0": "a a b", "1": "b c"}))
        query = {"query": {"match": {FIELD: "a b"}}}
        hits = self.server.post(f"/{name}/_search", json=query).raise_for_status().json()["hits"]["hits"]
        assert [np.float32(hit["_score"]) for hit in hits] == [np.float32(1.0619229), np.float32(0.1895027)]

    def test_the_doctor_finds_and_removes_what_was_left(self, url: str) -> None:
        known, left = find_servers()[self.engine.product.name], ["harness--b-1-89abcdef", "harness-a-01234567"]
        for name in ("mine", *left):
            self.server.put(f"/{name}").raise_for_status()
        detail = examine_server(known, url).detail
        assert left_collections(known, url) == left
        remove_collections(known, url, left)
        assert index_names(self.server) == {"mine"}
        assert detail.startswith(f"{url}, {known.kind.address_rules.engine} ")
        assert "3 indexes, 2 of them made by harness" in detail

    def test_the_other_product_is_refused(self, url: str) -> None:
        other = {OpenSearchEngine: ElasticsearchEngine, ElasticsearchEngine: OpenSearchEngine}[self.engine]
        with pytest.raises(EngineUnavailableError) as raised:
            other.identity({**CARDS[other.name].defaults, "url": url})
        version = self.engine.identity(CARDS[self.backend].defaults)[self.backend]
        assert raised.value.problem == f"the server at {url} is {self.engine.product.name} {version}"
        assert raised.value.fix == f"name it {self.backend}:url=…"


class TestOpenSearch(ServerContract):
    engine = OpenSearchEngine
    card = "opensearch"
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"keep": True, "batch_size": 100}


class TestOpenSearchServer(ServerTests):
    engine = OpenSearchEngine
