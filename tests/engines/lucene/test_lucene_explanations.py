"""Lucene's own explanations, equal to the reference in every number, also of fields and under a filter."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from explained_engines import require_agreement, write_rooms
from installed import skip_module_without

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.lucene.bm25 import LuceneEngine
from harness.engines.lucene.impact import LuceneImpactEngine
from harness.loaders import load_dataset
from harness.registry.lookup import find_cards
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import to_vectors

skip_module_without("jnius_config")
pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
CARDS = find_cards("backends")


def test_every_number_of_two_fields_is_the_reference_s(tmp_path: Path) -> None:
    """Another k1 and b, repeated terms, lengths in a byte, and a filter."""
    rooms, backend = write_rooms(tmp_path / "rooms"), "lucene:fields=title^3+text^0.7;k1=1.2;b=0.75"
    explanation = harness.explain(
        query="q1", dataset=str(rooms), backends=backend, filter=["room=shed"], engine_explanation=True
    )
    require_agreement(explanation, documents=3)
    frame = explanation.engine_numbers()
    assert list(frame.columns) == ["backend", "document", "term", "name", "exact", "engine", "differs"]
    assert {"title:fuse", "text:fuse"} <= set(frame.term)
    assert not frame.differs.any()


def test_impacts_are_those_of_the_document(tmp_path: Path) -> None:
    engine, ids = LuceneImpactEngine(CARDS["lucene-impact"].defaults), Ids.of("ab")
    engine.open(tmp_path, ids)
    with closing(engine):
        documents = Inputs(ids, sparse=to_vectors([{3: 1.5, 4: 2.25}, {4: 1.0}], 10))
        engine.index(documents, RecordingProgress(), StepClock())
        query = Inputs(Ids.of("q"), sparse=to_vectors([{3: 0.5, 4: 1.25, 9: 1.0}], 10))
        hits = engine.search(query, 2, StepClock())
        answer = engine.explain(query, np.array([1, 0], dtype=np.int32))
    second, first = answer.trees
    assert first is not None
    assert second is not None
    assert [first.value, second.value] == hits.scores.tolist()
    assert [(part.value, part.description) for part in first.details] == [
        (150.0, "weight(impacts:3 in 0) [ImpactSimilarity], result of:"),
        (225.0, "weight(impacts:4 in 0) [ImpactSimilarity], result of:"),
    ]
    assert answer.terms == {"impacts:3": "3", "impacts:4": "4", "impacts:9": "9"}


def test_an_external_index_is_explained_as_it_is(tmp_path: Path) -> None:
    rooms = str(write_rooms(tmp_path / "rooms"))
    corpus = load_dataset(rooms).corpus
    engine = LuceneEngine({**CARDS["lucene"].defaults, "analyzer": "lucene-english"})
    (tmp_path / "index").mkdir()
    engine.open(tmp_path / "index", corpus.ids)
    with closing(engine):
        engine.index(Inputs(corpus.ids, texts=corpus.texts), RecordingProgress(), StepClock())
    backend = f"lucene:external=true;path={tmp_path / 'index'}"
    explanation = harness.explain(query="q1", dataset=rooms, backends=backend, engine_explanation=True)
    require_agreement(explanation, documents=4)


def test_expanded_queries_are_not_explained() -> None:
    engine = LuceneEngine({**CARDS["lucene"].defaults, "rm3": True})
    answer = engine.explain(Inputs(Ids.of("q")), np.zeros(1, dtype=np.int32))
    assert answer.note == "Anserini does not explain the query that rm3 or axiom expanded"
