"""How one result differs from an earlier one, field by field: ``change`` of a stored result.

A field that does not apply is null, never 0. `before` is the baseline, `after` the result compared with it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.results.schema_base import Count, DatasetInfo, HarnessInfo, Json, LabelModelInfo, MachineInfo, Record

Value = Json
Verdict = Literal["better", "worse", "same", "undecided"]
GateState = Literal["passed", "failed", "not judged"]
GateRule = Literal["test", "tolerance"]
NotJudgedRule = Literal["pass", "fail", "invalid"]
Sameness = Literal["same", "different", "unknown"]
Absence = Literal["not found", "not stored"]
PairedBy = Literal["option", "label", "name", "position"]
"""How two backends were paired, from the user's choice to a mere guess."""
_NOT_JUDGED_AS: dict[NotJudgedRule, Literal["passed", "failed", "invalid"]] = {
    "pass": "passed",
    "fail": "failed",
    "invalid": "invalid",
}


class SideInfo(Record):
    """One of the two results."""

    source: str = Field(description="the folder or baseline file, or `this run`")
    created: str
    command: list[str]
    harness: HarnessInfo
    machine: MachineInfo
    datasets: list[DatasetInfo]
    backends: list[str] = Field(description="labels")
    ranking_depth: int | None = Field(description="documents of each ranking that are stored; null for all")


class SettingChange(Record):
    """A resolved setting that differs."""

    section: str = Field(
        description="dataset, plan, engine, parameters, encoder, second stage, harness, packages or machine"
    )
    backend: str | None = Field(description="label of the later backend; null for settings that all share")
    setting: str
    dataset: str | None = Field(
        default=None, description="the dataset on which it differs so; null for all that are compared"
    )
    before: Value
    after: Value


class DataRelation(Record):
    """Whether both results are of the same data. Differences are also listed in `warnings`."""

    dataset: str = Field(description="its name in the later result")
    documents: Sameness
    queries: Sameness
    judgments: Sameness
    candidates: Sameness = Field(
        default="same", description="documents that each query is ranked among; same if all compete on both sides"
    )
    queries_before: Count
    queries_after: Count
    common_queries: Count = Field(description="queries with the same id and the same text: only these are compared")
    paired_by_text: Count = Field(
        default=0, description="of these, queries to which neither side's file gives an id: paired by their texts"
    )
    texts_compared: bool = Field(description="false if a side does not know its texts: then only the id decides")
    labels: Count = Field(description="judgments that --labels added on both sides")
    model_labels_before: Count = Field(default=0, description="judgments of the earlier result that models gave")
    model_labels_after: Count = 0
    label_models: list[LabelModelInfo] = Field(default=[], description="these models, of both results")


class MetricJudgement(Record):
    """A backend and a metric: what changed, how sure that is, and what follows from it."""

    metric: str
    queries: Count = Field(description="queries that both sides were evaluated on")
    before: float = Field(description="mean over these queries")
    after: float
    human_before: float | None = Field(
        default=None,
        description="mean by people's judgments alone, over the queries that both sides have by them; null if models "
        "gave no grade, and without such a query",
    )
    human_after: float | None = None
    difference: float = Field(description="after minus before")
    ci_low: float | None = Field(description="95 % BCa bootstrap interval of the difference; null below 2 queries")
    ci_high: float | None
    test: str
    p: float | None = Field(description="two-sided, of the paired test; null below 2 queries")
    p_adjusted: float | None = Field(
        description="Holm over all datasets, backends and metrics of this comparison on which any query differs"
    )
    effect: float | None = Field(description="Cohen's d of the per-query differences; null when they do not vary")
    wins: Count = Field(description="queries on which the later result is better")
    ties: Count
    losses: Count
    margin: float = Field(description="differences within ± this count as the same")
    equivalence_p: float | None = Field(
        description="two one-sided tests (TOST) that the difference is within the margin"
    )
    noise_floor: float | None = Field(
        description="difference that two builds with the same settings exceed in one case of twenty; null if builds "
        "do not differ, or only one was made"
    )
    detectable: float | None = Field(description="smallest difference that this many queries detect with power 0.8")
    queries_needed: int | None = Field(description="queries that would decide it; null unless undecided")
    verdict: Verdict
    allowed_drop: float | None = Field(description="the allowed drop; null if there is no gate")
    gate: GateState | None = Field(
        description="`failed`: worse beyond the allowed drop; `not judged`: it would have passed even if every query "
        "had lost everything; null if there is no gate"
    )
    gate_p: float | None = Field(
        description="one-sided, that the true loss is at most the allowed drop; Holm over all gated metrics"
    )
    total_loss_p: float | None = Field(
        default=None,
        description="what `gate_p` would be if every query had lost everything in all gated metrics; null if there "
        "is no gate or nothing to lose, and below 2 queries",
    )
    gate_reason: str = Field(default="", description="why the gate was not judged; empty if it was")
    reason: str = Field(description="why the verdict is what it is, in words")
    sentence: str = Field(
        default="",
        description="in plain words: by how much the mean moved, how many queries lost and gained, what is allowed, "
        "and the chance of this without a change",
    )


