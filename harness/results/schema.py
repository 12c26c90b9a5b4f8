"""The stored result, field by field: the content of ``report.json``, version 3.

One schema serves every verb: ``compare`` fills datasets, backends and trials; ``check`` also, with a golden set
for qrels, and adds its requirements; ``regress`` and ``diff`` say how one result differs from another. These models are
the only description of the file. They validate it when it is read back, and the page
``docs/reference/report-schema.md`` is generated from them. A field that does not apply is null, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import ConfigDict, Field, JsonValue

from harness.errors import UnknownNameError
from harness.plan.expressions import split_outside
from harness.results.check_schema import (
    GoldenInfo,
    NoAnswerStats,
    PreflightProblem,
    QuestionResult,
    RequirementResult,
    SliceResult,
    Verdict,
)
from harness.results.regression_schema import Change
from harness.results.schema_base import (
    ClusterInfo,
    Count,
    DatasetInfo,
    EngineDescription,
    ErrorInfo,
    EvaluatedCounts,
    HarnessInfo,
    Json,
    MachineInfo,
    MetricValue,
    ParityStats,
    PlanRecord,
    Record,
)
from harness.results.schema_costs import (
    BuildStats,
    ClosedLoopStats,
    ColdStats,
    FilterSweepStats,
    IndexStats,
    KneeStats,
    LatencyStats,
    OpenLoopStats,
    OtherProcessesInfo,
    PhaseTimes,
    SearchStats,
)

SCHEMA_VERSION = 3


class SpreadValue(Record):
    """One figure over several builds of the same index."""

    mean: float
    sd: float = Field(description="sample standard deviation, over builds - 1")
    min: float
    max: float


class SpreadStats(Record):
    """The spread over several builds. Everything else about a backend is of the first build."""

    builds: Count = Field(description="builds in all, the first among them; at least 2")
    queries: Count
    identical: dict[str, Count] = Field(
        description="depth -> queries for which every build returned the same documents at the same ranks down to it"
    )
    identical_share: dict[str, float] = Field(description="depth -> `identical` of `queries`")
    pairwise_overlap: dict[str, float] = Field(
        description="depth -> share of common documents, mean over all pairs of builds and all queries"
    )
    reference_overlap: dict[str, SpreadValue] = Field(
        description="depth -> `parity.overlap` of each build (of dense backends the recall); empty without a reference"
    )
    metrics: dict[str, SpreadValue]
    costs: dict[str, SpreadValue] = Field(
        description="times, rate and bytes of `build_stats` that every build has",
    )
    build_stats: list[BuildStats] = Field(description="every build by itself")


class RerankingStats(Record):
    """A second stage: candidates of the first one, in the order of new scores."""

    candidates: Count = Field(
        description="documents of a query that were scored, at most: the requested number, or fewer if fewer were "
        "found; all candidates that the dataset names"
    )
    pairs: Count = Field(description="pairs of a query and a document that have a score")
    scored: Count = Field(description="pairs that were scored now; the others' scores were in the cache")
    load_seconds: float | None = Field(description="loading the model; null without times, and if nothing was scored")
    pairs_per_second: float | None = Field(description="of the pairs scored now")
    upper_bound: dict[str, float] = Field(
        description="each nDCG of the best possible order of the candidates: the upper bound of any second stage"
    )
    facts: dict[str, Json] = Field(
        description="basis of the scores: device, versions; for a judge or a service also the calls of this run, "
        "repeated calls among them, earlier calls whose answers were in the cache (`calls_before`, only for a judge), "
        "and the tokens and billed search units that a service counted"
    )


class StageStats(Record):
    """A backend that is made of other backends' hits: what it takes from them, and what it does itself."""

    method: str = Field(description="`rrf`, `minmax`, `dbsf`, or the name of a reranker")
    components: list[str] = Field(description="labels of the backends whose hits it takes")
    components_ms: LatencyStats | None = Field(
        description="search and transfer of all of them, added up query by query, because they were searched one "
        "after another; null without times, and if one of them was read from a file"
    )
    method_ms: float | None = Field(
        description="milliseconds per query of its own work: an equal share of the time of all queries; null "
        "without times, and if an earlier comparison did a part of it"
    )
    reranking: RerankingStats | None = Field(default=None, description="null for a fusion")


