"""Counts against Python's own counter, on made texts."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harness.text import count_terms, create_analyzer

TEXTS = st.lists(st.text(alphabet="abcß é\U0001f600", max_size=30), max_size=12)


@given(documents=TEXTS, queries=TEXTS, size=st.integers(min_value=1, max_value=5))
def test_counts_equal_pythons_counter(documents: list[str], queries: list[str], size: int) -> None:
    batches = [documents[start : start + size] for start in range(0, len(documents), size)]
    counts = count_terms(create_analyzer("whitespace"), batches, queries)
    vocabulary = counts.vocabulary.to_list()
    assert vocabulary == sorted({word for text in documents for word in text.split()}, key=str.encode)
    for vectors, texts in ((counts.documents, documents), (counts.queries, queries)):
        for row, text in enumerate(texts):
            indices, values = vectors.row(row)
            assert indices.tolist() == sorted(indices.tolist())
            expected = {word: n for word, n in Counter(text.split()).items() if word in set(vocabulary)}
            assert {vocabulary[i]: int(v) for i, v in zip(indices, values, strict=True)} == expected
    for row, text in enumerate(queries):
        assert counts.unknown_terms[row] == sum(word not in set(vocabulary) for word in text.split())
