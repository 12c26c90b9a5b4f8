"""The program of a model that lies in another repository of the hub than its weights.

A model's files may name a class as ``organisation/repository--module.Class``. With ``trust_remote_code=true`` the
libraries run what that repository's main branch holds at the time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import DataError, EngineUnavailableError
from harness.registry.optional import require

__all__ = ["foreign_code"]

_MARK = "--"


def foreign_code(folder: Path, *, fetch: bool) -> dict[str, str]:
    """The commit of each other repository whose program the model in ``folder`` runs; mostly there is none.

    ``fetch`` looks for the newest one, as the libraries do, and takes what is there where the hub cannot be asked.
    Raises EngineUnavailableError for a repository that cannot be had, DataError for a list of classes that is no JSON.
    """
    names = {name for path in sorted(folder.rglob("*.json")) for name in _repositories(path)}
    return {name: _commit(name, fetch=fetch) for name in sorted(names)}


def _repositories(path: Path) -> Iterator[str]:
    """Repositories that ``config.json`` (``auto_map``) and ``modules.json`` (``type``) name."""
    if path.name not in ("config.json", "modules.json", "tokenizer_config.json"):
        return
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(str(path), [f"cannot be read: {error}"], fix="fetch the model again") from error
    for reference in _classes(content):
        repository, mark, _ = reference.partition(_MARK)
        if mark:
            yield repository


def _classes(content: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON
    """Names of classes: each value of ``auto_map``, which may be a list, and each module's type."""
    if isinstance(content, list):
        yield from (str(module["type"]) for module in content if isinstance(module, dict) and "type" in module)
    elif isinstance(content, dict) and isinstance(content.get("auto_map"), dict):
        for named in content["auto_map"].values():
            yield from (str(one) for one in (named if isinstance(named, list) else [named]) if one is not None)


def _commit(repository: str, *, fetch: bool) -> str:
    hub: Any = require("huggingface_hub", extra="dense", feature="a model of the hub")
    errors: Any = require("huggingface_hub.errors", extra="dense", feature="a model of the hub")
    try:
        return Path(hub.snapshot_download(repository, allow_patterns=["*.py"], local_files_only=not fetch)).name
    except (errors.HfHubHTTPError, errors.HTTPError, OSError, ValueError, RuntimeError) as error:
        raise EngineUnavailableError(
            f"the model runs the program of hub repository '{repository}', which cannot be had: "
            f"{(str(error) or repr(error)).strip().splitlines()[0]}",
            fix=f"where there is a network, `hf download {repository}` fetches it",
        ) from error
