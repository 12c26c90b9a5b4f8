"""The files that sentence-transformers' evaluators write: a row of values for each call, and predictions."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.compat.sentence_transformers.best_hits import BestHits

__all__ = ["append_row", "write_predictions"]

logger = logging.getLogger(__name__)


def append_row(path: Path, headers: Sequence[str], row: Sequence[Any]) -> None:
    """Add a row to a CSV file, which is begun with ``headers`` where there is none.

    A file that has other headers gets the row too, with a warning: what a call measured is not lost.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    began = path.is_file()
    if began:
        with path.open(newline="", encoding="utf-8") as stream:
            written = next(csv.reader(stream), [])
        if written != list(headers):
            logger.warning("'%s' has other columns than the row that is added to it: %s", path, ",".join(headers))
    with path.open("a", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        if not began:
            writer.writerow(headers)
        writer.writerow(row)


def write_predictions(
    path: Path, hits: BestHits, query_ids: Sequence[Any], queries: Sequence[Any], document_ids: Sequence[Any]
) -> None:
    """One JSON object a query: ``query_id``, ``query`` and ``results``, each with ``corpus_id`` and ``score``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    run, scores = hits.run(), hits.scores.tolist()
    documents = [document_ids[row] for row in run.rows.tolist()]
    with path.open("w", encoding="utf-8") as stream:
        for number, (query_id, query) in enumerate(zip(query_ids, queries, strict=True)):
            own = run.of_query(number)
            pairs = zip(documents[own], scores[own], strict=True)
            results = [{"corpus_id": document, "score": score} for document, score in pairs]
            stream.write(json.dumps({"query_id": query_id, "query": query, "results": results}) + "\n")
