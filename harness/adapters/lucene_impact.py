"""Learned sparse vectors in Lucene: weights as whole numbers, kept where Lucene keeps how often a term occurs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from harness.adapters.checks import require_sparse
from harness.adapters.lucene_filter import with_filter
from harness.adapters.lucene_rows import RowsEngine
from harness.errors import RejectedInputError, UsageError
from harness.java_bridge import JavaBridge, spans
from harness.protocols import Capabilities, Inputs
from harness.reference.quantised import to_impacts
from harness.types import SparseVectors

__all__ = ["LuceneImpactEngine"]

_FIELD = "impacts"
_BATCH = 1024
_PARSER = "org.apache.lucene.queryparser.classic.QueryParser"


class LuceneImpactEngine(RowsEngine[SparseVectors]):
    """Impact search: a document's score is the sum over the query's terms of ``impact in query · impact in document``.

    Impacts are weights times ``impact_scale``, rounded, in documents and in queries. Anserini's ImpactSimilarity adds
    them; scores are whole numbers, exact as long as float32 is. Equal scores by row ascending.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse",
        exact=True,
        deterministic=True,
        reopens=True,
        keeps_k_prefix=True,
        shares_index=True,
        filters=True,
    )
    name = "lucene-impact"

    def require(self, inputs: Inputs, what: str) -> SparseVectors:
        """Impacts of the sparse vectors; see :func:`require_sparse` and :func:`to_impacts`."""
        try:
            return to_impacts(require_sparse(inputs, what), float(self.parameters["impact_scale"]))
        except UsageError as error:
            raise RejectedInputError(f"{what} vectors: {error.what}", fix=error.fix) from error

    def analyzer(self, bridge: JavaBridge) -> Any:  # noqa: ANN401 - a Java object
        """``17|250 42|8``: terms are column numbers, and what stands behind the bar is how often they "occur"."""
        builder = bridge.load("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
        plain = [bridge.cast("java.util.Map", bridge.load("java.util.HashMap")()) for _ in range(2)]
        return builder.withTokenizer("whitespace", plain[0]).addTokenFilter("delimitedTermFrequency", plain[1]).build()

    def documents(self, bridge: JavaBridge, vectors: SparseVectors) -> Iterator[tuple[int, Any]]:
        """Documents of one field without lengths; one without terms is a document too."""
        kind = bridge.load("org.apache.lucene.document.FieldType")()
        kind.setTokenized(True)
        kind.setOmitNorms(True)
        kind.setIndexOptions(bridge.load("org.apache.lucene.index.IndexOptions").DOCS_AND_FREQS)
        signature = "(Ljava/lang/String;Ljava/lang/CharSequence;Lorg/apache/lucene/index/IndexableFieldType;)V"
        field = bridge.bind(bridge.constructor("org.apache.lucene.document.Field", signature), 0, bridge.string(_FIELD))
        alone = bridge.static_method("java.util.Collections", "singletonList", "(Ljava/lang/Object;)Ljava/util/List;")
        to_document = bridge.function(bridge.chain(bridge.bind(field, 1, kind), alone))
        for start in range(0, len(vectors), _BATCH):
            texts = [_text(vectors, row, "|") for row in range(start, min(start + _BATCH, len(vectors)))]
            for span in spans(texts):
                yield len(texts[span]), bridge.map(to_document, bridge.to_java(texts[span]))

    def queries(self, bridge: JavaBridge, vectors: SparseVectors, depth: int) -> list[Any]:  # noqa: ARG002 - of others
        """Terms with their impacts as boosts, read by Lucene's own parser."""
        parser = bridge.load(_PARSER)(_FIELD, bridge.load("org.apache.lucene.analysis.core.WhitespaceAnalyzer")())
        parse = bridge.method(_PARSER, "parse", "(Ljava/lang/String;)Lorg/apache/lucene/search/Query;").bindTo(parser)
        filled = vectors.nonempty_rows.tolist()
        built = bridge.map(bridge.function(parse), bridge.to_java([_text(vectors, row, "^") for row in filled]))
        queries: list[Any] = [None] * len(vectors)
        for place, row in enumerate(filled):
            query = bridge.cast("org.apache.lucene.search.Query", built.get(place))
            queries[row] = with_filter(bridge, query, self.filter)
        return queries

    def prepare(self, bridge: JavaBridge, reader: Any, searcher: Any) -> None:  # noqa: ANN401, ARG002 - Java objects
        """Scores are sums of products of impacts."""
        searcher.setSimilarity(bridge.load("io.anserini.search.similarity.ImpactSimilarity")())


def _text(vectors: SparseVectors, row: int, mark: str) -> str:
    columns, impacts = vectors.row(row)
    return " ".join(
        f"{column}{mark}{int(impact)}" for column, impact in zip(columns.tolist(), impacts.tolist(), strict=True)
    )
