"""Costs of a backend: the parts of the stored result on time, memory, disk and load."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.results.schema_base import Count, Json, Record


class OtherProcessesInfo(Record):
    """The other processes' use of the cores while a phase was timed."""

    phase: str = Field(description="`indexing`, `search`, a number of clients, a rate, or the measurement of a probe")
    seconds: float = Field(description="how long it took, with all that was done for it")
    cores: Count = Field(description="that the backend may use")
    used_cores: float | None = Field(
        description="that other processes used on average; null if the measured server may be one of them, "
        "and with HARNESS_OTHER_PROCESSES=ignore"
    )
    load_before: float | None = Field(
        description="runnable processes, the average of the minute before; null if the system does not tell"
    )
    load_after: float | None
    busy: bool = Field(description="so much that the machine was not quiet during the phase")


class PhaseTimes(Record):
    """Seconds of each phase of one backend, in the order in which they happen; null if the plan took none."""

    encode_seconds: float | None = Field(
        description="analysis and weighting of documents and queries, as far as they were done now; null otherwise"
    )
    encode_source: Literal["computed", "partly cached", "cached", "engine"] = Field(
        description="`computed`: now, for all backends that share it; `cached`: by an earlier comparison; "
        "`engine`: the engine analyses while it indexes"
    )
    open_seconds: float = Field(description="starting the engine on an empty folder, or on an external index")
    index_seconds: float | None = Field(description="null if nothing was built")
    ready_seconds: float | None
    first_query_seconds: float
    warm_up_seconds: float
    search_seconds: float = Field(description="all timed queries, the engine's work")
    transfer_seconds: float = Field(description="all timed queries, bringing their hits into arrays")


class ExternalIndexStats(Record):
    """An index that existed before, and was searched unchanged."""

    in_dataset: Count = Field(description="documents of the index that the dataset has")
    not_in_dataset: Count
    examples: list[str] = Field(description="ids of documents that the dataset lacks (the first 20)")
    no_reference: str | None = Field(
        description="why results are not compared with a reference; null if the index is proven to hold the same"
    )
    files: int | None = Field(description="files hashed before and after, and found the same; null for a server")
    file_bytes: int | None
    sha256: str | None = Field(description="of all files: names the content of the index")


class IndexStats(Record):
    """Indexing of the documents. Times in seconds, sizes in bytes.

    Times are null when the plan took none, or nothing was built.
    """

    built_by: str | None = Field(
        default=None, description="label of the backend that built the index that this one searched too; null: its own"
    )
    documents_sent: int | None
    documents_indexed: Count = Field(description="documents that the engine holds")
    missing: list[str] = Field(description="ids of documents that the engine does not hold (the first 100)")
    missing_count: Count
    seconds: float | None = Field(description="ingestion, without encoding and without waiting")
    ready_seconds: float | None = Field(description="from the last document to an idle optimiser")
    searchable_seconds: float | None = Field(
        description="from the first document until all can be searched: both together"
    )
    documents_per_second: float | None = Field(description="of ingestion: documents indexed / seconds")
    bytes: Count | None = Field(
        description="allocated blocks of the index, without its write-ahead log; null if a server does not tell"
    )
    log_bytes: Count
    peak_rss_bytes: int | None = Field(
        description="highest resident memory of the worker, indexing and search; null without one"
    )
    peak_anonymous_bytes: int | None = Field(
        description="highest anonymous memory above the worker's state before the engine opened; null without one"
    )
    peak_server_bytes: int | None = Field(
        default=None,
        description="highest memory of the engine's server processes that the worker started, which both peaks "
        "include; null without any",
    )
    state: dict[str, Json] = Field(description="the engine's own account of its index")
    external_index: ExternalIndexStats | None = Field(
        default=None, description="null for an index that was built for this result"
    )


class BuildStats(Record):
    """One of several builds of the same index: its costs and its search results."""

    build: Count = Field(description="from 1; all other figures of the backend are from the first")
    seconds: float | None = Field(description="as in `index`, like all that follows but the last two")
    ready_seconds: float | None
    documents_per_second: float | None
    bytes: Count | None
    log_bytes: Count
    peak_rss_bytes: int | None = Field(
        description="of the first build with all its searches, of further builds with one pass; null for an index that "
        "another backend built"
    )
    peak_anonymous_bytes: int | None
    metrics: dict[str, float] = Field(description="the mean of each metric")
    reference_overlap: dict[str, float] = Field(description="depth -> `parity.overlap`")


class LatencyStats(Record):
    """Milliseconds per query, from raw samples of all repeats."""

    p50: float
    p90: float
    p95: float
    p99: float
    mean: float
    n: Count


class SearchStats(Record):
    """Searching: the engine's work, and separately the transfer of its hits. Times are null if the plan took none."""

    queries: Count
    queries_without_terms: Count = Field(
        description="queries without a term that a document has; no percentile and no rate counts them, nor under load"
    )
    k: Count
    repeats: Count = Field(description="passes over all queries")
    concurrency: Count
    milliseconds: LatencyStats | None
    transfer_ms: LatencyStats | None
    qps: float | None = Field(description="queries per second of search and transfer together, one client")
    first_query_ms: float | None = Field(
        description="the first query on the fresh index, before any warm-up; null when it has no terms"
    )
    warm_up_queries: Count
    hits: Count = Field(description="of all queries; for reranking tasks, hits that are candidates")
    queries_without_hits: Count
    repeated_calls: Count = Field(
        description="calls made again after an error that passed; the milliseconds of their queries include it"
    )
    queries_per_call: Count = Field(
        description="queries sent together; above 1 milliseconds are equal shares of the calls' times, not latencies"
    )