class TruncationStats(Record):
    """How much a model reads of the texts that it gets: of documents and queries, or of the pairs of a second stage."""

    texts: Literal["documents", "queries", "pairs"]
    number: Count = Field(description="texts in all")
    counted: Count = Field(
        description="texts whose length is known; fewer than `number` for a sample, and if the model does not report "
        "all lengths"
    )
    truncated: Count = Field(description="counted texts that are longer than the model reads")
    relevant: Count | None = Field(
        description="truncated documents that are relevant for a query, or pairs with a document relevant for their "
        "query; null for queries, and without judgments"
    )
    unit: Literal["tokens", "characters"]
    units: Count = Field(description="tokens of the counted texts, prompts included, special tokens not")
    unread: Count = Field(description="texts beyond the limit")
    limit: Count | None = Field(
        description="most tokens that the model reads of a text, special ones included; null for none, or not known"
    )
    limit_from: str | None = Field(description="the setting with the limit; null without a limit")
    unknown_reason: str | None = Field(
        default=None, description="why the length of some texts, or of all, is not known"
    )


class BackendInfo(Record):
    """A backend that takes part, on any dataset."""

    label: str = Field(description="its name everywhere else in the result")
    short_label: str = Field(description="the same for narrow tables: unique in this result")
    name: str = Field(description="name of its card, or of the method that combines other backends")
    model: str | None = Field(description="name of the model that makes its vectors; null without one")
    dimensions: Count | None = Field(description="of its dense vectors; null without them")
    parameters_millions: float | None = Field(description="size of the model; null if it is not known")


class TrialResult(Record):
    """A backend on a dataset: its configuration, its measurements and its scores."""

    dataset: str = Field(description="name of the dataset, as in `datasets`")
    label: str = Field(description="label of the backend, as in `backends`")
    name: str
    status: Literal["ok", "failed", "invalid"] = Field(
        description="`invalid`: the preflight of a check refused the input, so nothing was scored"
    )
    measured_at: str | None = Field(
        default=None, description="when it ran or failed: UTC, ISO 8601; null for a run that was read"
    )
    reused: bool = Field(
        default=False, description="true for an outcome that an earlier comparison stored (`--resume`)"
    )
    error: ErrorInfo | None = None
    engine: EngineDescription | None = None
    encoder: dict[str, Json] = Field(
        default={},
        description="origin of the vectors or terms: encoder, analyzer, parameters, statistics; for an endpoint "
        "also the calls of this run, for all backends that share the vectors, and earlier calls whose answers were "
        "in the cache "
        "(`calls_before`)",
    )
    truncation: list[TruncationStats] = Field(
        default=[],
        description="how much its model reads of documents, queries or pairs; empty without a model",
    )
    parameters: dict[str, Json] = Field(default={})
    phases: PhaseTimes | None = None
    index: IndexStats | None = None
    search: SearchStats | None = None
    stages: StageStats | None = Field(default=None, description="null unless it is made of other backends")
    cold: ColdStats | None = None
    closed_loop: list[ClosedLoopStats] = Field(default=[])
    open_loop: list[OpenLoopStats] = Field(default=[])
    knee: KneeStats | None = Field(default=None, description="null unless rates rose to saturation (`--rate sweep`)")
    queries: EvaluatedCounts | None = None
    metrics: dict[str, MetricValue] = Field(default={})
    parity: ParityStats | None = None
    spread: SpreadStats | None = Field(default=None, description="null unless several builds were made (`--rebuilds`)")
    filter_sweep: FilterSweepStats | None = Field(
        default=None, description="null unless searches were filtered (`--filter-sweep`), and for runs and fusions"
    )
    probes: dict[str, JsonValue] = Field(
        default={}, description="records of further probes, by name; each describes its own fields"
    )
    deterministic: bool | None = Field(
        default=None, description="false if every build gives different rankings; null if nothing was built"
    )
    other_processes: list[OtherProcessesInfo] = Field(
        default=[], description="of each timed phase; for combinations, the phases of their components"
    )
    no_answer: NoAnswerStats | None = Field(
        default=None, description="of questions that expect nothing; null without `--answer-threshold`"
    )
    slices: list[SliceResult] = Field(default=[], description="of a golden set, by the fields of its questions")
    questions: list[QuestionResult] = Field(default=[], description="of a golden set, one per question")
    notes: list[str] = Field(default=[], description="notes before comparing this backend with another")

    @property
    def busy_phases(self) -> list[OtherProcessesInfo]:
        """The timed phases during which the machine was busy."""
        return [phase for phase in self.other_processes if phase.busy]

    @property
    def milliseconds(self) -> LatencyStats | None:
        """Latency of single queries; None if no times were taken."""
        return self.search.milliseconds if self.search is not None else None


