"""Lucene indexes that the harness did not make: by Anserini's own command, and with fields of any names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.data.inputs import Inputs
from harness.exact.weights import to_impacts
from harness.java.bridge import JavaBridge
from harness.java.jvm import find_jar, find_java
from harness.text.lucene_analyzer import LuceneAnalyzer

Document = Mapping[str, str]


def anserini_index(folder: Path, documents: Mapping[str, str], *options: str) -> Path:
    """What ``IndexCollection`` makes of a JSON collection."""
    run_anserini(index_collection(folder, documents, *options))
    return folder / "index"


def index_collection(folder: Path, documents: Mapping[str, str], *options: str) -> Sequence[str]:
    """The command that makes ``index`` in the folder, in which the documents are written."""
    (folder / "collection").mkdir(parents=True)
    lines = (json.dumps({"id": one, "contents": text}) + "\n" for one, text in documents.items())
    (folder / "collection" / "docs.jsonl").write_text("".join(lines))
    arguments = ["-collection", "JsonCollection", "-input", str(folder / "collection"), "-threads", "1"]
    arguments += ["-generator", "DefaultLuceneDocumentGenerator", "-index", str(folder / "index"), *options]
    return ["IndexCollection", *arguments]


_RUN_ANSERINI = """
import json, sys
import jnius_config
jnius_config.set_classpath(sys.argv[1])
from jnius import autoclass
for command, *arguments in json.loads(sys.argv[2]):
    autoclass(f"io.anserini.index.{command}").main(arguments)
"""


def run_anserini(*commands: Sequence[str]) -> None:
    """Anserini's commands that index, with their arguments, in a Java apart: they set the levels of Log4j."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN_ANSERINI, str(find_jar()), json.dumps(commands)],
        env={**os.environ, "JAVA_HOME": str(find_java())},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).count("Indexing Complete!") == len(commands), done.stdout + done.stderr


def open_directory(bridge: JavaBridge, folder: Path) -> Any:
    """Lucene's directory at ``folder``."""
    return bridge.load("org.apache.lucene.store.FSDirectory").open(bridge.load("java.io.File")(str(folder)).toPath())


@contextmanager
def writer(folder: Path, *, codec_of: Any = None) -> Iterator[Any]:
    """Lucene's own writer on ``folder``, which it locks; committed and closed at the end.

    ``codec_of`` is an engine of vectors whose format is taken instead of Lucene's own.
    """
    analyzer = LuceneAnalyzer("english")
    load = analyzer.bridge.load
    configuration = load("org.apache.lucene.index.IndexWriterConfig")(analyzer.java)
    configuration.setMergePolicy(load("org.apache.lucene.index.NoMergePolicy").INSTANCE)
    if codec_of is not None:
        codec_of.bridge = analyzer.bridge
        codec_of.configure_writer(configuration)
    made = load("org.apache.lucene.index.IndexWriter")(open_directory(analyzer.bridge, folder), configuration)
    try:
        yield made
        made.commit()
    finally:
        made.close()


def add_vectors(made: Any, documents: Inputs, *, function: str = "DOT_PRODUCT", doc_values: str = "") -> None:
    """Documents with a vector in ``embedding``, and their ids in ``docid``: stored, or as doc values (``Binary`` or
    ``Sorted``), by which nothing can be found, and so in ``key`` too.
    """
    bridge = LuceneAnalyzer("english").bridge
    load, store = bridge.load, bridge.load("org.apache.lucene.document.Field$Store")
    compared_by = getattr(load("org.apache.lucene.index.VectorSimilarityFunction"), function)
    for one, vector in zip(documents.ids, documents.dense, strict=True):
        document = load("org.apache.lucene.document.Document")()
        if doc_values:
            content = load("org.apache.lucene.util.BytesRef")(one.encode())
            document.add(load(f"org.apache.lucene.document.{doc_values}DocValuesField")("docid", content))
            document.add(load("org.apache.lucene.document.StringField")("key", one, store.NO))
        else:
            document.add(load("org.apache.lucene.document.StringField")("docid", one, store.YES))
        kind = load("org.apache.lucene.document.KnnFloatVectorField")
        document.add(kind("embedding", vector.tolist(), compared_by))
        made.addDocument(bridge.cast("java.lang.Iterable", document))


def add_impacts(made: Any, documents: Inputs, *, scale: float) -> None:
    """Documents whose terms, in ``weights``, are column numbers that occur as often as the impacts say."""
    bridge = LuceneAnalyzer("english").bridge
    load, store = bridge.load, bridge.load("org.apache.lucene.document.Field$Store")
    impacts = to_impacts(documents.sparse, scale)
    for row, one in enumerate(documents.ids):
        columns, counts = impacts.row(row)
        text = " ".join(str(column) for column, count in zip(columns, counts, strict=True) for _ in range(int(count)))
        document = load("org.apache.lucene.document.Document")()
        document.add(load("org.apache.lucene.document.StringField")("docid", one, store.YES))
        document.add(load("org.apache.lucene.document.TextField")("weights", text, store.NO))
        made.addDocument(bridge.cast("java.lang.Iterable", document))


def add(made: Any, documents: Sequence[Document], *, text: str | Sequence[str] = "body") -> None:
    """Documents whose field (or fields) ``text`` is analysed; all others are stored strings."""
    analysed = [text] if isinstance(text, str) else text
    bridge = LuceneAnalyzer("english").bridge
    store = bridge.load("org.apache.lucene.document.Field$Store")
    for document in documents:
        one = bridge.load("org.apache.lucene.document.Document")()
        for name, value in document.items():
            kind = "TextField" if name in analysed else "StringField"
            keep = store.NO if name in analysed else store.YES
            one.add(bridge.load(f"org.apache.lucene.document.{kind}")(name, value, keep))
        made.addDocument(bridge.cast("java.lang.Iterable", one))


def delete(made: Any, field: str, value: str) -> None:
    """Delete the documents that hold ``value``; nothing is merged away."""
    bridge = LuceneAnalyzer("english").bridge
    query = bridge.load("org.apache.lucene.search.TermQuery")(bridge.load("org.apache.lucene.index.Term")(field, value))
    made.deleteDocuments(bridge.cast("org.apache.lucene.search.Query", query))
