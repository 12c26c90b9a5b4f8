"""The stored result, field by field: what ``report.json`` holds, version 1.

These models are the only description of the file. They validate it when it is read back, and the page
``docs/reference/report-schema.md`` is generated from them. A field that does not apply is null, never 0.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "SCHEMA_VERSION",
    "BackendResult",
    "DatasetInfo",
    "EngineDescription",
    "ErrorInfo",
    "EvaluatedCounts",
    "HarnessInfo",
    "IndexStats",
    "MachineInfo",
    "MetricValue",
    "PairedDifference",
    "ParityStats",
    "PlanRecord",
    "QueryCounts",
    "Report",
    "SearchStats",
]

SCHEMA_VERSION = 1

Json = str | int | float | bool | None
Count = Annotated[int, Field(ge=0)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class HarnessInfo(_Record):
    """The harness that made the result."""

    version: str
    commit: str | None = Field(description="commit of the package's own folder; null outside a git checkout")
    dirty: bool | None = Field(description="true when that folder had uncommitted changes")


class MachineInfo(_Record):
    """The machine on which everything ran."""

    system: str
    python: str
    processor: str
    cores: Count
    memory_bytes: Count
    thread_limits: dict[str, str] = Field(description="environment variables that limit threads, where set")


class PlanRecord(_Record):
    """The arguments as they were given, and what they were resolved to."""

    given: dict[str, Json | list[str]]
    resolved: dict[str, Json | list[str]]


class QueryCounts(_Record):
    """How many queries there were."""

    searched: Count = Field(description="queries sent to every backend")
    judged: Count = Field(description="queries with at least one judgment")
    relevant: Count = Field(description="queries with at least one relevant document")


class EvaluatedCounts(_Record):
    """Queries of one backend under each rule of counting."""

    judged: Count
    relevant: Count
    answered: Count = Field(description="judged queries for which the backend returned anything")
    evaluated: Count = Field(description="queries that the means are taken over, under the plan's `queries` rule")
    unjudged: Count = Field(description="queries of the run without judgments; left out of everything")


class DatasetInfo(_Record):
    """The collection: its name, content and size."""

    name: str
    sha256: str = Field(description="of documents, queries and judgments as they were used")
    documents: Count
    empty_documents: Count
    queries: QueryCounts
    judgments: Count
    sampled_from: int | None = Field(description="queries in the collection, when only a sample was searched")
    provenance: dict[str, str]


class EngineDescription(_Record):
    """What really ran."""

    name: str
    version: str
    mode: str = Field(description="how the engine was reached: embedded, server, …")


class ErrorInfo(_Record):
    """Why a backend has no figures."""

    type: str
    message: str
    log: list[str] = Field(description="last lines that the worker wrote")


class IndexStats(_Record):
    """What became of the documents. Times in seconds, sizes in bytes."""

    documents_sent: Count
    documents_indexed: Count
    missing: list[str] = Field(description="ids of documents that the engine does not hold (the first 100)")
    missing_count: Count
    seconds: float = Field(description="ingestion, without encoding and without waiting")
    ready_seconds: float = Field(description="from the last document to an idle optimiser")
    documents_per_second: float
    bytes: Count = Field(description="allocated blocks of the index, without its write-ahead log")
    log_bytes: Count
    peak_rss_bytes: int | None = Field(description="highest resident memory of the worker, indexing and search")
    peak_anonymous_bytes: int | None = Field(
        description="highest anonymous memory above the worker's state before the engine opened"
    )
    state: dict[str, Json] = Field(description="the engine's own account of its index")


class LatencyStats(_Record):
    """Milliseconds per query, from raw samples of all repeats."""

    p50: float
    p90: float
    p95: float
    p99: float
    mean: float
    n: Count


class SearchStats(_Record):
    """Searching: the engine's work, and the transfer of its hits apart."""

    queries: Count
    k: Count
    repeats: Count
    concurrency: Count
    milliseconds: LatencyStats
    transfer_ms: LatencyStats
    qps: float = Field(description="queries per second of search and transfer together, one client")
    first_query_ms: float = Field(description="the first query on the fresh index, before any warm-up")
    warm_up_queries: Count
    hits: Count
    queries_without_hits: Count


class MetricValue(_Record):
    """One mean, the range that ties leave it, and its confidence interval."""

    mean: float
    min: float | None = Field(description="lowest mean over all orders of tied documents; null where not defined")
    max: float | None
    ci_low: float | None = Field(
        description="95 % BCa bootstrap interval of a mean; null below 2 queries, and for sums and geometric means"
    )
    ci_high: float | None


class ParityStats(_Record):
    """How a run relates to its oracle, counted in queries.

    The counts are nested: bit-equal queries are identical, identical ones tie-equivalent. `different` is the rest.
    """

    oracle: str
    mode: str
    tolerance: float
    queries: Count
    bit_equal: Count
    identical: Count
    tie_equivalent: Count
    different: Count
    overlap: dict[str, float] = Field(description="mean share of common documents at each depth")
    rbo: float
    max_abs_score_diff: float
    max_rel_score_diff: float
    causes: dict[str, int] = Field(
        description="proven cause -> number of queries it explains; `unknown` is a defect of the harness"
    )


class BackendResult(_Record):
    """One backend: what it was, what it did, and how well."""

    name: str
    label: str
    status: Literal["ok", "failed"]
    error: ErrorInfo | None
    engine: EngineDescription | None
    encoder: dict[str, Json] = Field(
        description="what made the vectors or terms: encoder, analyzer, parameters, statistics"
    )
    parameters: dict[str, Json]
    index: IndexStats | None
    search: SearchStats | None
    queries: EvaluatedCounts | None
    metrics: dict[str, MetricValue]
    parity: ParityStats | None
    notes: list[str] = Field(description="what a reader must know before comparing this backend with another")


class PairedDifference(_Record):
    """Two backends on one metric that is a mean, over the queries evaluated for both (`difference` is b - a)."""

    a: str
    b: str
    metric: str
    difference: float
    ci_low: float | None
    ci_high: float | None
    p: float | None = Field(description="two-sided paired randomisation test")
    p_adjusted: float | None = Field(description="Holm over all pairs and metrics of this report")
    effect: float | None = Field(description="Cohen's d of the per-query differences; null when they do not vary")
    wins: Count = Field(description="queries on which b is better")
    ties: Count
    losses: Count
    within_ties: bool = Field(
        description="true when ties move a mean of the two and their ranges meet: no difference, whatever p says"
    )
    verdict: Literal["same", "better", "worse", "undecided"] = Field(
        description="`same`: equal on every query; else b against a at adjusted p < 0.05"
    )


class Report(_Record):
    """A whole comparison as stored."""

    schema_version: int = Field(alias="schema")
    created: str = Field(description="UTC, ISO 8601")
    kind: Literal["compare"]
    command: list[str] = Field(description="arguments that run the same comparison again")
    harness: HarnessInfo
    machine: MachineInfo
    packages: dict[str, str]
    plan: PlanRecord
    dataset: DatasetInfo
    backends: list[BackendResult]
    comparisons: list[PairedDifference]

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)
