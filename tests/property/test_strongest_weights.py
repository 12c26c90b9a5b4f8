"""The largest weights of sparse vectors, against sorting each row in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from harness.encoders.sparsity import strongest
from harness.types import SparseVectors

WIDTH = 9
ROWS = st.lists(
    st.dictionaries(st.integers(0, WIDTH - 1), st.sampled_from([-2.0, -1.0, 0.5, 1.0, 2.0, 3.0])), max_size=6
)


def vectors(rows: list[dict[int, float]]) -> SparseVectors:
    dense = np.zeros((len(rows), WIDTH), dtype=np.float32)
    for row, weights in enumerate(rows):
        dense[row, list(weights)] = list(weights.values())
    return SparseVectors.from_scipy(csr_array(dense))


@given(rows=ROWS, most=st.integers(1, WIDTH))
def test_the_values_furthest_from_zero_are_kept_and_of_equal_ones_the_lower_dimensions(rows, most):
    cut = strongest(vectors(rows), most)
    assert (len(cut), cut.dimensions) == (len(rows), WIDTH)
    for row, weights in enumerate(rows):
        best = sorted(weights.items(), key=lambda one: (-abs(one[1]), one[0]))[:most]
        columns, values = cut.row(row)
        assert list(zip(columns.tolist(), values.tolist(), strict=True)) == sorted(best)


def test_a_limit_of_nothing_is_a_mistake_of_the_caller():
    with pytest.raises(AssertionError, match="0 values"):
        strongest(vectors([{1: 1.0}]), 0)
