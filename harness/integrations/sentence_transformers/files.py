"""The files that sentence-transformers' evaluators write: a row of values for each call, and predictions."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.integrations.sentence_transformers.best_hits import QueryResults

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


def write_predictions(path: Path, found: QueryResults, query_ids: Sequence[Any], queries: Sequence[Any]) -> None:
    """One JSON object a query: ``query_id``, ``query`` and ``results``, each with ``corpus_id`` and ``score``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        for query_id, query, results in zip(query_ids, queries, found, strict=True):
            stream.write(json.dumps({"query_id": query_id, "query": query, "results": results}) + "\n")
