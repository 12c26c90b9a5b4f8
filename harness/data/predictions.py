"""MTEB's predictions: the runs of all subsets and splits of one task, in one object or JSON file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from harness.data.memory import run_from_dict
from harness.data.types import Run
from harness.errors import UsageError

__all__ = ["PartOfFile", "are_predictions", "part_of_file", "run_from_predictions"]

_ABOUT = "mteb_model_meta"


class PartOfFile(NamedTuple):
    """A file, and which of the runs in it is meant: the text after ``#``, empty where there is none."""

    path: Path
    fragment: str


def part_of_file(path: str | PathLike[str]) -> PartOfFile:
    """Return the file and the fragment of ``predictions.json#subset/split``; a file may have a ``#`` in its name."""
    file, mark, fragment = str(path).rpartition("#")
    if mark and not Path(path).exists() and Path(file).is_file():
        return PartOfFile(Path(file), fragment)
    return PartOfFile(Path(path), "")


def are_predictions(value: object) -> bool:
    """Return whether ``value`` is ``{subset: {split: {query id: {document id: score}}}}``."""
    if not isinstance(value, Mapping):
        return False
    subsets = [splits for subset, splits in value.items() if subset != _ABOUT]
    return _nested(subsets, 3) and any(subsets)


def _nested(values: Iterable[object], levels: int) -> bool:
    """Return whether all values are mappings of mappings …, so many levels deep."""
    return all(isinstance(value, Mapping) and (levels == 1 or _nested(value.values(), levels - 1)) for value in values)


def run_from_predictions(predictions: Mapping[str, Any], fragment: str = "", source: str = "the predictions") -> Run:
    """Return one of the runs in MTEB's predictions; they are stored in no order, so that of the scores is taken.

    Args:
        predictions: what :func:`are_predictions` accepts.
        fragment: ``subset/split``, or as much of it as tells which run is meant.
        source: where they come from, for messages.

    Raises:
        UsageError: none or several of the runs are meant.
        DataError: as :func:`harness.data.memory.run_from_dict` does.
    """
    runs = {
        (subset, split): run
        for subset, splits in predictions.items()
        if subset != _ABOUT
        for split, run in splits.items()
    }
    meant = [key for key in runs if fragment in ("", "/".join(key), *key)]
    if len(meant) != 1:
        there = ", ".join("/".join(key) for key in runs)
        subset, split = (meant or list(runs))[0]
        problem = f"is no run '{fragment}'" if not meant else f"are {len(meant)} runs, and one is scored"
        how = f"name one after the path, as in FILE#{subset}/{split}, or give predictions[{subset!r}][{split!r}]"
        raise UsageError(f"{source}: there {problem}: {there}", fix=how)
    return run_from_dict(runs[meant[0]], by_score=True)
