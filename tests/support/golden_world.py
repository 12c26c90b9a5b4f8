"""A golden set of five questions about four chunks, and a check of it that runs in a second, without any client."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

CHUNKS = {
    "fruit#0": "apples and pears grow on trees",
    "fruit#1": "apples are pressed for juice and pears too",
    "fish#0": "trout swim in rivers",
    "fish#10": "salmon swim upstream to spawn",
}
HOSTILE = "trees | `rm` ``` @somebody <script>alert(1)</script> \x1b[31m %0A::error::"
QUESTIONS: Sequence[Mapping[str, object]] = (
    {"id": "f", "question": "apples pears juice", "expected": ["fruit"], "lang": "en"},
    {"id": "s", "question": "salmon spawn", "expected": ["fish"], "lang": "de"},
    {"id": "x", "question": HOSTILE, "expected": ["fish"], "lang": "de"},
    {"id": "none", "question": "who invented the wheel", "expected": []},
    {"id": "t", "question": "trout rivers", "expected": ["fish"], "lang": "en"},
)
QUICK = {
    "backends": "csr:analyzer=whitespace",
    "match": "document",
    "delimiter": "#",
    "isolation": "none",
    "timing": False,
}
LABEL = "csr:analyzer=whitespace"
COMMAND = ("--backends", LABEL, "--match", "document", "--delimiter", "#", "--isolation", "none", "--no-timing")


def write_golden_world(folder: Path, questions: Sequence[Mapping[str, object]] = QUESTIONS) -> tuple[Path, Path]:
    """``golden.jsonl`` and ``chunks.jsonl``."""
    golden, corpus = folder / "golden.jsonl", folder / "chunks.jsonl"
    golden.write_text("".join(json.dumps(one) + "\n" for one in questions), encoding="utf-8")
    lines = (json.dumps({"_id": name, "text": text}) + "\n" for name, text in CHUNKS.items())
    corpus.write_text("".join(lines), encoding="utf-8")
    return golden, corpus
