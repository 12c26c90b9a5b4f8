"""Exact dense top-k: harness.exact.DenseIndex against the matrix product alone, one thread, in one process.

The product is what BLAS reaches: NumPy's matmul of the same float32 arrays, and nothing done with the result, in the
fastest of several sizes of blocks, found anew in every round. DenseIndex finds the best k and scores them exactly.
faiss, where it is installed, is asked for the same (IndexFlatIP, whose scores are float32 sums and whose ties are in no
stated order). Rounds are interleaved; times are CPU time of the calling thread, medians over the rounds, and the share
is the median of the rounds' shares.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from harness.data.types import Float32Array
from harness.exact import DenseIndex
from harness.exact.dense.search import Blocks, single_threaded_blas

BLOCKS = (Blocks(256, 1024), Blocks(256, 768), Blocks(512, 768), Blocks(1000, 512), Blocks(1000, 768))
"""Where BLAS was fastest, of sizes from 128 to 1,000 queries and 256 to all documents."""


def drawn(count: int, dimensions: int, centres: int, generator: np.random.Generator) -> Float32Array:
    """Unit vectors around so many centres, as those of texts on so many subjects."""
    middle = np.random.default_rng(1).standard_normal((centres, dimensions))
    vectors = middle[generator.integers(centres, size=count)] + generator.standard_normal((count, dimensions))
    return np.ascontiguousarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def product(documents: Float32Array, queries: Float32Array, blocks: Blocks) -> None:
    out = np.empty(blocks, dtype=np.float32)
    with single_threaded_blas():
        for start in range(0, len(queries), blocks.queries):
            some = queries[start : start + blocks.queries]
            for first in range(0, len(documents), blocks.documents):
                several = documents[first : first + blocks.documents]
                np.matmul(some, several.T, out=out[: len(some), : len(several)])


def faiss_search(documents: Float32Array, queries: Float32Array) -> Callable[[int], object] | None:
    if find_spec("faiss") is None:
        return None
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(documents.shape[1])
    index.add(documents)
    return lambda k: index.search(queries, k)


def cpu_ms(work: Callable[[], object]) -> float:
    start = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - start) / 1e6


def compared(index: DenseIndex, queries: Float32Array, k: int, other: Callable[[int], object] | None) -> list[float]:
    """Milliseconds a query of the product and of DenseIndex, their ratio, and faiss's milliseconds."""
    alone = min(cpu_ms(lambda size=size: product(index.vectors, queries, size)) for size in BLOCKS) / len(queries)
    ours = cpu_ms(lambda: index.retrieve(queries, k)) / len(queries)
    theirs = cpu_ms(lambda: other(k)) / len(queries) if other is not None else float("nan")
    return [alone, ours, alone / ours, theirs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[50_000, 100_000])
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--centres", type=int, default=200)
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100, 1_000])
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    generator = np.random.default_rng(7)
    print(f"load average {os.getloadavg()[0]:.1f}")
    print("| documents | k | product, ms/query | DenseIndex, ms/query | share of BLAS | faiss, ms/query |")
    print("|---|---|---|---|---|---|")
    for count in options.documents:
        documents = drawn(count, options.dimensions, options.centres, generator)
        queries = drawn(options.queries, options.dimensions, options.centres, generator)
        index, other = DenseIndex.build(documents), faiss_search(documents, queries)
        index.retrieve(queries[:64], 10)
        for k in options.k:
            rounds = [compared(index, queries, k, other) for _ in range(options.repeat)]
            alone, ours, share, theirs = (statistics.median(column) for column in zip(*rounds, strict=True))
            peer = "not installed" if other is None else f"{theirs:.3f}"
            print(f"| {count:,} | {k:,} | {alone:.3f} | {ours:.3f} | {share:.0%} | {peer} |", flush=True)


if __name__ == "__main__":
    main()
