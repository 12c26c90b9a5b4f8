"""Exact dense search keeps the contract under every similarity."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from harness.data.inputs import Inputs
from harness.engines.flat import FlatEngine
from harness.exact import DenseIndex
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract
from harness.testing.samples import random_texts, word

pytestmark = pytest.mark.contract


class TestFlat(EngineContract):
    """Exact: each score is within one float32 step of float64's."""

    engine = FlatEngine
    card = "flat"

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        index = DenseIndex.build(documents.dense, tie_break=documents.ids.tie_rank)
        index.save(folder / "index")
        (folder / "index" / "ids.txt").write_text("".join(f"{one}\n" for one in documents.ids), encoding="utf-8")
        return {"external": True, "path": str(folder / "index")}

    def test_ties_are_in_the_one_order(self, tmp_path: Path) -> None:
        sample = self.collection(random_texts(21, 150, longest=2, vocabulary=4), [word(0), f"{word(1)} {word(2)}"])
        rank = sample.documents.ids.tie_rank.astype(np.int64)
        with self.built(tmp_path, sample.documents) as (engine, _):
            found = self.search(engine, sample.queries, 150, 150)
        ties = 0
        for start, stop in zip(found.indptr, found.indptr[1:], strict=False):
            tied = np.diff(found.scores[start:stop]) == 0
            assert np.all(np.diff(rank[found.rows[start:stop]])[tied] < 0), "equal scores are not by id descending"
            ties += int(tied.sum())
        assert ties > 100


class TestFlatDot(TestFlat):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "dot"}


class TestFlatL2(TestFlat):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "l2", "threads": 2}
