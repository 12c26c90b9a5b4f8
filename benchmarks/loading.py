"""Time and memory of preparing and opening a corpus, against reading it into a dictionary as BEIR's own loader does.

The corpus is made: Zipf-distributed words, titles of 10 and texts of 150 words. Every measurement is a process of its
own; the memory is the peak of its anonymous memory above its state before loading.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

HARNESS = """
from harness.store.cache import Cache
from harness.loaders import load_corpus
start()
corpus = load_corpus(folder, cache=Cache(cache))
stop(len(corpus))
"""

DICTIONARY = """
import json
start()
corpus = {}
with open(folder / "corpus.jsonl", encoding="utf-8") as stream:
    for line in stream:
        record = json.loads(line)
        corpus[record["_id"]] = {"title": record.get("title"), "text": record.get("text")}
stop(len(corpus))
"""

PROGRAMS = {
    "first load: parse, check, join, prepare": HARNESS,
    "second load: verify checksums, memory-map": HARNESS,
    "dictionary of dictionaries (json)": DICTIONARY,
}

FRAME = """
import sys, threading, time
from pathlib import Path
folder, cache = Path(sys.argv[1]), Path(sys.argv[2])
peak, done = 0, threading.Event()

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

def watch():
    global peak
    while not done.wait(0.02):
        peak = max(peak, anonymous())

def start():
    global began, cpu, before
    before = anonymous()
    threading.Thread(target=watch, daemon=True).start()
    began, cpu = time.perf_counter_ns(), time.process_time_ns()

def stop(count):
    took, busy = time.perf_counter_ns() - began, time.process_time_ns() - cpu
    last = anonymous()
    done.set()
    print(count, took, busy, max(peak, last) - before)
"""


def make(folder: Path, documents: int) -> int:
    """Write a corpus and return its bytes."""
    generator = random.Random(7)
    words = [f"{generator.getrandbits(32):x}"[: generator.randint(3, 8)] for _ in range(50_000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    stock = generator.choices(words, weights, k=2_000_000)
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as stream:
        for number in range(documents):
            at = generator.randrange(len(stock) - 200)
            title, text = " ".join(stock[at : at + 10]), " ".join(stock[at : at + 150])
            stream.write(json.dumps({"_id": f"d{number}", "title": title, "text": text}) + "\n")
    return (folder / "corpus.jsonl").stat().st_size


def measure(program: str, folder: Path, cache: Path, documents: int) -> tuple[float, float, float]:
    """Seconds, CPU seconds and MB of one fresh process."""
    command = [sys.executable, "-c", FRAME + program, str(folder), str(cache)]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    count, took_ns, busy_ns, peak_kib = map(int, output.split())
    assert count == documents
    return took_ns / 1e9, busy_ns / 1e9, peak_kib / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=300_000)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        size = make(folder, arguments.documents)
        for turn in range(arguments.repeat):
            for name, program in PROGRAMS.items():
                results[name].append(measure(program, folder, folder / f"cache{turn}", arguments.documents))
    print(f"{arguments.documents:,} documents, {size / 1e6:,.0f} MB of JSON Lines, median of {arguments.repeat}\n")
    print("| | seconds | CPU seconds | anonymous memory, MB |\n|---|--:|--:|--:|")
    for name, runs in results.items():
        seconds, busy, memory = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"| {name} | {seconds:.2f} | {busy:.2f} | {memory:,.0f} |")


if __name__ == "__main__":
    main()
