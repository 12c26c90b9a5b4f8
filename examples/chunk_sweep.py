"""Which size and overlap of chunks find the evidence? The bundled documents are cut anew for each setting.

    python examples/chunk_sweep.py 250 500 500/125 1000

A setting is SIZE or SIZE/OVERLAP, in characters. The five documents of `chunking-eval` are put together from its
chunks, which follow each other without a gap. The evidence of a question is the text of the chunks that it expects: a
new chunk is relevant where it shares half of its own text, or half of an expected chunk's, with the evidence.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

import harness

DATA = Path(__file__).resolve().parents[1] / "datasets" / "chunking-eval"
METRICS = "Hit@1,Hit@5,MRR@10"
LAST_CHUNK = 200
"""A rest that is shorter joins the chunk before it."""


class Span(NamedTuple):
    """A stretch of characters of one document."""

    document: str
    start: int
    end: int

    def shares_half_with(self, other: Span) -> bool:
        """Return whether the common characters are at least half of one of the two."""
        common = min(self.end, other.end) - max(self.start, other.start)
        return self.document == other.document and 2 * common >= min(self.end - self.start, other.end - other.start)


def read(name: str) -> list[dict[str, Any]]:
    """Return the records of a file of the dataset."""
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def cut(text: str, size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each chunk of a text, in order."""
    start = 0
    while len(text) - start > size + LAST_CHUNK:
        yield start, start + size
        start += size - overlap
    yield start, len(text)


def setting_of(text: str) -> tuple[int, int]:
    """Return size and overlap in SIZE or SIZE/OVERLAP; exits with a message for anything else."""
    size, _, overlap = text.partition("/")
    if not (size.isdecimal() and (overlap or "0").isdecimal() and int(overlap or 0) < int(size)):
        sys.exit(f"'{text}' is no setting: give SIZE or SIZE/OVERLAP in characters, the overlap less than the size")
    return int(size), int(overlap or 0)


def main() -> None:
    """Print one row for each setting."""
    settings = {text: setting_of(text) for text in sys.argv[1:]}
    if not settings:
        sys.exit(__doc__)
    documents, spans = dict[str, str](), dict[str, Span]()
    for chunk in read("corpus.jsonl.gz"):
        place = chunk["metadata"]
        documents[place["document"]] = documents.get(place["document"], "") + chunk["text"]
        spans[chunk["_id"]] = Span(place["document"], place["start"], place["end"])
    questions = [question for question in read("golden.jsonl.gz") if question["expected_relevant_doc_ids"]]
    queries = {question["id"]: question["question"] for question in questions}
    evidence = {
        question["id"]: [spans[chunk] for chunk in question["expected_relevant_doc_ids"]] for question in questions
    }
    rows = []
    for setting, (size, overlap) in settings.items():
        chunks = {
            f"{document}-{start}": Span(document, start, end)
            for document, text in documents.items()
            for start, end in cut(text, size, overlap)
        }
        corpus = {name: documents[span.document][span.start : span.end] for name, span in chunks.items()}
        qrels = {
            query: {
                name: 1 for name, span in chunks.items() if any(span.shares_half_with(expected) for expected in wanted)
            }
            for query, wanted in evidence.items()
        }
        dataset = harness.Dataset.of(corpus, queries, qrels, name=f"chunks of {setting}")
        found = harness.compare(["csr"], dataset, metrics=METRICS, k=10, timing=False, isolation="none")
        means = [metric.mean for metric in found.report.trials[0].metrics.values()]
        measured = dict(zip(METRICS.split(","), means, strict=True))
        rows.append({"size/overlap": setting, "chunks": len(chunks), **measured})
    sys.stdout.write(pd.DataFrame(rows).round(4).to_string(index=False) + "\n")


if __name__ == "__main__":
    main()
