"""The stored result, field by field: what ``report.json`` holds, version 1.

These models are the only description of the file. They validate it when it is read back, and the page
``docs/reference/report-schema.md`` is generated from them. A field that does not apply is null, never 0.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from harness.results.schema_costs import (
    BuildStats,
    ClosedLoopStats,
    ColdStats,
    Count,
    ExternalIndexStats,
    IndexStats,
    Json,
    LatencyStats,
    Mode,
    OpenLoopStats,
    Parameters,
    PhaseTimes,
    Record,
    SearchStats,
)

__all__ = [
    "SCHEMA_VERSION",
    "BackendResult",
    "BuildStats",
    "CandidatesInfo",
    "ClosedLoopStats",
    "ColdStats",
    "ContentDigests",
    "DatasetInfo",
    "EngineDescription",
    "ErrorInfo",
    "EvaluatedCounts",
    "ExternalIndexStats",
    "FilterInfo",
    "FindingInfo",
    "FrontierPoint",
    "FrontierStats",
    "HarnessInfo",
    "IdenticalIdsInfo",
    "IndexStats",
    "LatencyStats",
    "LossStats",
    "MachineInfo",
    "MetricValue",
    "OpenLoopStats",
    "PairedDifference",
    "ParityStats",
    "PhaseTimes",
    "PlanRecord",
    "QueryCounts",
    "Report",
    "RerankingStats",
    "SearchStats",
    "SpreadStats",
    "SpreadValue",
    "StageStats",
]

SCHEMA_VERSION = 1


class HarnessInfo(Record):
    """The harness that made the result."""

    version: str
    commit: str | None = Field(description="commit of the package's own folder; null outside a git checkout")
    dirty: bool | None = Field(description="true when that folder had uncommitted changes")


class MachineInfo(Record):
    """The machine on which everything ran."""

    system: str
    python: str
    processor: str
    cores: Count
    memory_bytes: Count
    thread_limits: dict[str, str] = Field(description="environment variables that limit threads, where set")


class PlanRecord(Record):
    """The arguments as they were given, and what they were resolved to."""

    given: dict[str, Json | list[str]]
    resolved: dict[str, Json | list[str]]


class QueryCounts(Record):
    """How many queries there were."""

    searched: Count = Field(description="queries sent to every backend")
    judged: Count = Field(description="queries with at least one judgment")
    relevant: Count = Field(description="queries with at least one relevant document")


class EvaluatedCounts(Record):
    """Queries of one backend under each rule of counting."""

    judged: Count
    relevant: Count
    answered: Count = Field(description="judged queries for which the backend returned anything")
    evaluated: Count = Field(description="queries that the means are taken over, under the plan's `queries` rule")
    unjudged: Count = Field(description="queries of the run without judgments; left out of everything")


class FilterInfo(Record):
    """Which documents searches could return (`--filter`), and how much of the judgments that leaves."""

    fields: dict[str, str] = Field(description="every field has this value in a document that matches")
    matching: Count = Field(description="documents that match; all of them are in every index")
    selectivity: float = Field(description="share of the documents that match")
    relevant: Count = Field(description="relevant judgments of the queries that were searched")
    relevant_matching: Count = Field(description="those of documents that match: no other can be found")


class ContentDigests(Record):
    """SHA-256 of each part of a collection as it was used: which of them two results have in common."""

    documents: str
    queries: str
    judgments: str | None = Field(description="null for a collection without judgments")
    candidates: str | None = Field(
        default=None, description="null where all documents compete, and in results of earlier versions"
    )


class IdenticalIdsInfo(Record):
    """What happened to hits that have their query's id."""

    rule: Literal["keep", "drop"]
    queries: Count = Field(description="queries whose id a document has")


class CandidatesInfo(Record):
    """The documents that each query was ranked among; others were searched, and left out before anything was ranked."""

    fewest: Count = Field(description="candidates of a query")
    most: Count
    searched: Count = Field(description="documents that every backend was asked for, for each query")


