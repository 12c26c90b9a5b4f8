"""Cached vectors against the model that should have made them: a sample is encoded again and compared."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.arrow import numbers, take_rows
from harness.data.types import Float64Array, Int64Array, SparseVectors
from harness.encoders.settings import Role, Settings
from harness.errors import CacheError
from harness.store.columns import load_table, load_vectors, save_table

TOLERANCES = {"float32": 1e-3, "float16": 5e-2, "bfloat16": 5e-2}
"""Largest difference, relative to a vector's length, that batches of other sizes, other machines and other versions of
libraries may leave, by the precision that the model computes in. Another model is far beyond it."""
_MAX_EXAMPLES = 10


class Sample(NamedTuple):
    """Rows of a role's texts (int64, ascending), and an Arrow file with just these."""

    rows: Int64Array
    texts: Path


def draw_sample(texts: Path, role: Role, share: float, seed: int, folder: Path) -> Sample:
    """Draw ``share`` of the texts, at least one; the file goes into ``folder``."""
    table = load_table(texts)
    count = min(len(table), max(1, math.ceil(share * len(table))))
    rows: Int64Array = np.sort(np.random.default_rng(seed).choice(len(table), size=count, replace=False))
    path = folder / f"{role}.sample.arrow"
    save_table(path, pa.table({name: take_rows(table.column(name), rows) for name in table.column_names}))
    return Sample(rows, path)


def compare_sample(cached: Path, again: Path, role: Role, sample: Sample, settings: Settings) -> float:
    """Return the largest relative difference between the vectors of ``cached`` and the new vectors in ``again``.

    Raises CacheError, naming texts, if it is beyond the tolerance.
    """
    differences = _differences(cached, again, role, sample.rows)
    tolerance = TOLERANCES[settings.dtype]
    beyond = np.flatnonzero(~(differences <= tolerance))
    if len(beyond):
        ids = load_table(sample.texts).column("id").take(numbers(beyond[:_MAX_EXAMPLES])).to_pylist()
        raise CacheError(
            f"{len(beyond)} of {len(differences)} cached vectors of {role} by model '{settings.source.name}' differ "
            f"from its present vectors: {', '.join(ids)}; the largest relative difference is "
            f"{float(np.nanmax(differences)):.2g}, and {tolerance:g} is allowed",
            fix=f"remove them, and they are encoded again: harness cache remove {cached.name}",
        )
    return float(differences.max(initial=0.0))


def _differences(cached: Path, again: Path, role: Role, rows: Int64Array) -> Float64Array:
    """Return ``|cached - again| / |cached|`` of each row, float64; infinite if the dimensions differ."""
    before, now = load_vectors(cached, role), load_vectors(again, role)
    if isinstance(before, SparseVectors) and isinstance(now, SparseVectors):
        from scipy.sparse import csr_array

        width = max(before.dimensions, now.dimensions)
        old, new = (
            csr_array((rows_of.values.astype(np.float64), rows_of.indices, rows_of.indptr), shape=(len(rows_of), width))
            for rows_of in (before.take(rows), now)
        )
        off, length = (np.sqrt(np.asarray(rows_of.power(2).sum(axis=1))).ravel() for rows_of in (old - new, old))
    elif isinstance(before, np.ndarray) and isinstance(now, np.ndarray) and before.shape[1] == now.shape[1]:
        off = np.linalg.norm(before[rows].astype(np.float64) - now, axis=1)
        length = np.linalg.norm(before[rows].astype(np.float64), axis=1)
    else:
        return np.full(len(rows), np.inf)
    relative: Float64Array = np.where(off == 0, 0.0, off / np.maximum(length, np.finfo(np.float64).tiny))
    return relative
