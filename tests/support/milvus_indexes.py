"""Collections of Milvus Lite as somebody else would have made them: by pymilvus, with other names of fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.data.inputs import Inputs
from harness.engines.milvus.connection import open_client, require_milvus
from harness.engines.milvus.lite import LiteServer

COLLECTION = "theirs"


def write_file(
    file: Path, documents: Inputs, *, metric: str = "COSINE", texts: Sequence[str] | None = None, key: str = "pk"
) -> None:
    """Entities by a text key ``doc-N``, the documents' ids in the dynamic field ``docno``, vectors in ``embedding``."""
    server = LiteServer(file)
    try:
        client = open_client(server.address, 20)
        try:
            _fill(client, documents, metric, texts, key)
        finally:
            client.close()
    finally:
        server.stop()


def _fill(client: Any, documents: Inputs, metric: str, texts: Sequence[str] | None, key: str) -> None:
    types = require_milvus().DataType
    schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
    schema.add_field(key, types.VARCHAR, is_primary=True, max_length=200)
    if documents.dense is not None:
        schema.add_field("embedding", types.FLOAT_VECTOR, dim=documents.dense.shape[1])
        values, kind = list(documents.dense), "FLAT"
    else:
        assert documents.sparse is not None
        schema.add_field("embedding", types.SPARSE_FLOAT_VECTOR)
        rows = map(documents.sparse.row, range(len(documents)))
        values = [dict(zip(indices.tolist(), weights.tolist(), strict=True)) for indices, weights in rows]
        kind, metric = "SPARSE_INVERTED_INDEX", "IP"
    index = client.prepare_index_params()
    index.add_index("embedding", index_type=kind, metric_type=metric)
    client.create_collection(COLLECTION, schema=schema, index_params=index)
    client.insert(
        COLLECTION,
        [
            {key: f"doc-{row:04d}", "docno": doc_id, "embedding": value, **({"text": texts[row]} if texts else {})}
            for row, (doc_id, value) in enumerate(zip(documents.ids.to_list(), values, strict=True))
        ],
    )