class FormulaChange(Record):
    """A part in which the BM25 formulas of two exact backends differ, and its effect on the first."""

    part: str
    before: str = Field(description="it in the formula of `a`, in words")
    after: str = Field(description="it in the formula of `b`")
    queries: Count | None = Field(description="queries whose best documents differ; null if not ranked")
    overlap: float | None = Field(description="mean share of common documents among the best")


class ScoringDifference(Record):
    """Why two exact backends differ: the changes turn the formula of `a` into that of `b`."""

    dataset: str
    a: str
    b: str
    queries: Count
    depth: Count = Field(default=10, description="best documents of a query that are compared: 10, or k below that")
    changes: list[FormulaChange]


class PairedDifference(Record):
    """Two backends on one metric that is a mean (`difference` is b - a).

    On one dataset over the queries evaluated for both; across datasets over the means of each.
    """

    dataset: str | None = Field(
        description="null for a test across datasets, in which wins, ties and losses count datasets; of a check also "
        "null: its backends are compared on the same questions, whatever documents they search"
    )
    a: str = Field(description="label of a backend; of a check `LABEL on DATASET` if it is on several")
    b: str
    metric: str
    difference: float
    ci_low: float | None
    ci_high: float | None
    p: float | None = Field(description="two-sided paired randomisation test")
    p_adjusted: float | None = Field(
        description="Holm over all pairs and metrics of the dataset in which any query differs; across datasets over "
        "the pairs of the first metric, and null for the others, which are not part of the test"
    )
    comparisons: Count | None = Field(
        description="number of comparisons for which p is adjusted: metrics of a pair that are equal on every query "
        "count once; null if it is not adjusted",
    )
    detectable: float | None = Field(
        description="smallest true difference that this many queries detect with power 0.8 at 0.05 divided by the "
        "number "
        "of comparisons that p is adjusted for, the hardest step; null if nothing differs, and of a choice by folds",
    )
    effect: float | None = Field(description="Cohen's d of the per-query differences; null when they do not vary")
    wins: Count = Field(description="queries on which b is better")
    ties: Count
    losses: Count
    within_ties: bool = Field(
        description="true when ties move a mean of the two and their ranges meet: no difference, regardless of p"
    )
    verdict: Literal["same", "better", "worse", "undecided"] = Field(
        description="`same`: equal on every query; else b against a at adjusted p < 0.05"
    )


class FrontierPoint(Record):
    """One value of a swept parameter, or one combination of a grid's."""

    backend: str = Field(description="label of the backend with this value")
    value: str = Field(description="as it is written in labels; of a grid the values of all parameters: `0.9;0.4`")
    quality: float | None = Field(description="mean of the frontier's metric; null if it was not measured")
    loss: float | None = Field(description="engine minus reference on that metric; null without reference or judgments")
    recall: float | None = Field(description="share of the exact best k that was found; null without a reference")
    p50_ms: float | None = Field(description="null if no latencies were measured")
    p95_ms: float | None = Field(description="null as p50_ms")
    bytes: Count | None = Field(description="of its index; null if the engine does not tell")
    on_frontier: bool = Field(
        description="no other value has at least its quality, at most its p95 and at most its bytes with one of "
        "them better; without bytes of any value that was measured by the other two; false too where quality or "
        "latency "
        "was not measured"
    )
    on_recall_frontier: bool = Field(default=False, description="the same with its recall for its quality")

    @property
    def values(self) -> list[str]:
        """The value of each swept parameter."""
        return split_outside(self.value, ";")


