"""Where float64 sums and float32 scores disagree about what is equal, and where the order of adding matters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from harness.exact import SparseIndex


@pytest.mark.parametrize("little", [2.0**-26, 2.0**-40])  # the first keeps the sums exact, the second does not
@pytest.mark.parametrize("padding", [0, 100_000])  # few postings for the documents, or many
def test_sums_that_round_to_one_score_are_a_tie(little: float, padding: int):
    below, exactly = [[1.0, -little]] * 10, [[1.0, 0.0]] * 50
    documents = csr_array(np.array([*below, *exactly]))
    documents.resize((60 + padding, 2))
    found = SparseIndex.build(documents).retrieve(csr_array(np.ones((1, 2))), 5)
    assert found.rows.tolist() == [0, 1, 2, 3, 4]
    assert found.scores.tolist() == [1.0] * 5


def test_a_tie_below_the_guess_is_broken_by_row():
    k, size, below_one = 100, 8_192, float(np.nextafter(np.float32(1), np.float32(0)))
    documents = np.full((size, 2), [0.25, 0.0])
    documents[16:272:16] = [float(np.nextafter(np.float32(1), np.float32(2))), 0.0]  # a sample sees these and guesses
    documents[1] = [below_one, 1.75 * 2.0**-25]  # the sum is below 1, and rounds to it
    documents[301:469:2] = [1.0, 0.0]
    found = SparseIndex.build(csr_array(documents)).retrieve(csr_array(np.ones((1, 2))), k)
    assert found.rows.tolist() == [*range(16, 272, 16), 1, *range(301, 467, 2)]


def test_contributions_are_added_in_the_order_of_dimensions():
    huge = 2.0**60
    documents = np.array([[huge, 1.0, -huge], [0, 0.5, 0], [0, 0.25, 0]])
    documents = np.concatenate([documents, np.zeros((100, 3))])
    found = SparseIndex.build(csr_array(documents)).retrieve(csr_array(np.ones((1, 3))), 5)
    assert found.rows.tolist() == [1, 2]  # (huge + 1) - huge is 0 in float64, huge - huge + 1 is not
