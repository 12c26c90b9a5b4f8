"""The hits of an index that was built again, as files beside those of the first build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from harness.types import Float32Array, Int32Array, Int64Array

__all__ = ["RebuildHits", "read_rebuilds", "write_rebuilds"]

_NAMES = ("indptr", "rows", "scores")


@dataclass(frozen=True, eq=False, slots=True)
class RebuildHits:
    """What one more build answered, in the engine's own order: ``indptr`` int64 (Q + 1), ``rows`` and ``scores`` (H,).

    Rows are those of the collection, as in the first build.
    """

    indptr: Int64Array
    rows: Int32Array
    scores: Float32Array


def write_rebuilds(folder: Path, rebuilds: Sequence[RebuildHits]) -> None:
    """Write the builds after the first into ``folder/build-2``, ``folder/build-3`` …; nothing for none."""
    for number, hits in enumerate(rebuilds, start=2):
        place = _place(folder, number)
        place.mkdir()
        for name in _NAMES:
            np.save(place / f"{name}.npy", getattr(hits, name), allow_pickle=False)


def read_rebuilds(folder: Path) -> tuple[RebuildHits, ...]:
    """Read what :func:`write_rebuilds` wrote, in the order of the builds."""
    found = []
    for number in count(2):
        place = _place(folder, number)
        if not place.is_dir():
            break
        found.append(RebuildHits(*(np.load(place / f"{name}.npy", allow_pickle=False) for name in _NAMES)))
    return tuple(found)


def _place(folder: Path, number: int) -> Path:
    return folder / f"build-{number}"
