"""Lucene indexes that the harness did not make: by Anserini's own command, and with fields of any names."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.adapters.lucene_runtime import open_directory
from harness.analysis.lucene import LuceneAnalyzer

_COMMAND = """
import sys
from harness.java_bridge import JavaBridge
from harness.jvm import start
JavaBridge(start()).load("io.anserini.index.IndexCollection").main(sys.argv[1:])
"""
Document = Mapping[str, str]


def anserini_index(folder: Path, documents: Mapping[str, str], *options: str) -> Path:
    """What ``IndexCollection`` makes of a JSON collection, in a process of its own: it changes Java's logging."""
    (folder / "collection").mkdir(parents=True)
    lines = (json.dumps({"id": one, "contents": text}) + "\n" for one, text in documents.items())
    (folder / "collection" / "docs.jsonl").write_text("".join(lines))
    arguments = ["-collection", "JsonCollection", "-input", str(folder / "collection"), "-threads", "1"]
    arguments += ["-generator", "DefaultLuceneDocumentGenerator", "-index", str(folder / "index"), *options]
    command = [sys.executable, "-c", _COMMAND, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "Indexing Complete!" in done.stdout + done.stderr, done.stdout + done.stderr
    return folder / "index"


@contextmanager
def writer(folder: Path) -> Iterator[Any]:
    """Lucene's own writer on ``folder``, which it locks; committed and closed at the end."""
    analyzer = LuceneAnalyzer("english")
    load = analyzer.bridge.load
    configuration = load("org.apache.lucene.index.IndexWriterConfig")(analyzer.java)
    configuration.setMergePolicy(load("org.apache.lucene.index.NoMergePolicy").INSTANCE)
    made = load("org.apache.lucene.index.IndexWriter")(open_directory(analyzer.bridge, folder), configuration)
    try:
        yield made
        made.commit()
    finally:
        made.close()


def add(made: Any, documents: Sequence[Document], *, text: str = "body") -> None:
    """Documents whose field ``text`` is analysed; all others are stored strings."""
    bridge = LuceneAnalyzer("english").bridge
    store = bridge.load("org.apache.lucene.document.Field$Store")
    for document in documents:
        one = bridge.load("org.apache.lucene.document.Document")()
        for name, value in document.items():
            kind = "TextField" if name == text else "StringField"
            keep = store.NO if name == text else store.YES
            one.add(bridge.load(f"org.apache.lucene.document.{kind}")(name, value, keep))
        made.addDocument(bridge.cast("java.lang.Iterable", one))


def delete(made: Any, field: str, value: str) -> None:
    """Delete the documents that hold ``value``; nothing is merged away."""
    bridge = LuceneAnalyzer("english").bridge
    query = bridge.load("org.apache.lucene.search.TermQuery")(bridge.load("org.apache.lucene.index.Term")(field, value))
    made.deleteDocuments(bridge.cast("org.apache.lucene.search.Query", query))