class CostChange(Record):
    """One cost before and after."""

    cost: str = Field(description="p50_ms, p95_ms, mean_ms, qps, index_seconds, peak_anonymous_bytes, index_bytes …")
    before: float | None
    after: float | None
    ratio: float | None = Field(description="after divided by before")
    ci_low: float | None = Field(
        description="95 % bootstrap interval of the ratio over queries; null for single figures"
    )
    ci_high: float | None
    samples_before: Count = Field(description="raw samples behind the figure; 1 for a single measurement")
    samples_after: Count
    verdict: Literal["lower", "higher", "same", "undecided", "x"] = Field(
        description="beyond the tolerance, within it, or not decided by these samples; `x`: not comparable"
    )
    reason: str | None = Field(description="why it is not comparable")


class QueryValue(Record):
    """One metric of one query, on both sides."""

    metric: str
    before: float
    after: float
    difference: float
    before_if_relevant: float | None = Field(
        description="the value if every unjudged document among the first ones of both sides were relevant; the "
        "values themselves assume that none is; null if it cannot be computed"
    )
    after_if_relevant: float | None
    lost: list[str] = Field(
        description="relevant documents among the first that this metric looks at before, and not now, best first"
    )


class RankedDocument(Record):
    """A document among the first ones of either side."""

    document: str
    rank_before: int | None = Field(description="to depth k; null if it is not found, or its rank not stored")
    rank_after: int | None
    chunk_before: str | None = Field(
        default=None,
        description="the first chunk in the ranking of this expected document; null if ids match exactly, and "
        "where it is not found",
    )
    chunk_after: str | None = None
    further_chunk_of: str | None = Field(
        default=None,
        description="the expected document whose later chunk this is, which no longer counts; null for other documents",
    )
    grade: int | None = Field(description="judgment for this query; null without one")
    absent_before: Absence | None = Field(
        default=None,
        description="why `rank_before` is null: `not found` to depth k, or `not stored` by a baseline, which says "
        "nothing; null if there is a rank",
    )
    absent_after: Absence | None = None


class QueryChange(Record):
    """One query whose value or ranking changed."""

    query: str
    text: str | None = Field(description="null if texts are not kept")
    values: list[QueryValue]
    judged_before: int | None = Field(description="documents among the first ones that are judged for this query")
    judged_after: int | None
    documents: list[RankedDocument] = Field(description="in the later order, documents that left at the end")
    added: list[str] = Field(description="ids of documents that came into the first ones, best first")
    removed: list[str]
    lost: list[str] = Field(
        default=[], description="relevant documents among the first `relevant_depth` before, and not now, best first"
    )
    gained: list[str] = Field(
        default=[], description="relevant documents among the first `relevant_depth` now, and not before, best first"
    )


class ToLabel(Record):
    """An unjudged document, and how much its label could move the difference of its query."""

    query: str
    document: str
    rank_before: int | None
    rank_after: int | None
    swing: float = Field(description="change of the query's difference in the first metric if it were relevant")


