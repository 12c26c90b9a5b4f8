"""What Chroma's own files say of its graph: how many vectors are in it, and whether the files are whole.

Chroma tells neither. It writes the graph each ``sync_threshold`` vectors; those that came after it wait in a log inside
its SQLite file, and are put into the graph again, in memory, whenever the folder is opened. Files that became shorter
are opened without a word and answered from wrongly.
"""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from harness.errors import EngineUnavailableError

__all__ = ["DATABASE", "Graph", "read_graph"]

DATABASE = "chroma.sqlite3"
_HEADER = struct.Struct("<i6Q")
_VERSION = 1
_OF_A_LINK_COUNT = 4
_OF_A_LENGTH = 4
_DAMAGED = "delete the index folder and index again"


class Graph(NamedTuple):
    """``written`` vectors are in the graph's files, deleted ones included; ``waiting`` records of the log are not."""

    written: int
    waiting: int


def read_graph(folder: Path, collection: str) -> Graph:
    """The graph of the collection with that id (a UUID) in the folder of a client.

    Raises EngineUnavailableError for files that are missing, shorter than they say, or of another format.
    """
    segment, written_to, waiting = _log(folder / DATABASE, collection)
    return Graph(_written_vectors(folder / segment) if written_to else 0, waiting)


def _log(database: Path, collection: str) -> tuple[str, int, int]:
    """The graph's segment, the number of the last record of the log that its files hold, and how many came after.

    All collections of a folder share the log and its numbers.
    """
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
            segments = dict(
                opened.execute("SELECT scope, id FROM segments WHERE collection = ?", (collection,)).fetchall()
            )
            graph = str(segments["VECTOR"])
            seen = dict(opened.execute("SELECT segment_id, seq_id FROM max_seq_id").fetchall())
            written_to = int(seen.get(graph, 0))
            ((waiting,),) = opened.execute(
                "SELECT COUNT(*) FROM embeddings_queue WHERE topic LIKE ? AND seq_id > ?",
                (f"%/{collection}", written_to),
            )
        return graph, written_to, int(waiting)
    except (sqlite3.Error, KeyError, TypeError, ValueError) as error:
        raise EngineUnavailableError(f"'{database}' cannot be read: {error!r}", fix=_DAMAGED) from error


def _written_vectors(segment: Path) -> int:
    try:
        version, _, _, vectors, bytes_each, _, _ = _HEADER.unpack((segment / "header.bin").read_bytes()[: _HEADER.size])
        sizes = {path.name: path.stat().st_size for path in segment.iterdir()}
    except (OSError, struct.error) as error:
        raise EngineUnavailableError(f"the graph in '{segment}' cannot be read: {error}", fix=_DAMAGED) from error
    if version != _VERSION:
        raise EngineUnavailableError(
            f"the graph in '{segment}' has format {version}, and only {_VERSION} is known",
            fix="use the version of Chroma that the harness is tested with: see constraints.txt",
        )
    needed = {"data_level0.bin": vectors * bytes_each, "length.bin": vectors * _OF_A_LENGTH}
    needed |= {"link_lists.bin": vectors * _OF_A_LINK_COUNT, "index_metadata.pickle": 1}
    short = [name for name, size in needed.items() if sizes.get(name, -1) < size]
    if short:
        raise EngineUnavailableError(
            f"the graph in '{segment}' is damaged: {', '.join(sorted(short))} should hold {vectors} vectors",
            fix=_DAMAGED,
        )
    return int(vectors)
