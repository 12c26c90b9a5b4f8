"""RM3 and axiomatic feedback (AX) by Anserini's own rerankers, over true scores and Lucene's order of ties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.engines.lucene.filter import with_filter
from harness.engines.lucene.settings import Axiomatic, LuceneSettings, Rm3
from harness.errors import EngineFailureError, RejectedInputError
from harness.java.bridge import JavaBridge
from harness.text.lucene import LuceneAnalyzer

__all__ = ["Feedback", "require_enough_documents"]

_AXIOM = "io.anserini.rerank.lib.AxiomReranker"


def require_enough_documents(settings: LuceneSettings, documents: int) -> None:
    """Refuse AX on a small index: Anserini draws R times N different documents, for ever when there are fewer."""
    ax = settings.axiomatic
    if ax is not None and documents < ax.documents * ax.times:
        raise RejectedInputError(
            f"AX samples axiom_r times axiom_n = {ax.documents * ax.times} documents; the index holds {documents}",
            fix="lower axiom_r or axiom_n",
        )


class Feedback:
    """A reranker of one index; it searches twice, the second time with the expanded query."""

    def __init__(
        self,
        analyzer: LuceneAnalyzer,
        searcher: Any,  # noqa: ANN401 - a Java object
        java_filter: Any,  # noqa: ANN401 - a Java object
        settings: LuceneSettings,
        folder: Path,
    ) -> None:
        bridge = analyzer.bridge
        self._analyzer, self._searcher, self._filter = analyzer, searcher, java_filter
        self._utilities = bridge.load("io.anserini.analysis.AnalyzerUtils")
        self._context = bridge.load("io.anserini.rerank.RerankerContext")
        self._scored_docs = bridge.load("io.anserini.search.ScoredDocs")
        self._arguments = bridge.load("io.anserini.search.SearchCollection$Args")()
        self._arguments.arbitraryScoreTieBreak = True
        if settings.axiomatic is not None:
            self._depth = settings.axiomatic.documents
            self._reranker = _axiomatic(bridge, analyzer, settings.axiomatic, settings.field, folder)
        elif settings.rm3 is not None:
            self._depth = settings.rm3.documents
            self._reranker = _rm3(bridge, analyzer, settings.rm3, settings.field)

    def search(self, query: Any, text: str, k: int) -> Any:  # noqa: ANN401 - Java objects
        """The best ``k`` documents of the expanded query as Anserini's ``ScoredDocs``; both searches are filtered."""
        first = self._searcher.search(with_filter(self._analyzer.bridge, query, self._filter), self._depth)
        before = self._scored_docs.fromTopDocs(first, self._searcher)
        tokens = self._utilities.analyze(self._analyzer.java, text)
        self._arguments.hits = k
        context = self._context(self._searcher, "q", query, None, text, tokens, self._filter, self._arguments)
        after = self._reranker.rerank(before, context)
        if after.equals(before):
            raise EngineFailureError("Anserini swallowed an error", fix="see what Java printed on stderr")
        return after


def _rm3(bridge: JavaBridge, analyzer: LuceneAnalyzer, rm3: Rm3, field: str) -> Any:  # noqa: ANN401 - a Java object
    return bridge.load("io.anserini.rerank.lib.Rm3Reranker")(
        analyzer.java, None, field, rm3.terms, rm3.documents, rm3.original_weight, False, True
    )


def _axiomatic(bridge: JavaBridge, analyzer: LuceneAnalyzer, ax: Axiomatic, field: str, folder: Path) -> Any:  # noqa: ANN401 - a Java object
    """AX samples documents from a list that Anserini keeps in a static field, whichever index it came from."""
    bridge.anserini.forgetDocuments(_AXIOM)
    return bridge.load(_AXIOM)(
        analyzer.java,
        None,
        str(folder),
        None,
        field,
        True,
        ax.seed,
        ax.documents,
        ax.times,
        ax.beta,
        ax.terms,
        None,
        False,
        False,
    )
