"""What the parent asks of a worker: small files in a job folder, never pickled objects.

A job folder holds ``job.json`` (one of the dataclasses below), whatever columns the job reads that lie nowhere else,
and afterwards the job's results, ``error.json`` where it failed, and ``log.txt``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson

from harness.data.types import Ids, Int32Array, Int64Array
from harness.engines.interface import (
    Caveats,
    EngineInfo,
    Hits,
    IndexReport,
    InputKind,
    SearchResult,
    Storage,
    StoredDocuments,
)
from harness.registry.parameters import ParameterValue
from harness.store.columns import load_ids, load_vectors, save_ids, save_vectors
from harness.worker.load.files import LoadKind, LoadRecord, read_loads, write_loads
from harness.worker.rebuild_files import RebuildHits, read_rebuilds, write_rebuilds

__all__ = [
    "HELD",
    "RELEASED",
    "AnalyseJob",
    "AskJob",
    "ClientJob",
    "EncodeJob",
    "EncodePart",
    "ExternalIndexRecord",
    "IdentityJob",
    "RerankJob",
    "TrialJob",
    "TrialRecord",
    "read_analysed",
    "read_identity",
    "read_job",
    "read_trial",
    "write_analysed",
    "write_identity",
    "write_job",
    "write_trial",
]


_SAMPLE = "existing_sample"
HELD = "held open for clients"
"""The phase that a trial announces when it keeps a server's index until its ``release`` file is there."""
RELEASED = "close"
"""The phase that follows: the time until then was not the trial's own."""


@dataclass(frozen=True, slots=True)
class AnalyseJob:
    """Turn documents and queries into term counts, written to ``target`` (an empty folder).

    ``heap`` and ``jar`` are for analyzers that run in a JVM, as in :func:`harness.java.jvm.start`.
    """

    analyzer: str
    corpus: str
    queries: str
    target: str
    heap: str | None = None
    jar: str | None = None


@dataclass(frozen=True, slots=True)
class EncodePart:
    """The texts of one role: an Arrow file with columns id and text, and the folder that their vectors go to.

    ``target`` may hold what an interrupted job left there.
    """

    role: Literal["documents", "queries"]
    texts: str
    target: str


@dataclass(frozen=True, slots=True)
class EncodeJob:
    """Encode ``parts`` with one model. ``parameters`` are a backend's, complete; those of ``encoder`` are read."""

    encoder: Literal["dense", "splade"]
    parameters: dict[str, ParameterValue]
    parts: tuple[EncodePart, ...]


@dataclass(frozen=True, slots=True)
class TrialJob:
    """Index and search with one engine.

    ``engine`` is ``module:class``; ``corpus`` and ``queries`` are Arrow files with columns id and text;
    ``document_vectors`` and ``query_vectors`` are folders with the vectors of each: none for engines that read text,
    two for those that read sparse and dense ones. Sparse ones are widened to ``dimensions``. ``external`` searches
    the index that the parameters name instead of building one; ``terms`` is then the folder of the analyzer's counts,
    if any.
    ``release`` is a file that a server's trial waits for
    before it closes its engine, and its index with it; None does not wait. ``hashes`` is where an existing index's
    digests lie until they were compared (:func:`harness.worker.fingerprint.unchanged`), set with ``external``.
    An index that is ``shared`` with other trials is opened anew before it is searched, by whoever built it too;
    ``built`` is the job folder of the trial that built the one in ``index_folder``, None to build it. Searches return
    only documents that match ``filter``, fields mapped to values; ``metadata`` is the Arrow file with these fields,
    None without a filter. ``candidates`` is the Arrow file with the rows of each query's candidates, all that is kept
    of its hits; None keeps every hit.
    """

    engine: str
    parameters: dict[str, ParameterValue]
    corpus: str
    queries: str
    document_vectors: tuple[str, ...]
    query_vectors: tuple[str, ...]
    index_folder: str
    k: int
    repeats: int
    warm_up_queries: int
    warm_up_seconds: float
    dimensions: int = 0
    external: bool = False
    terms: str | None = None
    release: str | None = None
    hashes: str | None = None
    shared: bool = False
    built: str | None = None
    filter: dict[str, str] = field(default_factory=dict)
    metadata: str | None = None
    candidates: str | None = None


@dataclass(frozen=True, slots=True)
class ClientJob:
    """Ask queries of the finished index of ``trial``, as client number ``client`` of ``clients`` and those after it.

    ``folder`` is shared by all clients of one measurement, ``hits`` holds the single client's answers. ``threads``
    clients run in this process, on one engine. The loop lasts ``seconds``; an open loop that is behind gives up
    ``patience_s`` later.
    """

    trial: TrialJob
    kind: LoadKind
    folder: str
    hits: str
    client: int
    clients: int
    threads: int
    seconds: float
    patience_s: float


