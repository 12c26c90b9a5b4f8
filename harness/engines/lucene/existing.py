"""A Lucene index that the user already has: where its ids are, and whether it is one made of the collection."""

from __future__ import annotations

import numpy as np

from harness.data.progress import Progress
from harness.data.terms import TermCounts
from harness.data.types import Ids
from harness.engines.interface import Content
from harness.engines.lucene.held import Held, held_documents, require_some_term
from harness.engines.lucene.search import OpenIndex
from harness.engines.lucene.settings import LuceneSettings
from harness.engines.lucene.statistics import IndexStatistics
from harness.errors import RejectedInputError
from harness.exact.lucene import byte_lengths

__all__ = ["differs", "documents_of"]

_NAMED = 3
_OTHER_FIELD = "name the field (field=) and the analyzer that the index was made with"


def documents_of(index: OpenIndex, settings: LuceneSettings, id_field: str) -> Held:
    """Ids of what is not deleted, in Lucene's order.

    Raises RejectedInputError for a field that is not there, or not in every document, for ids that occur twice, and
    for feedback without stored term vectors.
    """
    _require_fields(index.statistics, settings)
    return held_documents(index.statistics, id_field)


def _require_fields(statistics: IndexStatistics, settings: LuceneSettings) -> None:
    indexed = statistics.indexed_fields()
    if settings.field not in indexed:
        raise RejectedInputError(
            f"no document of the index has the text field '{settings.field}'",
            fix=f"name one that is indexed (field=): {', '.join(indexed) or 'there is none'}",
        )
    if settings.feedback and not statistics.has_term_vectors():
        raise RejectedInputError(
            f"rm3 and axiom read term vectors, and the index stores none for '{settings.field}'",
            fix="search without feedback, or index with term vectors (Anserini: -storeDocvectors)",
        )


def differs(index: OpenIndex, content: Content, documents: int, progress: Progress) -> str | None:
    """Why the scores of these queries may not be those of an oracle made of ``content``; None where they must be.

    BM25 depends on the number of documents and of terms, on each document's length as its byte says it, and on the
    postings of the queries' terms: all of them are compared, and the terms of the whole field besides, so that a term
    which the collection lacks is one that the index lacks. Raises RejectedInputError when no query can find anything.
    """
    counts = content.terms
    if counts is None:
        return "nothing analysed the collection"
    asked = np.intersect1d(counts.queries.indices, counts.documents.indices)
    require_some_term(index.statistics, counts.vocabulary.take(asked), _OTHER_FIELD)
    if len(content.rows) != documents:
        return "it holds other documents"
    deleted = int(index.reader.numDeletedDocs())
    if deleted:
        return f"{deleted:,} documents are deleted but not merged away, and Lucene's statistics still count them"
    filled = int(np.count_nonzero(counts.lengths))
    found = index.state()
    for name, ours in (("documents_with_terms", filled), ("terms", int(counts.lengths.sum()))):
        if found[name] != ours:
            said = name.replace("_", " ")
            return f"the index has {found[name]:,} {said}, the collection's part of it {ours:,}"
    return _other_lengths(index, counts, content.documents.ids) or _other_terms(index, counts, progress)


def _other_lengths(index: OpenIndex, counts: TermCounts, ids: Ids) -> str | None:
    held = index.statistics.length_bytes()
    if held is None:
        return "the index stores no lengths of its documents (norms)"
    filled = counts.documents.nonempty_rows
    strange = filled[held[filled] != byte_lengths(counts.lengths)[filled]]
    if len(strange):
        named = ", ".join(ids.take(strange[:_NAMED]))
        return f"{len(strange):,} documents have other lengths than the analyzer gives them: {named} first"
    return None


def _other_terms(index: OpenIndex, counts: TermCounts, progress: Progress) -> str | None:
    used = np.unique(counts.documents.indices)
    if index.statistics.terms() != counts.vocabulary.take(used):
        return "the index has other terms than the analyzer makes of the collection"
    asked = np.unique(counts.queries.indices)
    progress.start("compare", len(asked))
    by_term = counts.documents.to_scipy().tocsc()
    for column, term in zip(asked.tolist(), counts.vocabulary.take(asked), strict=True):
        held = index.statistics.postings(term)
        ours = slice(int(by_term.indptr[column]), int(by_term.indptr[column + 1]))
        same = np.array_equal(held.documents, by_term.indices[ours])
        if not same or not np.array_equal(held.counts, by_term.data[ours]):
            return f"the term '{term}' has other postings than the analyzer gives it"
        progress.advance(1)
    return None
