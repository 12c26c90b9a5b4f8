"""Time to fetch the hits of one Lucene query into arrays, beside the search itself.

The four ways take turns on every query; the table holds percentiles over all queries that have k hits.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from harness.data.dataset import Dataset
from harness.data.inputs import Inputs
from harness.engines.lucene.bm25 import LuceneEngine
from harness.engines.lucene.engine import Hits
from harness.java.bridge import JavaBridge
from harness.loaders import load_dataset
from harness.registry.lookup import find_cards
from harness.testing import RecordingProgress

Read = Callable[[Any], Hits]


def by_json(bridge: JavaBridge) -> Read:
    """Jackson writes the TopDocs, orjson reads it."""

    mapper = bridge.load("com.fasterxml.jackson.databind.ObjectMapper")()

    def read(top_docs: Any) -> Hits:
        hits = orjson.loads(bytes(mapper.writeValueAsBytes(top_docs)))["scoreDocs"]
        return Hits(
            np.fromiter((hit["doc"] for hit in hits), dtype=np.int32, count=len(hits)),
            np.fromiter((hit["score"] for hit in hits), dtype=np.float32, count=len(hits)),
        )

    return read


def one_by_one(top_docs: Any) -> Hits:
    """What a caller of pyjnius would write: one proxy per hit, two attributes of each."""
    hits = top_docs.scoreDocs
    return Hits(
        np.array([hit.doc for hit in hits], dtype=np.int32), np.array([hit.score for hit in hits], dtype=np.float32)
    )


def measure(dataset: Dataset, folder: Path, k: int, rounds: int) -> dict[str, list[float]]:
    engine = LuceneEngine(find_cards("backends")["lucene"].defaults)
    engine.open(folder, dataset.corpus.ids)
    engine.index(Inputs(dataset.corpus.ids, texts=dataset.corpus.texts), RecordingProgress(), time.perf_counter_ns)
    readers: dict[str, Read] = {
        "one block of bytes (ours)": engine.hits,
        "Jackson and orjson": by_json(engine.bridge),
        "hit by hit": one_by_one,
    }
    times_ms: dict[str, list[float]] = {name: [] for name in ("search alone", *readers)}
    queries = engine.prepare(dataset.queries.texts, k)
    for turn in range(rounds + 3):
        for query in queries:
            started = time.perf_counter()
            top_docs = engine.retrieve(query, k)
            taken = [("search alone", time.perf_counter() - started)]
            found = []
            for name, read in readers.items():
                started = time.perf_counter()
                found.append(read(top_docs))
                taken.append((name, time.perf_counter() - started))
            assert all(np.array_equal(one, two) for other in found for one, two in zip(found[0], other, strict=True))
            if turn >= 3 and len(found[0].documents) == k:
                for name, seconds in taken:
                    times_ms[name].append(seconds * 1e3)
    engine.close()
    return times_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="cacm", help="a dataset's name or path")
    parser.add_argument("--k", type=int, default=1000, help="hits per query")
    parser.add_argument("--rounds", type=int, default=10, help="rounds over all queries after three of warm-up")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        times_ms = measure(load_dataset(options.dataset), Path(folder), options.k, options.rounds)
    print(f"k = {options.k}, n = {len(times_ms['search alone'])} searches\n")
    print("| step | p50 ms | p95 ms | p99 ms |")
    print("|---|--:|--:|--:|")
    for name, taken in times_ms.items():
        p50, p95, p99 = np.percentile(taken, [50, 95, 99])
        print(f"| {name} | {p50:.3f} | {p95:.3f} | {p99:.3f} |")


if __name__ == "__main__":
    main()
