"""What came of an index that was built again, as files beside those of the first build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson

from harness.data.types import Float32Array, Int32Array, Int64Array

__all__ = ["BuildCost", "RebuildHits", "read_rebuilds", "write_rebuilds"]

_NAMES = ("indptr", "rows", "scores")
_COST = "cost.json"


class BuildCost(NamedTuple):
    """What one build took: nanoseconds, documents, and bytes; None where nobody could tell these.

    The peaks are of the worker that indexed and then asked every query once.
    """

    index_ns: int
    ready_ns: int
    indexed: int
    index_bytes: int | None
    log_bytes: int
    peak_rss_bytes: int | None
    peak_anonymous_bytes: int | None


@dataclass(frozen=True, eq=False, slots=True)
class RebuildHits:
    """What one more build answered, in the engine's own order: ``indptr`` int64 (Q + 1), ``rows`` and ``scores`` (H,).

    Rows are those of the collection, as in the first build. ``cost`` is what building it took.
    """

    indptr: Int64Array
    rows: Int32Array
    scores: Float32Array
    cost: BuildCost


def write_rebuilds(folder: Path, rebuilds: Sequence[RebuildHits]) -> None:
    """Write the builds after the first into ``folder/build-2``, ``folder/build-3`` …; nothing for none."""
    for number, hits in enumerate(rebuilds, start=2):
        place = _place(folder, number)
        place.mkdir()
        for name in _NAMES:
            np.save(place / f"{name}.npy", getattr(hits, name), allow_pickle=False)
        (place / _COST).write_bytes(orjson.dumps(hits.cost._asdict()))


def read_rebuilds(folder: Path) -> tuple[RebuildHits, ...]:
    """Read what :func:`write_rebuilds` wrote, in the order of the builds."""
    found = []
    for number in count(2):
        place = _place(folder, number)
        if not place.is_dir():
            break
        arrays = {name: np.load(place / f"{name}.npy", allow_pickle=False) for name in _NAMES}
        found.append(RebuildHits(**arrays, cost=BuildCost(**orjson.loads((place / _COST).read_bytes()))))
    return tuple(found)


def _place(folder: Path, number: int) -> Path:
    return folder / f"build-{number}"