class ColdStats(Record):
    """One pass over the queries on the index opened again in a new process, its files out of the page cache."""

    open_seconds: float | None = Field(description="opening the index; null when the process failed")
    first_query_ms: float | None
    milliseconds: LatencyStats | None
    transfer_ms: LatencyStats | None
    resident_share: float | None = Field(
        description="share of the index's pages that the system still kept in memory; null if it does not say"
    )
    errors: Count = Field(description="queries that failed")
    error: str | None = Field(description="the first failure")


class ClosedLoopStats(Record):
    """N clients at once, each sending its next query when the last was answered."""

    clients: Count
    kind: Literal["processes", "threads"]
    seconds: float | None = Field(description="the window in which all clients were asking; null when there was none")
    qps: float | None = Field(description="queries per second of all clients in that window, by the wall clock")
    milliseconds: LatencyStats | None = Field(description="the engine's work, all samples of all clients")
    transfer_ms: LatencyStats | None
    busy_share: float | None = Field(
        description="share of the clients' time inside search and transfer; the rest is the harness's own"
    )
    errors: Count = Field(description="queries that failed")
    clients_failed: Count = Field(
        description="client processes that died, whose samples are lost, or gave up after calls that failed in a row"
    )
    error: str | None = Field(description="the first failure of a client or a query")
    different_queries: Count = Field(description="queries that some client answered otherwise than the single client")
    peak_rss_bytes: int | None = Field(description="sum over the client processes")
    peak_anonymous_bytes: int | None = Field(description="sum over the client processes, above their state before open")
    index_copies: Count = Field(description="copies of the index made for engines that lock theirs")


class OpenLoopStats(Record):
    """Queries that were due at a fixed rate, whether the backend kept up or not."""

    rate: float = Field(description="requested queries per second")
    arrivals: Literal["constant", "poisson"]
    queries: Count = Field(description="how many with terms were due")
    due_qps: float = Field(description="queries per second that were due; random arrivals miss the rate by chance")
    clients: Count = Field(description="largest number of queries in flight")
    kind: Literal["processes", "threads"]
    qps: float | None = Field(description="queries per second that were answered")
    milliseconds: LatencyStats | None = Field(
        description="from the time at which a query was due; a query that was never sent counts with its wait, a "
        "lower bound"
    )
    service_ms: LatencyStats | None = Field(description="only search and transfer, of the answered queries")
    backlog: Count = Field(description="queries that were due and not yet sent when the schedule ended")
    unserved: Count = Field(description="queries that were never sent: the clients gave up")
    overloaded: bool = Field(description="the backlog was above the number of clients and above 1 % of the queries")
    errors: Count = Field(description="queries that failed")
    clients_failed: Count
    error: str | None
    different_queries: Count
    peak_rss_bytes: int | None
    peak_anonymous_bytes: int | None


class KneeStats(Record):
    """The end of throughput in a sweep of rates (`--rate sweep`).

    A rate is sustained if it is not an overload, at most one query in a hundred fails, and its p99 is at most 5 times
    the p99 at rest.
    """

    rate: float | None = Field(
        description="the knee: the largest rate sustained together with every lower rate; null if the lowest was not"
    )
    qps: float | None = Field(description="queries per second that were answered at it")
    p99_ms: float | None = Field(description="at it")
    queries: int | None = Field(default=None, description="whose latency at it this is the p99 of")
    unloaded_p99_ms: float = Field(
        description="at rest: the lowest p99 of rates without overload and of enough queries"
    )
    unloaded_queries: int | None = Field(default=None, description="whose latency this is the p99 of")
    unsustained_rate: float | None = Field(
        description="the lowest rate that was not sustained; null if the sweep ended before saturation"
    )
    limit: Literal["overload", "errors", "p99"] | None = Field(description="why that rate was not sustained")
    highest_qps: float = Field(description="most queries per second that were answered at any rate")


class FilteredStats(Record):
    """Searches under a filter, compared with the exact filtered search."""

    filter: str = Field(
        description="`seeded 0.01` for a seeded attribute of that share of the documents, or field=value"
    )
    matching: Count = Field(description="documents that match")
    selectivity: float = Field(description="their share of all documents")
    recall: dict[str, float] = Field(
        default={},
        description="depth -> share of the exact filtered best that was found, mean over all queries, 1 for those that "
        "agree up to ties; empty without a reference",
    )
    metric: str | None = Field(
        default=None, description="the first metric; null without judgments of documents that match"
    )
    quality: float | None = Field(
        default=None, description="its mean, judgments of documents that do not match left out"
    )
    exact: float | None = Field(
        default=None, description="the same of the exact filtered search; null without a reference"
    )
    evaluated: Count = Field(default=0, description="queries that this mean is over")
    queries_with_fewer_hits: Count = Field(
        default=0,
        description="queries that got fewer hits than exact search gives; without a reference, fewer than match, or k",
    )
    milliseconds: LatencyStats | None = Field(
        default=None, description="the engine's work, one client; null without times"
    )
    error: str | None = Field(default=None, description="why these searches failed")


class FilterSweepStats(Record):
    """Searches under filters of several selectivities (`--filter-sweep`)."""

    filters: bool = Field(description="false for an engine that does not filter searches: it has no levels")
    levels: list[FilteredStats]
    recall: dict[str, float] = Field(
        default={}, description="the same as in `levels` of the searches without a filter; empty without a reference"
    )
