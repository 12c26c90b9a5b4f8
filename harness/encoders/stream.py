"""Encode texts chunk by chunk into a folder, and resume there after an interruption.

In the meantime the folder holds growing columns and ``progress.json``, the number of complete rows in them. It is
written after the columns are on the disk, so a killed run loses its last chunk and nothing else. Afterwards the folder
holds finished columns (:func:`harness.store.columns.load_vectors`) and ``made.json``.
"""

from __future__ import annotations

import io
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
from numpy.lib import format as npy

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Ids, SparseVectors
from harness.encoders.settings import Model, Role, Rows, Settings
from harness.encoders.sparsity import strongest
from harness.encoders.token_counts import TextLengths
from harness.errors import DataError
from harness.registry.parameters import ParameterValue
from harness.store.columns import load_column, load_vectors, save_column

_BATCHES = 8
"""Batches in a chunk: enough of them that sorting its texts by length saves padding."""
_CALLS = 1
"""Calls in a chunk of a model behind an endpoint: none is lost, and paid for again, when the next call fails."""
_SHARD_CHUNKS = 16
"""Chunks in a part that is encoded apart: 4,096 texts in batches of 32."""
_SHARDS = "shards"
_ROWS = 16_384
"""Rows in a chunk of vectors that are truncated."""
_HEADER_BYTES = 128
"""Room for any number of rows: NumPy pads its header to a multiple of 64 bytes, so this is a valid one."""
PROGRESS, MADE = "progress.json", "made.json"
_MAX_EXAMPLES = 20
_log = logging.getLogger("harness")


@dataclass(frozen=True, slots=True)
class Made:
    """Record of a finished encoding, ``made.json``.

    ``rows`` texts of ``dimensions``; ``took_ns`` is the model's time, over all runs that took part. ``values`` is the
    number of stored weights of sparse vectors, None for dense ones. ``prompt`` was put before every text. ``facts``
    come from the model: device, versions. ``chunks`` is the number of steps; for a model behind an endpoint, that is
    the number of calls that it answered. ``limit`` and ``limit_from`` are as in :class:`TextLengths`, whose counts lie
    in a separate column; both are empty for models that do not report lengths.
    """

    rows: int
    dimensions: int
    took_ns: int
    values: int | None
    prompt: str
    batch_size: int
    facts: Mapping[str, ParameterValue]
    chunks: int
    limit: int | None
    limit_from: str


class Done(NamedTuple):
    """Work of one call of :func:`encode_into`: ``rows`` in ``chunks``, without earlier runs' work."""

    rows: int
    chunks: int


class Shard(NamedTuple):
    """Part of an encoding, the texts from ``start`` up to ``stop``, in a separate folder."""

    folder: Path
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class _State:
    """State of an encoding, ``progress.json``: ``rows`` texts are encoded, with ``values`` weights if sparse.

    ``limit`` and ``limit_from`` are as in :class:`Made`.
    """

    rows: int = 0
    values: int = 0
    dimensions: int = 0
    took_ns: int = 0
    chunks: int = 0
    limit: int | None = None
    limit_from: str = ""


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
    """Encode all of ``texts``, resuming where an earlier run into ``folder`` was interrupted.

    A folder that holds less than its state records, or whose state cannot be read, is logged and begun again. Memory is
    bounded by one chunk: eight batches, or one of a model behind an endpoint. Nothing is done in a finished folder.

    Raises:
        DataError: Vectors are not finite, have different widths, or are zero but have to be normalised.
        HarnessError: Any error of the model.
    """
    if (folder / MADE).exists():
        return Done(0, 0)
    state = _read_state(folder, len(texts), role, settings)
    before = f", {state.rows:,} done before" if state.rows else ""
    progress.start(f"encode {role}{before}", len(texts) - state.rows)
    size = _chunk(settings)
    with closing(_Columns(folder, role, state)) as columns:
        for start in range(state.rows, len(texts), size):
            part = texts.slice(start, start + size)
            started = clock()
            rows = _finished(model.encode(part, role), part, role, settings)
            columns.append(rows, model.lengths, f"'{part.ids[0]}'", took_ns=clock() - started)
            _write(folder / PROGRESS, asdict(columns.state))
            progress.advance(len(part))
        columns.finish(settings)
    _complete(folder, role, columns.state, settings, prompt, model.facts)
    return Done(columns.state.rows - state.rows, columns.state.chunks - state.chunks)


