"""Documents analysed per second, once warm: Lucene counted and in bulk, Lucene text by text, Snowball, white space.

Every way analyses the same documents in turn, round after round; the table holds medians over the rounds. CPU seconds
count all threads of the process, the JVM's compiler and collector among them, and hardly depend on a busy machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

from harness.loaders import load_corpus
from harness.text import create_analyzer
from harness.text.lucene_analyzer import LuceneAnalyzer

Analyze = Callable[[Sequence[str]], object]


def text_by_text(analyzer: LuceneAnalyzer) -> Analyze:
    """What a caller of pyjnius would write: one call and one Java list per text."""
    utilities = analyzer.bridge.load("io.anserini.analysis.AnalyzerUtils")

    def analyze(texts: Sequence[str]) -> list[list[str]]:
        return [list(utilities.analyze(analyzer.java, text).toArray()) for text in texts]

    return analyze


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="cacm", help="a dataset's name or path")
    parser.add_argument("--documents", type=int, default=3204, help="how many of its documents")
    parser.add_argument("--rounds", type=int, default=15, help="rounds after three of warm-up")
    options = parser.parse_args()
    texts = load_corpus(options.dataset).texts.slice(0, options.documents).to_pylist()
    lucene = LuceneAnalyzer("english")
    ways: dict[str, Analyze] = {
        "lucene-english, counted": lambda texts: lucene.counter().add(texts),
        "lucene-english, in bulk": lucene.analyze,
        "lucene-english, text by text": text_by_text(lucene),
        "lucene-german, in bulk": create_analyzer("lucene-german").analyze,
        "snowball-english": create_analyzer("snowball-english").analyze,
        "whitespace": create_analyzer("whitespace").analyze,
    }
    assert ways["lucene-english, in bulk"](texts) == ways["lucene-english, text by text"](texts)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(options.rounds + 3):
        for name, analyze in ways.items():
            started, cpu_started = time.perf_counter(), time.process_time()
            analyze(texts)
            taken, cpu_taken = time.perf_counter() - started, time.process_time() - cpu_started
            if turn >= 3:
                seconds[name].append(taken)
                cpu_seconds[name].append(cpu_taken)
    base = statistics.median(seconds["lucene-english, text by text"])
    print(f"{len(texts)} documents of {sum(map(len, texts)) / len(texts):.0f} characters, {options.rounds} rounds\n")
    print("| analyzer | documents/s | documents per CPU second | against text by text |")
    print("|---|--:|--:|--:|")
    for name in ways:
        median, cpu = statistics.median(seconds[name]), statistics.median(cpu_seconds[name])
        print(f"| {name} | {len(texts) / median:,.0f} | {len(texts) / cpu:,.0f} | {base / median:.1f} x |")


if __name__ == "__main__":
    main()
