"""How much of the nearest neighbours Chroma finds among 20,000 random directions, at its defaults and with more effort.

Random directions have no clusters, which is the hardest case for a graph: real texts are much easier. Each line is a
build of its own, because two builds from the same vectors give two graphs. The frontier after them is of one build,
which a sweep searches with more and more effort.

    pip install 'retrieval-harness[chroma]'
    python examples/chroma_graph.py
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import numpy as np

import harness
from harness.data.inputs import Inputs
from harness.data.types import Float32Array as Vectors
from harness.data.types import Ids
from harness.engines.chroma.engine import ChromaEngine
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue

SETTINGS: Mapping[str, Mapping[str, ParameterValue]] = {
    "defaults": {},
    "ef_search=400": {"ef_search": 400},
    "ef_search=400;max_neighbors=32": {"ef_search": 400, "max_neighbors": 32},
}

EFFORTS = "10,50,100,400"


class Quiet:
    def start(self, phase: str, total: int | None) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass


def directions(seed: int, count: int, dimensions: int) -> Vectors:
    """Unit vectors drawn evenly, float32 (count, dimensions)."""
    drawn = np.random.default_rng(seed).standard_normal((count, dimensions))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def measure(vectors: Vectors, asked: Vectors, k: int, changed: Mapping[str, ParameterValue]) -> dict[str, float]:
    """Build, search, and compare with the exact result: recall@k, milliseconds a query (median), seconds to build."""
    documents = Inputs(Ids.of(f"d{row}" for row in range(len(vectors))), dense=vectors)
    queries = Inputs(Ids.of(f"q{row}" for row in range(len(asked))), dense=asked)
    parameters = {**find_cards("backends")["chroma"].defaults, **changed}
    with tempfile.TemporaryDirectory() as folder, closing(ChromaEngine(parameters)) as engine:
        engine.open(Path(folder), documents.ids)
        report = engine.index(documents, Quiet(), time.perf_counter_ns)
        found = engine.search(queries, k, time.perf_counter_ns)
    exact, shares = np.argsort(-(asked @ vectors.T), axis=1)[:, :k], []
    for query, rows in enumerate(exact):
        hits = found.rows[found.indptr[query] : found.indptr[query + 1]]
        shares.append(len(np.intersect1d(hits, rows)) / k)
    return {
        "recall": float(np.mean(shares)),
        "p50_ms": float(np.median(found.search_ns)) / 1e6,
        "build_s": (report.index_ns + report.ready_ns) / 1e9,
        "in_graph": float(report.state["vectors_in_graph"]),
    }


def frontier(documents: int, dimensions: int, queries: int, k: int) -> list[tuple[str, float, float, bool]]:
    """Value of ef_search, recall@k, milliseconds a query (median), and whether no other value beats both."""
    model = f"model=random;truncate_dim={dimensions}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "directions"
        folder.mkdir()
        for file, role, count in (("corpus.jsonl", "d", documents), ("queries.jsonl", "q", queries)):
            lines = (json.dumps({"_id": f"{role}{n}", "text": f"direction {n}"}) for n in range(count))
            (folder / file).write_text("\n".join(lines), encoding="utf-8")
        os.environ["HARNESS_CACHE"] = str(Path(name) / "cache")
        sweep = f"chroma:{model};max_neighbors=32;ef_search={EFFORTS}"
        compared = harness.compare([f"flat:{model}"], folder, sweep=sweep, k=k)
    points = compared.frontier()
    rows = zip(points["value"], points["quality"], points["p50_ms"], points["on_frontier"], strict=True)
    return [(str(value), float(recall), float(p50), bool(best)) for value, recall, p50, best in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--k", type=int, default=10)
    given = parser.parse_args()
    vectors = directions(1, given.documents, given.dimensions)
    asked = directions(2, given.queries, given.dimensions)
    print(f"| chroma | recall@{given.k} | ms a query, p50 | s to build | vectors in the graph |")
    print("|---|--:|--:|--:|--:|")
    for name, changed in SETTINGS.items():
        one = measure(vectors, asked, given.k, changed)
        told = f"{one['recall']:.2f} | {one['p50_ms']:.2f} | {one['build_s']:.1f} | {one['in_graph']:,.0f}"
        print(f"| {name} | {told} |", flush=True)
    print(f"\n| max_neighbors=32, ef_search | recall@{given.k} | ms a query, p50 | on the frontier |")
    print("|---|--:|--:|--:|")
    for value, recall, p50, best in frontier(given.documents, given.dimensions, given.queries, given.k):
        print(f"| {value} | {recall:.2f} | {p50:.2f} | {'yes' if best else 'no'} |")


if __name__ == "__main__":
    main()
