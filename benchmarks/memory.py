"""Peak memory of preparing, analysing, weighing and exactly searching passages of MS MARCO's shape.

The passages are made: 55 words of a Zipf-distributed vocabulary of a million, whose most frequent are stop words. Each
stage is a process of its own and does what that of a comparison does, with the files of the stage before; what is on
disk and memory-mapped is not anonymous memory. The line through the last two sizes tells what 8.8 million take.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
MS_MARCO = 8_841_823

STOP_WORDS = ("the", "of", "and", "a", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by", "on")

FRAME = """
import sys, threading, time
from pathlib import Path
folder, analyzer = Path(sys.argv[1]), sys.argv[2]
peaks, done = {"RssAnon": 0, "VmHWM": 0}, threading.Event()

def look():
    with open("/proc/self/status") as status:
        for line in status:
            name = line.partition(":")[0]
            if name in peaks:
                peaks[name] = max(peaks[name], int(line.split()[1]))

def watch():
    while not done.wait(0.02):
        look()

threading.Thread(target=watch, daemon=True).start()
began, cpu = time.perf_counter(), time.process_time()

def stop(count):
    took, busy = time.perf_counter() - began, time.process_time() - cpu
    done.set()
    look()
    print(count, took, busy, peaks["RssAnon"] / 1024, peaks["VmHWM"] / 1024)
"""

PROGRAMS = {
    "prepare": """
from harness.loaders import load_corpus
from harness.store.cache import Cache
corpus = load_corpus(folder, cache=Cache(folder / "cache"))
(folder / "prepared").write_text(str(corpus.path))
stop(len(corpus))
""",
    "analyse": """
from harness.store.columns import load_table
from harness.text import count_terms, create_analyzer, save_counts
texts = load_table(Path((folder / "prepared").read_text())).column("text")
queries = (folder / "queries.txt").read_text().splitlines()
batches = (texts.slice(start, 1_000) for start in range(0, len(texts), 1_000))
(folder / "counts").mkdir()
counts = count_terms(create_analyzer(analyzer), batches, queries, total=len(texts), folder=folder / "counts")
save_counts(folder / "counts", counts)
stop(len(counts.documents))
""",
    "weigh": """
from harness.encoders.bm25 import document_weights
from harness.store.columns import save_sparse
from harness.text import load_counts
weights = document_weights(load_counts(folder / "counts"))
save_sparse(folder / "counts", "weights", weights)
stop(len(weights))
""",
    "index and search": """
from harness.exact import SparseIndex
from harness.store.columns import load_sparse, load_table
from harness.data.types import Ids
documents, queries = (load_sparse(folder / "counts", name) for name in ("weights", "queries"))
ids = Ids(load_table(Path((folder / "prepared").read_text())).column("id").combine_chunks())
SparseIndex.build(documents, idf="bm25", tie_break=ids.tie_rank).save(folder / "index")
index = SparseIndex.load(folder / "index", verify=False)
found = index.retrieve(queries, 1000)
assert len(found.rows)
stop(len(index))
""",
}


class Measured(NamedTuple):
    """One stage: seconds, CPU seconds, peak anonymous and resident MiB."""

    seconds: float
    cpu: float
    anonymous: float
    resident: float


def make(folder: Path, documents: int, queries: int) -> None:
    """Write a corpus of passages, and queries of six words."""
    generator = np.random.default_rng(7)
    chance = np.cumsum(1.0 / np.arange(1, 1_000_001))
    ranks = np.searchsorted(chance / chance[-1], generator.random(10_000_000))
    stock = [STOP_WORDS[rank] if rank < len(STOP_WORDS) else f"w{rank:x}" for rank in ranks.tolist()]
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as stream:
        for number, at in enumerate(generator.integers(len(stock) - 55, size=documents).tolist()):
            stream.write(json.dumps({"_id": f"d{number}", "text": " ".join(stock[at : at + 55])}) + "\n")
    starts = generator.integers(len(stock) - 6, size=queries).tolist()
    (folder / "queries.txt").write_text("\n".join(" ".join(stock[at : at + 6]) for at in starts), encoding="utf-8")


def measure(program: str, folder: Path, analyzer: str, documents: int) -> Measured:
    """Run a stage in a fresh process."""
    command = [sys.executable, "-c", FRAME + program, str(folder), analyzer]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    count, *measured = output.splitlines()[-1].split()
    assert int(count) == documents
    return Measured(*map(float, measured))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = [250_000, 500_000, 1_000_000, 2_000_000, 4_000_000]
    parser.add_argument("--documents", type=int, nargs="+", default=sizes)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--analyzer", default="lucene-english")
    parser.add_argument("--folder", type=Path, help="where there is room: 1.5 kB a passage")
    arguments = parser.parse_args()
    curves: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    print("| passages | stage | seconds | CPU seconds | anonymous MiB | resident MiB |\n|--:|---|--:|--:|--:|--:|")
    for documents in arguments.documents:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
            folder = Path(temporary)
            make(folder, documents, arguments.queries)
            for name, program in PROGRAMS.items():
                found = measure(program, folder, arguments.analyzer, documents)
                curves[name].append(found.anonymous)
                numbers = f"{found.seconds:.1f} | {found.cpu:.1f} | {found.anonymous:,.0f} | {found.resident:,.0f}"
                print(f"| {documents:,} | {name} | {numbers} |", flush=True)
    if len(arguments.documents) > 1:
        before, last = arguments.documents[-2:]
        for name, (*_, lower, upper) in curves.items():
            expected = upper + (upper - lower) / (last - before) * (MS_MARCO - last)
            print(f"| {MS_MARCO:,} | {name}, by extrapolation | – | – | {expected:,.0f} | – |")


if __name__ == "__main__":
    main()
