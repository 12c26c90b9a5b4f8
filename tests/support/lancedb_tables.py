"""LanceDB tables as another program makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness.data.inputs import Inputs

TABLE = "chunks"


def write_table(
    folder: Path,
    documents: Inputs,
    *,
    index: str = "",
    distance: str = "cosine",
    texts: Sequence[str] | None = None,
    id_column: str = "id",
    dtype: str = "float32",
    records: Sequence[Mapping[str, Any]] = (),
    metadata: Sequence[Mapping[str, Any]] = (),
) -> Any:
    """Write ids and vectors into a new table below ``folder``, and make an ``index`` of a class of LanceDB's.

    ``records`` are fields of documents, which become columns, and the struct ``metadata``, with ``score`` and
    ``scores`` as float32 in the columns; ``metadata`` is only the struct.
    """
    import lancedb
    from lancedb import index as indexes

    dense = documents.dense
    assert dense is not None
    values = pa.array(dense.astype(dtype).ravel(), type=getattr(pa, dtype)())
    columns = {
        id_column: pa.array(documents.ids.to_list()),
        "embedding": pa.FixedSizeListArray.from_arrays(values, dense.shape[1]),
        "page": pa.array(np.arange(len(dense))),
    }
    if texts is not None:
        columns["text"] = pa.array(texts)
    if records:
        nested = pa.array(records)
        columns |= {field.name: nested.field(field.name) for field in nested.type}
        columns |= {"score": nested.field("score").cast(pa.float32()), "metadata": nested}
        columns["scores"] = nested.field("scores").cast(pa.list_(pa.float32()))
        columns["made"] = pa.array([0] * len(records), pa.timestamp("us"))
    if metadata:
        columns["metadata"] = pa.array(metadata)
    table = lancedb.connect(folder).create_table(TABLE, pa.table(columns))
    if index:
        table.create_index("embedding", config=getattr(indexes, index)(distance_type=distance))
    return table
