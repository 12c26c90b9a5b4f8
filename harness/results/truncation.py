"""How much models read of the texts that they get, and when a reader has to know it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.data.dataset import Dataset
from harness.data.filtering import BoolArray
from harness.data.problems import Finding
from harness.data.types import Qrels
from harness.encoders.token_counts import UNKNOWN, TextLengths
from harness.rerank.stage import PairRows
from harness.results.schema import TruncationStats
from harness.wording import counted
from harness.worker.outcome import Outcome
from harness.worker.vectors import EncodedTexts

_LEAST_SHARE = 0.01
"""Share of truncated documents below which no note is made unless one is relevant: a few texts are long everywhere."""
_NOUNS = {"documents": "document", "queries": "query", "pairs": "pair"}
_UNCOUNTED = "the model's tokenizer does not report lengths"


def truncation_stats(outcome: Outcome, dataset: Dataset, qrels: Qrels | None, relevance: int) -> list[TruncationStats]:
    """Return how much the models of a trial read of its texts; empty without a model.

    ``qrels`` say which documents are relevant, from grade ``relevance`` on.
    """
    stats = []
    if outcome.vectors is not None and outcome.vectors.texts:
        relevant = _relevant_documents(dataset, qrels, relevance)
        stats += [
            stats_of_texts(texts, relevant if texts.role == "documents" else None) for texts in outcome.vectors.texts
        ]
    reranked = outcome.combined.reranked if outcome.combined is not None else None
    if reranked is not None and reranked.lengths is not None:
        relevant = _relevant_pairs(reranked.pairs, dataset, qrels, relevance)
        stats.append(_stats("pairs", len(reranked.scores), reranked.lengths, relevant))
    return stats


def stats_of_texts(texts: EncodedTexts, relevant: BoolArray | None = None) -> TruncationStats:
    """Return how much a model read of texts of one role; ``relevant`` bool (n,) marks texts that matter to a query."""
    return _stats(texts.role, texts.number, texts.lengths, relevant, texts.unknown)


def truncation_findings(stats: Sequence[TruncationStats]) -> list[Finding]:
    """Find texts that a model does not read to their ends: one finding for all of a backend's.

    Reported are a hundredth of the documents or pairs, and one of them that is relevant; of queries, a single one.
    """
    reported = [part for part in stats if part.truncated and _matters(part)]
    if not reported:
        return []
    pairs = any(part.texts == "pairs" for part in reported)
    parameter = "max_length=" if pairs else "max_seq_length="
    if any(part.unit == "characters" for part in reported):
        parameter = "max_characters="
    sources = " and ".join(dict.fromkeys(part.limit_from for part in reported if part.limit_from))
    origin = f" ({sources})" if sources else ""
    return [
        Finding(
            "truncated-texts",
            "warning",
            "; ".join(map(_describe, reported)),
            f"divide documents into chunks that fit, raise the limit{origin} with {parameter} as far as the model "
            "allows, or take a model that reads more",
        )
    ]


def _matters(part: TruncationStats) -> bool:
    return part.texts == "queries" or bool(part.relevant) or part.truncated >= _LEAST_SHARE * part.counted


def _describe(part: TruncationStats) -> str:
    sampled = f" (a sample of {part.number:,})" if part.counted < part.number else ""
    longer = f"{part.truncated:,} of {counted(part.counted, _NOUNS[part.texts], part.texts)}{sampled}"
    verb = "is" if part.truncated == 1 else "are"
    limit = f"{part.limit:,} {part.unit}" if part.limit is not None else "its model reads"
    relevant = f", {part.relevant:,} of them relevant" if part.relevant else ""
    return (
        f"{longer} {verb} longer than {limit}{relevant}: {part.unread / part.units:.1%} of all {part.unit} are not read"
    )


def _stats(
    texts: str, number: int, lengths: TextLengths | None, relevant: BoolArray | None, unknown: str = ""
) -> TruncationStats:
    lengths = lengths if lengths is not None else TextLengths.unknown(0)
    is_counted = lengths.counts[:, 0] != UNKNOWN
    truncated = is_counted & (lengths.counts[:, 1] > 0)
    units, unread = lengths.counts[is_counted].sum(axis=0, dtype=np.int64).tolist()
    complete = int(is_counted.sum()) == number
    return TruncationStats.model_validate(
        {
            "texts": texts,
            "number": number,
            "counted": int(is_counted.sum()),
            "truncated": int(truncated.sum()),
            "relevant": int((truncated & relevant).sum()) if relevant is not None and len(is_counted) else None,
            "unit": lengths.unit,
            "units": units,
            "unread": unread,
            "limit": lengths.limit,
            "limit_from": lengths.limit_from or None,
            "unknown_reason": None if complete else unknown or _UNCOUNTED,
        }
    )


def _relevant_documents(dataset: Dataset, qrels: Qrels | None, relevance: int) -> BoolArray | None:
    """Return which documents of a dataset are relevant for a query, bool (n,); None without judgments."""
    if qrels is None:
        return None
    relevant = np.zeros(len(dataset.corpus), dtype=bool)
    rows = dataset.corpus.ids.rows_of(qrels.doc_ids)[qrels.rows[qrels.grades >= relevance]]
    relevant[rows[rows >= 0]] = True
    return relevant


def _relevant_pairs(pairs: PairRows | None, dataset: Dataset, qrels: Qrels | None, relevance: int) -> BoolArray | None:
    """Return which pairs of query and document, as rows of the dataset, are judged relevant, bool (P,)."""
    if qrels is None or pairs is None:
        return None
    width = max(len(dataset.corpus), 1)
    queries = np.repeat(dataset.queries.ids.rows_of(qrels.query_ids), np.diff(qrels.indptr)).astype(np.int64)
    documents = dataset.corpus.ids.rows_of(qrels.doc_ids)[qrels.rows].astype(np.int64)
    chosen = (qrels.grades >= relevance) & (queries >= 0) & (documents >= 0)
    judged = queries[chosen] * width + documents[chosen]
    relevant: BoolArray = np.isin(pairs[0].astype(np.int64) * width + pairs[1], judged)
    return relevant
