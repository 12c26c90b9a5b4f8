"""Results on disk: written whole or not at all, read back with their schema checked.

A result folder holds ``report.json``, the tables ``per_query.parquet``, ``parity.parquet`` and ``latencies.parquet``,
and the hits in ``runs/<label>.trec.gz``; with the judgments beside them (``qrels.tsv``) every figure can be computed
again without running anything. ``queries.parquet`` holds the texts of the queries, unless the user asked for none.
``report.html`` is the same for people.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, get_args

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from harness.errors import ResultError, UsageError
from harness.loaders.run_columns import RUN_COLUMNS_SUFFIX, write_run_columns
from harness.results.check_schema import CHECK_SCHEMA_VERSION, CheckReport
from harness.results.schema import SCHEMA_VERSION, Report
from harness.scratch import scratch_folder
from harness.types import Ids, Qrels, Queries, Run

__all__ = [
    "REPORT_NAME",
    "ResultTables",
    "check_target",
    "file_name",
    "holds_white_space",
    "read_agreement",
    "read_any_report",
    "read_check_report",
    "read_latencies",
    "read_per_query",
    "read_report",
    "read_stored_qrels",
    "read_stored_queries",
    "read_stored_run",
    "write_check",
    "write_result",
]

Files = Mapping[str, bytes]
Stored = TypeVar("Stored", Report, CheckReport)
_NEWEST = {"compare": SCHEMA_VERSION, "check": CHECK_SCHEMA_VERSION}
"""Who wrote a report -> the newest schema of it."""

REPORT_NAME = "report.json"
_PER_QUERY = "per_query.parquet"
_PARITY = "parity.parquet"
_LATENCIES = "latencies.parquet"
_QRELS, _QUERIES = "qrels.tsv", "queries.parquet"
_SCRATCH, _NEW, _OLD = ".harness-", "new", "old"
_LONGEST = 80
_TREC = ".trec.gz"


class ResultTables(NamedTuple):
    """Per-query tables of a result, and the queries with their texts (None to leave them out).

    ``latencies`` are the raw samples, None where no times were taken. ``extra`` are further files, by name.
    """

    per_query: pa.Table
    parity: pa.Table
    queries: Queries | None
    latencies: pa.Table | None = None
    extra: Files = MappingProxyType({})


def write_result(
    folder: Path,
    report: Report,
    tables: ResultTables,
    runs: Mapping[str, Run],
    *,
    qrels: Qrels | None,
    overwrite: bool = False,
    numbered: bool = False,
) -> Path:
    """Write a result folder, built beside its place and renamed when complete; where it lies in the end.

    A folder that holds anything is only replaced with ``overwrite``, and then only when it holds an earlier result.
    With ``numbered`` the result goes to ``<folder>-2`` … where others have that name. Of several processes that write
    to one place at the same time one wins, and the others raise UsageError.
    """
    from harness.loaders.trec_write import write_qrels

    with _building(folder, report, runs, tables.extra, overwrite=overwrite, numbered=numbered) as building:
        pq.write_table(tables.per_query, building.folder / _PER_QUERY)
        pq.write_table(tables.parity, building.folder / _PARITY)
        if tables.latencies is not None:
            pq.write_table(tables.latencies, building.folder / _LATENCIES)
        if qrels is not None:
            write_qrels(building.folder / _QRELS, qrels)
        queries = tables.queries
        if queries is not None:
            pq.write_table(pa.table({"id": queries.ids.values, "text": queries.texts}), building.folder / _QUERIES)
    return building.place


def write_check(
    folder: Path, report: CheckReport, runs: Mapping[str, Run], extra: Files, *, overwrite: bool, numbered: bool
) -> Path:
    """Write a check: the report, the hits of each subject, ``extra`` files by name; else as :func:`write_result`."""
    with _building(folder, report, runs, extra, overwrite=overwrite, numbered=numbered) as building:
        pass
    return building.place


@dataclass(slots=True)
class _Building:
    """A result that is being written in ``folder``; ``place`` is where it lies in the end."""

    folder: Path
    place: Path


@contextmanager
def _building(
    place: Path, report: Report | CheckReport, runs: Mapping[str, Run], extra: Files, *, overwrite: bool, numbered: bool
) -> Iterator[_Building]:
    """A result folder with a report and runs, to be filled further; it is put into its place when the block ends."""
    if not numbered:
        check_target(place, overwrite=overwrite)
    with _readable_failure(place), _beside(place) as scratch:
        building = _Building(scratch / _NEW, place)
        building.folder.mkdir()
        (building.folder / REPORT_NAME).write_bytes(report.model_dump_json(by_alias=True, indent=2).encode() + b"\n")
        (building.folder / "runs").mkdir()
        for label, run in runs.items():
            _write_run(building.folder / "runs", label, run)
        for name, content in extra.items():
            (building.folder / name).write_bytes(content)
        yield building
        if numbered:
            building.place = _place_numbered(building.folder, place)
        else:
            _place(building.folder, place, scratch / _OLD, overwrite=overwrite)


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Refuse a place where a result cannot be written, or would replace something that the user has."""
    nearest = next(parent for parent in folder.absolute().parents if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ResultError(
            f"the result cannot be written to '{folder}': '{nearest}' is no folder that can be written",
            fix="choose another --out",
        )
    held = _names(folder)
    if not held and not folder.is_file():
        return
    if REPORT_NAME not in held:
        raise UsageError(f"'{folder}' exists and is not a result of harness", fix="choose another --out")
    if not overwrite:
        raise UsageError(f"'{folder}' already holds a result", fix="choose another --out, or pass --overwrite")


def _names(folder: Path) -> set[str]:
    """What a folder holds, nothing for what is none; of one folder, even if others take its place meanwhile."""
    while True:
        try:
            before = folder.stat().st_ino
            names = {path.name for path in folder.iterdir()}
            if folder.stat().st_ino == before:
                return names
        except FileNotFoundError:
            if not folder.exists():
                return set()
        except NotADirectoryError:
            return set()


def read_report(folder: Path) -> Report:
    """Read ``report.json`` of a comparison's result folder (or that file itself).

    Raises ResultError when it is missing, malformed, or of a newer schema.
    """
    return _validated(_content(folder), Report)


def read_check_report(folder: Path) -> CheckReport:
    """Read ``report.json`` of a check; errors as in :func:`read_report`."""
    return _validated(_content(folder), CheckReport)


def read_any_report(folder: Path) -> Report | CheckReport:
    """Read ``report.json`` of whatever wrote it; errors as in :func:`read_report`."""
    content = _content(folder)
    return _validated(content, CheckReport) if content.kind == "check" else _validated(content, Report)


class _Content(NamedTuple):
    """What a ``report.json`` holds, before anything of it is believed."""

    path: Path
    kind: str
    values: dict[str, Any]


def _content(folder: Path) -> _Content:
    path = folder / REPORT_NAME if folder.is_dir() else folder
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ResultError(f"no result at '{folder}'", fix="give the folder that harness wrote") from error
    except orjson.JSONDecodeError as error:
        raise ResultError(f"'{path}' is not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("schema"), int):
        raise ResultError(f"'{path}' is not a report of harness: it names no schema")
    return _Content(path, str(content.get("kind")), content)


def _validated(content: _Content, model: type[Stored]) -> Stored:
    path, kinds = content.path, get_args(model.model_fields["kind"].annotation)
    if content.kind in _NEWEST and content.kind not in kinds:
        raise ResultError(f"'{path}' was written by `harness {content.kind}`, expected one of `harness {kinds[0]}`")
    version, newest = content.values["schema"], _NEWEST[kinds[0]]
    if version > newest:
        raise ResultError(
            f"'{path}' has schema {version}, this harness reads up to {newest}",
            fix="pip install --upgrade retrieval-harness",
        )
    try:
        return model.model_validate(content.values)
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


def read_latencies(folder: Path) -> pa.Table | None:
    """Raw latency samples of a result folder; None where it has none. Raises ResultError when they are damaged."""
    return _read_table(folder / _LATENCIES) if (folder / _LATENCIES).exists() else None


def read_stored_qrels(folder: Path) -> Qrels | None:
    """The judgments of a result folder; None where it has none. Raises DataError when they are malformed."""
    from harness.loaders.trec import read_qrels

    return read_qrels(folder / _QRELS) if (folder / _QRELS).exists() else None


def read_stored_queries(folder: Path) -> dict[str, str]:
    """Texts of the queries of a result folder by id, in their order; empty where it holds no texts."""
    if not (folder / _QUERIES).exists():
        return {}
    table = _read_table(folder / _QUERIES)
    return dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))


