"""Weights as whole numbers."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.reference.quantised import to_impacts
from harness.testing.oracle import to_vectors


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
