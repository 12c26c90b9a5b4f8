"""Records that every part of the stored result is made of: who made it, from which data, and figures with their range.

A field that does not apply is null, never 0.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.wording import label_model_in_words, model_labels_in_words

Json = str | int | float | bool | None
Count = Annotated[int, Field(ge=0)]


class Record(BaseModel):
    """A part of the stored result: fixed once made, and without any field that is not described."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


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
    thread_limits: dict[str, str] = Field(description="environment variables that limit threads, if set")


class ClusterInfo(Record):
    """The Ray cluster on whose nodes backends, encoders and rerankers ran."""

    ray: str = Field(description="version of Ray")
    nodes: Count = Field(description="nodes with a core, at the end")
    cores: Count
    gpus: Count
    start_seconds: float = Field(description="starting or reaching the cluster: in no other time")
    lost_jobs: Count = Field(description="jobs that ran again on another node because theirs was lost")


class PlanRecord(Record):
    """The arguments as they were given, and as they were resolved."""

    arguments: dict[str, Json | list[str]]
    resolved: dict[str, Json | list[str]]


class QueryCounts(Record):
    """How many queries there were."""

    searched: Count = Field(description="queries sent to every backend")
    judged: Count = Field(description="queries with at least one judgment")
    relevant: Count = Field(description="queries with at least one relevant document")
    without_id: Count = Field(description="queries to which their file gives no id, so that they go by their line")


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
    relevant_matching: Count = Field(
        description="relevant judgments of matching documents: no other document can be found"
    )


class QueryFilterInfo(Record):
    """A filter of some of the queries: the documents that their searches could return."""

    fields: dict[str, str] = Field(
        description="every field has this value in a document that matches; empty for the queries without a filter"
    )
    queries: Count = Field(description="queries that have this filter")
    query_ids: list[str] = Field(
        default_factory=list,
        description="their ids, in `compare`; empty in `check`, whose questions have their filters themselves",
    )
    matching: Count | None = Field(
        description="documents that match; all of them are in every index; null if backends have their own documents"
    )
    selectivity: float | None = Field(description="share of the documents that match; null if that is not known")


class LabelModelInfo(Record):
    """A model whose labels are among the judgments."""

    model: str
    prompt_digest: str | None = Field(description="null if its labels do not state it")
    date: str | None = Field(description="of its latest label; null if its labels do not state it")

    def __str__(self) -> str:
        return label_model_in_words(self.model, self.prompt_digest, self.date)


class LabelsByModels(Record):
    """Labels by models among the judgments of a dataset."""

    labels: Count = Field(description="judgments that models gave")
    models: list[LabelModelInfo]
    human_sha256: str = Field(description="of the judgments by people alone")


class ContentDigests(Record):
    """SHA-256 of each part of a dataset as it was used: which of them two results have in common."""

    documents: str
    queries: str
    judgments: str | None = Field(description="null for a dataset without judgments")
    candidates: str | None = Field(default=None, description="null if all documents compete")
    excluded: str | None = Field(default=None, description="null if no query excludes documents")


class IdenticalIdsInfo(Record):
    """Treatment of hits that have their query's id."""

    rule: Literal["keep", "drop"]
    queries: Count = Field(description="queries whose id a document has")


class ExcludedInfo(Record):
    """Documents that queries exclude: as hits they are left out before anything is scored."""

    queries: Count = Field(description="queries that exclude a document of the dataset")
    documents: Count = Field(description="pairs of a query and such a document")
    unknown: Count = Field(description="excluded ids that no document has")


class CandidatesInfo(Record):
    """The documents that each query was ranked among; others were searched, and left out before anything was ranked."""

    fewest: Count = Field(description="candidates of a query")
    most: Count
    searched: Count = Field(description="documents requested of every backend for each query")


class ErrorInfo(Record):
    """Why a backend has no figures, or a dataset none of any backend."""

    type: str
    message: str
    log: list[str] = Field(description="last lines that the worker wrote")


