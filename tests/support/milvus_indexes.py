"""Collections of Milvus Lite as somebody else would have made them: by pymilvus, with other names of fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.data.inputs import Inputs
from harness.engines.milvus.connection import open_client, require_milvus
from harness.engines.milvus.lite import LiteServer

COLLECTION = "theirs"


def write_file(
    file: Path,
    documents: Inputs,
    *,
    metric: str = "COSINE",
    texts: Sequence[str] | None = None,
    key: str = "pk",
    records: Sequence[Mapping[str, Any]] = (),
    dynamic: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Entities by a text key ``doc-N``, the documents' ids in the dynamic field ``docno``, vectors in ``embedding``.

    ``records`` are fields of documents for typed fields, and for the field ``of_json``; ``dynamic`` are dynamic fields.

    Documents of texts alone are analysed by Milvus, which makes ``embedding`` of the field ``body``.
    """
    server = LiteServer(file)
    try:
        client = open_client(server.address, 20)
        try:
            _fill(client, documents, metric, texts, key, [*map(_typed, records)] or dynamic)
        finally:
            client.close()
    finally:
        server.stop()


def _typed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with a value for each typed field, which Milvus Lite requires; ``deep`` stays dynamic."""
    absent = {"tenant": "", "year": 0, "score": 0.0, "scores": [], "flag": False, "tags": []}
    typed = {name: record[name] if record[name] is not None else value for name, value in absent.items()}
    return {**typed, "deep": record["deep"], "of_json": dict(record)}


def _add_typed_fields(schema: Any, types: Any) -> None:
    schema.add_field("tenant", types.VARCHAR, max_length=100)
    schema.add_field("year", types.INT32)
    schema.add_field("score", types.FLOAT)
    schema.add_field("scores", types.ARRAY, element_type=types.FLOAT, max_capacity=8)
    schema.add_field("flag", types.BOOL)
    schema.add_field("tags", types.ARRAY, element_type=types.VARCHAR, max_capacity=8, max_length=100)
    schema.add_field("of_json", types.JSON)


def _fill(
    client: Any,
    documents: Inputs,
    metric: str,
    texts: Sequence[str] | None,
    key: str,
    records: Sequence[Mapping[str, Any]],
) -> None:
    types = require_milvus().DataType
    schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
    schema.add_field(key, types.VARCHAR, is_primary=True, max_length=200)
    if records and "of_json" in records[0]:
        _add_typed_fields(schema, types)
    weighing: dict[str, float] = {}
    if documents.dense is not None:
        schema.add_field("embedding", types.FLOAT_VECTOR, dim=documents.dense.shape[1])
        values, kind, field = list(documents.dense), "FLAT", "embedding"
    elif documents.sparse is None:
        assert documents.texts is not None
        _analyse(schema)
        weighing = {"bm25_k1": 0.9, "bm25_b": 0.4}
        values, kind, metric, field = documents.texts.to_pylist(), "SPARSE_INVERTED_INDEX", "BM25", "body"
    else:
        assert documents.sparse is not None
        schema.add_field("embedding", types.SPARSE_FLOAT_VECTOR)
        rows = map(documents.sparse.row, range(len(documents)))
        values = [dict(zip(indices.tolist(), weights.tolist(), strict=True)) for indices, weights in rows]
        kind, metric, field = "SPARSE_INVERTED_INDEX", "IP", "embedding"
    index = client.prepare_index_params()
    index.add_index("embedding", index_type=kind, metric_type=metric, params=weighing)
    client.create_collection(COLLECTION, schema=schema, index_params=index)
    client.insert(
        COLLECTION,
        [
            {
                key: f"doc-{row:04d}",
                "docno": doc_id,
                field: value,
                **({"text": texts[row]} if texts else {}),
                **(records[row] if records else {}),
            }
            for row, (doc_id, value) in enumerate(zip(documents.ids.to_list(), values, strict=True))
        ],
    )


def _analyse(schema: Any) -> None:
    milvus = require_milvus()
    schema.add_field("body", milvus.DataType.VARCHAR, max_length=1000, enable_analyzer=True)
    schema.add_field("embedding", milvus.DataType.SPARSE_FLOAT_VECTOR)
    bm25 = milvus.FunctionType.BM25
    schema.add_function(milvus.Function("weights", bm25, input_field_names=["body"], output_field_names=["embedding"]))
