"""Time a comparison of many small datasets, in which starting workers takes longer than searching.

Every dataset has its own texts, drawn from one vocabulary, so that nothing is found in the cache. The comparison runs
with ``--no-timing`` in a new cache: with a worker for each trial (``alone``, which a memory limit enforces), with
workers that trials share, or in the harness's own process. Printed are the seconds from start to end, the processor
seconds of the harness and of all that it started, both also divided by the number of trials, and a digest of each
backend's hits. Scores of Qdrant differ between any two runs in their last bits. The exit code is 1 if a trial fails.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WORKERS = {"alone": ["--memory-limit", "1024GiB"], "shared": [], "none": ["--isolation", "none"]}
WORDS = 2_000
WORDS_PER_DOCUMENT = 60
WORDS_PER_QUERY = 5


def write_dataset(folder: Path, *, documents: int, queries: int, seed: int) -> None:
    """Write a dataset in BEIR's format, whose queries have the document with their first word as relevant."""
    generator = np.random.default_rng(seed)
    texts = generator.zipf(1.3, (documents, WORDS_PER_DOCUMENT)) % WORDS
    questions = np.stack([generator.choice(texts[row % documents], WORDS_PER_QUERY) for row in range(queries)])
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": f"d{row}", "text": _text(words)}) + "\n" for row, words in enumerate(texts))
    )
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": f"q{row}", "text": _text(words)}) + "\n" for row, words in enumerate(questions))
    )
    judged = "".join(f"q{row}\td{row % documents}\t1\n" for row in range(queries))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)


def _text(words: np.ndarray) -> str:
    return " ".join(f"word{word}" for word in words)


def run(folder: Path, datasets: list[Path], options: list[str]) -> tuple[float, float]:
    """Return the seconds and processor seconds of one comparison in a new cache."""
    command = [sys.executable, "-m", "harness", "compare", "--dataset", ",".join(map(str, datasets)), "--no-timing",
               "--out", str(folder / "result"), "--overwrite", "--save-runs", "trec", *options]  # fmt: skip
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory(dir=folder) as cache, (folder / "output.txt").open("w") as output:
        ended = subprocess.run(command, env={**os.environ, "HARNESS_CACHE": cache}, stdout=output, check=False)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode != 0:
        raise SystemExit(f"the comparison ended with exit code {ended.returncode}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def digests_of_runs(result: Path) -> str:
    """Return a digest of the stored hits and scores of each backend; equal scores count in any order."""
    digests: dict[str, Any] = {}
    for path in sorted((result / "runs").rglob("*.trec.gz")):
        hits = [line.split() for line in gzip.decompress(path.read_bytes()).splitlines()]
        digest = digests.setdefault(path.name.partition("_")[0].partition(".")[0], hashlib.sha256())
        digest.update(
            b"\n".join(sorted(b" ".join((query, document, score)) for query, _, document, _, score, _ in hits))
        )
    if not digests:
        raise SystemExit("no runs were stored")
    return ", ".join(f"{name} {digest.hexdigest()[:12]}" for name, digest in digests.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", type=int, default=100)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--backends", default="csr:analyzer=snowball-english,qdrant:analyzer=snowball-english")
    parser.add_argument("--workers", nargs="+", default=["alone", "shared"], choices=list(WORKERS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        datasets = [folder / f"small-{number}" for number in range(arguments.datasets)]
        for number, dataset in enumerate(datasets):
            write_dataset(dataset, documents=arguments.documents, queries=arguments.queries, seed=number)
        trials = len(datasets) * len(arguments.backends.split(","))
        for workers in arguments.workers:
            seconds, processor = run(folder, datasets, ["--backends", arguments.backends, *WORKERS[workers]])
            print(
                f"{workers}: {trials} trials in {seconds:.1f} s, {seconds / trials:.3f} s each; processor "
                f"{processor:.1f} s, {processor / trials:.3f} s each; hits {digests_of_runs(folder / 'result')}",
                flush=True,
            )


if __name__ == "__main__":
    main()
