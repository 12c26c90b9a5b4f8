"""The exact reference keeps the contract, with and without idf."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from harness.data.inputs import Inputs
from harness.engines.csr import CsrEngine
from harness.exact import SparseIndex
from harness.registry.parameters import ParameterValue
from harness.testing import Bm25, EngineContract
from harness.testing.samples import random_texts, word

pytestmark = pytest.mark.contract


class TestCsr(EngineContract):
    """Contributions are rounded to float32, which the suite's float64 does not do: hence the tolerance."""

    engine = CsrEngine
    card = "csr"
    tolerance = 2e-7
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"threads": 3}

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        index = SparseIndex.build(
            documents.sparse, idf="bm25" if self.bm25.idf else None, tie_break=documents.ids.tie_rank
        )
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


class TestCsrWithoutIdf(TestCsr):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"idf": False, "threads": 2}
    bm25 = Bm25(idf=False)
