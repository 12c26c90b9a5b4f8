"""The contract suite hands engines what a worker hands them: the same columns, in memory-mapped, read-only files."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest

from harness.data.arrow import strings
from harness.data.inputs import Inputs
from harness.data.types import Ids, SparseVectors
from harness.testing.expected import Bm25, count_words, encode_words
from harness.testing.mapped_samples import mapped, mapped_counts
from harness.text.term_texts import term_texts

TEXTS = ["a b", "", "b c c"]
COUNTS = count_words(TEXTS, ["b"])
SPARSE = encode_words(TEXTS, [], Bm25()).documents
WHOLE = Inputs(
    Ids.of(["one", "two", "three"]),
    texts=pa.chunked_array([strings(TEXTS)]),
    sparse=SPARSE,
    dense=np.arange(6, dtype=np.float32).reshape(3, 2),
    metadata=pa.table({"colour": strings(["red", None, "blue"])}),
    terms=term_texts(COUNTS, "documents"),
)


def require_read_only(array: np.ndarray) -> None:
    assert isinstance(array, np.memmap)
    assert not array.flags.writeable
    assert array.flags.c_contiguous


def require_equal(first: SparseVectors, second: SparseVectors) -> None:
    assert first.dimensions == second.dimensions
    for name in ("indptr", "indices", "values"):
        column = getattr(first, name)
        require_read_only(column)
        assert (column.dtype, column.tolist()) == (getattr(second, name).dtype, getattr(second, name).tolist())


def test_every_column_arrives_as_it_was() -> None:
    read = mapped(WHOLE)
    assert {field.name for field in fields(read) if getattr(read, field.name) is None} == set()
    assert read.ids.to_list() == WHOLE.ids.to_list()
    assert read.dense is not None
    require_read_only(read.dense)
    assert np.array_equal(read.dense, WHOLE.dense)
    assert read.sparse is not None
    require_equal(read.sparse, SPARSE)
    for name in ("texts", "terms", "metadata"):
        assert getattr(read, name).equals(getattr(WHOLE, name))
        assert type(getattr(read, name)) is type(getattr(WHOLE, name))


def test_columns_that_are_not_there_stay_away_but_for_texts() -> None:
    """A worker reads a text for every document, whatever the engine takes."""
    read = mapped(Inputs(WHOLE.ids, dense=WHOLE.dense))
    assert (read.sparse, read.terms, read.metadata) == (None, None, None)
    assert read.texts is not None
    assert read.texts.to_pylist() == ["", "", ""]


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows(count: int) -> None:
    assert len(mapped(WHOLE.slice(0, count))) == count


def test_counts_of_terms() -> None:
    read = mapped_counts(COUNTS)
    require_equal(read.documents, COUNTS.documents)
    assert read.vocabulary.to_list() == COUNTS.vocabulary.to_list()
