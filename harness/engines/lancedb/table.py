"""A LanceDB table, read-only: its opening, its row ids, and LanceDB's description of its indexes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.types import Int32Array
from harness.errors import EngineUnavailableError, IndexChangedError
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue

__all__ = [
    "PACKAGE",
    "ROW_ID",
    "IndexDescription",
    "RowIds",
    "describe_index",
    "folder_of",
    "open_table",
    "require_lancedb",
    "table_state",
]

PACKAGE = "lancedb"
ROW_ID = "_rowid"


def require_lancedb(module: str = PACKAGE, threads: int = 0) -> Any:
    """Import a module of LanceDB; ``threads`` takes effect with the first import of the process."""
    if threads:
        os.environ.setdefault("LANCE_CPU_THREADS", str(threads))
    return require(module, extra="lancedb", feature="backend lancedb")


def folder_of(database: Path, name: str) -> Path:
    """Return the folder of a table in the folder of a database."""
    return database / f"{name}.lance"


def open_table(database: Path, name: str) -> Any:
    """Open the newest version of a table, without writing anything.

    Raises EngineUnavailableError if there is no table of that name.
    """
    if not folder_of(database, name).is_dir():
        tables = ", ".join(f"'{path.stem}'" for path in sorted(database.glob("*.lance"))) or "none"
        raise EngineUnavailableError(
            f"there is no LanceDB table '{name}' in '{database}'", fix=f"name an existing table: {tables}"
        )
    return require_lancedb().connect(str(database)).open_table(name)


class IndexDescription(NamedTuple):
    """An index by LanceDB's own account: ``kind`` in its spelling, ``metric`` in lower case."""

    name: str
    kind: str
    metric: str
    indexed: int
    unindexed: int
    parts: int
    size_bytes: int

    @property
    def state(self) -> dict[str, ParameterValue]:
        """Return the report's entries."""
        return {
            "index_type": self.kind,
            "indexed_rows": self.indexed,
            "unindexed_rows": self.unindexed,
            "index_parts": self.parts,
            "index_bytes": self.size_bytes,
        }


def describe_index(table: Any, column: str) -> IndexDescription | None:
    """Return the index of a column; None if it has no index."""
    for config in table.list_indices():
        if list(config.columns) == [column]:
            details: Mapping[str, Any] = config.index_details or {}
            metric = str(details.get("metric_type", "")).lower()
            counts = config.num_indexed_rows, config.num_unindexed_rows, config.num_segments, config.size_bytes
            return IndexDescription(str(config.name), str(config.index_type), metric, *(int(n or 0) for n in counts))
    return None


def table_state(table: Any) -> dict[str, ParameterValue]:
    """Return LanceDB's description of a table: its version, and the fragments of its rows."""
    return {"table_version": int(table.version), "fragments": int(table.stats()["fragment_stats"]["num_fragments"])}


class RowIds:
    """LanceDB's ids of a table's rows, and the row of each: its position in the list, or its value in ``rows``."""

    def __init__(self, ids: npt.NDArray[np.uint64], rows: Int32Array | None = None) -> None:
        order = np.argsort(ids, kind="stable").astype(np.int32)
        self._sorted, self.by_age = ids[order], order if rows is None else rows[order]
        """Ids and their rows by ascending id, which is the order in which the rows were written."""

    def __len__(self) -> int:
        return len(self._sorted)

    def rows(self, answer: pa.Table) -> Int32Array:
        """Return the rows (int32) of hits that carry LanceDB's ids; raises IndexChangedError for an unknown row."""
        ids = answer[ROW_ID].to_numpy()
        positions = np.searchsorted(self._sorted, ids)
        valid = positions < len(self._sorted)
        if not valid.all() or (self._sorted[positions] != ids).any():
            raise IndexChangedError(
                "a row was added while the table was searched", fix="stop other programs from writing to the table"
            )
        return np.asarray(self.by_age[positions])
