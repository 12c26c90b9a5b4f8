"""What decides a model's vectors, found without loading it: the key of encodings, and the prompts that it declares."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from harness.encoders.foreign_code import foreign_code
from harness.encoders.hub import snapshot
from harness.encoders.model_files import model_files
from harness.encoders.precomputed import find_files
from harness.encoders.settings import DEFAULT_MODEL, ModelSource, Role, Settings
from harness.encoders.whole_models import CONFIG
from harness.errors import DataError, MissingExtraError, UsageError
from harness.storage.cache import JSON, file_digest

__all__ = ["SCHEME", "declared_prompts", "encoding_key", "find_module", "model_folder"]

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
        "prompt": settings.prompt(role, declared_prompts(settings)),
        "truncate_dim": settings.truncate_dim,
        "normalize": settings.normalize,
        "max_active_dims": settings.max_active_dims,
        # the first version kept all weights of these models, whatever was asked for
        **({"cut": 1} if settings.max_active_dims and not settings.source.has_files else {}),
        "max_seq_length": settings.max_seq_length,
        "dtype": settings.dtype,
        "texts": texts,
    }


def declared_prompts(settings: Settings) -> Mapping[str, str]:
    """The prompts that a model's files declare, by name, some perhaps empty; nothing for a model without files."""
    if not settings.source.has_files:
        return {}
    path = model_folder(settings) / CONFIG
    if not path.is_file():
        return {}
    try:
        prompts = json.loads(path.read_text(encoding="utf-8")).get("prompts") or {}
    except (OSError, ValueError, AttributeError) as error:
        raise DataError(str(path), [f"cannot be read: {error}"], fix="fetch the model again") from error
    return {str(name): str(text or "") for name, text in prompts.items()}


def model_folder(settings: Settings, *, fetch: bool = False) -> Path:
    """Where the files of a hub model, a folder or a package lie; ``fetch`` downloads a hub model that is not there.

    Raises MissingExtraError or UsageError for a package that is not installed, or that carries no model, and
    EngineUnavailableError for a hub model that is not there.
    """
    source = settings.source
    if source.kind == "folder":
        return _with_model(Path(source.name), source)
    if source.kind == "package":
        found = find_module(source.name)
        if found is None and source == ModelSource("package", DEFAULT_MODEL.partition(":")[2]):
            raise MissingExtraError(source.name, extra="minilm", feature="the default dense model")
        if found is None:
            raise UsageError(f"there is no package '{source.name}' (model=package:{source.name})", fix="install it")
        return _with_model(found.parent, source)
    return snapshot(source.name, settings.revision, fetch=fetch)


def find_module(name: str) -> Path | None:
    """The file of a Python module, found as a worker's import would, without importing anything; None when it is not.

    Only plain files and packages are found, in the working folder and on ``sys.path``.
    """
    parts = name.split(".")
    for root in (Path.cwd(), *(Path(entry) for entry in sys.path)):
        place = root.joinpath(*parts)
        for file in (
            place / "__init__.py",
            place.with_suffix(".py") if len(parts) == 1 else root.joinpath(*parts[:-1], f"{parts[-1]}.py"),
        ):
            if file.is_file():
                return file
    return None


def _with_model(folder: Path, source: ModelSource) -> Path:
    for name in ("modules.json", "config.json"):
        found = sorted([*folder.glob(name), *folder.glob(f"*/{name}")], key=lambda path: (len(path.parts), path))
        if found:
            return found[0].parent
    raise UsageError(
        f"'{folder}' holds no model: neither it nor a folder in it has modules.json or config.json",
        fix=f"{source.kind} models are what sentence-transformers saves",
    )


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
