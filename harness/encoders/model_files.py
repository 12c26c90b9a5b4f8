"""Which files of a model's folder its vectors may depend on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

__all__ = ["chosen_files", "has_weights", "model_files"]

_NO_PART = (
    *(".md", ".png", ".jpg", ".gif", ".pdf", ".gitattributes", ".gitignore", ".lock", ".pyc"),
    *(".h5", ".msgpack", ".ot", ".onnx", ".tflite", ".mlmodel", ".gguf"),
)
"""Texts for people, and weights in formats that are not read."""
_OTHER_FORMATS = {"onnx", "openvino", "coreml", "__pycache__", ".git", ".cache"}
_SECOND_CHOICE = (".bin", ".pt", ".pth", ".ckpt")
"""Weights that are read only where there are none in safetensors' format."""
_WEIGHTS = (".safetensors", *_SECOND_CHOICE)


def chosen_files(names: Iterable[str]) -> list[str]:
    """Of the files of a model, by their paths in its folder, those that are read; sorted."""
    kept = [
        PurePosixPath(name)
        for name in sorted(names)
        if not name.endswith(_NO_PART) and not set(PurePosixPath(name).parts) & _OTHER_FORMATS
    ]
    with_safetensors = {path.parent for path in kept if path.suffix == ".safetensors"}
    return [str(path) for path in kept if path.suffix not in _SECOND_CHOICE or path.parent not in with_safetensors]


def model_files(folder: Path) -> list[tuple[str, Path]]:
    """The files below ``folder`` that are read, by their paths in it, sorted."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return [(name, folder / name) for name in chosen_files(names)]


def has_weights(folder: Path) -> bool:
    """Whether weights lie in the folder: a snapshot may hold no more than somebody asked for."""
    return any(name.endswith(_WEIGHTS) for name, _ in model_files(folder))
