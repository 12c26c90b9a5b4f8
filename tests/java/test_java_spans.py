from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.java.bridge import spans


@given(st.lists(st.integers(0, 40)), st.integers(1, 60))
def test_spans_cover_all_texts_in_order_and_stay_below_the_limit(lengths: list[int], characters: int):
    texts = ["x" * length for length in lengths]
    found = [texts[span] for span in spans(texts, characters=characters)]
    assert [text for part in found for text in part] == texts
    assert all(found)
    assert all(len(part) == 1 or sum(map(len, part)) <= characters for part in found)


def test_spans_are_bounded_by_number_too():
    assert [span.stop - span.start for span in spans([""] * 9000)] == [4096, 4096, 808]
    assert list(spans([])) == []
