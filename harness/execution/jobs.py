"""What the parent asks of a worker: small files in a job folder, never pickled objects.

A job folder holds ``job.json`` (one of the dataclasses below), whatever columns the job reads that lie nowhere else,
and afterwards the job's results, ``error.json`` where it failed, and ``log.txt``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from harness.protocols import EngineInfo, IndexReport, ParameterValue, SearchResult, Storage
from harness.types import Int64Array

__all__ = ["AnalyseJob", "TrialJob", "TrialRecord", "read_job", "read_trial", "write_job", "write_trial"]


@dataclass(frozen=True, slots=True)
class AnalyseJob:
    """Turn documents and queries into term counts, written to ``target`` (an empty folder).

    ``heap`` and ``jar`` are for analyzers that run in a JVM, as in :func:`harness.jvm.start`.
    """

    analyzer: str
    corpus: str
    queries: str
    target: str
    heap: str | None = None
    jar: str | None = None


@dataclass(frozen=True, slots=True)
class TrialJob:
    """Index and search with one engine.

    ``engine`` is ``module:class``; ``corpus`` and ``queries`` are Arrow files with columns id and text;
    ``document_vectors`` and ``query_vectors`` are folders of sparse vectors, None for engines that read text.
    """

    engine: str
    parameters: dict[str, ParameterValue]
    corpus: str
    queries: str
    vectors: str | None
    index_folder: str
    k: int
    repeats: int
    warm_up_queries: int
    warm_up_seconds: float


@dataclass(frozen=True, eq=False, slots=True)
class TrialRecord:
    """What a trial leaves: hits of the first timed pass, times of all passes (int64 (repeats, Q))."""

    engine: EngineInfo
    index: IndexReport
    storage: Storage
    hits: SearchResult
    search_ns: Int64Array
    transfer_ns: Int64Array
    first_query_ns: int
    k: int
    warm_up_queries: int


_JOBS: dict[str, type[AnalyseJob] | type[TrialJob]] = {"AnalyseJob": AnalyseJob, "TrialJob": TrialJob}


def write_job(folder: Path, job: AnalyseJob | TrialJob) -> None:
    """Write ``job.json``."""
    (folder / "job.json").write_bytes(orjson.dumps({"job": type(job).__name__, **asdict(job)}))


def read_job(folder: Path) -> AnalyseJob | TrialJob:
    """Read what :func:`write_job` wrote."""
    fields = orjson.loads((folder / "job.json").read_bytes())
    return _JOBS[fields.pop("job")](**fields)


def write_trial(folder: Path, record: TrialRecord) -> None:
    """Write a trial's results into its job folder."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "indptr": record.hits.indptr,
        "rows": record.hits.rows,
        "scores": record.hits.scores,
        "search_ns": record.search_ns,
        "transfer_ns": record.transfer_ns,
        "missing_rows": record.index.missing_rows,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    index = record.index
    described = {
        "engine": asdict(record.engine),
        "index": {
            "sent": index.sent,
            "indexed": index.indexed,
            "index_ns": index.index_ns,
            "ready_ns": index.ready_ns,
            "state": dict(index.state),
        },
        "storage": record.storage._asdict(),
        "first_query_ns": record.first_query_ns,
        "k": record.k,
        "warm_up_queries": record.warm_up_queries,
    }
    (folder / "result.json").write_bytes(orjson.dumps(described))


def read_trial(folder: Path) -> TrialRecord:
    """Read what :func:`write_trial` wrote."""
    described = orjson.loads((folder / "result.json").read_bytes())
    names = ("indptr", "rows", "scores", "search_ns", "transfer_ns", "missing_rows")
    arrays = {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in names}
    hits = SearchResult(
        arrays["indptr"], arrays["rows"], arrays["scores"], arrays["search_ns"][0], arrays["transfer_ns"][0]
    )
    return TrialRecord(
        engine=EngineInfo(**described["engine"]),
        index=IndexReport(missing_rows=arrays["missing_rows"], **described["index"]),
        storage=Storage(**described["storage"]),
        hits=hits,
        search_ns=arrays["search_ns"],
        transfer_ns=arrays["transfer_ns"],
        first_query_ns=described["first_query_ns"],
        k=described["k"],
        warm_up_queries=described["warm_up_queries"],
    )
