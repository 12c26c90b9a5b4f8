"""A few documents with titles and rooms, and the requirement that engines' own explanations agree with references."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from harness.results.explanation import Explanation

_RECORDS = [
    {"_id": "d1", "title": "Fuse", "text": "the fuse panel and the wire of a fuse", "metadata": {"room": "shed"}},
    {"_id": "d2", "title": "Panels", "text": "panel " * 60 + "fuse", "metadata": {"room": "hall"}},
    {"_id": "d3", "title": "", "text": "wires, fuses and a garden", "metadata": {"room": "shed"}},
    {"_id": "d4", "title": "Garden fuse", "text": "a garden", "metadata": {"room": "shed"}},
    {"_id": "d5", "title": "Shed", "text": "the shed behind the wall", "metadata": {"room": "shed"}},
]


def write_rooms(folder: Path) -> Path:
    """Write the documents and a query, q1, into a new folder, and return it."""
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in _RECORDS))
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "fuse panels fuse"}) + "\n")
    return folder


def require_agreement(explanation: Explanation, *, documents: int) -> None:
    """Require that every backend's engine explained this many documents, in every number as the reference computes."""
    for backend in explanation.backends:
        explained = [document for document in backend.documents if document.engine is not None]
        assert len(explained) == documents, (backend.label, backend.note)
        for document in explained:
            engine = document.engine
            assert engine is not None
            assert engine.tree is not None
            assert engine.note == ""
            assert engine.first_difference is None
            assert np.float32(engine.tree.value) == np.float32(document.score)
            of_term = {
                number.name for number in engine.numbers if number.exact is not None and number.engine is not None
            }
            assert {*"nNb", "freq", "dl", "avgdl", "k1", "idf", "tf", "boost", "contribution", "score"} == of_term
