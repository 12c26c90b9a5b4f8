"""The vectors that an open Lucene index stores, read in blocks, and what it says of their field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from harness.data.types import Float32Array, Int32Array
from harness.java.bridge import JavaBridge, java_errors

__all__ = ["VectorField", "leaves_of", "stored_vectors", "vector_fields"]

_INDEX = "org.apache.lucene.index"
_AT_ONCE = 1024
_FORMAT = "PerFieldKnnVectorsFormat.format"


class VectorField(NamedTuple):
    """A field of vectors: Lucene's name of its similarity, of its numbers and of the formats of its segments."""

    dimensions: int
    function: str
    encoding: str
    formats: frozenset[str]


def leaves_of(bridge: JavaBridge, reader: Any) -> list[Any]:  # noqa: ANN401 - Java objects
    """The context of each segment, in order."""
    leaves = reader.leaves()
    return [bridge.cast(f"{_INDEX}.LeafReaderContext", leaves.get(place)) for place in range(leaves.size())]


def vector_fields(bridge: JavaBridge, reader: Any) -> dict[str, VectorField]:  # noqa: ANN401 - a Java object
    """All fields of vectors by name."""
    found: dict[str, VectorField] = {}
    with java_errors("listing the fields of vectors"):
        for leaf in leaves_of(bridge, reader):
            fields = leaf.reader().getFieldInfos().iterator()
            while fields.hasNext():
                field = bridge.cast(f"{_INDEX}.FieldInfo", fields.next())
                if not field.hasVectorValues():
                    continue
                name, format_name = str(field.name), frozenset([str(field.getAttribute(_FORMAT))])
                before = found[name].formats if name in found else frozenset()
                found[name] = VectorField(
                    int(field.getVectorDimension()),
                    str(field.getVectorSimilarityFunction().toString()),
                    str(field.getVectorEncoding().toString()),
                    before | format_name,
                )
    return found


def stored_vectors(
    bridge: JavaBridge,
    reader: Any,  # noqa: ANN401 - a Java object
    field: str,
) -> Iterator[tuple[Int32Array, Float32Array]]:
    """Document numbers (n,) and their vectors (n, d), block by block, deleted documents too."""
    with java_errors(f"reading the vectors of the field '{field}'"):
        for leaf in leaves_of(bridge, reader):
            values = leaf.reader().getFloatVectorValues(field)
            if values is None:
                continue
            dimensions = int(values.dimension())
            while block := bridge.index.nextVectors(values, _AT_ONCE).tostring():
                count = len(block) // (4 * (1 + dimensions))
                documents, vectors = np.frombuffer(block, "<i4", count), np.frombuffer(block, "<f4", offset=4 * count)
                yield documents + np.int32(leaf.docBase), vectors.reshape(count, dimensions)
