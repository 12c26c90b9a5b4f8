"""Stored results of tiny data, of every kind, for tests of the verbs that read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import harness

DOCUMENTS = {
    "d1": "fuse panel fuse wire",
    "d2": "the fuse of the house is in the garden shed behind the old wall",
    "d3": "panels and wires of a panel",
    "d4": "garden",
    "d5": "zeppelin over the sea",
}
QUERIES = {"q1": "The fuse panels", "q2": "zeppelin garden"}
LONG = {f"d{number}": f"fuse {number}" for number in range(9)}
GOLDEN = [
    {"id": "q1", "question": QUERIES["q1"], "expected": ["d2", "d4"]},
    {"id": "q2", "question": QUERIES["q2"], "expected": ["d5"]},
]
BACKEND = "csr:analyzer=snowball-english"
QUICK: dict[str, Any] = {"backends": BACKEND, "timing": False, "isolation": "none"}


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def write_dataset(folder: Path, documents: Mapping[str, str] = DOCUMENTS) -> Path:
    """Write a dataset in BEIR's layout, with a golden set next to its documents."""
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", documents), ("queries", QUERIES)):
        room = {"d4": "shed"}
        write_lines(
            folder / f"{name}.jsonl",
            [{"_id": key, "text": text, "metadata": {"room": room.get(key, "hall")}} for key, text in texts.items()],
        )
    judged = "query-id\tcorpus-id\tscore\nq1\td2\t1\nq1\td4\t2\nq1\td1\t0\nq2\td5\t1\n"
    (folder / "qrels" / "test.tsv").write_text(judged)
    write_lines(folder / "golden.jsonl", GOLDEN)
    return folder


def store_comparison(house: Path, target: Path, **options: Any) -> Path:
    harness.compare(**{"dataset": str(house), "out": target, "k": 2, **QUICK, **options})
    return target


def store_check(house: Path, target: Path, **options: Any) -> Path:
    golden, corpus = str(house / "golden.jsonl"), str(house / "corpus.jsonl")
    harness.check(golden, **{"corpus": corpus, "k": 2, "out": target, **QUICK, **options})
    return target


def answer(question: str, k: int) -> list[str]:
    return ["d3", "d1"][:k]


def broken(question: str, k: int) -> list[str]:
    raise ValueError("the service is down")
