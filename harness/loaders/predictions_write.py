"""Writes the hits of a model on the subsets of one task as MTEB's predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import orjson

from harness.data.arrow import numbers
from harness.data.types import Run
from harness.store.disk import replacing

_MODEL = "mteb_model_meta"


def predictions_name(task: str) -> str:
    """Return MTEB's file name for the predictions of a task in a model's folder."""
    return f"{task}_predictions.json"


def write_predictions(
    path: Path, subsets: Mapping[str, Mapping[str, Run]], *, model: str, revision: str | None = None
) -> None:
    """Write ``{subset: {split: {query id: {document id: score}}}}`` and the model's name, as MTEB does.

    Documents are in the engine's order; readers sort by score, written with the fewest digits that give the same
    float32 again. A query without hits has an empty object. The file appears complete or not at all.
    """
    meta = {"model_name": model, "revision": revision}
    with replacing(path) as stream:
        stream.write(b'{"%s":%s' % (_MODEL.encode(), orjson.dumps(meta)))
        for subset, splits in subsets.items():
            stream.write(b",%s:{" % orjson.dumps(subset))
            for number, (split, run) in enumerate(splits.items()):
                stream.write(b"%s%s:{" % (b"," if number else b"", orjson.dumps(split)))
                for row, (query, hits) in enumerate(_hits(run)):
                    stream.write(b"%s%s:%s" % (b"," if row else b"", orjson.dumps(query), orjson.dumps(hits)))
                stream.write(b"}")
            stream.write(b"}")
        stream.write(b"}\n")


def _hits(run: Run) -> Iterator[tuple[str, dict[str, float]]]:
    for row, query in enumerate(run.query_ids):
        begin, end = int(run.indptr[row]), int(run.indptr[row + 1])
        documents = run.doc_ids.take(run.rows[begin:end])
        scores = numbers(np.ascontiguousarray(run.scores[begin:end])).cast("string").to_pylist()
        yield query, dict(zip(documents, map(float, scores), strict=True))
