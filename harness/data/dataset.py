"""A dataset: documents, queries and judgments, and where they come from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import orjson

from harness.data.columns import DOCUMENT_ROLES, QUERY_ROLES, parse_columns
from harness.data.filtering import Filtered
from harness.data.judgments import refuse_unknown
from harness.data.objects import texts_of
from harness.data.shapes import QRELS, read_shape
from harness.data.texts import TitleCounts
from harness.data.types import Corpus, Qrels, Queries
from harness.errors import UsageError

__all__ = ["Dataset", "DatasetFiles", "IdenticalIds"]

IdenticalIds = Literal["keep", "drop"]
"""Whether a hit that has its query's id counts, or is left out before scoring."""


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """What is said of a dataset beside its name: files of its parts, and names of their fields by role."""

    queries: Path | None = None
    qrels: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Everything that a comparison reads: documents, queries, judgments, and where they come from.

    ``qrels`` is None for a collection without judgments: engines can still be held against their references.
    ``provenance`` is flat text for the report (source, licence, split, join rule, language). ``filtered`` are the
    documents that searches may return, None for all of them. ``identical_ids`` is None where nothing says what the
    collection's rule is. ``language`` is a code such as ``en``, ``ko`` or ``zh``, None where it is not known: analyzers
    that are not named follow it, unless its card names an ``analyzer``. ``titles`` counts the titles of the documents'
    records; None where they are not known. ``candidates`` are the documents that each query's hits are taken from, by
    query id, as reranking tasks have them; None for all documents.
    """

    name: str
    corpus: Corpus
    queries: Queries
    qrels: Qrels | None
    provenance: dict[str, str] = field(default_factory=dict)
    filtered: Filtered | None = None
    identical_ids: IdenticalIds | None = None
    language: str | None = None
    analyzer: str | None = None
    titles: TitleCounts | None = None
    candidates: Mapping[str, Sequence[str]] | None = None

    @property
    def competing(self) -> float:
        """How many documents compete for a query's ranking, on average: all, those of the filter, or its candidates."""
        if self.candidates is not None:
            counts = [len(set(self.candidates.get(query, ()))) for query in self.queries.ids]
            return sum(counts) / max(len(counts), 1)
        return len(self.filtered) if self.filtered is not None else len(self.corpus)

    @cached_property
    def candidates_digest(self) -> str | None:
        """The SHA-256 of each query's candidates, whatever their order; None where all documents compete."""
        if self.candidates is None:
            return None
        listed = [[query, *sorted(set(self.candidates[query]))] for query in self.queries.ids]
        return hashlib.sha256(orjson.dumps(listed)).hexdigest()

    @classmethod
    def of(
        cls,
        corpus: object,
        queries: object,
        qrels: object = None,
        *,
        name: str = "dataset",
        columns: Mapping[str, str] | str | None = None,
        identical_ids: IdenticalIds | None = None,
        language: str | None = None,
    ) -> Dataset:
        """Return a dataset of objects in Python.

        Args:
            corpus: documents as ``{id: text}``, ``{id: {"title": …, "text": …}}``, a list of dictionaries or of
                ``(id, text)``, a pandas or Polars frame, an Arrow table or a Hugging Face ``Dataset``. Whole numbers
                as ids become text. Title and text are joined by a space.
            queries: the same, without titles.
            qrels: judgments as :func:`harness.evaluate` takes them; None for a collection without any.
            name: what reports call the dataset.
            columns: role -> field, where fields are called otherwise: ``{"id": "key", "text": "body"}``.
            identical_ids: "drop" leaves hits that have their query's id out before scoring.
            language: of documents and queries, a code such as ``en``, ``ko`` or ``zh``: analyzers that are not named
                follow it. None takes the text for English.

        Raises:
            UsageError: an object has another shape; the message shows those that are taken.
            DataError: a missing field, a bad id or an id that is there twice, no document or query at all, or
                judgments of queries or documents that are not there.
        """
        if identical_ids not in ("keep", "drop", None):
            raise UsageError(f"identical_ids is {identical_ids!r}", fix="give 'keep', 'drop' or None")
        if not isinstance(name, str) or not name:
            raise UsageError(f"the name is {name!r}", fix="give a text, which reports show")
        if language is not None and not isinstance(language, str):
            raise UsageError(f"the language is {language!r}", fix="give a code such as 'en', 'ko' or 'zh', or None")
        named = parse_columns(columns or {}, "columns")
        documents = texts_of(corpus, "documents", DOCUMENT_ROLES, named)
        questions = texts_of(queries, "queries", QUERY_ROLES, named)
        judged = None if qrels is None else qrels if isinstance(qrels, Qrels) else read_shape(qrels, QRELS)
        if judged is not None:
            refuse_unknown(judged, questions.ids, documents.ids)
        return cls(
            name,
            Corpus(documents.ids, documents.texts, documents.digest),
            Queries(questions.ids, questions.texts, questions.digest),
            judged,
            {
                "format": "objects",
                "corpus_sha256": documents.digest,
                "queries_sha256": questions.digest,
                **({} if language is None else {"language": language}),
            },
            identical_ids=identical_ids,
            language=language,
        )
