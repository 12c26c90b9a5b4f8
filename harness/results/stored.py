"""Results on disk: written whole or not at all, read back with their schema checked.

A result folder holds ``report.json``, the tables ``per_query.parquet``, ``parity.parquet`` and ``latencies.parquet``,
and the hits in ``runs/<label>.trec.gz``; with the judgments beside them (``qrels.tsv``) every figure can be computed
again without running anything. ``queries.parquet`` holds the texts of the queries, unless the user asked for none.
``report.html`` is the same for people.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar, get_args

import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import read_parquet, write_parquet
from harness.data.types import Ids, Qrels, Queries, Run
from harness.errors import ResultError
from harness.results.check_schema import CHECK_SCHEMA_VERSION, CheckReport
from harness.results.schema import SCHEMA_VERSION, Report
from harness.results.stored_json import StoredJson, read_stored_json, validated
from harness.store.result_folder import (
    LATENCIES,
    PARITY,
    PER_QUERY,
    QRELS,
    QUERIES,
    REPORT_NAME,
    Building,
    result_folder,
)

__all__ = [
    "ResultTables",
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

_LONGEST = 80
_TREC = ".trec.gz"
_PARQUET = ".parquet"
_TEXT, _NUMBER, _WHOLE = pa.types.is_string, pa.types.is_floating, pa.types.is_integer
_OF_QUERY: Mapping[str, Callable[[pa.DataType], bool]] = MappingProxyType({"backend": _TEXT, "query_id": _TEXT})


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
        write_parquet(tables.per_query, building.folder / PER_QUERY)
        write_parquet(tables.parity, building.folder / PARITY)
        if tables.latencies is not None:
            write_parquet(tables.latencies, building.folder / LATENCIES)
        if qrels is not None:
            write_qrels(building.folder / QRELS, qrels)
        queries = tables.queries
        if queries is not None:
            write_parquet(pa.table({"id": queries.ids.values, "text": queries.texts}), building.folder / QUERIES)
    return building.place


def write_check(
    folder: Path, report: CheckReport, runs: Mapping[str, Run], extra: Files, *, overwrite: bool, numbered: bool
) -> Path:
    """Write a check: the report, the hits of each subject, ``extra`` files by name; else as :func:`write_result`."""
    with _building(folder, report, runs, extra, overwrite=overwrite, numbered=numbered) as building:
        pass
    return building.place


@contextmanager
def _building(
    place: Path, report: Report | CheckReport, runs: Mapping[str, Run], extra: Files, *, overwrite: bool, numbered: bool
) -> Iterator[Building]:
    """A result folder with a report and runs, to be filled further; it is put into its place when the block ends."""
    with result_folder(place, overwrite=overwrite, numbered=numbered) as building:
        (building.folder / REPORT_NAME).write_bytes(report.model_dump_json(by_alias=True, indent=2).encode() + b"\n")
        (building.folder / "runs").mkdir()
        for label, run in runs.items():
            _write_run(building.folder / "runs", label, run)
        for name, content in extra.items():
            (building.folder / name).write_bytes(content)
        yield building


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


def _content(folder: Path) -> StoredJson:
    missing = ResultError(f"no result at '{folder}'", fix="give the folder that harness wrote")
    return read_stored_json(folder / REPORT_NAME if folder.is_dir() else folder, "a report", missing=missing)


def _validated(content: StoredJson, model: type[Stored]) -> Stored:
    kinds = get_args(model.model_fields["kind"].annotation)
    if content.kind in _NEWEST and content.kind not in kinds:
        raise ResultError(
            f"'{content.path}' was written by `harness {content.kind}`", fix=f"give one of `harness {kinds[0]}`"
        )
    return validated(content.refuse_newer(_NEWEST[kinds[0]]), model)


def read_per_query(folder: Path) -> pa.Table:
    """Per-query values of a result folder; raises ResultError when they are missing or damaged."""
    return _read_table(folder / PER_QUERY, {**_OF_QUERY, "metric": _TEXT, "value": _NUMBER})


def read_agreement(folder: Path) -> pa.Table:
    """Per-query agreement with the references; raises ResultError when it is missing or damaged."""
    return _read_table(folder / PARITY, {**_OF_QUERY, "level": _TEXT, "cause": _TEXT})


def read_latencies(folder: Path) -> pa.Table | None:
    """Raw latency samples of a result folder; None where it has none. Raises ResultError when they are damaged."""
    if not (folder / LATENCIES).exists():
        return None
    return _read_table(folder / LATENCIES, {**_OF_QUERY, "search_ns": _WHOLE, "transfer_ns": _WHOLE})


def read_stored_qrels(folder: Path) -> Qrels | None:
    """The judgments of a result folder; None where it has none. Raises DataError when they are malformed."""
    from harness.loaders.trec import read_qrels

    return read_qrels(folder / QRELS) if (folder / QRELS).exists() else None


def read_stored_queries(folder: Path) -> dict[str, str]:
    """Texts of the queries of a result folder by id, in their order; empty where it holds no texts."""
    if not (folder / QUERIES).exists():
        return {}
    table = _read_table(folder / QUERIES, {"id": _TEXT, "text": _TEXT})
    return dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))


def _read_table(path: Path, columns: Mapping[str, Callable[[pa.DataType], bool]]) -> pa.Table:
    """Return a stored table; raises ResultError where it is damaged or has other ``columns`` (name: a type)."""
    try:
        table = read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise ResultError(f"cannot read '{path}': {error}") from error
    held = dict(zip(table.schema.names, table.schema.types, strict=True))
    wrong = [f"'{name}'" for name, fits in columns.items() if name not in held or not fits(held[name])]
    if wrong:
        verb = "is" if len(wrong) == 1 else "are"
        raise ResultError(
            f"'{path}' is no table that harness wrote: {', '.join(wrong)} {verb} missing or of another type; "
            f"it has {', '.join(held) or 'no columns'}",
            fix="give a folder as harness wrote it",
        )
    return table


def read_stored_run(folder: Path, label: str) -> Run:
    """A backend's hits from a result folder; raises ResultError when they are not there."""
    from harness.loaders.trec import read_run

    for suffix in (_TREC, _PARQUET):
        path = folder / "runs" / f"{file_name(label)}{suffix}"
        if path.exists():
            return read_run(path)
    raise ResultError(f"'{folder}' holds no run of '{label}'")


def _write_run(folder: Path, label: str, run: Run) -> None:
    """As TREC; as Parquet where an id holds TREC's separator, white space, or nothing was found: no file is empty."""
    from harness.loaders.trec_write import write_run, write_run_columns

    if not run.hits or holds_white_space(run.query_ids) or holds_white_space(run.doc_ids):
        write_run_columns(folder / f"{file_name(label)}{_PARQUET}", run)
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
