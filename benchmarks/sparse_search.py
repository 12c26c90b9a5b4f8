"""Exact sparse top-k: harness.exact against bm25s (Numba) and SciPy, one thread, side by side in one process.

All get the same weights and the same term numbers, so nobody's tokenisation counts. bm25s is called where its public
`retrieve` ends up, with ready arrays; it knows neither query weights (it adds unweighted terms, which is less work) nor
a rule for ties. Rounds are interleaved, each timed pass after an untimed one of the same tool, so that nobody pays for
the caches that another left; times are CPU time of the calling thread, medians over the rounds, and the ratios are
medians of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from bm25s.numba.retrieve_utils import _retrieve_numba_functional as bm25s_retrieve

from harness.data.types import SparseVectors
from harness.encoders.bm25 import document_weights
from harness.exact import SparseIndex, bm25_idf, document_frequencies
from harness.text import count_terms, create_analyzer

ROOT = Path(__file__).resolve().parent.parent
SCIPY_QUERIES = 10

Generator = np.random.Generator


class Set(NamedTuple):
    name: str
    queries: SparseVectors


class Workload(NamedTuple):
    name: str
    documents: SparseVectors
    sets: list[Set]


def arxiv(folder: Path, queries: int, generator: Generator) -> Workload:
    """BM25 weights of titles and abstracts; the first titles as queries, and queries made of documents' own terms."""
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as stream:
        records = [json.loads(line) for line in stream]
    texts = [f"{record['title']} {record['text']}" for record in records]
    batches = (texts[start : start + 1_000] for start in range(0, len(texts), 1_000))
    titles = [record["title"] for record in records[:queries]]
    counts = count_terms(create_analyzer("snowball-english"), batches, titles)
    weights = document_weights(counts)
    df, filled = document_frequencies(weights)
    documents = SparseVectors(
        weights.indptr, weights.indices, weights.values * bm25_idf(df, filled)[weights.indices], weights.dimensions
    )
    title_rows = [np.unique(counts.queries.row(row)[0]) for row in range(queries)]
    sets = [
        Set("titles", as_queries(title_rows, documents.dimensions)),
        Set("3 terms", drawn(documents, 3, queries, generator)),
        Set("32 terms", drawn(documents, 32, queries, generator)),
    ]
    return Workload("arxiv-50k", documents, sets)


def synthetic(documents: int, queries: int, generator: Generator) -> Workload:
    """Zipf-distributed terms (exponent 1.07 over 300,000), Poisson lengths of mean 25, weights 0.5 to 1.5 times IDF."""
    dimensions = 300_000
    lengths = np.maximum(1, generator.poisson(25, documents))
    chance = np.cumsum(1.0 / np.arange(1, dimensions + 1) ** 1.07)
    terms = np.searchsorted(chance / chance[-1], generator.random(int(lengths.sum())))
    pairs = np.unique(np.repeat(np.arange(documents, dtype=np.int64), lengths) * dimensions + terms)
    indices = (pairs % dimensions).astype(np.int32)
    indptr = np.searchsorted(pairs, np.arange(documents + 1, dtype=np.int64) * dimensions)
    idf = bm25_idf(np.bincount(indices, minlength=dimensions), documents)
    values = (generator.random(len(pairs), dtype=np.float32) + np.float32(0.5)) * idf[indices]
    rows = SparseVectors(indptr.astype(np.int64), indices, values, dimensions)
    sets = [Set(f"{terms} terms", drawn(rows, terms, queries, generator)) for terms in (7, 3, 32)]
    df = np.bincount(indices, minlength=dimensions)
    rare = np.flatnonzero((df > 1) & (df <= 50)).astype(np.int32)
    pairs_of_rare = [np.unique(generator.choice(rare, 2, replace=False)) for _ in range(queries)]
    sets.append(Set("2 rare terms", as_queries(pairs_of_rare, dimensions)))
    return Workload(f"Zipf, {documents:,} documents", rows, sets)


def learned(documents: int, queries: int, generator: Generator) -> Workload:
    """Learned-sparse-like: 120 of 30,000 dimensions a document (Zipf exponent 0.7), log-normal weights; 30 a query."""
    dimensions, stored, asked = 30_000, 120, 30
    chance = np.cumsum(1.0 / np.arange(1, dimensions + 1) ** 0.7)

    def rows(count: int, size: int) -> SparseVectors:
        terms = np.searchsorted(chance / chance[-1], generator.random((count, size)))
        pairs = np.unique(np.arange(count, dtype=np.int64)[:, None] * dimensions + terms)
        indptr = np.searchsorted(pairs, np.arange(count + 1, dtype=np.int64) * dimensions).astype(np.int64)
        values = generator.lognormal(0.0, 0.6, len(pairs)).astype(np.float32)
        return SparseVectors(indptr, (pairs % dimensions).astype(np.int32), values, dimensions)

    return Workload(
        f"learned-sparse-like, {documents:,} documents",
        rows(documents, stored),
        [Set("30 weighted", rows(queries, asked))],
    )


