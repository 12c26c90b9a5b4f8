"""Where the files of models and the modules of own objects lie, found without importing anything."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.encoders.hub import snapshot
from harness.encoders.settings import DEFAULT_MODEL, ModelSource, Settings
from harness.errors import MissingExtraError, UsageError

__all__ = ["find_module", "model_folder"]


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
