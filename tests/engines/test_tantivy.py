"""Tantivy keeps the contract, and computes what its model says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from installed import skip_module_without

from harness.engines.tantivy import TantivyEngine
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract
from harness.testing.samples import random_texts, word

skip_module_without("tantivy")


@pytest.mark.contract
class TestTantivy(EngineContract):
    engine = TantivyEngine
    card = "tantivy"
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"commit_every": 7}
    tolerance = 4e-7

    @pytest.mark.parametrize(("commit_every", "segments"), [(0, 1), (100, 3)])
    def test_segments_share_their_statistics(self, tmp_path: Path, commit_every: int, segments: int) -> None:
        """A score is the same in one segment and in three; the state counts them."""
        sample = self.collection(random_texts(11, 300), [word(n) for n in range(6)])
        with self.built(tmp_path, sample.documents, {"commit_every": commit_every}) as (engine, report):
            self.search_rightly(engine, sample, 50)
        assert report.state["segments"] == segments

    def test_many_segments_are_merged(self, tmp_path: Path) -> None:
        sample = self.collection(random_texts(12, 300), [word(n) for n in range(6)])
        with self.built(tmp_path, sample.documents, {"commit_every": 10}) as (engine, report):
            self.search_rightly(engine, sample, 50)
        assert 1 <= int(report.state["segments"]) < 30

    def test_equal_scores_come_by_row_in_one_segment(self, tmp_path: Path) -> None:
        sample = self.collection(random_texts(21, 150, longest=2, vocabulary=4), [word(0)])
        with self.built(tmp_path, sample.documents) as (engine, _):
            hits = self.search(engine, sample.queries, 150, 150)
        tied = np.diff(hits.scores) == 0
        assert tied.any()
        assert (np.diff(hits.rows)[tied] > 0).all()

    @pytest.mark.parametrize(("documents", "containing"), [(37, 31), (44, 20), (64, 13), (69, 68)])
    def test_the_logarithm_is_that_of_the_c_library(self, tmp_path: Path, documents: int, containing: int) -> None:
        """glibc's ``logf`` is not the nearest float32 for these odds; the scores are the model's to the bit."""
        texts = [word(1)] * containing + [word(2)] * (documents - containing)
        sample = self.collection(texts, [word(1)])
        with self.built(tmp_path, sample.documents) as (engine, _):
            hits = self.search(engine, sample.queries, documents, 1)
        assert hits.scores[0] == np.float32(sample.expected.scores[0, 0])
