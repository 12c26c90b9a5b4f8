"""Encode texts chunk by chunk into a folder; what was finished before an interruption is never encoded again.

While it goes on, the folder holds columns that grow and ``progress.json``, which says how far they are whole. It is
written after the columns are on the disk, so a killed run loses its last chunk and nothing else. Afterwards the folder
holds finished columns (:func:`harness.store.columns.load_vectors`) and ``made.json``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Ids, SparseVectors
from harness.encoders.growing import GrowingColumn
from harness.encoders.model import Model, Rows
from harness.encoders.settings import Role, Settings
from harness.encoders.sparsity import strongest
from harness.errors import DataError
from harness.registry.parameters import ParameterValue

__all__ = ["Done", "Made", "encode_into", "finished_dense", "read_made", "rows_begun", "write_made"]

_BATCHES = 8
"""Batches in a chunk: enough of them that sorting its texts by length saves padding."""
_CALLS = 1
"""Calls in a chunk, of a model behind an endpoint: none is lost, and paid for again, when the next one fails."""
_PROGRESS, _MADE = "progress.json", "made.json"
_SHOWN = 20
_log = logging.getLogger("harness")


@dataclass(frozen=True, slots=True)
class Made:
    """What a finished encoding says of itself.

    ``rows`` texts of ``dimensions``; ``took_ns`` is the model's time, over all the runs that it took. ``values`` are
    those stored of sparse vectors, None for dense ones. ``prompt`` was put before every text. ``facts`` are the
    model's own words: device, versions. ``chunks`` is in how many steps that was, which of a model behind an endpoint
    are the calls that it answered.
    """

    rows: int
    dimensions: int
    took_ns: int
    values: int | None
    prompt: str
    batch_size: int
    facts: Mapping[str, ParameterValue]
    chunks: int = 0


class Done(NamedTuple):
    """What one call of :func:`encode_into` did itself: ``rows`` in ``chunks``; none of what was there before."""

    rows: int
    chunks: int


@dataclass(frozen=True, slots=True)
class _State:
    """How far an encoding is: ``rows`` texts are encoded, with ``values`` weights where they are sparse."""

    rows: int = 0
    values: int = 0
    dimensions: int = 0
    took_ns: int = 0
    chunks: int = 0


def encode_into(
    folder: Path,
    texts: Inputs,
    role: Role,
    settings: Settings,
    model: Model,
    *,
    prompt: str,
    progress: Progress,
    clock: Clock,
) -> Done:
    """Encode all of ``texts``, going on where an earlier run into ``folder`` was interrupted.

    Where less is there than it left, or what it says of itself cannot be read, that is named on the log and everything
    is encoded again.
    Memory is bounded by one chunk: eight batches, or one of a model behind an endpoint. Nothing is done in a folder
    that is finished. Raises DataError for vectors that are not finite, are of another width, or are all zero where they
    have to be normalised; and whatever the model raises.
    """
    if (folder / _MADE).exists():
        return Done(0, 0)
    begun = state = _read_state(folder, texts, role, settings)
    before = f", {state.rows:,} done before" if state.rows else ""
    progress.start(f"encode {role}{before}", len(texts) - state.rows)
    columns: _Columns | None = None
    size = settings.batch_size * (_CALLS if settings.source.kind == "http" else _BATCHES)
    try:
        for start in range(state.rows, len(texts), size):
            part = _slice(texts, start, size)
            started = clock()
            rows = _finished(model.encode(part, role), part, role, settings)
            took = clock() - started
            _refuse_other_width(rows, part, state)
            if columns is None:
                columns = _Columns(folder, role, state, rows)
            state = columns.append(rows, replace(state, took_ns=state.took_ns + took, chunks=state.chunks + 1))
            _write(folder / _PROGRESS, asdict(state))
            progress.advance(len(part))
        if columns is None:
            columns = _Columns(folder, role, state, _nothing(settings, state))
        columns.finish()
    finally:
        if columns is not None:
            columns.close()
    sparse = settings.encoder == "splade"
    made = Made(
        rows=state.rows,
        dimensions=state.dimensions,
        took_ns=state.took_ns,
        values=state.values if sparse else None,
        prompt=prompt,
        batch_size=settings.batch_size,
        facts=model.facts,
        chunks=state.chunks,
    )
    if sparse:
        np.save(folder / f"{role}.dimensions.npy", np.int64(state.dimensions), allow_pickle=False)
    write_made(folder, made)
    (folder / _PROGRESS).unlink(missing_ok=True)
    return Done(state.rows - begun.rows, state.chunks - begun.chunks)


def rows_begun(folder: Path) -> int:
    """How many texts an interrupted :func:`encode_into` left finished in ``folder``, by its own account; 0 for none."""
    try:
        if (folder / _MADE).exists():
            return read_made(folder).rows
        return _State(**orjson.loads((folder / _PROGRESS).read_bytes())).rows
    except (OSError, ValueError, TypeError):  # whoever goes on with it names what is wrong
        return 0


def read_made(folder: Path) -> Made:
    """What :func:`encode_into` wrote beside the vectors."""
    return Made(**orjson.loads((folder / _MADE).read_bytes()))


def write_made(folder: Path, made: Made) -> None:
    """Write what :func:`read_made` reads; the vectors have to be there whole."""
    _write(folder / _MADE, asdict(made))


class _Columns:
    """The growing files of dense or sparse vectors."""

    def __init__(self, folder: Path, role: Role, state: _State, like: Rows) -> None:
        width = None if isinstance(like, SparseVectors) else like.shape[1]
        self._files = {
            name: GrowingColumn(path, dtype, rows=rows, width=width)
            for name, path, dtype, rows in _files(folder, role, state, sparse=width is None)
        }
        if width is None and not state.rows:
            self._files["indptr"].append(np.zeros(1, dtype=np.int64))

    def append(self, rows: Rows, state: _State) -> _State:
        """Add rows, wait until the disk has them, and say how far that is."""
        if isinstance(rows, SparseVectors):
            self._files["indptr"].append(rows.indptr[1:] + state.values)
            self._files["indices"].append(rows.indices)
            self._files["values"].append(rows.values)
            dimensions, values = max(state.dimensions, rows.dimensions), state.values + rows.nnz
        else:
            dimensions, values = rows.shape[1], 0
            self._files[""].append(rows)
        for file in self._files.values():
            file.sync()
        return replace(state, rows=state.rows + len(rows), values=values, dimensions=dimensions)

    def finish(self) -> None:
        for file in self._files.values():
            file.finish()

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def _files(folder: Path, role: Role, state: _State, *, sparse: bool) -> list[tuple[str, Path, npt.DTypeLike, int]]:
    """The growing files: a name for each, where it is, its dtype, and how many rows of it are whole."""
    if not sparse:
        return [("", folder / f"{role}.npy", np.float32, state.rows)]
    return [
        (name, folder / f"{role}.{name}.npy", dtype, rows)
        for name, dtype, rows in (
            ("indptr", np.int64, state.rows + 1 if state.rows else 0),
            ("indices", np.int32, state.values),
            ("values", np.float32, state.values),
        )
    ]


def _refuse_other_width(rows: Rows, texts: Inputs, state: _State) -> None:
    if state.rows and not isinstance(rows, SparseVectors) and rows.shape[1] != state.dimensions:
        problem = f"{rows.shape[1]} dimensions from '{texts.ids[0]}' on, {state.dimensions} before"
        raise DataError("the model's vectors", [problem])


def _finished(rows: Rows, texts: Inputs, role: Role, settings: Settings) -> Rows:
    """Checked; dense ones truncated and normalised."""
    source = _source(role, settings)
    if len(rows) != len(texts):
        raise DataError(source, [f"{len(rows)} rows came for the {len(texts)} texts from '{texts.ids[0]}' on"])
    if isinstance(rows, SparseVectors):
        _refuse(source, "values that are NaN or infinite", texts.ids, ~_finite_rows(rows))
        # models that sentence-transformers loads have cut theirs: nothing is left to do for them
        return strongest(rows, settings.max_active_dims) if settings.max_active_dims else rows
    _refuse(source, "values that are NaN or infinite", texts.ids, ~np.isfinite(rows).all(axis=1))
    return finished_dense(rows, texts, role, settings)


def finished_dense(rows: Float32Array, texts: Inputs, role: Role, settings: Settings) -> Float32Array:
    """Finite vectors of ``texts`` truncated, then normalised, as ``settings`` say; (n, dimensions).

    Raises DataError for more dimensions than there are, and for vectors without a direction, naming texts.
    """
    source = _source(role, settings)
    if settings.truncate_dim > rows.shape[1]:
        problem = f"have {rows.shape[1]} dimensions, and truncate_dim is {settings.truncate_dim}"
        raise DataError(source, [problem], fix="ask for fewer")
    if settings.truncate_dim:
        rows = np.ascontiguousarray(rows[:, : settings.truncate_dim])
    if not settings.normalize:
        return rows
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    _refuse(source, "only zeros, which has no direction to normalise", texts.ids, lengths == 0)
    normalised: Float32Array = (rows / lengths[:, None]).astype(np.float32)
    return normalised


def _source(role: Role, settings: Settings) -> str:
    return f"vectors of {role} by model '{settings.source.name}'"


def _finite_rows(rows: SparseVectors) -> Any:  # noqa: ANN401 - bool (n,)
    bad = np.flatnonzero(~np.isfinite(rows.values))
    finite = np.ones(len(rows), dtype=bool)
    finite[np.searchsorted(rows.indptr, bad, side="right") - 1] = False
    return finite


def _refuse(source: str, what: str, ids: Ids, bad: Any) -> None:  # noqa: ANN401 - bool (n,)
    named = ids.take(np.flatnonzero(bad))
    if named:
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        raise DataError(source, [f"{what}: {', '.join(named[:_SHOWN])}{more}"], fix="mend the model, or these texts")


def _nothing(settings: Settings, state: _State) -> Rows:
    if settings.encoder == "dense":
        return np.empty((0, state.dimensions), dtype=np.float32)
    none = np.zeros(0, dtype=np.int32)
    return SparseVectors(np.zeros(1, dtype=np.int64), none, none.astype(np.float32), state.dimensions)


def _slice(texts: Inputs, start: int, size: int) -> Inputs:
    column = texts.texts.slice(start, size) if texts.texts is not None else None
    return Inputs(Ids(texts.ids.values.slice(start, size)), column)


def _read_state(folder: Path, texts: Inputs, role: Role, settings: Settings) -> _State:
    path, sparse = folder / _PROGRESS, settings.encoder == "splade"
    if not path.exists():
        return _State()
    try:
        state = _State(**orjson.loads(path.read_bytes()))
        if not all(isinstance(value, int) and value >= 0 for value in asdict(state).values()):
            raise ValueError(f"{state} is no state")
    except (ValueError, TypeError) as error:
        return _anew(folder, f"{_PROGRESS} cannot be read: {error}")
    if state.rows > len(texts):
        return _anew(folder, f"{_PROGRESS} tells of {state.rows} texts, and there are {len(texts)}")
    width = None if sparse else state.dimensions
    for _, file, dtype, rows in _files(folder, role, state, sparse=sparse):
        if not GrowingColumn.holds(file, dtype, rows=rows, width=width):
            return _anew(folder, f"{file.name} holds less than the {state.rows} texts that {_PROGRESS} tells of")
    return state


def _anew(folder: Path, fault: str) -> _State:
    _log.warning("unfinished cache entry '%s' is damaged and is begun again: %s", folder, fault)
    return _State()


def _write(path: Path, content: object) -> None:
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("wb") as stream:
        stream.write(orjson.dumps(content))
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(path)
