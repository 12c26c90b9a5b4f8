"""Generated sparse vectors give the same hits in Qdrant Edge, in the csr backend and in plain float64 arithmetic."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from example_counts import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from installed import skip_without

from harness.data.inputs import Inputs
from harness.data.types import Float32Array, Ids
from harness.engines.csr import CsrEngine
from harness.engines.interface import EngineInterface, IndexReport, SearchResult
from harness.engines.qdrant.engine import QdrantEngine
from harness.exact import bm25_idf, document_frequencies
from harness.exact.qdrant_model import qdrant_idf
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import to_vectors

DIMENSIONS = 7
PADDING = [{DIMENSIONS - 1: 1.0}] * 300  # below a kilobyte Qdrant's optimiser leaves a segment alone
# Powers of two times small numbers: sums of a few products are exact in float32, so that ties and zeros are real.
TAME = st.sampled_from([0.25, 0.5, 1.0, 1.5, 2.0, 3.0])
SIGNED = st.sampled_from([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
WILD = st.floats(min_value=2.0**-60, max_value=2.0**60, width=32)

Rows = list[dict[int, float]]


def rows(values: st.SearchStrategy[float], most: int) -> st.SearchStrategy[Rows]:
    row = st.dictionaries(st.integers(0, DIMENSIONS - 2), values, max_size=DIMENSIONS - 1)
    return st.lists(row, min_size=1, max_size=most)


class Sample(NamedTuple):
    documents: Rows
    queries: Rows
    idf: bool


class Answer(NamedTuple):
    report: IndexReport
    found: SearchResult


def samples() -> st.SearchStrategy[Sample]:
    kinds = st.sampled_from([(TAME, TAME), (WILD, TAME), (SIGNED, SIGNED)])
    return kinds.flatmap(lambda kind: st.builds(Sample, rows(kind[0], 12), rows(kind[1], 4), st.booleans()))


def search(engine: type[EngineInterface], card: str, sample: Sample, **changed: ParameterValue) -> Answer:
    made = engine({**find_cards("backends")[card].defaults, "idf": sample.idf, **changed})
    ids = Ids.of(f"d{row}" for row in range(len(sample.documents)))
    asked = Ids.of(f"q{row}" for row in range(len(sample.queries)))
    with tempfile.TemporaryDirectory() as folder:
        made.open(Path(folder), ids)
        try:
            documents = Inputs(ids, sparse=to_vectors(sample.documents, DIMENSIONS))
            report = made.index(documents, RecordingProgress(), StepClock())
            queries = Inputs(asked, sparse=to_vectors(sample.queries, DIMENSIONS))
            return Answer(report, made.search(queries, 1000, StepClock()))
        finally:
            made.close()


def check(found: SearchResult, sample: Sample, idf: Float32Array, slack: float) -> None:
    for number, query in enumerate(sample.queries):
        hits = slice(int(found.indptr[number]), int(found.indptr[number + 1]))
        scores = dict(zip(found.rows[hits].tolist(), found.scores[hits].tolist(), strict=True))
        assert np.all(np.diff(found.scores[hits]) <= 0)
        for row, document in enumerate(sample.documents):
            parts = [
                weight * float(idf[column]) * document[column] for column, weight in query.items() if column in document
            ]
            exact, allowed = sum(parts), slack * sum(abs(part) for part in parts)
            if row in scores:
                assert parts, f"row {row} shares nothing with query {number}"
                assert abs(scores[row] - exact) <= allowed
            else:
                assert not parts or abs(exact) <= allowed, f"row {row} is missing from query {number}"


CANCELS = Sample([{0: 1.0, 1: 1.0}, {0: 1.0}], [{0: 1.0, 1: -1.0}], False)
EMPTY = Sample([{}, {2: 1.0}, {}], [{}, {2: 1.0}, {3: 1.0}], True)
slow_engine = settings(max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow])


@slow_engine
@example(CANCELS)
@example(EMPTY)
@given(samples())
def test_csr(sample: Sample) -> None:
    vectors = to_vectors(sample.documents, DIMENSIONS)
    idf = bm25_idf(*document_frequencies(vectors)) if sample.idf else np.ones(DIMENSIONS, dtype=np.float32)
    check(search(CsrEngine, "csr", sample).found, sample, idf, 2.0**-22)


@pytest.mark.parametrize("optimised", [False, True], ids=["as written", "optimised"])
@slow_engine
@example(sample=CANCELS)
@example(sample=EMPTY)
@given(sample=samples())
def test_qdrant(optimised: bool, sample: Sample) -> None:
    skip_without("qdrant_edge")
    sample = sample._replace(documents=sample.documents + (PADDING if optimised else []))
    containing, documents = document_frequencies(to_vectors(sample.documents, DIMENSIONS))
    idf = qdrant_idf(documents, containing) if sample.idf else np.ones(DIMENSIONS, dtype=np.float32)
    answer = search(QdrantEngine, "qdrant", sample, indexing_threshold_kb=1 if optimised else -1)
    assert answer.report.state["index_types"] == ("ImmutableRam 1" if optimised else "MutableRam 1")
    check(answer.found, sample, idf, 2.0**-20)
