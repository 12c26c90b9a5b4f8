"""Learned sparse vectors in Lucene: weights as whole numbers, kept where Lucene keeps how often a term occurs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.data.types import SparseVectors
from harness.engines.base import Capabilities, Documents
from harness.engines.checks import require_sparse
from harness.engines.external_index import places_of
from harness.engines.interface import ExpectedContent
from harness.engines.lucene.engine import WARM_UP_QUERIES, Batch, RowsEngine
from harness.engines.lucene.filter import with_filter
from harness.engines.lucene.held import require_some_term
from harness.errors import RejectedInputError, UsageError
from harness.exact import bm25_idf
from harness.exact.quantised import to_impacts, with_idf
from harness.java.bridge import packed_texts, spans
from harness.registry.parameters import ParameterValue

__all__ = ["LuceneImpactEngine", "read_vocabulary"]

_BATCH = 1024
_SPECIAL = re.compile(r'([+\-!():^\[\]"{}~*?|&/\\<>=])')
_OPERATORS = ("AND", "OR", "NOT", "TO")
_OTHER_TERMS = (
    "name the field (field=), and the file with the model's terms (vocabulary=), that the index was made with"
)
_PARSER = "org.apache.lucene.queryparser.classic.QueryParser"


class LuceneImpactEngine(RowsEngine[SparseVectors]):
    """Impact search: a document's score is the sum over the query's terms of ``impact in query · impact in document``.

    Impacts are weights times ``impact_scale``, rounded, in documents and in queries; with ``idf``, query weights are
    first multiplied by that of the index. Anserini's ImpactSimilarity adds the products; scores are whole numbers,
    exact as long as float32 is. Equal scores by row ascending.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse",
        exact=True,
        deterministic=True,
        reopens=True,
        keeps_k_prefix=True,
        shares_index=True,
        warm_up_queries=WARM_UP_QUERIES,
    )
    name = "lucene-impact"
    own_field = "impacts"
    search_parameters = frozenset({"heap", "jar", "idf"})

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        named = str(parameters["vocabulary"]) if self.external else ""
        self._terms = read_vocabulary(Path(named).expanduser()) if named else None
        self._with_idf = bool(parameters["idf"])
        self._containing: dict[int, int] = {}
        self._filled = 0

    def check(self, inputs: Inputs, what: str, dimensions: int | None) -> SparseVectors:  # noqa: ARG002 - of dense ones
        """Return impacts of the sparse vectors; see :func:`require_sparse` and :func:`to_impacts`."""
        vectors = require_sparse(inputs, what)
        if self._with_idf and what == "query":
            vectors = self._weighted(vectors)
        try:
            return to_impacts(vectors, float(self.parameters["impact_scale"]))
        except UsageError as error:
            raise RejectedInputError(f"{what} vectors: {error.what}", fix=error.fix) from error

    def java_analyzer(self) -> Any:  # noqa: ANN401 - a Java object
        """``17|250 42|8``: terms are column numbers, and what stands behind the bar is how often they "occur"."""
        bridge = self.bridge
        builder = bridge.load("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
        plain = [bridge.cast("java.util.Map", bridge.load("java.util.HashMap")()) for _ in range(2)]
        return builder.withTokenizer("whitespace", plain[0]).addTokenFilter("delimitedTermFrequency", plain[1]).build()

    def java_documents(self, documents: Documents[SparseVectors]) -> Iterator[Batch]:
        """Make documents of one field without lengths; one without terms is a document too."""
        bridge, vectors = self.bridge, documents.column
        for start in range(0, len(vectors), _BATCH):
            texts = [_text(vectors, row) for row in range(start, min(start + _BATCH, len(vectors)))]
            for span in spans(texts):
                java = bridge.index.termDocuments(packed_texts(texts[span]), self.field)
                yield Batch(java, start + np.arange(span.start, span.stop))

    def prepare(self, queries: SparseVectors, k: int) -> list[Any]:  # noqa: ARG002 - the depth is that of the search
        """Make queries of terms with their impacts as boosts, read by Lucene's own parser; None without terms."""
        bridge = self.bridge
        parser = bridge.load(_PARSER)(self.field, bridge.load("org.apache.lucene.analysis.core.WhitespaceAnalyzer")())
        filled = queries.nonempty_rows.tolist()
        built = bridge.index.parsed(parser, packed_texts([self._asked(queries, row) for row in filled]))
        prepared: list[Any] = [None] * len(queries)
        for row, query in zip(filled, bridge.queries(built), strict=True):
            prepared[row] = with_filter(bridge, query, self.java_filter)
        return prepared

    def require_field(self) -> None:
        """The field must hold terms and how often they occur."""
        indexed = self.statistics.indexed_fields()
        if self.field not in indexed:
            raise RejectedInputError(
                f"no document of the index has the field of terms '{self.field}'",
                fix=f"name one that is indexed (field=): {', '.join(indexed) or 'there is none'}",
            )
        if not self.statistics.has_counts():
            raise RejectedInputError(
                f"the field '{self.field}' has terms without how often they occur: there are no impacts",
                fix="name another (field=), or index with Anserini's -impact",
            )

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare the postings of the queries' terms, on which all scores depend; RejectedInputError without any."""
        documents, queries = self.check(content.documents, "document", None), self.check(content.queries, "query", None)
        statistics, place_of = self.statistics, places_of(content, len(self.ids))
        asked, by_column = np.unique(queries.indices).tolist(), documents.to_scipy().tocsc()
        shared = np.intersect1d(queries.indices, documents.indices).tolist()
        require_some_term(statistics, [self._term(column) for column in shared], _OTHER_TERMS)
        if self._with_idf and (reason := self._other_counts(documents)) is not None:
            return reason
        progress.start("compare", len(asked))
        for column in asked:
            term = self._term(column)
            found = statistics.postings(term)
            rows = self.row_of[found.documents]
            known = (rows >= 0) & (place_of[rows] >= 0)
            places, counts = place_of[rows[known]], found.counts[known]
            order = np.argsort(places)
            ours = slice(int(by_column.indptr[column]), int(by_column.indptr[column + 1]))
            same = np.array_equal(places[order], by_column.indices[ours])
            if self._with_idf and not known.all():
                return f"the term '{term}' has other documents than the collection's, which its idf counts"
            if not same or not np.array_equal(counts[order], by_column.data[ours]):
                return f"the term '{term}' has other documents or impacts than the encoder gives it"
            progress.advance(1)
        return None

    def _weighted(self, queries: SparseVectors) -> SparseVectors:
        """Query weights times the IDF of the index, which is asked for each term once."""
        columns = np.unique(queries.indices)
        for column in columns.tolist():
            if column not in self._containing:
                self._containing[column] = self.statistics.documents_with(self._term(column))
        df = np.array([self._containing[column] for column in columns.tolist()], dtype=np.int64)
        idf = np.zeros(queries.dimensions, dtype=np.float32)
        idf[columns] = bm25_idf(df, self._filled)
        return with_idf(queries, idf)

    def _other_counts(self, documents: SparseVectors) -> str | None:
        """Why the number of documents that the IDF goes by is not the encoder's; None where it is."""
        deleted = int(self.reader.numDeletedDocs())
        if deleted:
            return f"{deleted:,} documents are deleted but not merged away, and the idf still counts them"
        ours = len(documents.nonempty_rows)
        if self._filled != ours:
            return f"its idf counts {self._filled:,} documents with terms, the collection's part of it has {ours:,}"
        return None

    def state(self) -> Mapping[str, ParameterValue]:
        """How many documents have an impact, which is what the IDF counts: of the index, whoever searches it."""
        return {"documents_with_terms": self._filled}

    def _term(self, column: int) -> str:
        if self._terms is None:
            return str(column)
        if column >= len(self._terms):
            raise RejectedInputError(
                f"the encoder gives column {column}, and the vocabulary has {len(self._terms)} terms",
                fix="name the vocabulary of the model: vocabulary=",
            )
        return self._terms[column]

    def _asked(self, vectors: SparseVectors, row: int) -> str:
        """A query in the language of Lucene's parser."""
        columns, impacts = vectors.row(row)
        terms = [_escaped(self._term(column)) for column in columns.tolist()]
        return " ".join(f"{term}^{int(impact)}" for term, impact in zip(terms, impacts.tolist(), strict=True))

    def configure_searcher(self) -> None:
        """Score by sums of products of impacts."""
        self._containing, self._filled = {}, self.statistics.documents_with_terms()
        self.searcher.setSimilarity(self.bridge.load("io.anserini.search.similarity.ImpactSimilarity")())


def read_vocabulary(path: Path) -> list[str]:
    """One term a line, as models of the BERT family have it: the number of the line, from 0, is the column.

    Raises RejectedInputError for a file that cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RejectedInputError(
            f"the vocabulary cannot be read from '{path}': {error}", fix="name a file with one term a line: vocabulary="
        ) from error


def _escaped(term: str) -> str:
    """What has a meaning to Lucene's parser is given none; ``AND``, ``OR`` and ``NOT`` are words then."""
    plain = _SPECIAL.sub(r"\\\1", term)
    return f"\\{plain}" if term in _OPERATORS else plain


def _text(vectors: SparseVectors, row: int) -> str:
    columns, impacts = vectors.row(row)
    return " ".join(
        f"{column}|{int(impact)}" for column, impact in zip(columns.tolist(), impacts.tolist(), strict=True)
    )
