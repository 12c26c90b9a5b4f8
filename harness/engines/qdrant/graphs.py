"""How many vectors are in graphs that Qdrant searches, which is not what it calls ``indexed_vectors``.

A segment that was optimised has a graph, and is scanned all the same when it holds fewer vectors than fit into
``full_scan_threshold`` (in kB). So ten thousand vectors can be indexed, and none of them found by a graph.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.engines.qdrant.vector_settings import DenseSettings

__all__ = ["in_graphs_of_files", "in_graphs_of_server"]

_BYTES_PER_KB = 1024
_BYTES_OF = {"float32": 4, "float16": 2, "uint8": 1}


def in_graphs_of_files(shard: Path, vector: str) -> int:
    """Vectors of that name in the graphs of a shard's segments, those left out that are scanned; its files say how many
    are which. A vector without a name has the empty one.

    Raises OSError, ValueError and KeyError for files that cannot be read.
    """
    folder = f"vector_index-{vector}" if vector else "vector_index"
    files = sorted(segment / folder / "hnsw_config.json" for segment in (shard / "segments").iterdir())
    graphs = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    return sum(
        int(graph["indexed_vector_count"])
        for graph in graphs
        if graph["m"] > 0 and graph["indexed_vector_count"] >= graph["full_scan_threshold"]
    )


def in_graphs_of_server(
    indexed: int, segments: list[Mapping[str, Any]] | None, dense: DenseSettings, dimensions: int, vector: str
) -> int | None:
    """The same of a collection on a server, ``indexed`` being its own count of dense vectors with an index.

    ``segments`` are those of its telemetry, None where it does not tell; the answer is then None too, unless there are
    too few vectors for any graph.
    """
    threshold = dense.full_scan_threshold_kb * _BYTES_PER_KB // (dimensions * _BYTES_OF[dense.datatype])
    if dense.m == 0 or indexed < threshold or indexed == 0:
        return 0
    if segments is None:
        return None
    held = [int(segment["info"]["vector_data"][vector]["num_indexed_vectors"]) for segment in segments]
    return sum(number for number in held if number >= threshold)
