"""Search with estimates from a GPU: PyTorch multiplies and selects, the best are scored exactly here."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.types import Float32Array, Int64Array, UInt64Array, offsets_of
from harness.errors import UsageError
from harness.exact.dense.scores import Pair, exact_keys
from harness.exact.dense.search import Blocks, Job, best_keys
from harness.registry.devices import MISSING_DEVICE_FIX, missing_device

_DRIVER = Path("/proc/driver/nvidia/version")
_QUERIES = 1024
_DOCUMENTS = 1 << 16
_SPARE = 64


def choose_device(device: str) -> str | None:
    """Return PyTorch's name of the device, None for BLAS.

    ``auto`` takes a GPU if one is available and PyTorch is installed. Raises UsageError for a device that PyTorch does
    not have.
    """
    if device == "cpu" or (device == "auto" and not (_DRIVER.exists() and find_spec("torch"))):
        return None
    if find_spec("torch") is None:
        raise UsageError(
            f"the device is '{device}', and PyTorch is not installed", fix="install retrieval-harness[dense]"
        )
    torch = import_module("torch")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else None
    missing = missing_device(torch, device)
    if missing is not None:
        raise UsageError(missing, fix=MISSING_DEVICE_FIX)
    return device


def keys_on_device(job: Job, k: int, device: str) -> UInt64Array:
    """Return the result of :func:`harness.exact.dense.search.best_keys`, bit for bit.

    The bound on the error of a product holds for any order of float32 sums, so for the GPU's too, without TF32.
    """
    torch = import_module("torch")
    allowed, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
    try:
        return _keys(torch, job, k, device)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed


def _keys(torch: Any, job: Job, k: int, device: str) -> UInt64Array:
    pair = job.pair
    documents, queries = len(pair.documents), len(pair.queries)
    width = min(k, documents)
    deep = min(documents, width + _SPARE)
    keys: UInt64Array = np.zeros((queries, width), dtype=np.uint64)
    for start in range(0, queries if documents else 0, _QUERIES):
        part = slice(start, min(start + _QUERIES, queries))
        values, rows = _largest(torch, job, part, deep, device)
        candidates = values >= (values[:, width - 1] - job.estimates.slack[part])[:, None]
        keys[part] = _exact(pair, part, candidates, rows)[:, -width:]
        if deep < documents:
            for query in (
                np.flatnonzero(candidates.all(axis=1)) + start
            ):  # more documents may be tied than were examined
                keys[query] = best_keys(job, slice(query, query + 1), k, 1, Blocks())[0]
    return keys


def _largest(
    torch: Any,
    job: Job,
    part: slice,
    deep: int,
    device: str,
) -> tuple[Float32Array, Int64Array]:
    """Return the ``deep`` largest estimates of each query, descending, and their rows, by blocks of documents."""
    estimates = job.estimates
    queries = torch.from_numpy(estimates.scaled(job.pair.queries, part)).to(device)
    values = torch.empty((len(queries), 0), device=device)
    rows = torch.empty((len(queries), 0), dtype=torch.int64, device=device)
    for first in range(0, len(job.pair.documents), _DOCUMENTS):
        end = min(first + _DOCUMENTS, len(job.pair.documents))
        block = torch.from_numpy(np.array(job.documents(slice(first, end)))).to(device)
        scale, shift = (
            torch.from_numpy(np.array(column[first:end])).to(device) for column in (estimates.scale, estimates.shift)
        )
        scores = queries @ block.T * scale + shift
        best, positions = torch.topk(scores, min(deep, end - first), dim=1)
        values, rows = torch.cat([values, best], dim=1), torch.cat([rows, positions + first], dim=1)
        values, positions = torch.topk(values, min(deep, values.shape[1]), dim=1)
        rows = torch.gather(rows, 1, positions)
    return values.cpu().numpy(), rows.cpu().numpy()


def _exact(pair: Pair, part: slice, candidates: np.ndarray, rows: Int64Array) -> UInt64Array:
    """Return the keys of the wanted rows of each query, ascending; 0 for the others."""
    some = pair._replace(queries=pair.queries[part], query_lengths=pair.query_lengths[part])
    indptr = offsets_of(candidates.sum(axis=1))
    candidate_rows = rows[candidates].astype(np.int32)
    indptr.flags.writeable = candidate_rows.flags.writeable = False
    flat = np.empty(len(candidate_rows), dtype=np.uint64)
    exact_keys(some, indptr, candidate_rows, flat)
    keys: UInt64Array = np.zeros(candidates.shape, dtype=np.uint64)
    keys[candidates] = flat
    keys.sort(axis=1)
    return keys