class FrontierStats(Record):
    """A `--sweep` on a dataset: the cost and the benefit of each value of a parameter, or of each combination."""

    dataset: str
    backend: str = Field(description="the swept backend as it is named without the parameter")
    parameter: str = Field(description="of a grid all parameters: `k1;b`")
    metric: str | None = Field(
        description="the first metric; without judgments recall at the deepest depth; null without a reference too"
    )
    points: list[FrontierPoint] = Field(description="in the order of the values")

    @property
    def name(self) -> str:
        """The swept backend and its parameters."""
        return ", ".join([self.backend, *self.parameters])

    @property
    def parameters(self) -> list[str]:
        """The swept parameters, several of a grid."""
        return self.parameter.split(";")

    @property
    def timed(self) -> bool:
        """Whether latencies were measured: without them there is no frontier."""
        return any(point.p50_ms is not None for point in self.points)


class TunedMeans(Record):
    """Means of the metric of `--tune` over a part of the queries."""

    queries: Count
    chosen: float = Field(description="of the chosen combination")
    default: float = Field(description="of the default")


class TuningChoice(Record):
    """The combination that is best on some queries, and its means on these and on the others."""

    chosen: str = Field(description="label of the combination")
    choosing: TunedMeans = Field(description="over the queries that chose it")
    reporting: TunedMeans = Field(description="over the queries that it is reported on, which did not choose it")


class TuningStats(Record):
    """A swept backend, tuned (`--tune`): chosen on one part of the queries, reported on another."""

    dataset: str
    backend: str = Field(description="the swept backend as it is named without the swept parameters")
    metric: str
    cross_validated: bool = Field(description="true with `--folds`; else one half chooses, and the other half reports")
    candidates: list[str] = Field(
        description="labels of the combinations that have scores, in the order in which equal means are decided: the "
        "default first, then the fewest changed parameters, then the order of the sweeps"
    )
    chosen: str | None = Field(
        default=None,
        description="label of the chosen combination, with `--folds` of the best one on all queries; null if nothing "
        "could be chosen",
    )
    choices: list[TuningChoice] = Field(default=[], description="one, or one for each fold")
    reported: TunedMeans | None = Field(
        default=None, description="over the queries of all `choices.reporting`, each with what was chosen without it"
    )
    difference: PairedDifference | None = Field(
        default=None,
        description="chosen minus default over the same queries; p is adjusted over the tuned backends of the "
        "dataset. With `--folds` p and interval come from flipping the signs of each query's differences and choosing "
        "again",
    )
    notes: list[str] = Field(default=[], description="missing candidates, or why nothing could be chosen")

    @property
    def name(self) -> str:
        """The tuned backend, as `difference.b` names it."""
        return f"{self.backend}, tuned"


class FindingInfo(Record):
    """A pitfall that a check found: in the data, or in the results of one backend."""

    check: str = Field(description="name of the check, as `docs/explanation/pitfalls.md` lists it")
    dataset: str | None = Field(description="name of the dataset; null if it concerns all of them")
    backend: str | None = Field(description="label of the backend; null for the data, and for differences")
    message: str
    fix: str
    examples: list[str] = Field(description="the first cases")


