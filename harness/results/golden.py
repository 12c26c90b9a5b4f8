"""A golden set as a dataset: a corpus with the questions to it and the ids that they expect."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from harness.results.schema_base import (
    ContentDigests,
    DatasetInfo,
    ExcludedInfo,
    IdenticalIdsInfo,
    QueryCounts,
    QueryFilterInfo,
)

LEFT_OUT = "empty documents left out"
"""The key under which the provenance of a corpus counts empty documents."""


class GoldenContent(NamedTuple):
    """A question with the ids that it expects, their grades, and its filter."""

    id: str
    question: str
    expected: Sequence[tuple[str, int]]
    filter: Mapping[str, str] = MappingProxyType({})


class CorpusContent(NamedTuple):
    """Documents by their name, digest and number; no digest if backends have their own documents."""

    name: str
    sha256: str | None = None
    documents: int = 0
    empty_documents: int = 0
    empty_left_out: int = 0
    identical_ids: IdenticalIdsInfo | None = None
    unread_files: Mapping[str, int] = MappingProxyType({})
    excluded: ExcludedInfo | None = None
    filters: Sequence[QueryFilterInfo] = ()


def golden_dataset(
    corpus: CorpusContent,
    source: str,
    sha256: str,
    questions: Sequence[GoldenContent],
    expecting: int,
    *,
    without_id: int,
) -> DatasetInfo:
    """Return a corpus with a golden set, of that ``source`` and digest, for queries and judgments.

    ``expecting`` questions expect something that counts as relevant, ``without_id`` go by their line.
    """
    provenance = {"golden set": source}
    if corpus.sha256 is not None:
        provenance["corpus_sha256"] = corpus.sha256
    if corpus.empty_left_out:
        provenance[LEFT_OUT] = str(corpus.empty_left_out)
    return DatasetInfo(
        name=corpus.name,
        sha256=_digest([sha256, corpus.sha256 or ""]),
        documents=corpus.documents,
        empty_documents=corpus.empty_documents,
        queries=QueryCounts(searched=len(questions), judged=expecting, relevant=expecting, without_id=without_id),
        judgments=sum(len(question.expected) for question in questions),
        sampled_from=None,
        filter=None,
        query_filters=list(corpus.filters),
        provenance=provenance,
        identical_ids=corpus.identical_ids,
        unread_files=dict(corpus.unread_files),
        excluded=corpus.excluded,
        content=ContentDigests(
            documents=corpus.sha256 or "",
            queries=_digest(_line(question) for question in questions),
            judgments=_digest(
                f"{question.id} {doc_id} {grade}" for question in questions for doc_id, grade in question.expected
            ),
        ),
    )


def _line(question: GoldenContent) -> str:
    """Return a question as its digest reads it; filters count only if there are any."""
    line = f"{question.id} {question.question}"
    return f"{line} {sorted(question.filter.items())}" if question.filter else line


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
