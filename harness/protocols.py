"""The small interfaces between the harness and what plugs into it.

An engine's life: ``open`` an empty folder, ``index`` once, ``search`` as often as wanted, ``close``. Opening a folder
that already holds an index skips ``index``. Everything runs in one thread of one worker process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from harness.types import Float32Array, Ids, Int32Array, Int64Array, SparseVectors

__all__ = [
    "Capabilities",
    "Clock",
    "Display",
    "Engine",
    "EngineInfo",
    "IndexReport",
    "Inputs",
    "ParameterValue",
    "Progress",
    "SearchResult",
    "Storage",
]

ParameterValue = str | int | float | bool
Clock = Callable[[], int]
"""Nanoseconds from a monotonic clock; injected, so that tests do not wait."""


class Progress(Protocol):
    """Where long work says how far it is."""

    def start(self, phase: str, total: int | None) -> None:
        """A phase begins; ``total`` is in the phase's own unit (documents, queries), None when unknown."""

    def advance(self, amount: int) -> None:
        """``amount`` more units of the current phase are done."""


class Display(Protocol):
    """Where the progress of a whole comparison is shown."""

    def section(self, label: str) -> Progress:
        """Progress of one encoding or one backend."""

    def done(self, label: str, outcome: str) -> None:
        """One backend is finished; ``outcome`` is a few words."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do. The contract suite tests what is declared, and requires a minimum."""

    input: Literal["text", "sparse", "dense"]
    """Which column of :class:`Inputs` the engine reads."""
    exact: bool
    """True when the engine computes its scoring function over all documents, without approximation."""
    deterministic: bool
    """True when two builds from the same input give the same rankings."""
    reopens: bool
    """True when a closed index can be opened again from its folder."""
    keeps_k_prefix: bool
    """True when the top 3 is always a prefix of the top 5, ties included."""
    gaps: Mapping[str, str] = field(default_factory=dict)
    """Name of a contract test that cannot pass -> the reason. Shown wherever the engine is described."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Documents or queries as an engine takes them: always ids, and the column its capabilities name.

    ``texts`` is an Arrow string column, ``sparse`` CSR rows, ``dense`` a C-contiguous float32 (n, d) array.
    """

    ids: Ids
    texts: pa.ChunkedArray | None = None
    sparse: SparseVectors | None = None
    dense: Float32Array | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What really ran: the engine's own name and version, and how it was reached (``embedded``, ``server`` …)."""

    name: str
    version: str
    mode: str


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What became of the documents that were sent. Counts come from the engine, never from the sender.

    ``missing_rows`` names documents that the engine does not hold (int32). ``index_ns`` is the time of ingestion,
    ``ready_ns`` the time from the last document to an idle optimiser. ``state`` is the engine's own account of its
    index (segments, indexed vectors …).
    """

    sent: int
    indexed: int
    missing_rows: Int32Array
    index_ns: int
    ready_ns: int
    state: Mapping[str, str | int | float | bool] = field(default_factory=dict)


class Storage(NamedTuple):
    """Allocated bytes on disk (or in memory, for engines without files): the index, and its write-ahead log apart."""

    index_bytes: int
    log_bytes: int


class SearchResult(NamedTuple):
    """Hits of a batch of queries in the engine's own order, and the time of every query.

    ``indptr`` int64 (Q + 1), ``rows`` int32 (H,), ``scores`` float32 (H,); ``search_ns`` int64 (Q,) is the engine's
    work, ``transfer_ns`` int64 (Q,) the time to bring its hits into these arrays.
    """

    indptr: Int64Array
    rows: Int32Array
    scores: Float32Array
    search_ns: Int64Array
    transfer_ns: Int64Array


@runtime_checkable
class Engine(Protocol):
    """An engine that indexes and searches. One class per engine, one instance per index.

    The constructor takes the card's engine parameters, already parsed and complete, and does nothing else.
    """

    capabilities: ClassVar[Capabilities]

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None: ...

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        """Start the engine on ``folder``: empty for a new index, or holding one that :meth:`index` made.

        ``ids`` are the documents' external ids; row numbers in results refer to them. Raises EngineUnavailableError.
        """

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        """Index all documents and wait until searchable and idle. Called once, on an empty index.

        Raises RejectedInputError for input the engine would take silently and answer wrongly (NaN, repeated indices).
        """

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        """The best ``k`` (at least 1) documents of each query, one query after the other, each timed.

        A query without known terms has no hits. Raises EngineFailureError naming the query that failed.
        """

    def storage(self) -> Storage:
        """Bytes that the index takes now."""

    def close(self) -> None:
        """Release everything; calling it again does nothing."""