@dataclass(frozen=True, slots=True)
class RerankJob:
    """Score the pairs whose rows lie in the job folder, with the ``parameters`` of a ``reranker``.

    ``corpus`` and ``queries`` are Arrow files with columns id and text, ``cache`` is the root of the cache.
    """

    reranker: str
    parameters: dict[str, ParameterValue]
    corpus: str
    queries: str
    cache: str


@dataclass(frozen=True, slots=True)
class IdentityJob:
    """Ask an engine's class what, beside its parameters, decides its hits.

    ``engine`` is ``module:class``; see :class:`harness.engines.interface.Identified`.
    """

    engine: str
    parameters: dict[str, ParameterValue]


@dataclass(frozen=True, slots=True)
class AskJob:
    """Ask a callable, ``module:name``, every question of an Arrow file with columns id and text.

    Each is asked ``repeats`` times, with ``warm_up`` the first once more before.
    """

    target: str
    questions: str
    k: int
    repeats: int
    warm_up: bool


@dataclass(frozen=True, eq=False, slots=True)
class ExternalIndexRecord:
    """What a trial says of an index that was there before.

    ``ids`` are the index's documents in the order of its rows, ``rows`` int32 their rows in the collection, -1 for
    those it lacks. ``no_oracle`` is why results are not held against an oracle, None where the index is proven to hold
    what one would be made of. ``sample`` are some of its documents, None where it gives none back. ``files``,
    ``file_bytes`` and ``sha256`` are None for an index without files here.
    """

    ids: Ids
    rows: Int32Array
    no_oracle: str | None
    files: int | None
    file_bytes: int | None
    sha256: str | None
    sample: StoredDocuments | None = None


@dataclass(frozen=True, eq=False, slots=True)
class TrialRecord:
    """What a trial leaves: hits of the first timed pass, times of all passes (int64 (repeats, Q)).

    ``input`` is what the engine reads; ``open_ns`` the time until it was ready to be sent documents.
    ``external`` is set when the index was there before; rows of hits are then rows of ``external.ids``. ``loads`` are
    the measurements that were made on the finished index. ``built_by`` is the label of the backend that built it, None
    for the trial's own: what ``index`` says was measured then. ``rebuilds`` are the hits of the builds after the first,
    ``lists`` the lists that an engine fuses, by name. ``caveats`` are the engine's own.
    """

    engine: EngineInfo
    input: InputKind
    open_ns: int
    index: IndexReport
    storage: Storage
    hits: SearchResult
    search_ns: Int64Array
    transfer_ns: Int64Array
    first_query_ns: int
    k: int
    warm_up_queries: int
    warm_up_ns: int
    external: ExternalIndexRecord | None = None
    loads: tuple[LoadRecord, ...] = ()
    built_by: str | None = None
    rebuilds: tuple[RebuildHits, ...] = ()
    lists: Mapping[str, Hits] = field(default_factory=dict)
    caveats: Caveats = field(default_factory=Caveats)


Job = AnalyseJob | AskJob | EncodeJob | TrialJob | ClientJob | IdentityJob | RerankJob


def write_job(folder: Path, job: Job) -> None:
    """Write ``job.json``."""
    (folder / "job.json").write_bytes(orjson.dumps({"job": type(job).__name__, **asdict(job)}))


def read_job(folder: Path) -> Job:
    """Read what :func:`write_job` wrote."""
    fields = orjson.loads((folder / "job.json").read_bytes())
    match fields.pop("job"):
        case "AnalyseJob":
            return AnalyseJob(**fields)
        case "AskJob":
            return AskJob(**fields)
        case "EncodeJob":
            return EncodeJob(parts=tuple(EncodePart(**part) for part in fields.pop("parts")), **fields)
        case "TrialJob":
            return _trial_job(fields)
        case "RerankJob":
            return RerankJob(**fields)
        case "IdentityJob":
            return IdentityJob(**fields)
        case "ClientJob":
            return ClientJob(trial=_trial_job(fields.pop("trial")), **fields)
        case other:
            raise AssertionError(f"unknown job: {other}")


def _trial_job(fields: dict[str, Any]) -> TrialJob:
    return TrialJob(**{**fields, **{name: tuple(fields[name]) for name in ("document_vectors", "query_vectors")}})


def write_analysed(folder: Path, took_ns: int) -> None:
    """Write how long an analysis took; its terms are in the job's target."""
    (folder / "analysed.json").write_bytes(orjson.dumps({"took_ns": took_ns}))