class DatasetInfo(Record):
    """The collection: its name, content and size."""

    name: str
    sha256: str = Field(description="of documents, queries, judgments and candidates as they were used")
    documents: Count
    empty_documents: Count
    queries: QueryCounts
    judgments: Count
    sampled_from: int | None = Field(description="queries in the collection, when only a sample was searched")
    provenance: dict[str, str]
    documents_sampled_from: int | None = Field(
        default=None, description="documents in the collection, when only its judged ones and a sample were indexed"
    )
    identical_ids: IdenticalIdsInfo | None = Field(default=None, description="null in results of earlier versions")
    filter: FilterInfo | None = Field(None, description="null where every document could be returned")
    candidates: CandidatesInfo | None = Field(default=None, description="null where all documents compete")
    content: ContentDigests | None = Field(default=None, description="null in results of earlier versions")


class EngineDescription(Record):
    """What really ran."""

    name: str
    version: str
    mode: Mode = Field(description="how the engine was reached: embedded, server, …")


class ErrorInfo(Record):
    """Why a backend has no figures."""

    type: str
    message: str
    log: list[str] = Field(description="last lines that the worker wrote")


class MetricValue(Record):
    """One mean, the range that ties leave it, and its confidence interval."""

    mean: float
    min: float | None = Field(description="lowest mean over all orders of tied documents; null where not defined")
    max: float | None
    ci_low: float | None = Field(
        description="95 % interval of a mean: BCa bootstrap, exact (Clopper-Pearson) where every value is 0 or 1; null "
        "below 2 queries, and for sums and geometric means"
    )
    ci_high: float | None


class LossStats(Record):
    """One mean against that of the reference's own run: what the engine loses by not being exact."""

    exact: float = Field(description="the mean of the reference's run")
    difference: float = Field(description="engine minus reference, over the queries that both are evaluated on")
    ci_low: float | None = Field(description="95 % BCa bootstrap interval of the difference; null below 2 queries")
    ci_high: float | None


class ParityStats(Record):
    """How a run relates to its reference, counted in queries.

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
    overlap: dict[str, float] = Field(
        description="mean share of common documents at each depth; of dense backends that is their recall"
    )
    rbo: float
    max_abs_score_diff: float
    max_rel_score_diff: float
    causes: dict[str, int] = Field(
        description="proven cause -> number of queries it explains; `unknown` is a defect of the harness"
    )
    loss: dict[str, LossStats] = Field(
        default_factory=dict, description="metric -> what approximate search costs; empty but for dense backends"
    )


class SpreadValue(Record):
    """One figure over several builds of the same index."""

    mean: float
    sd: float = Field(description="sample standard deviation, over builds - 1")
    min: float
    max: float


class SpreadStats(Record):
    """How far several builds lie apart. All else of a backend is of the first of them."""

    builds: Count = Field(description="builds in all, the first among them; at least 2")
    queries: Count
    identical: dict[str, Count] = Field(
        description="depth -> queries for which every build returned the same documents at the same ranks down to it"
    )
    identical_share: dict[str, float] = Field(description="depth -> `identical` of `queries`")
    pairwise_overlap: dict[str, float] = Field(
        description="depth -> share of common documents, mean over all pairs of builds and all queries"
    )
    oracle_overlap: dict[str, SpreadValue] = Field(
        description="depth -> `parity.overlap` of each build (of dense backends the recall); empty without a reference"
    )
    metrics: dict[str, SpreadValue]
    costs: dict[str, SpreadValue] = Field(
        default_factory=dict,
        description="times, rate and bytes of `each` that every build has; empty in results of earlier versions",
    )
    each: list[BuildStats] = Field(
        default_factory=list, description="every build by itself; empty in results of earlier versions"
    )


class RerankingStats(Record):
    """A second stage: candidates of the first one, in the order of new scores."""

    candidates: Count = Field(
        description="documents of a query that were scored, at most: what was asked for, or less where fewer were "
        "found; all candidates that the dataset names"
    )
    pairs: Count = Field(description="pairs of a query and a document that have a score")
    scored: Count = Field(description="pairs that were scored now; the others' scores were in the cache")
    load_seconds: float | None = Field(
        description="loading the model; null without times, and where nothing was scored"
    )
    pairs_per_second: float | None = Field(description="of those that were scored now")
    ceiling: dict[str, float] = Field(
        description="each nDCG of the best possible order of the candidates: what no second stage can exceed"
    )
    facts: dict[str, Json] = Field(
        description="what the scores were made with: device, versions; of a judge the calls that this run made, those "
        "among them that were repeated, and earlier ones whose answers were in the cache (`calls_before`)"
    )


class StageStats(Record):
    """A backend that is made of other backends' hits: what it takes from them, and what it does itself."""

    method: str = Field(description="`rrf`, `minmax`, `dbsf`, or the name of a reranker")
    of: list[str] = Field(description="labels of the backends whose hits it takes")
    first_ms: LatencyStats | None = Field(
        description="search and transfer of all of them, added up query by query, because they were searched one after "
        "another; null without times, and where one of them was read from a file"
    )
    own_ms: float | None = Field(
        description="milliseconds per query of its own work: an equal share of what all queries took together; null "
        "without times, and where a part of it was done by an earlier comparison"
    )
    reranking: RerankingStats | None = Field(default=None, description="null for a fusion")


