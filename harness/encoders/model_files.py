"""Which files of a model's folder its vectors may depend on, and whether all of them are there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

__all__ = ["chosen_files", "is_whole", "model_files"]

_NO_PART = (
    *(".md", ".png", ".jpg", ".gif", ".pdf", ".gitattributes", ".gitignore", ".lock", ".pyc"),
    *(".h5", ".msgpack", ".ot", ".onnx", ".tflite", ".mlmodel", ".gguf"),
)
"""Texts for people, and weights in formats that are not read."""
_OTHER_FORMATS = {"onnx", "openvino", "coreml", "__pycache__", ".git", ".cache"}
_TRAINING = (
    "optimizer.*",
    "scheduler.pt",
    "scaler.pt",
    "rng_state*.pth",
    "trainer_state.json",
    "training_args.bin",
    "events.out.*",
)
_TRAINING_FOLDERS = ("checkpoint-*", "eval", "runs")
"""What trainers keep beside a model that they are at work on, of whatever framework."""
_SECOND_CHOICE = (".bin", ".pt", ".pth", ".ckpt")
"""Weights that are read only where there are none in safetensors' format."""
_WEIGHTS = (".safetensors", *_SECOND_CHOICE)
_WITH_CONFIG = (".Pooling", ".SpladePooling", ".Dense")
"""Modules that have a ``config.json`` of their own, by the ends of their classes; others may have no file at all."""


def chosen_files(names: Iterable[str]) -> list[str]:
    """Of the files of a model, by their paths in its folder, those that are read; sorted."""
    kept = [path for path in map(PurePosixPath, sorted(names)) if _is_part(path)]
    with_safetensors = {path.parent for path in kept if path.suffix == ".safetensors"}
    return [str(path) for path in kept if path.suffix not in _SECOND_CHOICE or path.parent not in with_safetensors]


def _is_part(path: PurePosixPath) -> bool:
    if path.name.endswith(_NO_PART) or set(path.parts) & _OTHER_FORMATS:
        return False
    of_training = any(fnmatchcase(path.name, pattern) for pattern in _TRAINING)
    return not of_training and not any(
        fnmatchcase(part, pattern) for part in path.parts[:-1] for pattern in _TRAINING_FOLDERS
    )


def model_files(folder: Path) -> list[tuple[str, Path]]:
    """The files below ``folder`` that are read, by their paths in it, sorted."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return [(name, folder / name) for name in chosen_files(names)]


def is_whole(folder: Path) -> bool:
    """Whether weights lie in the folder, all of their parts, and the modules that the model says it has.

    A snapshot may hold no more than somebody asked for, or than came before a download was interrupted. False too for
    lists of them that cannot be read.
    """
    if not any(name.endswith(_WEIGHTS) for name, _ in model_files(folder)):
        return False
    try:
        return all(map(Path.is_file, _declared(folder)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _declared(folder: Path) -> Iterator[Path]:
    """Files that must be there: the parts of weights that are stored in parts, and the modules' configurations."""
    for index in folder.rglob("*.safetensors.index.json"):
        yield from (index.parent / part for part in set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    modules = folder / "modules.json"
    if modules.is_file():
        for module in json.loads(modules.read_text("utf-8")):
            if module["path"] and str(module["type"]).endswith(_WITH_CONFIG):
                yield folder / module["path"] / "config.json"