def read_analysed(folder: Path) -> int:
    """Read what :func:`write_analysed` wrote."""
    return int(orjson.loads((folder / "analysed.json").read_bytes())["took_ns"])


def write_identity(folder: Path, identity: Mapping[str, str]) -> None:
    """Write what an engine's class said of itself."""
    (folder / "identity.json").write_bytes(orjson.dumps({str(name): str(said) for name, said in identity.items()}))


def read_identity(folder: Path) -> dict[str, str]:
    """Read what :func:`write_identity` wrote."""
    identity: dict[str, str] = orjson.loads((folder / "identity.json").read_bytes())
    return identity


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
    for label, hits in record.lists.items():
        arrays |= {f"list_{label}_{name}": array for name, array in hits._asdict().items()}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    index = record.index
    described = {
        "engine": asdict(record.engine),
        "input": record.input,
        "open_ns": record.open_ns,
        "index": {
            "sent": index.sent,
            "indexed": index.indexed,
            "index_ns": index.index_ns,
            "ready_ns": index.ready_ns,
            "state": dict(index.state),
        },
        "storage": record.storage._asdict(),
        "repeated_calls": record.hits.repeated_calls,
        "queries_per_call": record.hits.queries_per_call,
        "first_query_ns": record.first_query_ns,
        "k": record.k,
        "warm_up_queries": record.warm_up_queries,
        "warm_up_ns": record.warm_up_ns,
        "existing": _write_external(folder, record.external) if record.external is not None else None,
        "built_by": record.built_by,
        "lists": list(record.lists),
        "caveats": {"notes": record.caveats.notes, "without_effect": dict(record.caveats.without_effect)},
    }
    (folder / "result.json").write_bytes(orjson.dumps(described))
    write_loads(folder, record.loads)
    write_rebuilds(folder, record.rebuilds)


def read_trial(folder: Path) -> TrialRecord:
    """Read what :func:`write_trial` wrote."""
    described = orjson.loads((folder / "result.json").read_bytes())
    names = ("indptr", "rows", "scores", "search_ns", "transfer_ns", "missing_rows")
    arrays = {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in names}
    hits = SearchResult(
        *(arrays[name] for name in ("indptr", "rows", "scores")),
        *(arrays[name][0] for name in ("search_ns", "transfer_ns")),
        *(described[name] for name in ("repeated_calls", "queries_per_call")),
    )
    return TrialRecord(
        engine=EngineInfo(**described["engine"]),
        input=described["input"],
        open_ns=described["open_ns"],
        index=IndexReport(missing_rows=arrays["missing_rows"], **described["index"]),
        storage=Storage(**described["storage"]),
        hits=hits,
        search_ns=arrays["search_ns"],
        transfer_ns=arrays["transfer_ns"],
        first_query_ns=described["first_query_ns"],
        k=described["k"],
        warm_up_queries=described["warm_up_queries"],
        warm_up_ns=described["warm_up_ns"],
        external=_read_external(folder, described["existing"]) if described["existing"] is not None else None,
        loads=read_loads(folder),
        built_by=described["built_by"],
        rebuilds=read_rebuilds(folder),
        lists={label: _read_list(folder, label) for label in described["lists"]},
        caveats=Caveats(tuple(described["caveats"]["notes"]), described["caveats"]["without_effect"]),
    )


def _read_list(folder: Path, label: str) -> Hits:
    return Hits(*(np.load(folder / f"list_{label}_{name}.npy", allow_pickle=False) for name in Hits._fields))


def _write_external(folder: Path, external: ExternalIndexRecord) -> dict[str, Any]:
    save_ids(folder / "existing_ids.arrow", external.ids)
    np.save(folder / "existing_rows.npy", external.rows, allow_pickle=False)
    told = {name: getattr(external, name) for name in ("no_oracle", "files", "file_bytes", "sha256")}
    sample = external.sample
    if sample is None:
        return {**told, "sample": None}
    save_vectors(folder, _SAMPLE, sample.vectors)
    return {**told, "sample": {"rows": sample.rows.tolist(), "texts": sample.texts, "place": sample.place}}


def _read_external(folder: Path, described: dict[str, Any]) -> ExternalIndexRecord:
    rows = np.load(folder / "existing_rows.npy", allow_pickle=False)
    ids, told = load_ids(folder / "existing_ids.arrow"), described["sample"]
    sample = None
    if told is not None:
        vectors = load_vectors(folder, _SAMPLE)
        sample = StoredDocuments(np.array(told["rows"], dtype=np.int32), tuple(told["texts"]), vectors, told["place"])
    return ExternalIndexRecord(**{**described, "ids": ids, "rows": rows, "sample": sample})
