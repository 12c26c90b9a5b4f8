"""Collections in a folder of Chroma's ``PersistentClient``, read from its database without opening the client.

The client may convert the files of an earlier version; this only reads.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from harness.engines.interface import StoredIndex

DATABASE = "chroma.sqlite3"
_DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
"""The model of Chroma's embedding function ``default``."""


def stored_collections(folder: Path) -> list[StoredIndex]:
    """Return the collections that hold vectors, by name; none if the folder has no such database."""
    path = folder / DATABASE
    if not path.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            columns = {row[1] for row in database.execute("PRAGMA table_info(collections)")}
            texts = [name for name in ("config_json_str", "schema_str") if name in columns]
            selected = ", ".join(["name", *texts])
            rows = database.execute(
                f"SELECT {selected} FROM collections WHERE dimension IS NOT NULL ORDER BY name"
            ).fetchall()
    except sqlite3.Error:  # another version's tables, or no database
        return []
    return [StoredIndex({"collection": name}, _model(configurations)) for name, *configurations in rows]


def _model(configurations: list[str | None]) -> str | None:
    """Return the model of the collection's embedding function, if it is stored and can be loaded here."""
    for text in configurations:
        for function in _functions(json.loads(text)) if text else ():
            config = function.get("config")
            model = config.get("model_name") if isinstance(config, Mapping) else None
            if function.get("name") == "sentence_transformer" and isinstance(model, str):
                return model
            if function.get("name") == "default":
                return _DEFAULT_MODEL
    return None


def _functions(content: object) -> Iterator[Mapping[str, object]]:
    """Yield the embedding functions of dense vectors at any depth; a collection has at most one."""
    if not isinstance(content, Mapping):
        return
    for key, value in content.items():
        if key == "embedding_function" and isinstance(value, Mapping):
            yield value
        elif key != "sparse_vector":
            yield from _functions(value)
