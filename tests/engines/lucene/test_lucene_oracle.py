"""Lucene and its reference agree to the last bit: documents, order, ties and scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import pyarrow as pa
import pytest
from installed import skip_module_without

from harness.data.inputs import Inputs
from harness.data.types import Corpus, Ids
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


class Held:
    """A corpus in Lucene, in as many segments as asked for, and its term counts."""

    def __init__(self, folder: Path, corpus: Corpus, segments: str) -> None:
        self.corpus = corpus
        self.engine = LuceneEngine({**_DEFAULTS, **_SEGMENTS[segments]})
        self.engine.open(folder, corpus.ids)
        documents = Inputs(corpus.ids, texts=corpus.texts)
        self.report = self.engine.index(documents, RecordingProgress(), perf_counter_ns)
        assert (int(self.report.state["segments"]) > 1) == (segments == "several")

    def assert_bit_equal(self, queries: Sequence[str], k: int) -> int:
        """Compare all queries; returns the number of hits."""
        counts = count_terms(
            create_analyzer("lucene-english"), self.corpus.batches(1000), list(queries), RecordingProgress()
        )
        exact = LuceneIndex.build(counts).retrieve(counts.queries, k)
        inputs = Inputs(Ids.of(map(str, range(len(queries)))), texts=pa.chunked_array([pa.array(queries)]))
        found = self.engine.search(inputs, k, perf_counter_ns)
        assert np.array_equal(found.indptr, exact.indptr)
        assert np.array_equal(found.rows, exact.rows)
        assert np.array_equal(found.scores.view(np.uint32), exact.scores.view(np.uint32))
        return len(found.rows)


@pytest.fixture(scope="module", params=list(_SEGMENTS))
def held(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    opened: list[LuceneEngine] = []

    def hold(corpus: Corpus) -> Held:
        kept = Held(tmp_path_factory.mktemp("index"), corpus, request.param)
        opened.append(kept.engine)
        return kept

    yield hold
    for engine in opened:
        engine.close()


@pytest.fixture(scope="module")
def cacm(held: Callable[[Corpus], Held]) -> Held:
    return held(load_dataset("cacm").corpus)


def made_queries(counts_of: Held, seed: int) -> list[str]:
    """A hundred queries of 1 to 120 words out of the documents, with repeats, as bags of words and as passages."""
    generator = np.random.default_rng(seed)
    texts = [text.split() for batch in counts_of.corpus.batches(1000) for text in batch if len(text.split()) > 20]
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


@pytest.mark.parametrize("k", [10, 1000])
def test_all_cacm_queries_are_bit_equal(cacm: Held, k: int):
    queries = load_dataset("cacm").queries.texts.to_pylist()
    assert len(queries) == 64
    assert cacm.assert_bit_equal(queries, k) > 60 * k // 2


@pytest.mark.parametrize("k", [10, 1000])
def test_made_queries_are_bit_equal(cacm: Held, k: int):
    assert cacm.assert_bit_equal(made_queries(cacm, seed=20), k) > 95 * k // 2


@pytest.mark.parametrize("k", [10, 1000])
def test_cranfield_with_its_two_empty_documents_is_bit_equal(held, shared_collections: Path, k: int):
    cranfield = load_dataset(shared_collections / "cranfield")
    kept = held(cranfield.corpus)
    assert (kept.report.sent, kept.report.indexed) == (1400, 1398)
    assert cranfield.corpus.ids.take(kept.report.missing_rows) == ["471", "995"]
    kept.assert_bit_equal(cranfield.queries.texts.to_pylist(), k)
    kept.assert_bit_equal(made_queries(kept, seed=21), k)


def test_the_index_holds_the_terms_that_were_counted(cacm: Held):
    counts: TermCounts = count_terms(
        create_analyzer("lucene-english"), cacm.corpus.batches(1000), [], RecordingProgress()
    )
    assert cacm.report.state["terms"] == int(counts.lengths.sum()) == 320_968
    assert len(counts.vocabulary) == 14_363
    assert cacm.report.state["documents_with_terms"] == len(counts.documents.nonempty_rows)