class DatasetInfo(Record):
    """The dataset: its name, content and size, which are empty if it could not be loaded."""

    name: str
    sha256: str = Field(description="of documents, queries, judgments and candidates as they were used")
    documents: Count
    empty_documents: Count
    queries: QueryCounts
    judgments: Count
    sampled_from: int | None = Field(description="queries in the dataset, when only a sample was searched")
    provenance: dict[str, str]
    documents_sampled_from: int | None = Field(
        default=None, description="documents in the dataset, when only its judged ones and a sample were indexed"
    )
    identical_ids: IdenticalIdsInfo | None = Field(
        default=None, description="null for a dataset without documents, or that could not be loaded"
    )
    excluded: ExcludedInfo | None = Field(default=None, description="null if no query excludes documents")
    filter: FilterInfo | None = Field(
        None, description="of all queries (`--filter` of `compare`); null if every document could be returned"
    )
    query_filters: list[QueryFilterInfo] = Field(
        default_factory=list, description="the different filters of the questions; empty if no question has its own"
    )
    candidates: CandidatesInfo | None = Field(default=None, description="null if all documents compete")
    content: ContentDigests | None = Field(default=None, description="null for a dataset that could not be loaded")
    model_labels: LabelsByModels | None = Field(
        default=None, description="`judgments` that models gave (`--labels`); null if people gave all"
    )
    error: ErrorInfo | None = Field(default=None, description="why it could not be loaded, as one of several datasets")
    unread_files: dict[str, Count] = Field(
        default_factory=dict,
        description="unread files of the corpus's folder by ending; `hidden`: their name or that of a folder of theirs "
        "begins with a dot",
    )

    @property
    def labels_in_words(self) -> str:
        """How many judgments models gave, and which models; "" if people gave all."""
        if self.model_labels is None:
            return ""
        return model_labels_in_words(self.model_labels.labels, self.judgments, self.model_labels.models)

    @property
    def digests(self) -> ContentDigests:
        """The digests of its parts; raises ValueError for a dataset that could not be loaded."""
        if self.content is None:
            raise ValueError(f"the dataset '{self.name}' could not be loaded")
        return self.content


class EngineDescription(Record):
    """Identity of the software that really ran."""

    name: str
    version: str
    mode: str = Field(description="how the engine was reached: embedded, server, …")


class MetricValue(Record):
    """One mean, the range that ties leave it, and its confidence interval."""

    metric: str = Field(description="canonical name: `Success@5` for `Hit@5`, `RR@5` for `MRR@5`")
    mean: float
    min: float | None = Field(description="lowest mean over all orders of tied documents; null if not defined")
    max: float | None
    ci_low: float | None = Field(
        description="95 % interval of a mean: BCa bootstrap, exact (Clopper-Pearson) if every value is 0 or 1; null "
        "below 2 queries, and for sums and geometric means"
    )
    ci_high: float | None
    n: Count = Field(description="queries that the mean is taken over")
    if_unjudged_relevant: float | None = Field(
        default=None,
        description="the mean if every unjudged hit that the metric looks at were relevant, at the lowest relevant "
        "grade; `mean` takes all of them for irrelevant; null without `--judged-only`, under `--ties average`, and for "
        "metrics that unjudged hits cannot change",
    )
    human: float | None = Field(
        default=None,
        description="the mean by people's judgments alone; null if no model gave a grade, and if people judged nothing",
    )
    human_n: Count | None = Field(
        default=None, description="queries that `human` is taken over; null if no model gave a grade"
    )

    @property
    def by_people(self) -> float | None:
        """The mean by people's judgments; None if they judged nothing."""
        return self.mean if self.human_n is None else self.human


class LossStats(Record):
    """A mean compared with the mean of the reference's own run: the engine's loss by not being exact."""

    exact: float = Field(description="the mean of the reference's run")
    difference: float = Field(description="engine minus reference, over the queries that both are evaluated on")
    ci_low: float | None = Field(description="95 % BCa bootstrap interval of the difference; null below 2 queries")
    ci_high: float | None


class ParityStats(Record):
    """How a run relates to its reference, counted in queries.

    The counts are nested: bit-equal queries are identical, identical ones tie-equivalent. `different` is the rest.
    """

    reference: str = Field(description="kind of the reference, such as `sparse`, `dense` or `fusion`")
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
        default_factory=dict, description="metric -> loss of approximate search; empty except for dense backends"
    )
