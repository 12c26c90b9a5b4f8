"""What an engine must refuse, and Unicode that it must take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.data.inputs import Inputs
from harness.data.types import Float32Array, Ids, SparseVectors
from harness.engines.interface import Capabilities
from harness.errors import RejectedInputError
from harness.testing.base import Base, has_terms, only_where
from harness.testing.drive import RecordingProgress, StepClock
from harness.testing.oracle import to_vectors
from harness.testing.samples import UNICODE_WORDS, word

__all__ = ["InputContract"]

_BAD_VALUES = (float("nan"), float("inf"), float("-inf"))
_BAD_INDICES = ((3, 3), (4, 2), (-1, 2), (2, 10))


def _sparse(capabilities: Capabilities) -> bool:
    return capabilities.input == "sparse"


def _columns(capabilities: Capabilities) -> bool:
    return capabilities.input in {"sparse", "hybrid"}


def _vectors(capabilities: Capabilities) -> bool:
    return capabilities.input != "text"


class InputContract(Base):
    """Bad input is refused before the engine sees it; unusual input is not bad."""

    def test_unicode_words(self, tmp_path: Path) -> None:
        """Words of other scripts, two of them from right to left, find exactly the documents that hold them."""
        texts = [f"{word(7)} {one}" for one in UNICODE_WORDS]
        sample = self.collection(texts, list(UNICODE_WORDS))
        with self.built(tmp_path, sample.documents) as (engine, _):
            found = self.search(engine, sample.queries, len(texts), 3)
        if has_terms(self.engine.capabilities):
            assert found.indptr.tolist() == list(range(len(texts) + 1)), "a word was found in no or several documents"
        best = found.rows[found.indptr[:-1]]
        assert best.tolist() == list(range(len(texts))), "a word was found in another document"

    @only_where(_sparse)
    def test_wide_dimensions(self, tmp_path: Path) -> None:
        """The largest column numbers are columns like any other."""
        widest = self.largest_column
        rows = [{0: 1.0, widest: 2.0}, {0: 1.0}, {widest: 1.0}]
        documents = Inputs(_ids(3), sparse=to_vectors(rows, widest + 1))
        queries = Inputs(_ids(1), sparse=to_vectors([{widest: 1.0}], widest + 1))
        with self.built(tmp_path, documents) as (engine, _):
            found = self.search(engine, queries, 3, 3)
        assert found.rows.tolist() == [0, 2], f"rows {found.rows.tolist()} found, not [0, 2]"

    @only_where(_vectors)
    @pytest.mark.parametrize("value", _BAD_VALUES)
    def test_refuses_bad_values_in_documents(self, tmp_path: Path, value: float) -> None:
        """NaN and infinite weights are refused, the document is named, and nothing of the batch is searchable."""
        for number, documents in enumerate(self._bad_values(value)):
            with (
                self.opened(tmp_path / str(number), documents.ids) as engine,
                pytest.raises(RejectedInputError, match=documents.ids[1]),
            ):
                engine.index(documents, RecordingProgress(), StepClock())

    @only_where(_vectors)
    @pytest.mark.parametrize("value", _BAD_VALUES)
    def test_refuses_bad_values_in_queries(self, tmp_path: Path, value: float) -> None:
        """NaN and infinite query weights are refused, and the query is named."""
        with self.built(tmp_path, self._good()) as (engine, _):
            for queries in self._bad_values(value):
                with pytest.raises(RejectedInputError, match=queries.ids[1]):
                    engine.search(queries, 3, StepClock())

    @only_where(_columns)
    @pytest.mark.parametrize("indices", _BAD_INDICES)
    def test_refuses_bad_indices_in_documents(self, tmp_path: Path, indices: tuple[int, int]) -> None:
        """Repeated, falling, negative and too large column numbers are refused, and the document is named."""
        documents = self._bad_indices(indices)
        with (
            self.opened(tmp_path, documents.ids) as engine,
            pytest.raises(RejectedInputError, match=documents.ids[1]),
        ):
            engine.index(documents, RecordingProgress(), StepClock())

    @only_where(_columns)
    @pytest.mark.parametrize("indices", _BAD_INDICES)
    def test_refuses_bad_indices_in_queries(self, tmp_path: Path, indices: tuple[int, int]) -> None:
        """Repeated, falling, negative and too large column numbers of a query are refused, and the query is named."""
        queries = self._bad_indices(indices)
        with (
            self.built(tmp_path, self._good()) as (engine, _),
            pytest.raises(RejectedInputError, match=queries.ids[1]),
        ):
            engine.search(queries, 3, StepClock())

    def test_refuses_another_column(self, tmp_path: Path) -> None:
        """Inputs without the column that the capabilities name are refused, for documents and for queries."""
        bare = Inputs(_ids(3))
        with self.opened(tmp_path / "bare", bare.ids) as engine, pytest.raises(RejectedInputError):
            engine.index(bare, RecordingProgress(), StepClock())
        sample = self.collection([word(1)], [word(1)])
        with self.built(tmp_path / "good", sample.documents) as (engine, _), pytest.raises(RejectedInputError):
            engine.search(bare, 3, StepClock())

    def test_refuses_other_ids_than_it_was_opened_with(self, tmp_path: Path) -> None:
        """Documents that are not those announced to ``open`` would be named wrongly."""
        sample = self.collection([word(1), word(2)], [word(1)])
        with self.opened(tmp_path, Ids.of(["only one"])) as engine, pytest.raises(RejectedInputError):
            engine.index(sample.documents, RecordingProgress(), StepClock())

    def _good(self) -> Inputs:
        kind = self.engine.capabilities.input
        dense = np.eye(3, 4, dtype=np.float32) if kind in {"dense", "hybrid"} else None
        sparse = to_vectors([{2: 1.0}, {3: 1.0, 4: 2.0}, {0: 1.0}], 10) if kind in {"sparse", "hybrid"} else None
        return Inputs(_ids(3), sparse=sparse, dense=dense)

    def _bad_values(self, value: float) -> list[Inputs]:
        """Vectors with the value in the second row, once in each column that there is."""
        good, bad = self._good(), []
        if good.dense is not None:
            dense: Float32Array = good.dense.copy()
            dense[1, 2] = value
            bad.append(replace(good, dense=dense))
        if good.sparse is not None:
            bad.append(replace(good, sparse=to_vectors([{2: 1.0}, {3: 1.0, 4: value}, {0: 1.0}], 10)))
        return bad

    def _bad_indices(self, indices: Sequence[int]) -> Inputs:
        indptr = np.array([0, 1, 3, 4], dtype=np.int64)
        columns = np.array([2, *indices, 0], dtype=np.int32)
        return replace(self._good(), sparse=SparseVectors(indptr, columns, np.ones(4, dtype=np.float32), 10))


def _ids(count: int) -> Ids:
    return Ids.of(f"named{row}" for row in range(count))
