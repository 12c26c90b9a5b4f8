"""The largest page that is promised: 10,000 queries, five rankings that have hardly a document in common."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from explorers import small_page

from harness.data.types import Corpus, Ids, Queries, Run
from harness.report.html.render import LARGEST, render_page
from harness.report.rankings.explorer import Explorer

QUERIES, BACKENDS, DOCUMENTS, DEPTH = 10_000, 5, 200_000, 10


@pytest.mark.slow
def test_it_stays_below_eight_megabytes() -> None:
    rng = np.random.default_rng(1)
    queries = Ids.of(f"query-{n}" for n in range(QUERIES))
    documents = Ids.of(f"document-{n}" for n in range(DOCUMENTS))
    indptr = np.arange(0, QUERIES * DEPTH + 1, DEPTH, dtype=np.int64)
    first = rng.integers(0, DOCUMENTS, (BACKENDS, QUERIES, 1))
    rows = ((first + 7919 * np.arange(DEPTH)) % DOCUMENTS).astype(np.int32)
    scores = np.sort(rng.uniform(1, 30, rows.shape), axis=2)[:, :, ::-1].astype(np.float32)
    runs = [
        Run(queries, documents, indptr, *pair) for pair in zip(rows.reshape(5, -1), scores.reshape(5, -1), strict=True)
    ]
    texts = pa.chunked_array([[f"text {n * n * n:x} of a document {n * 7919:x}" for n in range(DOCUMENTS)]])
    explorer = Explorer(
        query_ids=queries,
        labels=[f"backend {n}" for n in range(BACKENDS)],
        runs=runs,
        metrics=["nDCG@10", "AP", "R@100", "RR@10"],
        values=rng.integers(0, 5000, (BACKENDS, 4, QUERIES)) / 5000,
        queries=Queries(queries, texts.slice(0, QUERIES), "digest"),
        corpus=Corpus(documents, texts, "digest"),
    )
    html = render_page(small_page(), [explorer])
    assert 0.95 * LARGEST < len(html.encode()) <= LARGEST < 8_000_000
