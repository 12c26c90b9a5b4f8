"""What decides a model's vectors, found without loading it: the key of encodings."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from harness.encoders.folders import find_module, model_folder
from harness.encoders.foreign_code import foreign_code
from harness.encoders.model_files import model_files
from harness.encoders.precomputed import find_files
from harness.encoders.prompts import applied_prompt
from harness.encoders.settings import Role, Settings
from harness.errors import UsageError
from harness.store.cache import JSON, file_digest

__all__ = ["SCHEME", "encoding_key"]

SCHEME = 1
"""To be raised when a change of the harness changes the vectors that some model gives."""


def encoding_key(settings: Settings, role: Role, texts: str, *, fetch: bool) -> dict[str, JSON]:
    """Everything that changes the vectors of the texts whose digest is ``texts``, and nothing else.

    Not in it: batch size, device, versions of libraries, names and places of models and collections. ``fetch``
    downloads a hub model that is not there. Raises UsageError, DataError, EngineUnavailableError or MissingExtraError
    for a model that cannot be had.
    """
    return {
        "scheme": SCHEME,
        "encoder": settings.encoder,
        "role": role,
        "model": _model(settings, role, fetch=fetch),
        "prompt": applied_prompt(settings, role).text,
        "truncate_dim": settings.truncate_dim,
        "normalize": settings.normalize,
        "max_active_dims": settings.max_active_dims,
        # the first version kept all weights of these models, whatever was asked for
        **({"cut": 1} if settings.max_active_dims and not settings.source.has_files else {}),
        "max_seq_length": settings.max_seq_length,
        "dtype": settings.dtype,
        "texts": texts,
    }


def _model(settings: Settings, role: Role, *, fetch: bool) -> dict[str, JSON]:
    source = settings.source
    match source.kind:
        case "precomputed":
            needed = role == "queries"  # documents may be none: encoding them tells
            files = find_files(Path(source.name), role, needed=needed)
            return {"files": {path.name: _digest(path) for path in files}}
        case "random":
            return {"random": settings.seed}
        case "python":
            file = find_module(source.name.partition(":")[0])
            if file is None:
                raise UsageError(
                    f"there is no module for model=python:{source.name}", fix="put its folder on PYTHONPATH"
                )
            return {"object": source.name, "module_sha256": _digest(file), "revision": settings.revision}
        case "http":
            return {"endpoint": settings.endpoint, "model": source.name, "revision": settings.revision}
        case _:
            folder = model_folder(settings, fetch=fetch)
            listed = "".join(f"{_digest(path)}  {name}\n" for name, path in model_files(folder))
            key: dict[str, JSON] = {
                "files_sha256": hashlib.sha256(listed.encode()).hexdigest(),
                "code": settings.trust_remote_code,
            }
            foreign = foreign_code(folder, fetch=fetch) if settings.trust_remote_code else {}
            return {**key, "foreign_code": foreign} if foreign else key


def _digest(path: Path) -> str:
    stat = path.stat()
    return _digest_once(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=1024)
def _digest_once(path: Path, size: int, modified_ns: int) -> str:  # noqa: ARG001 - another size or time is another file
    return file_digest(path)
