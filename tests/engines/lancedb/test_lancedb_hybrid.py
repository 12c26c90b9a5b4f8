"""LanceDB's own hybrid search keeps the contract, and fuses as its reference does: places from 1, vectors first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter_ns
from typing import ClassVar

import numpy as np
import pytest
from engine_faults import FaultsInTheProcess
from installed import skip_module_without
from rank_fusion import FusedByRanks

from harness.data.types import Run
from harness.engines.lancedb.text import LanceDbHybridEngine
from harness.parity.fused_lists import fuse_like_lancedb
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract
from harness.testing.samples import random_texts, word

skip_module_without("lancedb")

RRF_K, K = 60, 20
QUERIES = [word(0), f"{word(1)} {word(3)}", f"{word(2)} {word(7)} {word(9)}", ""]


class Hybrid(FaultsInTheProcess, FusedByRanks, EngineContract):
    engine = LanceDbHybridEngine
    card = "lancedb-hybrid"
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"candidates": 1000}
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"nprobes": 5, "exact": True}
    tolerance = 1e-6
    best_place = RRF_K + 1


@pytest.mark.contract
class TestLanceDbHybrid(Hybrid):
    graph_parameters: ClassVar[Mapping[str, ParameterValue]] = {
        "index": "hnsw_flat",
        "m": 4,
        "ef_construction": 10,
        "ef": 1,
    }

    @pytest.mark.parametrize("candidates", [0, 50], ids=["as many as asked for", "more of each list"])
    def test_its_lists_fused_are_its_result_to_the_bit(self, tmp_path: Path, candidates: int) -> None:
        """Sums of float64 rounded once, and equal sums in the order of the vectors' list, then of the terms'."""
        sample = self.collection(random_texts(11, 100), QUERIES)
        with self.built(tmp_path, sample.documents, {"candidates": candidates}) as (engine, _):
            hits = engine.search(sample.queries, K, perf_counter_ns)
            lists = engine.lists(sample.queries, K, perf_counter_ns)
        assert list(lists) == ["dense", "terms"]
        assert np.diff(lists["dense"].indptr).tolist() == [max(K, candidates)] * len(QUERIES)
        assert np.diff(lists["terms"].indptr)[-1] == 0
        axes = sample.queries.ids, sample.documents.ids
        runs = [Run(*axes, part.indptr, part.rows, _by_place(part.indptr)) for part in lists.values()]
        fused = fuse_like_lancedb(RRF_K, runs, K)
        assert fused.rows.tolist() == hits.rows.tolist()
        assert fused.scores.tolist() == hits.scores.tolist()


def _by_place(indptr: np.ndarray) -> np.ndarray:
    return (np.repeat(indptr[:-1], np.diff(indptr)) - np.arange(indptr[-1])).astype(np.float32)