def _read_table(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise ResultError(f"cannot read '{path}': {error}") from error


def read_stored_run(folder: Path, label: str) -> Run:
    """A backend's hits from a result folder; raises ResultError when they are not there."""
    from harness.loaders.trec import read_run

    for suffix in (_TREC, RUN_COLUMNS_SUFFIX):
        path = folder / "runs" / f"{file_name(label)}{suffix}"
        if path.exists():
            return read_run(path)
    raise ResultError(f"'{folder}' holds no run of '{label}'")


def _write_run(folder: Path, label: str, run: Run) -> None:
    """As TREC; as Parquet where an id holds TREC's separator, white space, or nothing was found: no file is empty."""
    from harness.loaders.trec_write import write_run

    if not run.hits or holds_white_space(run.query_ids) or holds_white_space(run.doc_ids):
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
    """A scratch folder on the same file system as the result's place; what killed processes left there goes first."""

    def put_back(abandoned: Path) -> None:
        """An earlier result that was taken away, and never replaced, because its process was killed just then."""
        for earlier in (abandoned / _OLD).glob("*/*"):
            if not (folder.parent / earlier.name).exists():
                earlier.rename(folder.parent / earlier.name)

    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(folder.parent, _SCRATCH, put_back) as scratch:
        yield scratch


def _place(building: Path, folder: Path, old: Path, *, overwrite: bool) -> None:
    """Rename the finished result to its place, first taking away the earlier one that it may replace.

    Another process may write to the same place at any moment: a rename to a folder that holds something fails, and
    then everything is looked at again.
    """
    for attempt in count(1):
        check_target(folder, overwrite=overwrite)
        if overwrite:
            _take_away(folder, old / str(attempt) / folder.name, building)
        if _rename(building, folder):
            return


def _take_away(folder: Path, place: Path, building: Path) -> None:
    """Move an earlier result out of the way, if one is there, and copy what the user put beside it into the new one."""
    place.parent.mkdir(parents=True)
    try:
        folder.rename(place)
    except FileNotFoundError:
        return
    try:
        _keep_foreign(place, building)
    except OSError:
        _rename(place, folder)
        raise


def _place_numbered(building: Path, folder: Path) -> Path:
    for number in count(1):
        place = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        if _rename(building, place):
            return place
    raise AssertionError("unreachable: count() does not end")


def _rename(building: Path, folder: Path) -> bool:
    """False when ``folder`` holds something; an empty folder may be there."""
    try:
        building.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _keep_foreign(folder: Path, building: Path) -> None:
    """Copy what the user put beside an earlier result into the new one."""
    ours = {REPORT_NAME, _PER_QUERY, _PARITY, _LATENCIES, _QRELS, _QUERIES, "runs"}
    for path in folder.iterdir():
        if path.name in ours or (building / path.name).exists():
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, building / path.name, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(path, building / path.name, follow_symlinks=False)
