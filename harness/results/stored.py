"""Results on disk: written completely or not at all, read back with their schema checked.

A result folder holds ``report.json``, the tables ``per_query.parquet``, ``parity.parquet``, ``latencies.parquet`` and
``explanations.parquet`` (with a column ``dataset``), and the hits in ``runs/<dataset>/<label>.trec.gz``; with the
judgments (``qrels/<dataset>.tsv``) every figure can be computed again without running anything.
``queries/<dataset>.parquet``
holds the texts of the queries, and ``texts/<dataset>/<label>.parquet`` the beginnings of texts that a backend returned
with its first hits, unless the user chose to store no texts. ``report.html`` is the same for people.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import orjson
import pyarrow as pa

from harness.data.arrow import read_parquet, write_parquet
from harness.data.types import Corpus, Ids, Qrels, Queries, Run
from harness.errors import ResultError
from harness.results.consistency import refuse_contradictions, refuse_other_values
from harness.results.dataset_info import label_models_of
from harness.results.schema import SCHEMA_VERSION, Result
from harness.results.stored_json import read_stored_json, validate
from harness.store.result_folder import (
    EXPLANATIONS,
    LATENCIES,
    PARITY,
    PER_QUERY,
    QRELS,
    QUERIES,
    REPORT_NAME,
    RUNS,
    TEXTS,
    result_folder,
)

_VERBS = ("compare", "check", "regress", "diff")
_LONGEST = 80
_TREC = ".trec.gz"
_PARQUET = ".parquet"
_GROUPS = ".groups.json"
_HUMAN = "human"
"""The end of the file of groups of alternatives, next to the judgments."""
_TEXT, _NUMBER, _INTEGER = pa.types.is_string, pa.types.is_floating, pa.types.is_integer
EXPLANATION_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("dataset", "backend", "query_id", "doc_id", "kind")),
        ("rank", pa.int32()),
        ("score", pa.float32()),
        ("exact_rank", pa.int32()),
        ("exact_score", pa.float32()),
        ("length", pa.int32()),
        ("stored_length", pa.int32()),
        ("of_all_documents", pa.float32()),
        ("norm", pa.float32()),
        ("quantised", pa.float32()),
        ("note", pa.string()),
        ("part", pa.string()),
        ("weight", pa.float32()),
        ("tf", pa.float32()),
        ("df", pa.int32()),
        ("documents", pa.int32()),
        ("idf", pa.float64()),
        ("list_rank", pa.int32()),
        ("list_score", pa.float32()),
        ("contribution", pa.float32()),
    ]
)
"""Explanations: a row for each part of a document's score in a backend; from ``rank`` on, values may be null."""
_OPTIONAL = frozenset({"cause", *EXPLANATION_SCHEMA.names[5:]})
"""Columns that may have no value in a row."""
_AS_WRITTEN = "give a folder as harness wrote it"
_OF_QUERY: Mapping[str, Callable[[pa.DataType], bool]] = MappingProxyType({"backend": _TEXT, "query_id": _TEXT})


class ResultContent(NamedTuple):
    """Further files of a report: tables with a column ``dataset``, and the hits by dataset and label.

    ``runs`` is None for a result that never has runs, such as two stored results compared. ``qrels`` and ``queries``
    are by dataset; a dataset without judgments, or whose texts are left out, is not among them. ``texts`` are documents
    that backends returned with their texts, by dataset and label. ``latencies`` are the raw samples, None if no times
    were taken; ``explanations`` have the columns of :data:`EXPLANATION_SCHEMA`. ``extra`` are further files, by name,
    and ``further`` writes more of them into the folder.
    """

    per_query: pa.Table | None = None
    parity: pa.Table | None = None
    latencies: pa.Table | None = None
    explanations: pa.Table | None = None
    runs: Mapping[tuple[str, str], Run] | None = MappingProxyType({})
    qrels: Mapping[str, Qrels] = MappingProxyType({})
    queries: Mapping[str, Queries] = MappingProxyType({})
    texts: Mapping[tuple[str, str], Corpus] = MappingProxyType({})
    extra: Mapping[str, bytes] = MappingProxyType({})
    further: Callable[[Path], None] | None = None


