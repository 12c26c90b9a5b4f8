"""The bundled CACM collection with titles in a separate field: the first paragraph of a document is its title."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

from harness.registry.lookup import find_cards


def write_titled_cacm(folder: Path) -> Path:
    """Write the collection into a new folder and return it; judgments of unknown documents are left out."""
    source = find_cards("datasets")["cacm"].location
    assert source is not None
    (folder / "qrels").mkdir(parents=True)
    ids = set()
    documents = []
    with gzip.open(source / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            title, _, text = record["text"].partition("\n\n")
            documents.append(json.dumps({"_id": record["_id"], "title": title, "text": text}))
            ids.add(record["_id"])
    (folder / "corpus.jsonl").write_text("\n".join(documents), encoding="utf-8")
    shutil.copy(source / "queries.jsonl.gz", folder)
    with gzip.open(source / "qrels" / "test.tsv.gz", "rt", encoding="utf-8") as lines:
        heading, *judgments = lines
    known = [line for line in judgments if line.split("\t")[1] in ids]
    (folder / "qrels" / "test.tsv").write_text("".join([heading, *known]), encoding="utf-8")
    return folder