class BackendResult(Record):
    """One backend: what it was, what it did, and how well."""

    name: str
    label: str
    status: Literal["ok", "failed"]
    measured: str | None = Field(description="when it ran or failed: UTC, ISO 8601; null for a run that was read")
    reused: bool = Field(description="true for an outcome that an earlier comparison stored (`--resume`)")
    error: ErrorInfo | None
    engine: EngineDescription | None
    encoder: dict[str, Json] = Field(
        description="what made the vectors or terms: encoder, analyzer, parameters, statistics; of an endpoint the "
        "calls of this run, for all backends that share the vectors, and earlier ones whose answers were in the cache "
        "(`calls_before`)"
    )
    parameters: Parameters
    phases: PhaseTimes | None
    index: IndexStats | None
    search: SearchStats | None
    stages: StageStats | None = Field(default=None, description="null unless it is made of other backends")
    cold: ColdStats | None
    closed_loop: list[ClosedLoopStats]
    open_loop: list[OpenLoopStats]
    queries: EvaluatedCounts | None
    metrics: dict[str, MetricValue]
    parity: ParityStats | None
    spread: SpreadStats | None = Field(default=None, description="null unless several builds were made (`--rebuilds`)")
    deterministic: bool | None = Field(
        default=None, description="false where every build gives other rankings; null where nothing was built"
    )
    notes: list[str] = Field(description="what a reader must know before comparing this backend with another")


class PairedDifference(Record):
    """Two backends on one metric that is a mean, over the queries evaluated for both (`difference` is b - a)."""

    a: str
    b: str
    metric: str
    difference: float
    ci_low: float | None
    ci_high: float | None
    p: float | None = Field(description="two-sided paired randomisation test")
    p_adjusted: float | None = Field(
        description="Holm over all pairs and metrics of this list in which any query differs"
    )
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


class FrontierPoint(Record):
    """One value of a swept parameter."""

    backend: str = Field(description="label of the backend with this value")
    value: str = Field(description="as it was given")
    quality: float | None = Field(description="mean of the frontier's measure; null where it was not measured")
    loss: float | None = Field(
        description="engine minus reference on that measure; null without reference or judgments"
    )
    p50_ms: float | None = Field(description="null where no latencies were measured")
    on_frontier: bool = Field(
        description="no other value has at least its quality and at most its p50, one of them better; false too where "
        "one of the two was not measured"
    )


class FrontierStats(Record):
    """One `--sweep`: what each value of a parameter costs and what it buys."""

    backend: str = Field(description="the swept backend as it is named without the parameter")
    parameter: str
    measure: str | None = Field(
        description="the first metric; without judgments recall at the deepest depth; null without a reference too"
    )
    points: list[FrontierPoint] = Field(description="in the order of the values")


class FindingInfo(Record):
    """A pitfall that a check found: in the data, or in the results of one backend."""

    check: str = Field(description="name of the check, as `docs/explanation/pitfalls.md` lists it")
    backend: str | None = Field(description="label of the backend; null for the data, and for differences")
    message: str
    fix: str
    examples: list[str] = Field(description="the first cases")


class Report(Record):
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
    comparisons: list[PairedDifference] = Field(
        description="every backend against `plan.resolved.reference`, or every pair (`--all-pairs`)"
    )
    frontiers: list[FrontierStats] | None = Field(
        default=None, description="one for each `--sweep`; null in results of earlier versions"
    )
    findings: list[FindingInfo] = Field(
        default_factory=list, description="pitfalls that were found; empty in results of earlier versions"
    )

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)
