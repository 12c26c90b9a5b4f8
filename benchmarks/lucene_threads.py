"""Does the bridge to the JVM release Python's lock, and may threads share an engine?

Two threads sleep inside Java at the same time: that takes as long as one of them sleeps only when the lock is released.
Then four threads share one engine of the harness: passes that fail or answer otherwise than one thread are counted.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.data.inputs import Inputs
from harness.engines.lucene.bm25 import LuceneEngine
from harness.errors import HarnessError
from harness.loaders import load_dataset
from harness.registry.lookup import find_cards
from harness.testing import RecordingProgress


def in_threads(work: Callable[[], None], threads: int) -> float:
    """Seconds until so many threads have done the same work."""
    running = [threading.Thread(target=work) for _ in range(threads)]
    started = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return time.perf_counter() - started


def failures(engine: LuceneEngine, queries: Inputs, passes: int) -> list[str]:
    expected = engine.search(queries, 100, time.perf_counter_ns)
    wrong: list[str] = []

    def search() -> None:
        for _ in range(passes):
            try:
                found = engine.search(queries, 100, time.perf_counter_ns)
            except HarnessError as error:
                wrong.append(error.problem.splitlines()[0])
                continue
            if not np.array_equal(found.rows, expected.rows):
                wrong.append("other documents")

    in_threads(search, 4)
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="cacm", help="a dataset's name or path")
    parser.add_argument("--passes", type=int, default=100, help="passes of each of four threads on one engine")
    given = parser.parse_args()
    dataset = load_dataset(given.dataset)
    documents, queries = (Inputs(part.ids, texts=part.texts) for part in (dataset.corpus, dataset.queries))
    with tempfile.TemporaryDirectory() as folder:
        engine = LuceneEngine(find_cards("backends")["lucene"].defaults)
        engine.open(Path(folder), documents.ids)
        engine.index(documents, RecordingProgress(), time.perf_counter_ns)
        sleep = engine.bridge.load("java.lang.Thread").sleep
        together = in_threads(lambda: sleep(500), 2)
        print(f"Two threads that each sleep 0.5 s inside Java take {together:.2f} s.")
        wrong = failures(engine, queries, given.passes)
        engine.close()
    print(f"\n{len(wrong)} of {4 * given.passes} passes on a shared engine went wrong.")
    for reason in sorted(set(wrong)):
        print(f"- {reason}")


if __name__ == "__main__":
    main()