def write_result(
    target: Path, report: Result, content: ResultContent, *, overwrite: bool = False, numbered: bool = False
) -> Path:
    """Write a result folder, built next to its target and renamed when complete, and return its final path.

    A non-empty folder is only replaced with ``overwrite``, and only if it holds an earlier result; a result without
    runs never replaces a result with runs. With ``numbered`` the result goes to ``<place>-2`` … if others have that
    name. If several processes write to the same place at the same time, one wins and the others raise UsageError.
    """
    from harness.loaders.trec_write import write_qrels

    with result_folder(target, overwrite=overwrite, numbered=numbered, runs=content.runs is not None) as building:
        folder = building.folder
        (folder / REPORT_NAME).write_bytes(report.model_dump_json(by_alias=True, indent=2).encode() + b"\n")
        tables = {
            PER_QUERY: content.per_query,
            PARITY: content.parity,
            LATENCIES: content.latencies,
            EXPLANATIONS: content.explanations,
        }
        for name, table in tables.items():
            if table is not None:
                write_parquet(table, folder / name)
        if content.runs is not None:
            (folder / RUNS).mkdir()
        for (dataset, label), run in (content.runs or {}).items():
            write_run_file(_made(folder / RUNS / file_name(dataset)), file_name(label), run)
        for dataset, qrels in content.qrels.items():
            write_qrels(_made(folder / QRELS) / f"{file_name(dataset)}.tsv", qrels)
            if qrels.groups is not None:
                (folder / QRELS / f"{file_name(dataset)}{_GROUPS}").write_bytes(orjson.dumps(qrels.groups_by_id))
            if qrels.human is not None and len(qrels.human):
                write_qrels(_made(folder / QRELS / _HUMAN) / f"{file_name(dataset)}.tsv", qrels.human)
        for dataset, queries in content.queries.items():
            table = pa.table({"id": queries.ids.values, "text": queries.texts})
            write_parquet(table, _made(folder / QUERIES) / f"{file_name(dataset)}{_PARQUET}")
        for (dataset, label), documents in content.texts.items():
            table = pa.table({"id": documents.ids.values, "text": documents.texts})
            path = _made(_made(folder / TEXTS) / file_name(dataset)) / f"{file_name(label)}{_PARQUET}"
            write_parquet(table, path)
        for name, file in content.extra.items():
            (folder / name).write_bytes(file)
        if content.further is not None:
            content.further(folder)
    return building.target


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def read_report(folder: Path, *kinds: str) -> Result:
    """Read ``report.json`` of a result folder (or that file itself), written by one of some verbs (any by default).

    Raises ResultError when it is missing, malformed, of another schema, a baseline, or written by another verb.
    """
    missing = ResultError(f"no result at '{folder}'", fix="give the folder that harness wrote")
    content = read_stored_json(folder / REPORT_NAME if folder.is_dir() else folder, "a report", missing=missing)
    if content.kind == "baseline":
        raise ResultError(
            f"'{content.path}' is a baseline, and no result",
            fix=f"read it with `harness regress --baseline {content.path}`, which runs its plan again, "
            f"or with `harness diff {content.path} RESULT`",
        )
    if kinds and content.kind in _VERBS and content.kind not in kinds:
        raise ResultError(
            f"'{content.path}' was written by `harness {content.kind}`", fix=f"give one of `harness {kinds[0]}`"
        )
    report = validate(content.refuse_other_schema(SCHEMA_VERSION), Result)
    refuse_contradictions(content.path, report)
    return report


def read_change(folder: Path) -> Result:
    """Read the comparison of two results in a folder of ``regress`` or ``diff``; errors as in :func:`read_report`."""
    return read_report(folder, "regress", "diff")


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The tables, hits, judgments and queries of a result folder, with its ``report``."""

    folder: Path
    report: Result

    @classmethod
    def open(cls, folder: Path) -> StoredResult:
        """Read the report of a comparison; raises as :func:`read_report`."""
        return cls(folder, read_report(folder, "compare", "regress"))

    def per_query(self) -> pa.Table:
        """Return the values of each query; raises ResultError if they are damaged or contradict the report."""
        table = self._table(PER_QUERY, {**_OF_QUERY, "metric": _TEXT, "value": _NUMBER})
        qrels = {info.name: self.qrels(info.name) for info in self.report.datasets}
        judged = {name: content.query_ids for name, content in qrels.items() if content is not None}
        refuse_other_values(self.folder / PER_QUERY, self.report, table, judged)
        return table

    def agreement(self) -> pa.Table:
        """Return each query's agreement with its reference; raises ResultError if it is missing or damaged."""
        return self._table(PARITY, {**_OF_QUERY, "level": _TEXT, "cause": _TEXT})

    def latencies(self) -> pa.Table | None:
        """Return the raw latency samples; None if there are none. Raises ResultError if they are damaged."""
        if not (self.folder / LATENCIES).exists():
            return None
        return self._table(LATENCIES, {**_OF_QUERY, "search_ns": _INTEGER, "transfer_ns": _INTEGER})

    def explanations(self) -> pa.Table | None:
        """Return the explanations of hits; None if the result has none. Raises ResultError if they are damaged."""
        if not (self.folder / EXPLANATIONS).exists():
            return None
        return self._table(EXPLANATIONS, {field.name: field.type.equals for field in EXPLANATION_SCHEMA})

    def qrels(self, dataset: str) -> Qrels | None:
        """Return a dataset's judgments; None if there are none. Raises DataError if they are malformed."""
        from harness.loaders.trec import read_qrels

        path = self.folder / QRELS / f"{file_name(dataset)}.tsv"
        if not path.exists():
            return None
        groups_file = path.with_name(f"{file_name(dataset)}{_GROUPS}")
        groups = orjson.loads(groups_file.read_bytes()) if groups_file.exists() else {}
        qrels, of_models = read_qrels(path).with_groups(groups), self.report.on(dataset).dataset.model_labels
        if of_models is None:
            return qrels
        by_people = path.parent / _HUMAN / path.name
        human = read_qrels(by_people).with_groups(groups) if by_people.exists() else qrels.of_queries(Ids.of([]))
        return replace(qrels, human=human, models=dict.fromkeys(label_models_of(of_models)))

    def query_texts(self, dataset: str) -> dict[str, str]:
        """Return the texts of a dataset's queries by id, in their order; empty if no texts are stored."""
        path = self.folder / QUERIES / f"{file_name(dataset)}{_PARQUET}"
        if not path.exists():
            return {}
        table = _read_table(path, {"id": _TEXT, "text": _TEXT})
        return dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))

    def _table(self, name: str, columns: Mapping[str, Callable[[pa.DataType], bool]]) -> pa.Table:
        return _read_table(self.folder / name, {"dataset": _TEXT, **columns})


