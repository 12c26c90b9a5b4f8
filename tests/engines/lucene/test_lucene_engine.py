"""The Lucene backend on real collections, and what only a real JVM can show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import pyarrow as pa
import pytest
from installed import skip_module_without
from jackson import to_python
from lucene_indexes import open_directory
from small_world import write_collection

import harness
from harness.data.dataset import Dataset
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.interface import IndexReport, SearchResult
from harness.engines.lucene.bm25 import LuceneEngine
from harness.errors import EngineUnavailableError, RejectedInputError
from harness.java.bridge import JavaBridge
from harness.java.jvm import find_jar, start
from harness.loaders import load_dataset
from harness.registry.cards import read_backend_card
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress

skip_module_without("jnius_config")
pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

_DEFAULTS = read_backend_card(Path(__file__).parents[3] / "backends" / "lucene.toml").defaults


@contextmanager
def built(folder: Path, documents: Inputs, **parameters: ParameterValue) -> Iterator[tuple[LuceneEngine, IndexReport]]:
    folder.mkdir(exist_ok=True)
    engine = LuceneEngine({**_DEFAULTS, **parameters})
    engine.open(folder, documents.ids)
    try:
        yield engine, engine.index(documents, RecordingProgress(), perf_counter_ns)
    finally:
        engine.close()


def texts(*words: str) -> Inputs:
    return Inputs(Ids.of(f"id{place}" for place in range(len(words))), texts=pa.chunked_array([pa.array(words)]))


def answers(engine: LuceneEngine, dataset: Dataset) -> SearchResult:
    return engine.search(Inputs(dataset.queries.ids, texts=dataset.queries.texts), 1000, perf_counter_ns)


@pytest.fixture(scope="module")
def cacm() -> Dataset:
    return load_dataset("cacm")


@pytest.fixture(scope="module")
def whole(cacm: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LuceneEngine]:
    """CACM with the default parameters."""
    documents = Inputs(cacm.corpus.ids, texts=cacm.corpus.texts)
    with built(tmp_path_factory.mktemp("whole"), documents) as (engine, _):
        yield engine


@pytest.mark.parametrize(
    ("parameters", "segments"),
    [({"ram_buffer_mb": 1.0}, range(2, 50)), ({"ram_buffer_mb": 1.0, "segments": "single"}, [1])],
)
def test_segments_change_no_answer(whole: LuceneEngine, cacm: Dataset, tmp_path: Path, parameters, segments):
    documents = Inputs(cacm.corpus.ids, texts=cacm.corpus.texts)
    with built(tmp_path, documents, **parameters) as (engine, report):
        other = answers(engine, cacm)
    assert report.state["segments"] in segments
    for one, two in zip(answers(whole, cacm)[:3], other[:3], strict=True):
        assert np.array_equal(one, two)


def test_equal_scores_come_in_the_order_of_the_documents(whole: LuceneEngine, cacm: Dataset):
    result = answers(whole, cacm)
    same_query = np.ones(len(result.rows), dtype=bool)
    same_query[result.indptr[:-1][np.diff(result.indptr) > 0]] = False
    tied = same_query[1:] & (np.diff(result.scores) == 0)
    assert tied.sum() > 1000
    assert np.all(np.diff(result.rows)[tied] > 0)


def test_documents_of_stop_words_are_held_and_not_counted(tmp_path: Path):
    with built(tmp_path, texts("the of", "word", " \t\n ", "\u00a0")) as (engine, report):
        assert report.missing_rows.tolist() == [2]
        assert (report.indexed, report.state["documents_with_terms"]) == (3, 1)
        assert engine.search(texts("word the"), 9, perf_counter_ns).rows.tolist() == [1]


@pytest.mark.parametrize("parameters", [{}, {"rm3": True}, {"axiom": True, "axiom_r": 1, "axiom_n": 2}])
def test_k_beyond_the_documents_and_beyond_32_bits_finds_all_there_is(tmp_path: Path, parameters):
    with built(tmp_path, texts("cat dog", "cat", "cat bird"), **parameters) as (engine, _):
        few, many = (engine.search(texts("cat"), k, perf_counter_ns) for k in (3, 3_000_000_000))
    assert len(few.rows) == 3
    for one, two in zip(few[:3], many[:3], strict=True):
        assert np.array_equal(one, two)


def test_a_jar_of_its_own_replaces_the_environment_s_in_analysis_and_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    jar = find_jar()
    monkeypatch.setenv("HARNESS_ANSERINI_JAR", str(tmp_path / "absent.jar"))
    collection = write_collection(tmp_path / "small")
    comparison = harness.compare(["lucene", f"lucene:jar={jar}"], collection, k=3)
    without, own = comparison.report.trials
    assert without.error is not None
    assert "there is no jar" in without.error.message
    assert own.status == "ok"
    assert own.parity is not None
    assert (own.parity.bit_equal, own.parity.queries) == (4, 4)


def test_nothing_but_empty_documents(tmp_path: Path):
    with built(tmp_path, texts("", " ")) as (engine, report):
        assert (report.indexed, report.missing_rows.tolist()) == (0, [0, 1])
        assert engine.search(texts("word"), 9, perf_counter_ns).indptr.tolist() == [0, 0]


def test_hits_arrive_exactly_as_jackson_writes_them(whole: LuceneEngine, cacm: Dataset):
    for query in whole.prepare(cacm.queries.texts.slice(0, 20), 1000):
        top_docs = whole.retrieve(query, 1000)
        hits = whole.hits(top_docs)
        written = to_python(whole.bridge, top_docs)["scoreDocs"]
        assert hits.documents.tolist() == [hit["doc"] for hit in written]
        assert np.array_equal(hits.scores, np.array([hit["score"] for hit in written], dtype=np.float32))


@pytest.mark.parametrize("feedback", [{"rm3": True}, {"axiom": True, "axiom_r": 5, "axiom_n": 10}])
def test_feedback_takes_queries_that_find_nothing(tmp_path: Path, feedback: dict[str, ParameterValue]):
    documents = texts(*(f"word{n % 7} other{n % 3}" for n in range(50)))
    with built(tmp_path, documents, **feedback) as (engine, _):
        result = engine.search(texts("word1", "", "unknown", "the", "word2"), 50, perf_counter_ns)
    lengths = np.diff(result.indptr).tolist()
    assert lengths[1:4] == [0, 0, 0]
    assert lengths[0] >= 7
    assert lengths[4] >= 7


def test_axiomatic_feedback_of_two_indexes_does_not_mix(tmp_path: Path):
    documents = texts(*(f"word{n % 11} other{n % 5} third{n % 3}" for n in range(900)))
    queries = texts("word1 other2", "third0 word4")
    few = {"axiom": True, "axiom_r": 2, "axiom_n": 2}
    with built(tmp_path / "one", documents, axiom=True) as (one, _):
        before = one.search(queries, 50, perf_counter_ns)
        with built(tmp_path / "two", texts("word1", "other2 word4", "third0", "word1"), **few) as (two, _):
            two.search(queries, 50, perf_counter_ns)
            after = one.search(queries, 50, perf_counter_ns)
    assert np.array_equal(before.rows, after.rows)
    assert np.array_equal(before.scores, after.scores)


def test_axiomatic_feedback_refuses_fewer_documents_than_it_samples(tmp_path: Path):
    with (
        pytest.raises(RejectedInputError, match=r"axiom_r times axiom_n = 600 documents; the index holds 2"),
        built(tmp_path, texts("one", "two"), axiom=True),
    ):
        pass


def test_a_query_may_have_thousands_of_terms(tmp_path: Path):
    with built(tmp_path, texts("word4999", "nothing")) as (engine, _):
        result = engine.search(texts(" ".join(f"word{n}" for n in range(5000))), 5, perf_counter_ns)
    assert result.rows.tolist() == [0]


def test_an_id_too_long_for_lucene_is_refused_and_the_build_is_not_taken_for_whole(tmp_path: Path):
    documents = Inputs(Ids.of(["short", "x" * 40_000]), texts=pa.chunked_array([["one text", "another text"]]))
    with pytest.raises(RejectedInputError, match="shorten the document ids"), built(tmp_path, documents):
        pass
    again = LuceneEngine(_DEFAULTS)
    with pytest.raises(EngineUnavailableError, match="never finished"):
        again.open(tmp_path, documents.ids)


def test_an_index_that_another_writer_holds_is_unavailable(tmp_path: Path):
    bridge = JavaBridge(start())
    directory = open_directory(bridge, tmp_path)
    engine = LuceneEngine(_DEFAULTS)
    documents = texts("one", "two")
    engine.open(tmp_path, documents.ids)
    load = bridge.load
    writer = load("org.apache.lucene.index.IndexWriter")(directory, load("org.apache.lucene.index.IndexWriterConfig")())
    try:
        with pytest.raises(EngineUnavailableError, match="another process writes to this index"):
            engine.index(documents, RecordingProgress(), perf_counter_ns)
    finally:
        writer.rollback()
        directory.close()
        engine.close()


@pytest.mark.parametrize("changed", [{"analyzer": "lucene-german"}, {"rm3": True}, {"segments": "single"}])
def test_an_index_built_otherwise_is_refused(tmp_path: Path, changed: dict[str, ParameterValue]):
    documents = texts("one", "two")
    with built(tmp_path, documents):
        pass
    with pytest.raises(RejectedInputError, match="other parameters"):
        LuceneEngine({**_DEFAULTS, **changed}).open(tmp_path, documents.ids)


def test_scoring_may_change_without_indexing_again(tmp_path: Path):
    documents = texts("one one", "one two three")
    with built(tmp_path, documents) as (engine, _):
        first = engine.search(texts("one"), 2, perf_counter_ns)
    other = LuceneEngine({**_DEFAULTS, "k1": 1.2, "b": 0.75, "analyzer": "lucene-english"})
    info = other.open(tmp_path, documents.ids)
    assert not np.array_equal(first.scores, other.search(texts("one"), 2, perf_counter_ns).scores)
    other.close()
    assert info.name == "Lucene"
    assert info.version.startswith("9.")
    assert "(Anserini 1." in info.version


def test_storage_is_what_the_files_allocate(tmp_path: Path):
    with built(tmp_path, texts("one", "two")) as (engine, _):
        blocks = sum(path.stat().st_blocks for path in tmp_path.iterdir() if path.suffix != ".json")
        assert engine.storage() == (512 * blocks, 0)
