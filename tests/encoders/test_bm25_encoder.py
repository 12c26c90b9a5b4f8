"""BM25 weights: the worked example, variants, limits of the parameters, statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.data.types import Float64Array, TermCounts
from harness.encoders.bm25 import document_weights, statistics
from harness.errors import UsageError
from harness.exact import SparseIndex, bm25_idf
from harness.text import count_terms, create_analyzer


def count(documents: list[str], queries: list[str]) -> TermCounts:
    return count_terms(create_analyzer("whitespace"), [documents], queries)


def scores(counts: TermCounts, **parameters: float | bool) -> Float64Array:
    """Scores of every (query, document) pair, in float64: small and direct."""
    measured = statistics(counts)
    weights = document_weights(counts, **parameters).to_scipy().toarray().astype(np.float64)
    return (counts.queries.to_scipy().toarray() * bm25_idf(measured.df, measured.documents)) @ weights.T


def test_the_worked_example() -> None:
    counts = count(["a a b", "b c"], ["a b"])
    assert scores(counts, k1=1.5, b=0.75)[0].tolist() == pytest.approx([1.0977, 0.2004], abs=5e-5)


def test_without_the_constant_factor_scores_shrink_by_it() -> None:
    counts = count(["a a b", "b c", "c c c a"], ["a b", "c"])
    whole, plain = scores(counts, k1=1.5, b=0.75), scores(counts, k1=1.5, b=0.75, k1_plus_1=False)
    assert whole == pytest.approx(plain * 2.5, rel=1e-6)


def test_weights_are_float64_rounded_once() -> None:
    counts = count(["a a b", "b c"], [])
    weights = document_weights(counts, k1=0.9, b=0.4)
    norm = 0.9 * (1 - 0.4 + 0.4 * 3 / 2.5)
    assert weights.values.dtype == np.float32
    assert weights.row(0)[1].tolist() == [np.float32(2 * 1.9 / (2 + norm)), np.float32(1 * 1.9 / (1 + norm))]


def test_statistics_leave_documents_without_terms_out() -> None:
    measured = statistics(count(["a a b", "", "b c", " "], []))
    assert measured.documents == 2
    assert measured.avgdl == 2.5
    assert measured.df.tolist() == [1, 2, 1]


def test_empty_documents_change_no_weight() -> None:
    full, gaps = count(["a a b", "b c"], []), count(["", "a a b", "b c", ""], [])
    assert np.array_equal(document_weights(full).values, document_weights(gaps).values)
    assert np.diff(document_weights(gaps).indptr).tolist() == [0, 2, 2, 0]


def test_the_worked_example_by_the_reference() -> None:
    counts = count(["a a b", "b c"], ["a b"])
    top = SparseIndex.build(document_weights(counts, k1=1.5, b=0.75), idf="bm25").retrieve(counts.queries, 10)
    assert top.rows.tolist() == [0, 1]
    assert [f"{score:.4f}" for score in top.scores] == ["1.0977", "0.2004"]


def test_k1_of_zero_counts_presence_only() -> None:
    assert document_weights(count(["a a a b"], []), k1=0.0).values.tolist() == [1.0, 1.0]


def test_b_of_zero_ignores_length() -> None:
    weights = document_weights(count(["a", "a " + "b " * 99], []), b=0.0)
    assert weights.row(0)[1][0] == weights.row(1)[1][0]


def test_b_of_one_normalises_fully() -> None:
    counts = count(["a", "a b c d"], [])
    assert document_weights(counts, k1=1.0, b=1.0, k1_plus_1=False).row(0)[1].tolist() == [
        np.float32(1 / (1 + 1 / 2.5))
    ]


def test_avgdl_can_be_given() -> None:
    counts = count(["a a b", "b c"], [])
    assert np.array_equal(document_weights(counts, avgdl=2.5).values, document_weights(counts).values)
    assert not np.array_equal(document_weights(counts, avgdl=256.0).values, document_weights(counts).values)


def test_an_empty_collection_has_no_weights() -> None:
    assert statistics(count([], []))[:2] == (0, 0.0)
    assert document_weights(count(["", ""], [])).nnz == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k1": -0.1}, "k1 is -0.1"),
        ({"k1": math.nan}, "k1 is nan"),
        ({"k1": math.inf}, "k1 is inf"),
        ({"b": 1.01}, "b is 1.01"),
        ({"b": -0.01}, "b is -0.01"),
        ({"avgdl": 0.0}, "avgdl is 0.0"),
        ({"k1": -1.0, "b": 2.0}, "k1 is -1.0; it must be 0 or more; b is 2.0"),
    ],
)
def test_parameters_out_of_range_are_named_together(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        document_weights(count(["a"], []), **parameters)
