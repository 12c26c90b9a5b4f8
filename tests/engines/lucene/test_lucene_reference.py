"""Lucene and its reference agree to the last bit: documents, order, ties and scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import pyarrow as pa
import pytest
from installed import skip_module_without

from harness.data.inputs import Inputs
from harness.data.types import Corpus, Ids
from harness.engines.interface import IndexReport
from harness.engines.lucene.bm25 import LuceneEngine
from harness.exact.lucene import LuceneIndex
from harness.loaders import load_dataset
from harness.registry.cards import read_backend_card
from harness.testing import RecordingProgress
from harness.text import TermCounts, count_terms, create_analyzer

skip_module_without("jnius_config")
pytestmark = pytest.mark.integration

_DEFAULTS = read_backend_card(Path(__file__).parents[3] / "backends" / "lucene.toml").defaults
_SEGMENTS = {"one": {"segments": "single"}, "several": {"ram_buffer_mb": 0.1}}


@dataclass(frozen=True)
class Counted:
    """A corpus, its own queries and a hundred made ones, and the terms of all."""

    corpus: Corpus
    queries: list[str]
    counts: TermCounts

    @classmethod
    def of(cls, name: str, seed: int) -> Counted:
        dataset = load_dataset(name)
        queries = [*dataset.queries.texts.to_pylist(), *made_queries(dataset.corpus, seed)]
        analyzer = create_analyzer("lucene-english")
        return cls(dataset.corpus, queries, count_terms(analyzer, dataset.corpus.batches(1000), queries))


@pytest.fixture(scope="module")
def cacm() -> Counted:
    return Counted.of("cacm", seed=20)


@pytest.fixture(scope="module")
def cranfield(shared_collections: Path) -> Counted:
    return Counted.of(str(shared_collections / "cranfield"), seed=21)


@contextmanager
def held(folder: Path, corpus: Corpus, segments: str) -> Iterator[tuple[LuceneEngine, IndexReport]]:
    """The corpus in Lucene, in as many segments as asked for."""
    with closing(LuceneEngine({**_DEFAULTS, **_SEGMENTS[segments]})) as engine:
        engine.open(folder, corpus.ids)
        report = engine.index(Inputs(corpus.ids, texts=corpus.texts), RecordingProgress(), perf_counter_ns)
        assert (int(report.state["segments"]) > 1) == (segments == "several")
        yield engine, report


def assert_bit_equal(engine: LuceneEngine, collection: Counted, k: int) -> int:
    """Compare all queries; returns the number of hits."""
    exact = LuceneIndex.build(collection.counts).retrieve(collection.counts.queries, k)
    ids, texts = Ids.of(map(str, range(len(collection.queries)))), pa.chunked_array([pa.array(collection.queries)])
    found = engine.search(Inputs(ids, texts=texts), k, perf_counter_ns)
    assert np.array_equal(found.indptr, exact.indptr)
    assert np.array_equal(found.rows, exact.rows)
    assert np.array_equal(found.scores.view(np.uint32), exact.scores.view(np.uint32))
    return len(found.rows)


def made_queries(corpus: Corpus, seed: int) -> list[str]:
    """A hundred queries of 1 to 120 words out of the documents, with repeats, as bags of words and as passages."""
    generator = np.random.default_rng(seed)
    texts = [words for batch in corpus.batches(1000) for text in batch if len(words := text.split()) > 20]
    words = [word for text in texts for word in text]
    queries = []
    for place in range(100):
        length = 120 if place < 10 else int(generator.integers(1, 121))
        drawn = [words[n] for n in generator.integers(0, len(words), length)]
        if place % 2:
            passage = texts[int(generator.integers(len(texts)))][: length // 2]
            drawn = [*passage, *generator.choice(drawn[:7], size=max(1, length - len(passage))).tolist()]
        queries.append(" ".join(drawn))
    assert max(len(query.split()) for query in queries) == 120
    return queries


@pytest.mark.parametrize("segments", _SEGMENTS)
def test_cacm_and_made_queries_are_bit_equal(cacm: Counted, tmp_path: Path, segments: str) -> None:
    assert len(cacm.queries) == 164
    with held(tmp_path, cacm.corpus, segments) as (engine, report):
        for k in (10, 1000):
            assert assert_bit_equal(engine, cacm, k) > 155 * k // 2
    assert report.state["terms"] == int(cacm.counts.lengths.sum()) == 320_968
    assert len(np.unique(cacm.counts.documents.indices)) == 14_363
    assert report.state["documents_with_terms"] == len(cacm.counts.documents.nonempty_rows)


@pytest.mark.parametrize("segments", _SEGMENTS)
def test_cranfield_with_its_two_empty_documents_is_bit_equal(cranfield: Counted, tmp_path: Path, segments: str) -> None:
    with held(tmp_path, cranfield.corpus, segments) as (engine, report):
        for k in (10, 1000):
            assert_bit_equal(engine, cranfield, k)
    assert (report.sent, report.indexed, report.state["documents_with_terms"]) == (1400, 1398, 1398)
    assert np.array_equal(report.missing_rows, cranfield.corpus.empty_rows)
    assert cranfield.corpus.ids.take(report.missing_rows) == ["471", "995"]