def _read_table(path: Path, columns: Mapping[str, Callable[[pa.DataType], bool]]) -> pa.Table:
    """Return a stored table; raises ResultError if it is damaged or has other ``columns`` (name: a type)."""
    try:
        table = read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise ResultError(f"cannot read '{path}': {error}") from error
    types = dict(zip(table.schema.names, table.schema.types, strict=True))
    if len(types) < len(table.schema.names):
        raise ResultError(f"'{path}' has a column twice: {', '.join(table.schema.names)}", fix=_AS_WRITTEN)
    wrong = [f"'{name}'" for name, fits in columns.items() if name not in types or not fits(types[name])]
    if wrong:
        verb = "is" if len(wrong) == 1 else "are"
        raise ResultError(
            f"'{path}' is not a table that harness wrote: {', '.join(wrong)} {verb} missing or of another type; "
            f"it has {', '.join(types) or 'no columns'}",
            fix=_AS_WRITTEN,
        )
    empty = [name for name in columns if name not in _OPTIONAL and table.column(name).null_count]
    if empty:
        raise ResultError(f"'{path}' lacks values: {', '.join(empty)} must have one in each row", fix=_AS_WRITTEN)
    return table


def read_returned_texts(folder: Path, dataset: str, label: str) -> Corpus | None:
    """Return the documents that a backend returned with their texts, as far as a result folder holds them, else None.

    Raises ResultError if the file is damaged.
    """
    path = folder / TEXTS / file_name(dataset) / f"{file_name(label)}{_PARQUET}"
    if not path.exists():
        return None
    table = _read_table(path, {"id": _TEXT, "text": _TEXT})
    return Corpus(Ids(table["id"].combine_chunks()), table["text"], "")


def read_stored_run(folder: Path, dataset: str, label: str) -> Run:
    """Return a backend's hits on a dataset from a result folder; raises ResultError if there are none.

    The last two that were read are kept, because the hits of two compared results are read again and again.
    """
    for suffix in (_TREC, _PARQUET):
        path = folder / RUNS / file_name(dataset) / f"{file_name(label)}{suffix}"
        if path.exists():
            state = path.stat()
            return _run_of(path, (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns))
    raise ResultError(f"'{folder}' holds no run of '{label}' on '{dataset}'")


@lru_cache(maxsize=2)
def _run_of(path: Path, _state: tuple[int, ...]) -> Run:
    """Read a run once, until its file is another or changes."""
    from harness.loaders.trec import read_run

    return read_run(path)


def write_run_file(folder: Path, name: str, run: Run, ending: str = _TREC, *, tag: str | None = None) -> None:
    """Write a run as TREC; as Parquet if an id holds white space, or nothing was found: no file is empty."""
    from harness.loaders.trec_write import write_run, write_run_columns

    if not run.hits or run.query_ids.hold_white_space or run.doc_ids.hold_white_space:
        write_run_columns(folder / f"{name}{_PARQUET}", run)
    else:
        write_run(folder / f"{name}{ending}", run, tag=tag or name)


def file_name(label: str) -> str:
    """Return a label as a file name: letters, digits, ``.``, ``_``, ``-`` and ``=`` stay, all else becomes ``_``.

    If that changed anything, a part of the label's SHA-256 follows, so that two labels never share a file.
    """
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "_", label)
    return plain if plain == label else f"{plain[:_LONGEST]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