def shards(folder: Path, rows: int, role: Role, settings: Settings) -> list[Shard]:
    """Divide the unencoded rows of ``rows`` texts into parts that can be encoded apart, on other machines too.

    A part is 16 of the chunks that one process would encode, so that the model gets the very same batches. The parts do
    not depend on how many jobs encode them: the next encoding uses finished parts and resumes begun ones.
    """
    begun, size = rows_begun(folder), _SHARD_CHUNKS * _chunk(settings)
    bounds = ((start, min(start + size, rows)) for start in range(begun, rows, size))
    return [Shard(folder / _SHARDS / f"{role}-{start}-{stop}", start, stop) for start, stop in bounds]


def join(folder: Path, parts: Sequence[Shard], role: Role, settings: Settings, prompt: str) -> None:
    """Put the finished ``parts`` of :func:`shards` together in ``folder``, as if one process had encoded all texts.

    Raises DataError when their vectors have different widths: the machines have different models.
    """
    state = _read_state(folder, parts[-1].stop, role, settings)
    facts: Mapping[str, ParameterValue] = {}
    with closing(_Columns(folder, role, state)) as columns:
        for part in parts:
            rows, made, lengths = (
                load_vectors(part.folder, role),
                read_made(part.folder),
                read_lengths(part.folder, role),
            )
            if len(rows) != part.stop - part.start or columns.state.rows != part.start:
                raise AssertionError(f"'{part.folder}' holds {len(rows)} rows, to be put after {columns.state.rows}")
            columns.append(rows, lengths, f"text {part.start}", took_ns=made.took_ns, chunks=made.chunks)
            facts = facts or made.facts
        columns.finish(settings)
    _complete(folder, role, columns.state, settings, prompt, facts)


def _chunk(settings: Settings) -> int:
    """Return the number of texts that are encoded and stored at a time."""
    return settings.batch_size * (_CALLS if settings.source.kind == "http" else _BATCHES)


def _complete(
    folder: Path, role: Role, state: _State, settings: Settings, prompt: str, facts: Mapping[str, ParameterValue]
) -> None:
    """Write the record of a finished encoding, and remove files that only served to resume it."""
    sparse = settings.encoder == "splade"
    if sparse:
        np.save(folder / f"{role}.dimensions.npy", np.int64(state.dimensions), allow_pickle=False)
    made = Made(
        rows=state.rows,
        dimensions=state.dimensions,
        took_ns=state.took_ns,
        values=state.values if sparse else None,
        prompt=prompt,
        batch_size=settings.batch_size,
        facts=facts,
        chunks=state.chunks,
        limit=state.limit,
        limit_from=state.limit_from,
    )
    _write(folder / MADE, asdict(made))
    (folder / PROGRESS).unlink(missing_ok=True)
    if (folder / _SHARDS).exists():
        shutil.rmtree(folder / _SHARDS)


def truncate(source: Path, target: Path, ids: Ids, role: Role, settings: Settings) -> None:
    """Truncate and normalise the finished dense vectors in ``source`` into the folder ``target``; no model is needed.

    The result has the bits of encoding with these ``settings``; memory is bounded by 16,384 rows. ``ids`` name the
    texts of the rows.

    Raises:
        DataError: The vectors have fewer dimensions than ``truncate_dim``, or no direction to normalise.
    """
    rows, made = load_vectors(source, role), read_made(source)
    if not isinstance(rows, np.ndarray):
        raise AssertionError("only dense vectors are truncated")
    width = settings.truncate_dim or made.dimensions
    with closing(_NpyWriter(target / f"{role}.npy", np.float32, rows=0, width=width)) as column:
        for start in range(0, len(rows), _ROWS):
            part = Inputs(ids).slice(start, start + _ROWS)
            column.append(_truncated(rows[start : start + _ROWS], part, role, settings))
        column.finish()
    if (lengths := read_lengths(source, role)) is not None:
        save_column(target / _lengths_file(role), lengths.counts)
    _write(target / MADE, asdict(replace(made, dimensions=width)))


def rows_begun(folder: Path) -> int:
    """Return the number of texts that an interrupted :func:`encode_into` recorded in ``folder``; 0 without a record."""
    try:
        if (folder / MADE).exists():
            return read_made(folder).rows
        return _State(**orjson.loads((folder / PROGRESS).read_bytes())).rows
    except (OSError, ValueError, TypeError):  # the run that resumes it reports the problem
        return 0


def read_made(folder: Path) -> Made:
    """Read the record of a finished encoding."""
    return Made(**orjson.loads((folder / MADE).read_bytes()))


def read_lengths(folder: Path, role: Role) -> TextLengths | None:
    """Return the lengths of the texts of a finished encoding; None if the model reports none."""
    path, made = folder / _lengths_file(role), read_made(folder)
    return TextLengths(load_column(path), made.limit, made.limit_from) if path.exists() else None


