"""LanceDB's full-text search keeps the contract, and computes what its model says: fragments, workers, late rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter_ns
from typing import ClassVar

import numpy as np
import pytest
from engine_faults import FaultsInTheProcess
from installed import skip_module_without

from harness.engines.lancedb.text import LanceDbTextEngine
from harness.exact.bm25_models import formula_of
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract
from harness.testing.samples import random_texts, word

skip_module_without("lancedb")

TEXTS, QUERIES = random_texts(11, 300), [word(0), f"{word(1)} {word(3)}", f"{word(2)} {word(2)} {word(7)} {word(9)}"]


@pytest.mark.contract
class TestLanceDbText(FaultsInTheProcess, EngineContract):
    engine = LanceDbTextEngine
    card = "lancedb-text"
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"rows_per_add": 7}
    tolerance = 1e-6

    @pytest.mark.parametrize(
        "parameters",
        [
            {"rows_per_add": 70},
            {"workers": 3},
            {"rows_per_add": 70, "index_when": "first"},
        ],
        ids=["fragments", "parts of the index", "rows that optimize took in"],
    )
    def test_statistics_are_those_of_the_table(self, tmp_path: Path, parameters: dict[str, ParameterValue]) -> None:
        sample = self.collection(TEXTS, QUERIES)
        with self.built(tmp_path, sample.documents, parameters) as (engine, report):
            self.search_rightly(engine, sample, 50)
            assert engine.caveats(50).notes == ()
        assert report.state["fragments"] == (5 if parameters == {"rows_per_add": 70} else report.state["fragments"])
        assert (report.state["indexed_rows"], report.state["unindexed_rows"]) == (300, 0)

    def test_rows_outside_the_index_are_told_and_score_by_other_statistics(self, tmp_path: Path) -> None:
        """The first 70 rows by their own statistics, the later ones by those of all."""
        late: dict[str, ParameterValue] = {"rows_per_add": 70, "index_when": "first", "optimize": False}
        whole, first = self.collection(TEXTS, QUERIES), self.collection(TEXTS[:70], QUERIES)
        with self.built(tmp_path, whole.documents, late) as (engine, report):
            hits = engine.search(whole.queries, 300, perf_counter_ns)
            (note,) = engine.caveats(50).notes
        assert (report.state["indexed_rows"], report.state["unindexed_rows"]) == (70, 230)
        assert note.startswith("230 rows came after the index was made")
        queries = np.repeat(np.arange(len(QUERIES)), np.diff(hits.indptr))
        early = hits.rows < 70
        expected = np.where(
            early,
            first.expected.scores[queries, np.minimum(hits.rows, 69)],
            whole.expected.scores[queries, hits.rows],
        )
        assert early.any()
        assert not early.all()
        assert np.allclose(hits.scores, expected, rtol=1e-6)
        assert not np.allclose(hits.scores[early], whole.expected.scores[queries, hits.rows][early], rtol=1e-3)


def test_the_model_is_the_measured_one() -> None:
    """``a a b`` and ``b c``, query ``a b``, as LanceDB 0.40.0 scores them."""
    formula = formula_of("lancedb", find_cards("backends")["lancedb-text"].defaults)
    assert (formula.k1, formula.b, formula.k1_plus_1, formula.all_documents) == (1.2, 0.75, True, False)
