"""Smaller datasets for quicker runs: a sample of the queries, or a part of the documents."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.data.arrow import numbers, take_rows
from harness.data.dataset import Dataset
from harness.data.texts import content_digest
from harness.data.types import Corpus, Ids, Queries
from harness.errors import UsageError

__all__ = ["sample_documents", "sample_queries"]


def sample_queries(dataset: Dataset, size: int, seed: int) -> Dataset:
    """Return the dataset with ``size`` random queries, in their own order, and their judgments.

    All documents stay, so retrieval is as hard as before. A dataset of fewer queries is returned as it is.
    """
    if size >= len(dataset.queries):
        return dataset
    rows = np.sort(np.random.default_rng(seed).choice(len(dataset.queries), size=size, replace=False))
    queries = Queries(
        ids=Ids(dataset.queries.ids.values.take(numbers(rows))),
        texts=take_rows(dataset.queries.texts, rows),
        digest=f"{dataset.queries.digest}/sample-{size}-{seed}",
    )
    qrels = dataset.qrels.of_queries(queries.ids) if dataset.qrels is not None else None
    return replace(dataset, queries=queries, qrels=qrels)


def sample_documents(dataset: Dataset, size: int, seed: int) -> Dataset:
    """Return the dataset with ``size`` documents, in their own order: every judged one, and others at random.

    Where more than ``size`` are judged, exactly these are kept. A dataset of fewer documents is returned as it is.
    Raises UsageError where the filter's documents are all left out, and where queries are ranked among candidates.
    """
    corpus = dataset.corpus
    if size >= len(corpus):
        return dataset
    if dataset.candidates is not None:
        raise UsageError(
            "--max-docs would leave candidates of the queries out, which they are ranked among",
            fix="leave it out, or ask fewer queries: --sample-queries",
        )
    kept = np.zeros(len(corpus), dtype=np.bool_)
    if dataset.qrels is not None:
        judged = corpus.ids.rows_of(dataset.qrels.doc_ids)[np.unique(dataset.qrels.rows)]
        kept[judged[judged >= 0]] = True
    others = np.flatnonzero(~kept)
    wanted = max(size - int(kept.sum()), 0)
    kept[np.random.default_rng(seed).choice(others, size=wanted, replace=False)] = True
    rows = np.flatnonzero(kept)
    ids, texts = Ids(corpus.ids.values.take(numbers(rows))), take_rows(corpus.texts, rows)
    filtered = dataset.filtered.take(rows) if dataset.filtered is not None else None
    if filtered is not None and not len(filtered):
        raise UsageError(f"none of {len(rows):,} sampled documents matches the filter", fix="raise --max-docs")
    return replace(dataset, corpus=Corpus(ids, texts, content_digest(ids, texts)), filtered=filtered)