class LeaderboardRow(Record):
    """One backend on one metric over all datasets."""

    backend: str = Field(description="label")
    metric: str
    rank: Count | None = Field(description="from 1, equal means share a rank; null if a dataset lacks a value")
    mean: float | None = Field(
        description="over the datasets, each task counting once; null if a dataset lacks a value"
    )
    ci_low: float | None = Field(description="95 % interval of the mean over datasets; null below 6 of them")
    ci_high: float | None
    mean_rank: float | None = Field(
        default=None, description="mean over datasets of its rank on each, equal ranks sharing their mean"
    )
    human: float | None = Field(
        default=None,
        description="the mean by people's judgments alone; null if models gave no grade, or a dataset lacks a value",
    )
    wins: Count = Field(default=0, description="datasets on which no backend that has all of them is better")
    datasets: Count = Field(description="datasets, or aggregated tasks, that have a value")
    values: dict[str, float | None] = Field(description="dataset or task -> mean; null if the trial failed")


class Leaderboard(Record):
    """Backends ranked by the mean of each metric over several datasets.

    Tests across datasets are the `differences` whose dataset is null.
    """

    families: dict[str, list[str]] = Field(
        description="aggregated task -> datasets whose mean counts as one dataset, such as the forums of CQADupStack"
    )
    datasets: list[str] = Field(description="the units that count once: datasets and aggregated tasks, in order")
    metrics: list[str]
    rows: list[LeaderboardRow] = Field(description="by metric, the best first")
    search_seconds: dict[str, dict[str, float | None]] = Field(
        default_factory=dict,
        description="label -> dataset or task -> seconds in which one client asks all of its queries once; null "
        "without times",
    )
    notes: list[str] = Field(
        default=[], description="why there is no test across datasets, or why it compares other backends than requested"
    )


class PublishedNumber(Record):
    """A published number for the configuration of a trial, next to the measured number."""

    dataset: str = Field(description="name of the dataset, or of the family whose members `datasets` names")
    datasets: list[str] = Field(default=[], description="datasets and tasks whose mean it is; empty for one dataset")
    backend: str = Field(description="label of the backend next to which it is listed")
    metric: str
    system: str = Field(description="name of the system in its source")
    source: str = Field(description="its source, with the settings stated there")
    printed: str = Field(description="as published, digit by digit")
    difference: float = Field(description="measured minus published")
    conditions: list[str] = Field(description="settings that differed when it was published, or are unknown")


def trial_name(trials: Iterable[tuple[str, str]], label: str, dataset: str | None) -> str:
    """Return a backend's label, with ``on DATASET`` if the labels and datasets of all ``trials`` have it on several."""
    datasets = {name for of_trial, name in trials if of_trial == label}
    return f"{label} on {dataset}" if len(datasets) > 1 and dataset in datasets else label


