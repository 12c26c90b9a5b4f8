"""Real engines on the bundled CACM with real faults, each of which parity must name."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from installed import skip_without

from harness.data.dataset import Dataset
from harness.data.document_rows import all_rows
from harness.data.inputs import Inputs
from harness.data.types import Int32Array, Run, SparseVectors
from harness.encoders.bm25 import document_weights
from harness.loaders import load_dataset
from harness.parity import Parity, SparseReference, compare_run, make_recipe
from harness.parity.recipes import empty_rows
from harness.registry.lookup import find_cards, load_engine
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress
from harness.text import TermCounts, count_terms, create_analyzer

pytestmark = pytest.mark.integration
K = 1000


@dataclass(frozen=True)
class Case:
    """CACM under one analyzer."""

    dataset: Dataset
    counts: TermCounts

    def parity(
        self,
        backend: str,
        folder: Path,
        *,
        sent: SparseVectors | None = None,
        missing: Int32Array | None = None,
        claimed: dict[str, ParameterValue] | None = None,
        oracle: str | None = None,
        **parameters: ParameterValue,
    ) -> Parity:
        """Compare an engine under ``parameters`` with the reference of ``claimed`` ones (the same unless said).

        ``sent`` are the vectors that really reach the engine; ``oracle`` is the card's kind unless said.
        """
        card = find_cards("backends")[backend]
        complete = {**card.defaults, **parameters}
        corpus, queries = self.dataset.corpus, self.dataset.queries
        documents = Inputs(corpus.ids, corpus.texts, document_weights(self.counts) if sent is None else sent)
        engine = load_engine(card)(complete)
        folder.mkdir(exist_ok=True)
        engine.open(folder, corpus.ids)
        try:
            engine.index(documents, RecordingProgress(), time.perf_counter_ns)
            asked = Inputs(queries.ids, queries.texts, self.counts.queries)
            found = engine.search(asked, K, time.perf_counter_ns)
        finally:
            engine.close()
        run = Run(queries.ids, corpus.ids, found.indptr, found.rows, found.scores)
        recipe = make_recipe(
            oracle or card.reference.kind,
            doc_ids=corpus.ids,
            query_ids=queries.ids,
            counts=self.counts,
            parameters={**complete, **(claimed or {})},
        )
        return compare_run(run, SparseReference(recipe), k=K, tolerance=card.reference.tolerance, missing_rows=missing)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_dataset("cacm")


def analysed(dataset: Dataset, analyzer: str) -> Case:
    queries = dataset.queries.texts.to_pylist()
    return Case(dataset, count_terms(create_analyzer(analyzer), dataset.corpus.batches(1000), queries))


@pytest.fixture(scope="module")
def snowball(dataset: Dataset) -> Case:
    return analysed(dataset, "snowball-english")


@pytest.fixture
def qdrant() -> None:
    skip_without("qdrant_edge")


def test_csr_is_its_oracle(snowball: Case, tmp_path: Path) -> None:
    found = snowball.parity("csr", tmp_path)
    assert (found.bit_equal, found.queries, found.causes) == (64, 64, {})


@pytest.mark.usefixtures("qdrant")
def test_documents_that_qdrant_was_not_given(snowball: Case, tmp_path: Path) -> None:
    lost = np.arange(0, 3204, 9, dtype=np.int32)
    sent = all_rows(empty_rows(document_weights(snowball.counts), lost))
    found = snowball.parity("qdrant", tmp_path, sent=sent, missing=lost)
    assert found.different == 64
    assert found.causes == {"missing documents": 64}


@pytest.mark.usefixtures("qdrant")
def test_an_idf_that_was_switched_off(snowball: Case, tmp_path: Path) -> None:
    found = snowball.parity("qdrant", tmp_path, idf=False, claimed={"idf": True})
    assert found.causes == {"no IDF": 64}


@pytest.mark.usefixtures("qdrant")
def test_weights_without_the_constant_factor(snowball: Case, tmp_path: Path) -> None:
    found = snowball.parity("qdrant", tmp_path, sent=document_weights(snowball.counts, k1_plus_1=False))
    assert found.causes == {"factor (k1 + 1)": 64}
    assert found.max_rel_score_diff == pytest.approx(1 - 1 / 1.9, abs=1e-5)


def test_lucene_is_bit_equal_and_differs_from_the_textbook_by_its_arithmetic(dataset: Dataset, tmp_path: Path) -> None:
    skip_without("jnius_config")
    case = analysed(dataset, "lucene-english")
    found = case.parity("lucene", tmp_path / "own")
    assert (found.bit_equal, found.queries, found.causes) == (64, 64, {})
    textbook = case.parity("lucene", tmp_path / "textbook", oracle="sparse")
    assert textbook.different == 64
    assert textbook.causes == {"Lucene's arithmetic": 64}
