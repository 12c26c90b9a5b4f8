"""Vectors that are made of a model's own without asking it again: fewer dimensions, length 1."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.encoders.growing import GrowingColumn
from harness.encoders.settings import Role, Settings
from harness.encoders.stream import finished_dense, read_made, write_made
from harness.store.columns import load_vectors

__all__ = ["derive"]

_ROWS = 16_384


def derive(source: Path, target: Path, ids: Ids, role: Role, settings: Settings) -> None:
    """Truncate and normalise the finished dense vectors in ``source`` as ``settings`` say, into the folder ``target``.

    The bits are those that encoding with these settings gives; memory is bounded by 16,384 rows. ``ids`` name the texts
    of the rows. Raises DataError for more dimensions than there are, and for vectors that have no direction.
    """
    rows, made = load_vectors(source, role), read_made(source)
    if not isinstance(rows, np.ndarray):
        raise AssertionError("only dense vectors are truncated")
    width = settings.truncate_dim or made.dimensions
    column = GrowingColumn(target / f"{role}.npy", np.float32, rows=0, width=width)
    try:
        for start in range(0, len(rows), _ROWS):
            texts = Inputs(Ids(ids.values.slice(start, _ROWS)))
            column.append(finished_dense(rows[start : start + _ROWS], texts, role, settings))
        column.finish()
    finally:
        column.close()
    write_made(target, replace(made, dimensions=width))