class Result(Record):
    """A complete result as stored: backends on datasets, a golden set's questions, or two results compared."""

    schema_version: int = Field(alias="schema")
    kind: Literal["compare", "check", "regress", "diff"] = Field(description="the verb that made it")
    created: str = Field(description="UTC, ISO 8601")
    command: list[str] = Field(description="arguments that make the same again")
    harness: HarnessInfo
    machine: MachineInfo
    cluster: ClusterInfo | None = Field(default=None, description="null if everything ran on `machine`")
    packages: dict[str, str]
    plan: PlanRecord
    datasets: list[DatasetInfo] = Field(default=[], description="in the order in which they were named")
    backends: list[BackendInfo] = Field(default=[], description="in the order in which they were named")
    trials: list[TrialResult] = Field(default=[], description="by dataset, then by backend")
    differences: list[PairedDifference] = Field(
        default=[], description="every backend against `plan.resolved.reference`, or every pair (`--all-pairs`)"
    )
    formula_differences: list[ScoringDifference] = Field(
        default=[], description="exact backends of one analyzer with other BM25 formulas than `plan.resolved.reference`"
    )
    leaderboard: Leaderboard | None = Field(default=None, description="null for one dataset")
    frontiers: list[FrontierStats] = Field(default=[], description="one for each `--sweep` and dataset")
    tunings: list[TuningStats] = Field(default=[], description="one for each swept backend and dataset (`--tune`)")
    findings: list[FindingInfo] = Field(default=[], description="pitfalls that were found")
    published: list[PublishedNumber] = Field(
        default=[], description="published numbers of the same configurations, if the dataset's card has any"
    )
    golden: GoldenInfo | None = Field(default=None, description="the golden set of a check; null otherwise")
    requirements: list[RequirementResult] = Field(default=[], description="of a check")
    preflight: list[PreflightProblem] = Field(
        default=[], description="of a check: problems that make every score meaningless"
    )
    warnings: list[PreflightProblem] = Field(
        default=[], description="of a check: oddities that clean data can have too; it was scored"
    )
    verdict: Verdict | None = Field(
        default=None,
        description="of a check; `invalid`: a preflight problem, a failed backend, or a requirement that could not be "
        "judged",
    )
    change: Change | None = Field(default=None, description="of two results that are compared; null otherwise")

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)

    @property
    def dataset(self) -> DatasetInfo:
        """Return the only dataset; raises ValueError if there are several, or none."""
        (only,) = self.datasets
        return only

    @property
    def corpora(self) -> list[DatasetInfo]:
        """The datasets whose documents are known: not the datasets of backends that a check only queries."""
        return [info for info in self.datasets if info.documents]

    @property
    def notes(self) -> list[str]:
        """Return the plan's remarks to a reader."""
        notes = self.plan.resolved.get("notes")
        return notes if isinstance(notes, list) else []

    @property
    def golden_set(self) -> GoldenInfo:
        """The golden set of a check; raises ValueError for a result of another verb."""
        if self.golden is None:
            raise ValueError(f"a result of {self.kind} has no golden set")
        return self.golden

    @property
    def changes(self) -> Change:
        """How the result differs from an earlier result; raises ValueError if it was compared with none."""
        if self.change is None:
            raise ValueError(f"a result of {self.kind} is compared with no other")
        return self.change

    @property
    def several(self) -> bool:
        """Return whether a label does not identify a trial: a backend is on several datasets, or on one of several."""
        searched = {trial.dataset for trial in self.trials}
        left_out = bool(self.trials) and any(info.name not in searched for info in self.datasets)
        return left_out or len(self.trials) > len({trial.label for trial in self.trials})

    @property
    def short_labels(self) -> dict[str, str]:
        """Long labels of backends -> short labels, for narrow columns."""
        return {info.label: info.short_label for info in self.backends if info.label != info.short_label}

    def trial_name(self, label: str, dataset: str | None) -> str:
        """Return the name of a trial in a sentence: its label, with the dataset if the backend is on several."""
        return trial_name([(trial.label, trial.dataset) for trial in self.trials], label, dataset)

    def trial(self, label: str, dataset: str) -> TrialResult:
        """Return a backend's trial on a dataset; raises UnknownNameError if it does not exist."""
        trials = {trial.label: trial for trial in self.of_dataset(dataset)}
        if label not in trials:
            raise UnknownNameError("backend", label, trials, of=f"the result on '{dataset}'")
        return trials[label]

    def of_dataset(self, name: str) -> list[TrialResult]:
        """Return the trials on one dataset, in the order of the backends."""
        return [trial for trial in self.trials if trial.dataset == name]

    def on(self, dataset: str) -> Result:
        """Return the part of the result on one dataset, by its name."""
        return self.model_copy(
            update={
                "datasets": [info for info in self.datasets if info.name == dataset],
                "trials": self.of_dataset(dataset),
                "differences": [row for row in self.differences if row.dataset == dataset],
                "leaderboard": None,
                "frontiers": [frontier for frontier in self.frontiers if frontier.dataset == dataset],
                "tunings": [tuning for tuning in self.tunings if tuning.dataset == dataset],
                "findings": [finding for finding in self.findings if finding.dataset in (dataset, None)],
                "published": [number for number in self.published if number.dataset == dataset],
                "requirements": [row for row in self.requirements if row.dataset == dataset],
                "preflight": [problem for problem in self.preflight if problem.dataset in (dataset, None)],
                "warnings": [problem for problem in self.warnings if problem.dataset in (dataset, None)],
            }
        )
