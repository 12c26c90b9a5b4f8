"""Float32 sums in the order of terms: against NumPy, with ties, filters and repeated terms."""

from __future__ import annotations

import numpy as np
import pytest

from harness.data.types import SparseVectors
from harness.errors import UsageError
from harness.exact.bm25_models import formula_of, weigh
from harness.exact.float32_sums import Float32SumIndex
from harness.testing.expected import count_words
from harness.testing.samples import random_texts, word

COUNTS = count_words(random_texts(3, 400), [f"{word(n)} {word(n + 1)} {word(n)} {word(n + 5)}" for n in range(12)])
DOCUMENTS, QUERIES, _ = weigh(COUNTS, formula_of("tantivy", {"k1": 1.2, "b": 0.75}))


def all_scores(query: int) -> np.ndarray:
    dense, sums = DOCUMENTS.to_scipy().toarray(), np.zeros(len(DOCUMENTS), dtype=np.float32)
    for column, count in zip(*QUERIES.row(query), strict=True):
        for _ in range(int(count)):
            sums += dense[:, column]
    return sums


@pytest.mark.parametrize("k", [1, 3, 50, 400])
@pytest.mark.parametrize("filtered", [False, True])
def test_the_best_are_those_of_all_sums(k: int, filtered: bool) -> None:
    index = Float32SumIndex.build(DOCUMENTS)
    matching = np.arange(len(DOCUMENTS)) % 3 == 0 if filtered else np.ones(len(DOCUMENTS), dtype=np.bool_)
    top = (index.filtered(matching) if filtered else index).retrieve(QUERIES, k)
    assert len(top.indptr) == len(QUERIES) + 1
    for query in range(len(QUERIES)):
        sums = np.where(matching, all_scores(query), 0)
        hits = np.flatnonzero(sums)
        expected = hits[np.lexsort((hits, -sums[hits]))][:k]
        found = slice(top.indptr[query], top.indptr[query + 1])
        assert top.rows[found].tolist() == expected.tolist()
        assert top.scores[found].tobytes() == sums[expected].tobytes()


def test_sums_of_float32_are_not_those_of_float64() -> None:
    """Else this module would be of no use."""
    wide = QUERIES.to_scipy().astype(np.float64) @ DOCUMENTS.to_scipy().astype(np.float64).T
    narrow = np.stack([all_scores(query) for query in range(len(QUERIES))])
    assert (wide.toarray().astype(np.float32) != narrow).any()


def test_weights_below_0_are_refused() -> None:
    below = SparseVectors(np.array([0, 1]), np.array([0], dtype=np.int32), np.array([-1], dtype=np.float32), 1)
    with pytest.raises(UsageError, match="below 0"):
        Float32SumIndex.build(below)
