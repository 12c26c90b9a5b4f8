"""SQLite keeps the contract, with FTS5 and with sqlite-vec."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from installed import skip_module_without, skip_without

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.sqlite import SqliteFullTextEngine, SqliteVectorEngine
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract
from harness.testing.expected import count_words, random_unit_vectors
from harness.testing.samples import RecordingProgress, StepClock, random_texts, word
from harness.text.term_texts import term_texts

skip_module_without("apsw")

CARDS = find_cards("backends")


@pytest.mark.contract
class TestFullText(EngineContract):
    engine = SqliteFullTextEngine
    card = "sqlite"
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"optimize": False}
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"cache_mb": 1}
    tolerance = 2e-7

    def test_a_frequent_term_has_the_least_idf(self, tmp_path: Path) -> None:
        """A term of every document weighs 1e-6 at least, not less than nothing."""
        sample = self.collection([f"{word(1)} {word(n)}" for n in range(2, 9)], [word(1)])
        with self.built(tmp_path, sample.documents) as (engine, _):
            hits = self.search_rightly(engine, sample, 7)
        assert (hits.scores > 0).all()
        assert hits.scores.max() < 3e-6

    def test_a_long_query(self, tmp_path: Path) -> None:
        """FTS5 limits the depth of expressions: a disjunction of a thousand terms is not deep."""
        terms = [f"{word(n)}" for n in range(1500)]
        sample = self.collection([" ".join(terms), word(3)], [" ".join(terms)])
        with self.built(tmp_path, sample.documents) as (engine, _):
            assert self.search(engine, sample.queries, 2, 2).rows.tolist() == [0, 1]


@pytest.mark.contract
class TestVectors(EngineContract):
    skip_without("sqlite_vec")
    engine = SqliteVectorEngine
    card = "sqlite-dense"
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"cache_mb": 1}
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "l2"}
    tolerance = 1e-6

    def test_more_than_sqlite_vec_answers_at_once(self, tmp_path: Path) -> None:
        """Beyond a k of 4,096 the hits go on as before."""
        documents = Inputs(Ids.of(f"d{row}" for row in range(4200)), dense=random_unit_vectors(1, 4200))
        queries = Inputs(Ids.of(["q"]), dense=random_unit_vectors(2, 1))
        with self.built(tmp_path, documents) as (engine, _):
            some, more = (self.search(engine, queries, 4200, k) for k in (4096, 4200))
        assert len(more.rows) == 4200
        assert more.scores[:4096] == pytest.approx(some.scores, rel=1e-5, abs=1e-6)
        assert sorted(more.rows) == list(range(4200))


class TestVectorsByDistance(TestVectors):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "l2"}
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "cosine"}

    def test_the_distance_of_equal_vectors_is_no_negative_zero(self, tmp_path: Path) -> None:
        """It would not be the reference's 0 to the bit."""
        documents = Inputs(Ids.of(["d0", "d1"]), dense=random_unit_vectors(1, 2))
        with self.built(tmp_path, documents) as (engine, _):
            hits = self.search(engine, Inputs(Ids.of(["q"]), dense=documents.dense[:1]), 2, 1)
        assert (hits.rows[0], hits.scores[0], np.signbit(hits.scores[0])) == (0, 0.0, False)


@pytest.mark.parametrize("optimize", [True, False])
def test_the_state_counts_segments(optimize: bool, tmp_path: Path) -> None:
    counts = count_words(random_texts(4, 3000), [word(1)])
    ids = Ids.of(str(row) for row in range(3000))
    engine = SqliteFullTextEngine({**CARDS["sqlite"].defaults, "optimize": optimize})
    engine.open(tmp_path, ids)
    report = engine.index(Inputs(ids, terms=term_texts(counts, "documents")), RecordingProgress(), StepClock())
    engine.close()
    assert report.state["segments"] == 1
    assert np.isscalar(report.indexed)
