"""A small comparison whose first hits nobody has judged, stored in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import harness
from harness.results.comparison import Comparison

QUERIES = {f"q{number}": f"word{number} shared" for number in range(6)}
TEXTS = {
    f"d{number}": f"word{number % 6} shared text number {number} {'shared ' * (number % 4)}{'long ' * number}"
    for number in range(30)
}


def write_dataset(folder: Path) -> Path:
    """Write the documents, the queries and one judgment a query in BEIR's layout."""
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", TEXTS), ("queries", QUERIES)):
        lines = (json.dumps({"_id": id_, "text": text}) + "\n" for id_, text in texts.items())
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    rows = (f"{query}\td{number}\t1\n" for number, query in enumerate(QUERIES))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows), encoding="utf-8")
    return folder


def small_result(folder: Path) -> Comparison:
    """Compare two settings of one engine, which differ in the length of documents, and store the result."""
    return harness.compare(
        {"plain": "csr:b=0", "by-length": "csr:b=1"},
        str(write_dataset(folder / "data")),
        k=10,
        metrics="nDCG@5,P@5",
        timing=False,
        isolation="none",
        out=folder / "result",
    )