def drawn(documents: SparseVectors, terms: int, queries: int, generator: Generator) -> SparseVectors:
    """Queries of terms that stand together: from one document, or the next ones too when it is too short."""

    def one() -> npt.NDArray[np.int32]:
        found: npt.NDArray[np.int32] = np.empty(0, dtype=np.int32)
        while len(found) < terms:
            more = documents.row(int(generator.integers(len(documents))))[0]
            found = np.unique(np.concatenate([found, generator.permutation(more)[: terms - len(found)]]))
        return found

    return as_queries([one() for _ in range(queries)], documents.dimensions)


def as_queries(rows: list[npt.NDArray[np.int32]], dimensions: int) -> SparseVectors:
    indptr = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    return SparseVectors(indptr, np.concatenate(rows), np.ones(int(indptr[-1]), dtype=np.float32), dimensions)


def cpu_ms(work: Callable[[], object]) -> float:
    start = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - start) / 1e6


def warm_cpu_ms(work: Callable[[], object]) -> float:
    """CPU time of the second of two passes: nobody pays for the caches that the tool before left behind."""
    work()
    return cpu_ms(work)


def measure(index: SparseIndex, workload: Workload, queries: SparseVectors, k: int, repeat: int) -> list[float]:
    """Milliseconds a query of harness, bm25s and SciPy, then the two ratios to harness."""
    by_row, by_column = workload.documents.to_scipy(), workload.documents.to_scipy().tocsc()
    theirs = {
        "data": by_column.data,
        "indices": by_column.indices.astype(np.int32),
        "indptr": by_column.indptr.astype(np.int64),
        "num_docs": len(workload.documents),
    }
    terms = [queries.row(row)[0] for row in range(len(queries))]
    dense = [as_dense(queries, row) for row in range(SCIPY_QUERIES)]
    work: list[tuple[Callable[[], object], int]] = [
        (lambda: index.retrieve(queries, k), len(queries)),
        (lambda: bm25s_retrieve(terms, theirs, k=k, show_progress=False, n_threads=1), len(queries)),
        (lambda: [best_of(by_row.dot(vector), k) for vector in dense], SCIPY_QUERIES),
    ]
    rounds = [[warm_cpu_ms(call) / count for call, count in work] for _ in range(repeat)]
    ours, bm25s, scipy = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratios = [statistics.median(row[other] / row[0] for row in rounds) for other in (1, 2)]
    return [ours, bm25s, scipy, *ratios]


def as_dense(queries: SparseVectors, row: int) -> npt.NDArray[np.float32]:
    vector = np.zeros(queries.dimensions, dtype=np.float32)
    columns, weights = queries.row(row)
    vector[columns] = weights
    return vector


def best_of(scores: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
    best = np.argpartition(scores, -k)[-k:]
    return best[np.argsort(-scores[best])]


def lines(workload: Workload, depths: list[int], repeat: int) -> Iterator[str]:
    index = SparseIndex.build(workload.documents)
    postings = 8 * workload.documents.nnz
    yield (
        f"\n{workload.name}: {len(workload.documents):,} documents, {workload.documents.nnz:,} postings; "
        f"the index takes {index.index_bytes / postings:.2f} times the bytes of its postings "
        f"({index.index_bytes / 1e6:.0f} MB).\n"
    )
    yield "| queries | terms | postings | k | harness ms | bm25s ms | SciPy ms | bm25s / harness | SciPy / harness |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    df = np.bincount(workload.documents.indices, minlength=workload.documents.dimensions)
    for name, queries in workload.sets:
        size = f"{queries.nnz / len(queries):.1f} | {df[queries.indices].sum() / len(queries):,.0f}"
        for k in depths:
            ours, bm25s, scipy, to_bm25s, to_scipy = measure(index, workload, queries, k, repeat)
            times = f"{ours:.4f} | {bm25s:.4f} | {scipy:.2f}"
            yield f"| {name} | {size} | {k} | {times} | {to_bm25s:.2f} | {to_scipy:.0f} |"


def default_arxiv() -> Path:
    """Where the collection is that is not bundled."""
    return Path(os.environ.get("HARNESS_SHARED_COLLECTIONS", ROOT.parent / "shared" / "collections")) / "arxiv-50k"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arxiv", type=Path, default=default_arxiv(), help="folder with corpus.jsonl.gz")
    parser.add_argument("--documents", type=int, default=1_000_000, help="documents of the Zipf collection")
    parser.add_argument("--learned", type=int, default=100_000, help="documents of the learned-sparse-like collection")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--only",
        choices=["arxiv", "zipf", "learned"],
        nargs="+",
        help="collections to measure on; all by default, arxiv where its folder is",
    )
    arguments = parser.parse_args()
    makers: dict[str, Callable[[Generator], Workload]] = {
        "arxiv": lambda generator: arxiv(arguments.arxiv, arguments.queries, generator),
        "zipf": lambda generator: synthetic(arguments.documents, arguments.queries, generator),
        "learned": lambda generator: learned(arguments.learned, arguments.queries, generator),
    }
    there = (arguments.arxiv / "corpus.jsonl.gz").is_file()
    for name in arguments.only or [name for name in makers if name != "arxiv" or there]:
        for line in lines(makers[name](np.random.default_rng(arguments.seed)), arguments.k, arguments.repeat):
            print(line, flush=True)


if __name__ == "__main__":
    main()