def _lengths_file(role: Role) -> str:
    return f"{role}.lengths.npy"


class _Columns:
    """Growing files of dense or sparse vectors, of the kind and width of the first that are added."""

    def __init__(self, folder: Path, role: Role, state: _State) -> None:
        self._folder, self._role, self.state = folder, role, state
        self._files: dict[str, _NpyWriter] = {}
        self._lengths: _NpyWriter | None = None

    def append(self, rows: Rows, lengths: TextLengths | None, first: str, *, took_ns: int, chunks: int = 1) -> None:
        """Add rows, the first of which is called ``first``, wait until the disk has them, and count them."""
        state = self.state
        if state.rows and not isinstance(rows, SparseVectors) and rows.shape[1] != state.dimensions:
            problem = f"{rows.shape[1]} dimensions from {first} on, {state.dimensions} before"
            raise DataError("the model's vectors", [problem])
        self._open(rows)
        if isinstance(rows, SparseVectors):
            self._files["indptr"].append(rows.indptr[1:] + state.values)
            self._files["indices"].append(rows.indices)
            self._files["values"].append(rows.values)
            dimensions, values = max(state.dimensions, rows.dimensions), state.values + rows.nnz
        else:
            dimensions, values = rows.shape[1], 0
            self._files[""].append(rows)
        limit, limit_from = self._append_lengths(lengths, len(rows))
        for file in self._all_files():
            file.sync()
        self.state = _State(
            state.rows + len(rows),
            values,
            dimensions,
            state.took_ns + took_ns,
            state.chunks + chunks,
            limit,
            limit_from,
        )

    def _append_lengths(self, lengths: TextLengths | None, rows: int) -> tuple[int | None, str]:
        """Add the lengths of texts, unknown for earlier rows without lengths; return the limit and its origin."""
        state = self.state
        if self._lengths is None and lengths is not None:
            path = self._folder / _lengths_file(self._role)
            complete_rows = (
                state.rows if path.is_file() and path.stat().st_size >= _file_bytes(state.rows, np.int32, 2) else 0
            )
            self._lengths = _NpyWriter(path, np.int32, rows=complete_rows, width=2)
            self._lengths.append(TextLengths.unknown(state.rows - complete_rows).counts)
        if self._lengths is not None:
            self._lengths.append((lengths or TextLengths.unknown(rows)).counts)
        if lengths is None or lengths.limit is None:
            return state.limit, state.limit_from
        return lengths.limit, lengths.limit_from

    def _all_files(self) -> list[_NpyWriter]:
        return [*self._files.values(), *([self._lengths] if self._lengths is not None else [])]

    def finish(self, settings: Settings) -> None:
        """Write the number of rows into all files."""
        dimensions = self.state.dimensions
        if settings.encoder == "dense":
            self._open(np.empty((0, dimensions), dtype=np.float32))
        else:
            indices, values = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
            self._open(SparseVectors(np.zeros(1, dtype=np.int64), indices, values, dimensions))
        for file in self._all_files():
            file.finish()

    def close(self) -> None:
        """Close the files in their current state."""
        for file in self._all_files():
            file.close()

    def _open(self, example: Rows) -> None:
        if self._files:
            return
        width = None if isinstance(example, SparseVectors) else example.shape[1]
        for name, path, dtype, rows in _files(self._folder, self._role, self.state, sparse=width is None):
            self._files[name] = _NpyWriter(path, dtype, rows=rows, width=width)
        if width is None and not self.state.rows:
            self._files["indptr"].append(np.zeros(1, dtype=np.int64))


def _files(folder: Path, role: Role, state: _State, *, sparse: bool) -> list[tuple[str, Path, npt.DTypeLike, int]]:
    """Return name, path, dtype and number of whole rows of each growing file."""
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


def _finished(rows: Rows, texts: Inputs, role: Role, settings: Settings) -> Rows:
    """Check the model's vectors; truncate and normalise dense ones, keep the strongest weights of sparse ones."""
    source = _source(role, settings)
    if len(rows) != len(texts):
        raise DataError(source, [f"{len(rows)} rows came for the {len(texts)} texts from '{texts.ids[0]}' on"])
    if isinstance(rows, SparseVectors):
        _refuse(source, "values that are NaN or infinite", texts.ids, ~_finite_rows(rows))
        # sentence-transformers has cut the weights of its models already
        return strongest(rows, settings.max_active_dims) if settings.max_active_dims else rows
    _refuse(source, "values that are NaN or infinite", texts.ids, ~np.isfinite(rows).all(axis=1))
    return _truncated(rows, texts, role, settings)


