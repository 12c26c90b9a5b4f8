"""Counts of several fields: their columns, the pooled counts of FTS5, and the terms as texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.data.inputs import columns_of, records_of
from harness.text import count_terms, create_analyzer
from harness.text.field_counts import join_fields, of_field, pooled
from harness.text.term_texts import load_term_texts, save_term_texts

TITLES, TEXTS = ["a b", "", "c a a"], ["b b", "d", ""]
QUERIES = ["a b a", "d zzz", ""]


def joined():
    counts = count_terms(create_analyzer("whitespace"), [TITLES, TEXTS], QUERIES)
    return replace(join_fields(counts, ["title", "text"]), field_weights=np.array([3.0, 0.5]))


def test_each_field_has_its_own_columns() -> None:
    counts = joined()
    assert counts.vocabulary.to_list() == [f"{field}:{term}" for field in ("title", "text") for term in "abcd"]
    assert counts.documents.to_scipy().toarray().tolist() == [
        [1, 1, 0, 0, 0, 2, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 1],
        [2, 0, 1, 0, 0, 0, 0, 0],
    ]
    assert counts.queries.to_scipy().toarray().tolist() == [
        [2, 1, 0, 0, 2, 1, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert counts.field_lengths().tolist() == [[2, 2], [0, 1], [3, 0]]
    assert counts.lengths.tolist() == [4, 1, 3]
    assert counts.unknown_terms.tolist() == [0, 1, 0]
    assert (counts.fields, counts.terms_per_field) == (2, 4)
    assert of_field(counts.documents, 2, 1).to_scipy().toarray().tolist() == [[0, 2, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    some = counts.of_documents(np.array([2, 0], dtype=np.int32))
    assert some.field_lengths().tolist() == [[3, 0], [2, 2]]


def test_pooled_counts_are_weighted_and_lengths_are_not() -> None:
    counts = pooled(joined())
    assert counts.documents.to_scipy().toarray().tolist() == [[3, 4, 0, 0], [0, 0, 0, 0.5], [6, 0, 3, 0]]
    assert counts.queries.to_scipy().toarray().tolist() == [[2, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    assert counts.lengths.tolist() == [4, 1, 3]
    assert counts.field_weights is None
    assert counts.of_documents(np.array([2], dtype=np.int32)).lengths.tolist() == [3]
    plain = count_terms(create_analyzer("whitespace"), [TITLES], QUERIES)
    assert pooled(plain) is plain


def test_terms_as_texts_are_records_of_fields(tmp_path: Path) -> None:
    save_term_texts(tmp_path, joined(), ["title", "text"])
    documents, queries = (load_term_texts(tmp_path, side) for side in ("documents", "queries"))
    columns = {name: column.to_pylist() for name, column in columns_of(documents).items()}
    assert columns == {"title": ["a b", "", "a a c"], "text": ["b b", "d", ""]}
    assert queries.to_pylist() == ["a a b", "d", ""]
    assert columns_of(queries) == {"": queries}


def test_a_single_field_is_a_record_too(tmp_path: Path) -> None:
    counts = count_terms(create_analyzer("whitespace"), [TEXTS], QUERIES)
    save_term_texts(tmp_path, replace(join_fields(counts, ["text"]), field_weights=np.ones(1)), ["text"])
    assert load_term_texts(tmp_path, "documents").to_pylist() == [{"text": "b b"}, {"text": "d"}, {"text": ""}]


def test_records_are_sliced_with_their_fields() -> None:
    records = records_of({"title": pa.chunked_array([["a"], ["b", "c"]]), "text": pa.chunked_array([["d", "e", "f"]])})
    assert records.slice(1).to_pylist() == [{"title": "b", "text": "e"}, {"title": "c", "text": "f"}]
    assert {name: column.to_pylist() for name, column in columns_of(records.slice(2)).items()} == {
        "title": ["c"],
        "text": ["f"],
    }
