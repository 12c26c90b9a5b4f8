"""Learned sparse vectors in Lucene: weights as whole numbers, stored as term frequencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.data.types import Int32Array, SparseVectors
from harness.engines.base import Documents
from harness.engines.checks import require_sparse
from harness.engines.external_index import positions_of
from harness.engines.interface import ExpectedContent, ScoreTrees
from harness.engines.lucene.engine import Batch, RowsEngine, promises
from harness.engines.lucene.external_index import require_indexed_term, require_searchable
from harness.errors import RejectedInputError, UsageError
from harness.exact import bm25_idf
from harness.exact.weights import to_impacts, with_idf
from harness.java.bridge import JavaObject, packed_texts, spans
from harness.registry.parameters import ParameterValue
from harness.user_path import user_path

_BATCH = 1024
_OTHER_TERMS = (
    "name the field (field=), and the file with the model's terms (vocabulary=), that the index was made with"
)


class LuceneImpactEngine(RowsEngine[SparseVectors]):
    """Impact search: a document's score is the sum over the query's terms of ``impact in query · impact in document``.

    Impacts are weights times ``impact_scale``, rounded, in documents and in queries; with ``idf``, query weights are
    first multiplied by the IDF of the index. Anserini's ImpactSimilarity adds the products; scores are whole numbers,
    exact as long as float32 is. Equal scores are ordered by row ascending.
    """

    capabilities = replace(
        promises("sparse"),
        gaps={"test_explains_the_scores_of_hits": "Anserini explains a single term without its impact in the query"},
    )
    name = "lucene-impact"
    index_field = "impacts"
    search_parameters = frozenset({"heap", "jar", "idf"})

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        vocabulary_file = str(parameters["vocabulary"]) if self.external else ""
        self._terms = read_vocabulary(user_path(vocabulary_file)) if vocabulary_file else None
        self._with_idf = bool(parameters["idf"])
        self._containing: dict[int, int] = {}
        self._filled = 0

    def check(self, inputs: Inputs, role: str, dimensions: int | None) -> SparseVectors:
        """Return impacts of the sparse vectors; see :func:`require_sparse` and :func:`to_impacts`."""
        vectors = require_sparse(inputs, role)
        if self._with_idf and role == "query":
            vectors = self._weighted(vectors)
        try:
            return to_impacts(vectors, float(self.parameters["impact_scale"]))
        except UsageError as error:
            raise RejectedInputError(f"{role} vectors: {error.problem}", fix=error.fix) from error

    def java_analyzer(self) -> JavaObject:
        """Read ``17|250 42|8``: terms are column numbers, and the number after the bar is how often they "occur"."""
        bridge = self.bridge
        builder = bridge.load("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
        plain = [bridge.cast("java.util.Map", bridge.load("java.util.HashMap")()) for _ in range(2)]
        return builder.withTokenizer("whitespace", plain[0]).addTokenFilter("delimitedTermFrequency", plain[1]).build()

    def java_documents(self, documents: Documents[SparseVectors]) -> Iterator[Batch]:
        """Make documents of one field without lengths, also for vectors without terms."""
        bridge, vectors = self.bridge, documents.column
        for start in range(0, len(vectors), _BATCH):
            texts = [_text(vectors, row) for row in range(start, min(start + _BATCH, len(vectors)))]
            for span in spans(texts):
                java = bridge.index.termDocuments(packed_texts(texts[span]), self.field)
                yield Batch(java, start + np.arange(span.start, span.stop))

    def prepare(self, queries: SparseVectors, k: int) -> list[JavaObject]:
        """Make queries of terms with their impacts as boosts; None without terms."""
        terms = packed_texts([self._term(column) for column in queries.indices.tolist()])
        boosts, starts = queries.values.astype("<f4").tobytes(), queries.indptr.astype("<i4").tobytes()
        built = self.bridge.queries(self.bridge.index.termQueries(self.field, terms, boosts, starts))
        lengths = np.diff(queries.indptr).tolist()
        return [self.filtered(query) if length else None for query, length in zip(built, lengths, strict=True)]

    def explain(self, query: Inputs, rows: Int32Array) -> ScoreTrees:
        """Return Lucene's own explanation of scores."""
        columns = require_sparse(query, "query").indices.tolist()
        return ScoreTrees(
            self.score_trees(query, rows), {f"{self.field}:{self._term(column)}": str(column) for column in columns}
        )

    def require_field(self) -> None:
        """Require a field of terms and their frequencies."""
        require_searchable(self.reader, "field of terms")
        if not self.reader.has_counts():
            raise RejectedInputError(
                f"the field '{self.field}' has terms without frequencies: there are no impacts",
                fix="name another (field=), or index with Anserini's -impact",
            )

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare the postings of the queries' terms, which determine all scores; RejectedInputError if none exist."""
        documents, queries = self.check(content.documents, "document", None), self.check(content.queries, "query", None)
        position_of = positions_of(content, len(self.ids))
        columns, by_column = np.unique(queries.indices).tolist(), documents.to_scipy().tocsc()
        shared = np.intersect1d(queries.indices, documents.indices).tolist()
        require_indexed_term(self.reader, [self._term(column) for column in shared], _OTHER_TERMS)
        filled = len(documents.nonempty_rows)
        if self._with_idf and (deleted := self.reader.deleted_documents):
            return f"{deleted:,} documents are deleted but not merged away, and the idf still counts them"
        if self._with_idf and self._filled != filled:
            return f"its idf counts {self._filled:,} documents with terms, the dataset's part of it has {filled:,}"
        progress.start("compare", len(columns))
        for column in columns:
            term = self._term(column)
            postings = self.reader.postings(term)
            rows = self.row_of[postings.documents]
            valid = (rows >= 0) & (position_of[rows] >= 0)
            positions, counts = position_of[rows[valid]], postings.counts[valid]
            order = np.argsort(positions)
            expected = slice(int(by_column.indptr[column]), int(by_column.indptr[column + 1]))
            same = np.array_equal(positions[order], by_column.indices[expected])
            if self._with_idf and not valid.all():
                return f"the term '{term}' has other documents than the dataset's, which its idf counts"
            if not same or not np.array_equal(counts[order], by_column.data[expected]):
                return f"the term '{term}' has other documents or impacts than the encoder gives it"
            progress.advance(1)
        return None

    def _weighted(self, queries: SparseVectors) -> SparseVectors:
        """Multiply query weights by the IDF of the index, which is read once for each term."""
        columns = np.unique(queries.indices)
        for column in columns.tolist():
            if column not in self._containing:
                self._containing[column] = self.reader.documents_with(self._term(column))
        df = np.array([self._containing[column] for column in columns.tolist()], dtype=np.int64)
        idf = np.zeros(queries.dimensions, dtype=np.float32)
        idf[columns] = bm25_idf(df, self._filled)
        return with_idf(queries, idf)

    def state(self) -> Mapping[str, ParameterValue]:
        """Count the documents of the index that have an impact, as the IDF does."""
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

    def configure_searcher(self) -> None:
        """Score by sums of products of impacts."""
        self._containing, self._filled = {}, self.reader.documents_with_terms()
        self.searcher.setSimilarity(self.bridge.load("io.anserini.search.similarity.ImpactSimilarity")())


def read_vocabulary(path: Path) -> list[str]:
    """Read a term per line, as in BERT models: the line number, from 0, is the column.

    Raises:
        RejectedInputError: The file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RejectedInputError(
            f"the vocabulary cannot be read from '{path}': {error}",
            fix="name a file with one term per line: vocabulary=",
        ) from error


def _text(vectors: SparseVectors, row: int) -> str:
    columns, impacts = vectors.row(row)
    return " ".join(
        f"{column}|{int(impact)}" for column, impact in zip(columns.tolist(), impacts.tolist(), strict=True)
    )