class Decision(Record):
    """Counts of queries of one backend by how they changed, in the first metric."""

    improved: Count
    worsened: Count
    unchanged: Count
    same_ranking: Count = Field(description="queries whose first documents are the same at the same ranks")


class Dossier(Record):
    """The queries of one backend that changed, most changed first."""

    metric: str | None = Field(description="the metric that orders the queries; null without judgments")
    depth: Count = Field(description="documents of each ranking that are looked at")
    counts: Decision
    changed_queries: Count = Field(
        description="queries whose value or ranking changed; `queries` holds the first of them"
    )
    relevant_depth: Count | None = Field(
        default=None,
        description="documents of a ranking among which relevant ones are lost and gained: the cutoff of `metric`, "
        "or the known depth; null without judgments",
    )
    lost: Count | None = Field(default=None, description="relevant documents among these before, and not now")
    gained: Count | None = Field(default=None, description="relevant documents among these now, and not before")
    judged_before: float | None = Field(description="mean share of the first documents that are judged for their query")
    judged_after: float | None
    queries: list[QueryChange]
    to_label: list[ToLabel] = Field(
        description="unjudged documents among the first ones of either side, the most decisive first"
    )


class BackendChange(Record):
    """One backend before and after, on one dataset."""

    dataset: str = Field(description="name of the dataset, as in `data`")
    before: str = Field(description="label")
    after: str
    paired_by: PairedBy = Field(
        description="`option` (--pair), `label`, `name`, or `position`: nothing but their place says that they belong "
        "together, and a warning says so",
    )
    status: Literal["ok", "failed"]
    error: str | None = Field(description="which side failed, and why")
    metrics: list[MetricJudgement]
    costs: list[CostChange]
    dossier: Dossier | None
    search_seconds: float | None = Field(
        default=None, description="of `after`: all timed queries, transfer included; null if no times were taken"
    )


class Change(Record):
    """How a later result differs from an earlier one."""

    before: SideInfo
    after: SideInfo
    settings: list[SettingChange] = Field(description="every resolved setting that differs")
    data: list[DataRelation] = Field(description="of each dataset that both results have")
    tests: Count = Field(description="size of the family that p-values are adjusted for")
    backends: list[BackendChange] = Field(description="by dataset, then by backend")
    only_before: list[str] = Field(description="labels without a counterpart")
    only_after: list[str]
    datasets_only_before: list[str] = Field(default=[], description="datasets that the later result lacks")
    datasets_only_after: list[str] = Field(default=[], description="datasets that the earlier result lacks")
    warnings: list[str] = Field(description="notes that a reader needs first")
    gate: GateState | Literal["invalid"] | None = Field(
        description="`invalid`: a backend failed or has no metric that both results know, or a dataset could not be "
        "loaded; `not judged`: nothing failed, and a gate of some metric was not judged; null if there is no "
        "gate"
    )
    rule: GateRule = Field(
        default="test",
        description="`test`: a gate fails when a loss beyond the allowed drop is shown; `tolerance`: when the mean "
        "fell further than that",
    )
    when_not_judged: NotJudgedRule = Field(
        default="invalid", description="outcome of a gate that was not judged: exit code 0, 1 or 3"
    )

    @property
    def decision(self) -> Literal["passed", "failed", "invalid", ""]:
        """The decision of the gate, by which exit code and test reports agree; empty if there is no gate."""
        if self.gate == "not judged":
            return _NOT_JUDGED_AS[self.when_not_judged]
        return self.gate or ""

    @property
    def several(self) -> bool:
        """Whether backends of several datasets are compared, so that a sentence has to name its dataset."""
        return len(self.data) > 1

    @property
    def common_queries(self) -> int:
        """Queries that are compared, on all datasets together."""
        return sum(relation.common_queries for relation in self.data)

    def on(self, backend: BackendChange) -> str:
        """Return ` on DATASET` to follow a backend's label in a sentence; nothing if there is only one dataset."""
        return f" on {backend.dataset}" if self.several else ""
