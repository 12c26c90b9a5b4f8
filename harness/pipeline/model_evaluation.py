"""A model's quality in one call: encode, index, retrieve, score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from harness.data.types import Corpus, Float32Array, Ids, Queries, Run
from harness.exact.encoding import EncodesTexts, encode_documents, encode_queries, widen
from harness.exact.index import SparseIndex
from harness.metrics import Metric, Scores
from harness.pipeline.evaluate import QrelsLike
from harness.pipeline.evaluate import evaluate as score_run


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores of a model, the run they were taken from, and the index for further searches."""

    scores: Scores
    run: Run
    index: SparseIndex


def evaluate(
    model: EncodesTexts,
    documents: Mapping[str, str] | Corpus,
    queries: Mapping[str, str] | Queries,
    qrels: QrelsLike,
    metrics: str | Iterable[str | Metric] = "nDCG@10,RR@10,R@100",
    k: int = 1000,
    *,
    idf: Literal["bm25"] | Float32Array | None = None,
    batch_size: int = 256,
    threads: int = 1,
) -> Evaluation:
    """Encode documents and queries with ``model``, search exactly, and score the best ``k`` of each query.

    ``documents`` and ``queries`` are ``{id: text}`` or columns; ``qrels`` and ``metrics`` as in
    :func:`harness.evaluate`; ``idf`` as in :meth:`SparseIndex.build`. Equal scores are ordered as trec_eval orders
    them, by document id descending, so that the cut at ``k`` follows the measures' rule. Raises the errors of these
    three functions.
    """
    document_ids, document_texts = _columns(documents)
    query_ids, query_texts = _columns(queries)
    document_rows = encode_documents(model, document_texts, batch_size=batch_size)
    query_rows = encode_queries(model, query_texts, batch_size=batch_size)
    width = max(document_rows.dimensions, query_rows.dimensions)
    index = SparseIndex.build(widen(document_rows, width), idf=idf, tie_break=document_ids.tie_rank)
    hits = index.retrieve(widen(query_rows, width), k, threads)
    run = Run(query_ids, document_ids, hits.indptr, hits.rows, hits.scores)
    return Evaluation(score_run(run, qrels, metrics), run, index)


def _columns(texts: Mapping[str, str] | Corpus | Queries) -> tuple[Ids, Iterable[str]]:
    if isinstance(texts, Mapping):
        return Ids.of(texts), texts.values()
    return texts.ids, (text for chunk in texts.texts.chunks for text in chunk.to_pylist())