def _truncated(rows: Float32Array, texts: Inputs, role: Role, settings: Settings) -> Float32Array:
    """Truncate finite vectors, then normalise them, as ``settings`` say."""
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


def _finite_rows(rows: SparseVectors) -> Any:
    bad = np.flatnonzero(~np.isfinite(rows.values))
    finite = np.ones(len(rows), dtype=bool)
    finite[np.searchsorted(rows.indptr, bad, side="right") - 1] = False
    return finite


def _refuse(source: str, problem: str, ids: Ids, bad: Any) -> None:
    bad_ids = ids.take(np.flatnonzero(bad))
    if bad_ids:
        more = f" and {len(bad_ids) - _MAX_EXAMPLES} more" if len(bad_ids) > _MAX_EXAMPLES else ""
        raise DataError(
            source, [f"{problem}: {', '.join(bad_ids[:_MAX_EXAMPLES])}{more}"], fix="correct the model, or these texts"
        )


def _read_state(folder: Path, texts: int, role: Role, settings: Settings) -> _State:
    path, sparse = folder / PROGRESS, settings.encoder == "splade"
    if not path.exists():
        return _State()
    try:
        state = _State(**orjson.loads(path.read_bytes()))
        numbers = {name: value for name, value in asdict(state).items() if name != "limit_from" and value is not None}
        if not all(isinstance(value, int) and value >= 0 for value in numbers.values()):
            raise ValueError(f"{state} is not a state")
    except (ValueError, TypeError) as error:
        return _begin_again(folder, f"{PROGRESS} cannot be read: {error}")
    if state.rows > texts:
        return _begin_again(folder, f"{PROGRESS} refers to {state.rows} texts, but there are {texts}")
    width = None if sparse else state.dimensions
    for _, file, dtype, rows in _files(folder, role, state, sparse=sparse):
        if rows and (not file.is_file() or file.stat().st_size < _file_bytes(rows, dtype, width)):
            return _begin_again(folder, f"{file.name} holds less than the {state.rows} texts that {PROGRESS} refers to")
    return state


def _begin_again(folder: Path, fault: str) -> _State:
    _log.warning("unfinished cache entry '%s' is damaged and is begun again: %s", folder, fault)
    return _State()


def _write(path: Path, content: object) -> None:
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("wb") as stream:
        stream.write(orjson.dumps(content))
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(path)


class _NpyWriter:
    """Append rows to one ``.npy`` file, as C-contiguous ``dtype`` of shape (n,) or (n, ``width``).

    Until :meth:`finish` the header records no rows.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike, *, rows: int, width: int | None = None) -> None:
        """Begin the file, or continue it after its first ``rows`` rows: data after them is cut off."""
        self._dtype, self._width = np.dtype(dtype), width
        size = _file_bytes(rows, dtype, width)
        if rows and path.stat().st_size < size:  # truncate would fill the file up with zeros
            raise AssertionError(f"'{path}' holds less than {rows} rows")
        self._stream = path.open("r+b" if rows else "w+b")
        if not rows:
            self._stream.write(self._header(0))
        self._stream.truncate(size)
        self._stream.seek(0, os.SEEK_END)
        self._rows = rows

    def append(self, array: npt.NDArray[Any]) -> None:
        """Add rows at the end; their bytes are on the disk after :meth:`sync`."""
        shape = array.shape[1:]
        if shape != (() if self._width is None else (self._width,)):
            raise AssertionError(f"rows of shape {shape} for a column of width {self._width}")
        self._stream.write(np.ascontiguousarray(array, dtype=self._dtype).data)
        self._rows += len(array)

    def sync(self) -> None:
        """Force appended rows onto the disk."""
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def finish(self) -> None:
        """Write the number of rows into the header and close the file."""
        self._stream.seek(0)
        self._stream.write(self._header(self._rows))
        self.sync()
        self.close()

    def close(self) -> None:
        """Close the file in its current state."""
        self._stream.close()

    def _header(self, rows: int) -> bytes:
        shape = (rows,) if self._width is None else (rows, self._width)
        header = io.BytesIO()
        npy.write_array_header_1_0(
            header, {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        )
        text = header.getvalue()
        if len(text) > _HEADER_BYTES:
            raise AssertionError(f"a header of {len(text)} bytes")
        prefix, fields = text[:8], text[10:].rstrip()
        return prefix + (_HEADER_BYTES - 10).to_bytes(2, "little") + fields.ljust(_HEADER_BYTES - 11) + b"\n"


def _file_bytes(rows: int, dtype: npt.DTypeLike, width: int | None) -> int:
    return _HEADER_BYTES + rows * np.dtype(dtype).itemsize * (1 if width is None else width)
