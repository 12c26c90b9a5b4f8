"""Metadata in Lucene: a field of exact terms for each, and a clause that filters by them without scoring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import text_scalar
from harness.java.bridge import JavaBridge, packed_texts

__all__ = ["filter_query", "with_filter", "with_metadata"]

_QUERY = "org.apache.lucene.search.Query"
_OCCUR = "org.apache.lucene.search.BooleanClause$Occur"
_BUILDER = "org.apache.lucene.search.BooleanQuery$Builder"


def with_metadata(bridge: JavaBridge, documents: Any, metadata: pa.Table, rows: pa.Array) -> Any:  # noqa: ANN401 - Java
    """A Java list of documents, each a Java collection of fields, with the metadata of ``rows`` as further fields.

    A document without a value gets an empty term, which no filter asks for.
    """
    for name in metadata.column_names:
        values = pc.fill_null(metadata.column(name).take(rows), text_scalar("")).to_pylist()
        documents = bridge.index.withField(documents, _field(name), packed_texts(values))
    return documents


def filter_query(bridge: JavaBridge, wanted: Mapping[str, str]) -> Any:  # noqa: ANN401 - a Java object
    """The documents whose fields have these values; None for all documents."""
    if not wanted:
        return None
    builder = bridge.load(_BUILDER)()
    for field, value in wanted.items():
        term = bridge.load("org.apache.lucene.index.Term")(_field(field), value)
        query = bridge.load("org.apache.lucene.search.TermQuery")(term)
        builder.add(bridge.cast(_QUERY, query), bridge.load(_OCCUR).FILTER)
    return bridge.cast(_QUERY, builder.build())


def with_filter(bridge: JavaBridge, query: Any, wanted: Any) -> Any:  # noqa: ANN401 - Java objects
    """``query`` among the documents of the filter ``wanted``, with its own scores; None changes nothing."""
    if wanted is None:
        return query
    occur = bridge.load(_OCCUR)
    builder = bridge.load(_BUILDER)()
    builder.add(query, occur.MUST)
    builder.add(wanted, occur.FILTER)
    return bridge.cast(_QUERY, builder.build())


def _field(name: str) -> str:
    """So that no field of a corpus is taken for one of Anserini's or of the vectors."""
    return f"metadata.{name}"
