"""Weights as whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

from harness.data.document_rows import all_rows
from harness.data.types import Ids
from harness.errors import UsageError
from harness.exact.weights import to_impacts, with_idf
from harness.parity import make_recipe
from harness.testing.expected import to_vectors


def test_weights_are_rounded_and_what_becomes_nothing_is_left_out() -> None:
    found = to_impacts(to_vectors([{0: 0.004, 2: 1.234}, {}, {1: 0.125, 3: 0.001}], 5), 100)
    assert found.indptr.tolist() == [0, 1, 1, 2]
    assert found.indices.tolist() == [2, 1]
    assert found.values.tolist() == [123.0, 12.0]  # 12.5 goes to the even neighbour
    assert found.dimensions == 5


@pytest.mark.parametrize("weight", [-0.5, 3e5])
def test_weights_that_no_impact_can_stand_for_are_refused(weight: float) -> None:
    with pytest.raises(UsageError, match="impact_scale"):
        to_impacts(to_vectors([{0: 1.0, 1: weight}], 2), 100)


def test_query_weights_are_multiplied_by_the_idf_of_their_columns() -> None:
    found = with_idf(to_vectors([{0: 2.0, 2: 0.5}, {}, {1: 1.0}], 3), np.array([1.5, 0.25, 3.0], dtype=np.float32))
    assert found.values.tolist() == [3.0, 1.5, 0.25]
    assert (found.indptr.tolist(), found.indices.tolist(), found.dimensions) == ([0, 2, 2, 3], [0, 2, 1], 3)
    assert found.values.dtype == np.float32


def test_the_oracle_of_impacts_counts_the_documents_that_have_an_impact_left() -> None:
    documents, queries = to_vectors([{0: 1.0}, {0: 0.001}, {1: 1.0}], 2), to_vectors([{0: 2.0, 1: 1.0}], 2)
    recipe = make_recipe(
        "sparse",
        doc_ids=Ids.of(["a", "b", "c"]),
        query_ids=Ids.of(["q"]),
        documents=documents,
        queries=queries,
        parameters={"impact_scale": 10.0, "idf": True},
    )
    idf = np.log(2.0)  # one of two documents has it: ln(1 + 1.5 / 1.5)
    assert recipe.idf is None
    assert all_rows(recipe.documents).values.tolist() == [10.0, 10.0]
    assert recipe.queries.values.tolist() == [round(20 * idf), round(10 * idf)]
