"""Chunks of files under random ids, and golden sets that expect files or texts, for external indexes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.testing.expected import random_unit_vectors

CHUNKS: Mapping[str, tuple[str, str]] = {
    "u7": ("pump.md", "The pump lifts water\nfrom the well."),
    "u2": ("pump.md", "Replace the filter of the pump each year."),
    "u9": ("lamp.md", "The lamp lights the yard at night."),
    "u4": ("gate.md", "The gate opens by itself when a car comes."),
}
"""File and text of each chunk, by id."""
INPUTS = Inputs(Ids.of(CHUNKS), dense=random_unit_vectors(3, len(CHUNKS), 8))
TEXTS = [text for _, text in CHUNKS.values()]
FIELDS: list[dict[str, Any]] = [{"source": file} for file, _ in CHUNKS.values()]
_ASKED = "the pump, the filter, the lamp and the gate"
_TEXTS = {"The pump lifts  water from the well.": "u7", "lamp lights the yard at night": "u9"}
_NEARLY = {"The gate opens by itself if a car comes.": "u4"}


def require_matches(against: str, work: Path, *, field: str = "metadata.source", of_texts: bool = False) -> None:
    """Require that files are matched by ``field``, and texts by text and by the share of their words.

    All chunks are returned for each question; ``of_texts`` is true for a backend that reads questions as texts.
    """
    files = [{"id": name, "question": f"{_ASKED} {name}", "expected": [name]} for name in ("pump.md", "gate.md", "no")]
    texts = [
        {"id": doc_id, "question": f"{_ASKED} {doc_id}", "reference_contexts": [text]}
        for text, doc_id in {**_TEXTS, **_NEARLY}.items()
    ]
    names = [question["id"] for question in (*files, *texts)]
    if not of_texts:
        made = work / "made"
        made.mkdir(exist_ok=True)
        np.save(made / "queries.npy", random_unit_vectors(4, len(names), 8))
        (made / "queries.ids.txt").write_text("".join(f"{name}\n" for name in names))
        against = f"{against};model=precomputed:{made}"
    assert _recalls(files, against, match=f"field:{field}") == {"pump.md": 1.0, "gate.md": 1.0, "no": 0.0}
    assert _recalls(texts, against, match="text") == {**dict.fromkeys(_TEXTS.values(), 1.0), "u4": 0.0}
    assert _recalls(texts, against, match="text:0.8") == dict.fromkeys((*_TEXTS.values(), "u4"), 1.0)


def _recalls(golden: list[dict[str, Any]], against: str, match: str) -> dict[str, float | None]:
    """Return the recall of each question among all chunks, with the missing expectation accepted."""
    accept = ["missing-ids", "missing-texts"]
    options: dict[str, Any] = {"k": len(CHUNKS), "isolation": "none", "timing": False, "accept": accept}
    metric = f"Recall@{len(CHUNKS)}"
    result = harness.check(golden, against=against, match=match, metrics=[metric], **options)
    (trial,) = result.report.trials
    assert trial.error is None, trial.error.message
    assert trial.questions, result.report.preflight
    return {question.id: question.values[metric] for question in trial.questions}
