"""Counts of documents that have several fields: a column for each term of each field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.data.arrow import strings
from harness.data.types import Float32Array, Ids, Int32Array, SparseVectors, TermCounts, gather, owners
from harness.errors import UsageError
from harness.exact.shards import spread_queries

_MOST_COLUMNS = 2**31 - 1


def join_fields(counts: TermCounts, fields: Sequence[str]) -> TermCounts:
    """Return counts of n documents of several fields.

    Args:
        counts: Counts of n texts for each field, all of the first field first, over one vocabulary.
        fields: The names of the fields, which begin the names of their terms: ``title:word``.

    Raises:
        UsageError: The fields have more terms than there are numbers of columns.
    """
    terms, stacked = counts.documents.dimensions, counts.documents
    if terms * len(fields) > _MOST_COLUMNS:
        raise UsageError(f"{len(fields)} fields of {terms:,} terms are too many", fix="search fewer fields")
    size = len(stacked) // len(fields)
    order = np.arange(len(stacked), dtype=np.int64).reshape(len(fields), size).T.ravel()
    indptr, positions = gather(stacked.indptr, order)
    field_of = np.repeat(np.tile(np.arange(len(fields), dtype=np.int32), size), np.diff(indptr))
    indices: Int32Array = stacked.indices[positions] + field_of * np.int32(terms)
    columns = terms * len(fields)
    documents = SparseVectors(indptr[:: len(fields)].copy(), indices, stacked.values[positions], columns)
    vocabulary = counts.vocabulary.to_list()
    return TermCounts(
        documents,
        spread_queries(counts.queries, len(fields)),
        Ids(strings(f"{field}:{term}" for field in fields for term in vocabulary)),
        counts.unknown_terms,
    )


def of_field(vectors: SparseVectors, fields: int, number: int) -> SparseVectors:
    """Return the part of one field, counted from 0, over the terms of a single field."""
    terms = vectors.dimensions // fields
    part = vectors.only(np.asarray(vectors.indices) // terms == number)
    return replace(part, indices=part.indices - np.int32(number * terms), dimensions=terms)


def pooled(counts: TermCounts) -> TermCounts:
    """Return counts in which a term of a document counts for all fields together, in each by the field's weight.

    Lengths stay the numbers of terms, without weights. Counts of a single text are returned as they are.
    """
    weights = counts.field_weights
    if weights is None:
        return counts
    terms, rows = counts.terms_per_field, counts.documents
    keys = owners(rows.indptr) * terms + rows.indices % terms
    weighted = np.asarray(rows.values, dtype=np.float64) * weights[rows.indices // terms]
    distinct, positions = np.unique(keys, return_inverse=True)
    values: Float32Array = np.bincount(positions, weights=weighted, minlength=len(distinct)).astype(np.float32)
    indptr = np.searchsorted(distinct, np.arange(len(rows) + 1, dtype=np.int64) * terms).astype(np.int64)
    documents = SparseVectors(indptr, (distinct % terms).astype(np.int32), values, terms)
    return TermCounts(
        documents,
        of_field(counts.queries, counts.fields, 0),
        Ids(counts.vocabulary.values.slice(0, terms)),
        counts.unknown_terms,
        known_lengths=counts.lengths,
    )
