"""Results on disk: written whole or not at all, read back with their schema checked.

A result folder holds ``report.json``, the tables ``per_query.parquet`` and ``parity.parquet``, and the hits in
``runs/<label>.trec.gz``; with the judgments beside them (``qrels.tsv``) every figure can be computed again without
running anything. ``queries.parquet`` holds the texts of the queries, unless the user asked for none.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from harness.errors import ResultError, UsageError
from harness.loaders.run_columns import RUN_COLUMNS_SUFFIX, write_run_columns
from harness.results.schema import SCHEMA_VERSION, Report
from harness.types import Ids, Qrels, Queries, Run

__all__ = [
    "REPORT_NAME",
    "ResultTables",
    "check_target",
    "file_name",
    "holds_white_space",
    "new_folder",
    "read_agreement",
    "read_per_query",
    "read_report",
    "read_stored_run",
    "write_result",
]

REPORT_NAME = "report.json"
_PER_QUERY = "per_query.parquet"
_PARITY = "parity.parquet"
_QRELS, _QUERIES = "qrels.tsv", "queries.parquet"
_LONGEST = 80
_TREC = ".trec.gz"


class ResultTables(NamedTuple):
    """Per-query tables of a result, and the queries with their texts (None to leave them out)."""

    per_query: pa.Table
    parity: pa.Table
    queries: Queries | None


def write_result(
    folder: Path,
    report: Report,
    tables: ResultTables,
    runs: Mapping[str, Run],
    *,
    qrels: Qrels | None,
    overwrite: bool,
) -> None:
    """Write a result folder: built beside its place and renamed when complete.

    A folder that holds anything is only replaced with ``overwrite``, and then only when it holds an earlier result.
    """
    from harness.loaders.trec_write import write_qrels

    check_target(folder, overwrite=overwrite)
    with _readable_failure(folder), _beside(folder) as building:
        (building / REPORT_NAME).write_bytes(report.model_dump_json(by_alias=True, indent=2).encode() + b"\n")
        pq.write_table(tables.per_query, building / _PER_QUERY)
        pq.write_table(tables.parity, building / _PARITY)
        (building / "runs").mkdir()
        for label, run in runs.items():
            _write_run(building / "runs", label, run)
        if qrels is not None:
            write_qrels(building / _QRELS, qrels)
        queries = tables.queries
        if queries is not None:
            pq.write_table(pa.table({"id": queries.ids.values, "text": queries.texts}), building / _QUERIES)


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Refuse a place where a result cannot be written, or would replace something that the user has."""
    nearest = next(parent for parent in folder.absolute().parents if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ResultError(
            f"the result cannot be written to '{folder}': '{nearest}' is no folder that can be written",
            fix="choose another --out",
        )
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / REPORT_NAME).is_file():
        raise UsageError(f"'{folder}' exists and is not a result of harness", fix="choose another --out")
    if not overwrite:
        raise UsageError(f"'{folder}' already holds a result", fix="choose another --out, or pass --overwrite")


def read_report(folder: Path) -> Report:
    """Read ``report.json`` of a result folder (or that file itself).

    Raises ResultError when it is missing, malformed, or of a newer schema.
    """
    path = folder / REPORT_NAME if folder.is_dir() else folder
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ResultError(f"no result at '{folder}'", fix="give the folder that `harness compare` wrote") from error
    except orjson.JSONDecodeError as error:
        raise ResultError(f"'{path}' is not JSON: {error}") from error
    version = content.get("schema") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise ResultError(f"'{path}' is not a report of harness: it names no schema")
    if version > SCHEMA_VERSION:
        raise ResultError(
            f"'{path}' has schema {version}, this harness reads up to {SCHEMA_VERSION}",
            fix="pip install --upgrade retrieval-harness",
        )
    try:
        return Report.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultError(f"'{path}' is damaged: {where}: {first['msg']}") from error


def read_per_query(folder: Path) -> pa.Table:
    """Per-query values of a result folder; raises ResultError when they are missing or damaged."""
    return _read_table(folder / _PER_QUERY)


def read_agreement(folder: Path) -> pa.Table:
    """Per-query agreement with the oracles; raises ResultError when it is missing or damaged."""
    return _read_table(folder / _PARITY)


def _read_table(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise ResultError(f"cannot read '{path}': {error}") from error


def new_folder(parent: Path, stem: str) -> Path:
    """A new empty folder ``parent/stem``, or ``stem-2`` … where others have that name; safe between processes."""
    with _readable_failure(parent / stem):
        parent.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            folder = parent / (stem if number == 1 else f"{stem}-{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder
    raise AssertionError("unreachable: count() does not end")


def read_stored_run(folder: Path, label: str) -> Run:
    """A backend's hits from a result folder; raises ResultError when they are not there."""
    from harness.loaders.trec import read_run

    for suffix in (_TREC, RUN_COLUMNS_SUFFIX):
        path = folder / "runs" / f"{file_name(label)}{suffix}"
        if path.exists():
            return read_run(path)
    raise ResultError(f"'{folder}' holds no run of '{label}'")


def _write_run(folder: Path, label: str, run: Run) -> None:
    """As a TREC file; as Parquet where an id holds white space, which separates the columns of TREC's format."""
    from harness.loaders.trec_write import write_run

    if holds_white_space(run.query_ids) or holds_white_space(run.doc_ids):
        write_run_columns(folder / f"{file_name(label)}{RUN_COLUMNS_SUFFIX}", run)
    else:
        write_run(folder / f"{file_name(label)}{_TREC}", run, tag=file_name(label))


def holds_white_space(ids: Ids) -> bool:
    """Whether some id holds white space, which separates the columns of TREC's format."""
    return bool(pc.any(pc.match_substring_regex(ids.values, r"\s")).as_py())


def file_name(label: str) -> str:
    """A label as a file name: letters, digits, ``.``, ``_``, ``-`` and ``=`` stay, all else becomes ``_``.

    Where that changed anything, a piece of the label's SHA-256 follows, so that two labels never share a file.
    """
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "_", label)
    return plain if plain == label else f"{plain[:_LONGEST]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"


@contextmanager
def _readable_failure(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename if error.filename is not None else folder
        raise ResultError(
            f"the result cannot be written to '{folder}': {error.strerror or error} ('{where}')",
            fix="free some space, or choose another --out",
        ) from error


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield building
        building.chmod(0o755)
        if folder.exists():
            _keep_foreign(folder, building)
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
            folder.replace(old / folder.name)
            building.replace(folder)
            shutil.rmtree(old)
        else:
            building.replace(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _keep_foreign(folder: Path, building: Path) -> None:
    """Copy what the user put beside an earlier result into the new one."""
    ours = {REPORT_NAME, _PER_QUERY, _PARITY, _QRELS, _QUERIES, "runs"}
    for path in folder.iterdir():
        if path.name in ours:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, building / path.name, symlinks=True)
        else:
            shutil.copy2(path, building / path.name, follow_symlinks=False)
