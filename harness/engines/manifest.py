"""A file beside each index that says what it was built from: written last, compared when the index is opened again.

It is what makes a build complete. An index without it was interrupted; one built with other parameters or from other
documents would answer, silently, for something else than what was asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import orjson

from harness.data.types import Ids
from harness.errors import EngineUnavailableError, RejectedInputError
from harness.registry.parameters import ParameterValue

__all__ = ["MANIFEST", "check_manifest", "write_manifest"]

MANIFEST = "harness-index.json"
_FORMAT = 2
_REBUILD = "delete the folder and index again"


def write_manifest(
    folder: Path, engine: str, parameters: Mapping[str, ParameterValue], ids: Ids, *, indexed: int
) -> None:
    """Write the manifest of a finished index: through a temporary name, so that it is whole or not there.

    ``indexed`` is how many of the documents the engine holds, by its own count.
    """
    content = {"format": _FORMAT, "engine": engine, "parameters": dict(parameters), "documents": len(ids)}
    content |= {"ids_sha256": _digest(ids), "indexed": indexed}
    temporary = folder / f"{MANIFEST}.tmp"
    temporary.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))
    temporary.replace(folder / MANIFEST)


def check_manifest(
    folder: Path, engine: str, parameters: Mapping[str, ParameterValue], ids: Ids, *, free: Iterable[str] = ()
) -> int | None:
    """Return how many documents the index in ``folder`` held when it was finished; None when there is nothing yet.

    The index is one of exactly this engine and these documents. ``free`` names parameters that may differ because they
    do not change it. Raises EngineUnavailableError for a build that was interrupted and for a damaged manifest,
    RejectedInputError for another index.
    """
    path = folder / MANIFEST
    if not path.exists():
        if any(folder.iterdir()):
            raise EngineUnavailableError(f"'{folder}' holds an index that was never finished", fix=_REBUILD)
        return None
    try:
        stored = orjson.loads(path.read_bytes())
        built_with: dict[str, ParameterValue] = stored["parameters"]
        found = (stored["format"], stored["engine"], stored["documents"], stored["ids_sha256"])
        indexed = int(stored.get("indexed", 0))
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise EngineUnavailableError(f"'{path}' is damaged: {error}", fix=_REBUILD) from error
    if found[:2] != (_FORMAT, engine):
        raise RejectedInputError(f"'{folder}' holds an index of '{found[1]}', format {found[0]}", fix=_REBUILD)
    if found[2:] != (len(ids), _digest(ids)):
        raise RejectedInputError(
            f"'{folder}' holds an index of {found[2]} other documents than the {len(ids)} asked for", fix=_REBUILD
        )
    _compare(folder, built_with, parameters, set(free))
    return indexed


def _compare(
    folder: Path, stored: Mapping[str, ParameterValue], wanted: Mapping[str, ParameterValue], free: set[str]
) -> None:
    other = [
        f"{name}: built with {stored.get(name)!r}, asked for {wanted.get(name)!r}"
        for name in sorted((set(stored) | set(wanted)) - free)
        if stored.get(name) != wanted.get(name)
    ]
    if other:
        raise RejectedInputError(f"'{folder}' holds an index with other parameters ({'; '.join(other)})", fix=_REBUILD)


def _digest(ids: Ids) -> str:
    digest = hashlib.sha256()
    for one in ids.to_list():
        text = one.encode()
        digest.update(len(text).to_bytes(8, "little"))
        digest.update(text)
    return digest.hexdigest()
