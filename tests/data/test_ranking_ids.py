"""Ids compared byte by byte, as they lie in an Arrow column, order as the ranked column does."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.ranking import id_bytes, is_larger_id
from harness.data.types import Ids


@given(st.lists(st.text(max_size=4), min_size=2, max_size=12, unique=True), st.integers(0, 3), st.booleans())
def test_bytes_order_as_the_tie_rank_does(names, skipped, large):
    column = pa.array(["?"] * skipped + names, type=pa.large_string() if large else pa.string())
    ids = Ids(column.slice(skipped))
    content = id_bytes(ids)
    for one in range(len(names)):
        for other in range(len(names)):
            assert is_larger_id(content, one, other) == (ids.tie_rank[one] > ids.tie_rank[other])
            assert is_larger_id(content, one, other) == (names[one].encode() > names[other].encode())


@pytest.mark.parametrize("names", [[], [""]])
def test_columns_without_bytes_have_an_empty_first_id(names):
    content = id_bytes(Ids.of(names))
    assert not is_larger_id(content, 0, 0)
