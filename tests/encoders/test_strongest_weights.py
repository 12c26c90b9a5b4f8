"""The largest weights of sparse vectors, against sorting each row in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from harness.data.types import SparseVectors
from harness.encoders.sparsity import strongest

WIDTH = 9
WEIGHTS = [0, 0, 0, -2, -1, 0.5, 1, 2, 3]


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 6), most=st.integers(1, WIDTH))
def test_the_values_furthest_from_zero_are_kept_and_of_equal_ones_the_lower_dimensions(seed, count, most):
    drawn = np.random.default_rng(seed).choice(np.array(WEIGHTS, dtype=np.float32), (count, WIDTH))
    cut = strongest(SparseVectors.from_scipy(csr_array(drawn)), most)
    assert (len(cut), cut.dimensions) == (count, WIDTH)
    for row, weights in enumerate(drawn.tolist()):
        best = sorted(np.flatnonzero(weights).tolist(), key=lambda column: (-abs(weights[column]), column))[:most]
        columns, values = cut.row(row)
        assert columns.tolist() == sorted(best)
        assert values.tolist() == [weights[column] for column in sorted(best)]


def test_a_limit_of_nothing_is_a_mistake_of_the_caller():
    with pytest.raises(AssertionError, match="0 values"):
        strongest(SparseVectors.from_scipy(csr_array(np.ones((1, 2)))), 0)
