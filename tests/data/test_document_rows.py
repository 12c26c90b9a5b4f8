"""Rows that are read in blocks are those that are read at once, wherever blocks end."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data import document_rows, types
from harness.data.arrow import strings
from harness.data.document_rows import WeighedRows, all_rows, blocks_of, row_blocks, with_values
from harness.data.types import Corpus, Ids, SparseVectors, TermCounts, offsets_of


def vectors_of(lengths: list[int]) -> SparseVectors:
    indptr = offsets_of(np.array(lengths, dtype=np.int64))
    columns = [np.arange(length, dtype=np.int32) for length in lengths]
    indices = np.concatenate([np.empty(0, dtype=np.int32), *columns])
    return SparseVectors(indptr, indices, np.arange(1, len(indices) + 1, dtype=np.float32), 9)


lists_of_lengths = st.lists(st.integers(0, 9), max_size=30)


@given(lengths=lists_of_lengths, most=st.integers(1, 40), first=st.integers(0, 1000))
def test_blocks_hold_all_rows_in_order_and_few_values(lengths: list[int], most: int, first: int) -> None:
    blocks = row_blocks(offsets_of(np.array(lengths, dtype=np.int64)) + first, most)
    assert [row for start, stop in blocks for row in range(start, stop)] == list(range(len(lengths)))
    assert all(stop - start == 1 or sum(lengths[start:stop]) <= most for start, stop in blocks)
    assert all(sum(lengths[start : stop + 1]) > most for (start, stop), _ in pairwise(blocks))


@given(lengths=lists_of_lengths, most=st.integers(1, 40), data=st.data())
def test_weights_do_not_depend_on_blocks(lengths: list[int], most: int, data: st.DataObject) -> None:
    base = vectors_of(lengths)
    expected = with_values(base, base.values * np.repeat(np.arange(len(base), dtype=np.float32), lengths))
    weighed = WeighedRows(
        base,
        lambda block, rows: with_values(
            block, block.values * np.repeat(rows.astype(np.float32), np.diff(block.indptr))
        ),
        9,
    )
    rows = np.array(data.draw(st.lists(st.integers(0, len(base) - 1), max_size=9)) if lengths else [], dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_rows.row_blocks, "__defaults__", (most,))
        pairs = [(all_rows(weighed), expected), (weighed.take(rows), expected.take(rows))]
        pairs += [(block, expected.slice(start, start + len(block))) for start, block in blocks_of(weighed, most)]
    for found, exact in pairs:
        for name in ("indptr", "indices", "values"):
            np.testing.assert_array_equal(getattr(found, name), getattr(exact, name))


def test_lengths_and_empty_texts_are_found_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "_ROWS_PER_BLOCK", 3)
    counts = vectors_of([2, 0, 1, 0, 0, 3, 1, 0])
    terms = TermCounts(counts, counts, Ids.of(map(str, range(9))), np.zeros(8, dtype=np.int32))
    assert terms.lengths.tolist() == [3, 0, 3, 0, 0, 15, 7, 0]
    texts = ["a", " \t", "", "b", "c", "\u3000", "d", ""]
    column = pa.chunked_array([strings(texts[:5]), strings(texts[5:])])
    assert Corpus(Ids.of(map(str, range(8))), column, "").empty_rows.tolist() == [1, 2, 5, 7]


@given(known=st.lists(st.sampled_from("abcdefgh")), wanted=st.lists(st.sampled_from("abcdefghij")))
def test_rows_of_ids_are_the_first_ones_whichever_side_is_larger(known: list[str], wanted: list[str]) -> None:
    found = Ids.of(known).rows_of(strings(wanted))
    assert found.tolist() == [known.index(name) if name in known else -1 for name in wanted]
    assert found.dtype == np.int32
