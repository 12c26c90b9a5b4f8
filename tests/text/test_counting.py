"""Counting terms: exact counts, order of the vocabulary, independence of batches, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.data.types import TermCounts
from harness.errors import CacheError
from harness.text import count_terms, create_analyzer, load_counts, save_counts

DOCUMENTS = ["b a a", "", "c b é", "Z z", "   "]
QUERIES = ["a b a nothing nothing", "", "nothing", "z é"]


class Steps:
    def __init__(self) -> None:
        self.phases: list[tuple[str, int | None]] = []
        self.done = 0

    def start(self, phase: str, total: int | None) -> None:
        self.phases.append((phase, total))

    def advance(self, amount: int) -> None:
        self.done += amount


def count(batches: list[list[str]], queries: list[str] | None = None) -> TermCounts:
    return count_terms(create_analyzer("whitespace"), batches, QUERIES if queries is None else queries)


def as_dicts(vectors: object, vocabulary: list[str]) -> list[dict[str, float]]:
    rows = []
    for row in range(len(vectors)):
        indices, values = vectors.row(row)
        assert list(indices) == sorted(set(indices.tolist()))
        rows.append({vocabulary[index]: float(value) for index, value in zip(indices, values, strict=True)})
    return rows


def test_counts_by_hand() -> None:
    counts = count([DOCUMENTS])
    vocabulary = counts.vocabulary.to_list()
    assert vocabulary == ["Z", "a", "b", "c", "z", "é"]
    assert as_dicts(counts.documents, vocabulary) == [
        {"a": 2.0, "b": 1.0},
        {},
        {"b": 1.0, "c": 1.0, "é": 1.0},
        {"Z": 1.0, "z": 1.0},
        {},
    ]
    assert as_dicts(counts.queries, vocabulary) == [{"a": 2.0, "b": 1.0}, {}, {}, {"z": 1.0, "é": 1.0}]
    assert counts.unknown_terms.tolist() == [2, 0, 1, 0]
    assert counts.lengths.tolist() == [3, 0, 3, 2, 0]


def test_dtypes_are_the_columns_own() -> None:
    counts = count([DOCUMENTS])
    for vectors in (counts.documents, counts.queries):
        assert (vectors.indptr.dtype, vectors.indices.dtype, vectors.values.dtype) == (np.int64, np.int32, np.float32)
        assert vectors.dimensions == len(counts.vocabulary)
    assert counts.unknown_terms.dtype == np.int32


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_batches_do_not_matter(size: int) -> None:
    whole = count([DOCUMENTS])
    cut = count([DOCUMENTS[start : start + size] for start in range(0, len(DOCUMENTS), size)])
    assert cut.vocabulary.to_list() == whole.vocabulary.to_list()
    for part in ("indptr", "indices", "values"):
        assert np.array_equal(getattr(cut.documents, part), getattr(whole.documents, part))


def test_vocabulary_is_in_byte_order_beyond_the_basic_plane() -> None:
    words = ["\U0001f600", "\uff21", "é", "z", "Z"]
    counts = count([[" ".join(words)]], [])
    assert counts.vocabulary.to_list() == sorted(words, key=str.encode)


def test_nothing_to_count() -> None:
    counts = count([], [])
    assert (len(counts.documents), len(counts.queries), len(counts.vocabulary)) == (0, 0, 0)
    assert count([["", ""]], ["x"]).unknown_terms.tolist() == [1]


def test_progress_counts_documents() -> None:
    steps = Steps()
    count_terms(create_analyzer("whitespace"), [["a"], ["b", "c"]], [], steps, total=3)
    assert steps.phases == [("analyse", 3)]
    assert steps.done == 3


def test_files_round_trip_and_damage_is_noticed(tmp_path: Path) -> None:
    counts = count([DOCUMENTS])
    save_counts(tmp_path, counts)
    loaded = load_counts(tmp_path)
    assert loaded.vocabulary.to_list() == counts.vocabulary.to_list()
    assert np.array_equal(loaded.unknown_terms, counts.unknown_terms)
    for name in ("documents", "queries"):
        for part in ("indptr", "indices", "values"):
            assert np.array_equal(getattr(getattr(loaded, name), part), getattr(getattr(counts, name), part))
    (tmp_path / "unknown_terms.npy").write_bytes(b"broken")
    with pytest.raises(CacheError, match=r"unknown_terms\.npy"):
        load_counts(tmp_path)


def test_empty_counts_round_trip(tmp_path: Path) -> None:
    save_counts(tmp_path, count([], []))
    assert len(load_counts(tmp_path).documents) == 0
