"""The stored result of ``harness check``, field by field. A field that does not apply is null, never 0."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from harness.results.schema_base import (
    Count,
    EngineDescription,
    ErrorInfo,
    HarnessInfo,
    IdenticalIdsInfo,
    Json,
    MachineInfo,
    MetricValue,
    Parameters,
    ParityStats,
    Record,
)
from harness.results.schema_costs import LatencyStats

__all__ = [
    "CHECK_SCHEMA_VERSION",
    "CheckReport",
    "CheckSubject",
    "CorpusInfo",
    "ExpectationResult",
    "GoldenInfo",
    "PreflightProblem",
    "QuestionResult",
    "RequirementResult",
    "SliceResult",
    "Verdict",
]

CHECK_SCHEMA_VERSION = 2
Verdict = Literal["passed", "failed", "invalid"]


class GoldenInfo(Record):
    """The golden set, and how its ids are matched."""

    name: str
    source: str
    sha256: str
    questions: Count
    expecting: Count = Field(description="questions that expect something: those that means are taken over")
    without_expectation: list[str] = Field(
        description="ids of the questions that expect nothing; left out of all means"
    )
    match: str = Field(description="`exact`, `document` or `prefix`")
    delimiter: str | None = Field(description="what stands between a document's id and its chunk's; null for `exact`")
    relevance: int = Field(description="lowest grade that counts as relevant")
    notes: list[str]


class CorpusInfo(Record):
    """One set of documents that the questions are asked of."""

    name: str
    documents: Count
    empty_documents: Count
    sha256: str
    empty_left_out: Count = Field(default=0, description="empty documents that are not among the documents")
    identical_ids: IdenticalIdsInfo | None = Field(default=None, description="null in results of earlier versions")


class SliceResult(Record):
    """The questions that have one value of one field."""

    field: str
    value: str
    questions: Count
    metrics: dict[str, MetricValue] = Field(description="empty where no question of the slice expects anything")


class ExpectationResult(Record):
    """One expected id of one question, and where it was found."""

    id: str
    grade: int
    rank: int | None = Field(description="rank of the first hit, counted from 1; null where it is not among the k hits")
    found: str | None = Field(description="the document of that hit: the id itself, or a chunk of it")
    reference_rank: Count | None = Field(
        default=None,
        description="rank in the exact reference, followed to rank 1,000; null where it is not among these, without a "
        "reference, and in results of earlier versions",
    )


class QuestionResult(Record):
    """One question put to one subject."""

    id: str
    line: Count = Field(description="line of the golden set's file, counted from 1")
    question: str | None = Field(description="null with `--no-text`")
    expected: list[ExpectationResult]
    values: dict[str, float] = Field(description="each metric of this question; empty where it expects nothing")
    top: list[str] = Field(description="ids of the hits, best first, as the retriever ordered them")
    failed: bool = Field(default=False, description="true where the retriever gave no answer: an error")
    milliseconds: float | None = Field(
        default=None, description="mean of the timed passes; null where no times were taken"
    )


class CheckSubject(Record):
    """One retriever on one corpus."""

    label: str
    backend: str
    corpus: str | None = Field(description="null for a retriever that has its own documents")
    status: Literal["ok", "failed", "invalid"] = Field(description="`invalid`: preflight found something")
    error: ErrorInfo | None
    engine: EngineDescription | None
    parameters: Parameters
    milliseconds: LatencyStats | None = Field(description="single queries; null where the plan took no times")
    parity: ParityStats | None = Field(description="null without an exact reference")
    metrics: dict[str, MetricValue]
    slices: list[SliceResult]
    questions: list[QuestionResult]
    deterministic: bool | None = Field(
        default=None, description="false where every build gives other rankings; null where nothing was built"
    )
    notes: list[str]


class RequirementResult(Record):
    """One requirement held against one subject."""

    text: str
    subject: str
    slice: str | None = Field(description="`field=value`; null for all questions")
    quantity: str = Field(description="a metric, `p95_ms` and its like, or `parity`")
    operator: Literal[">=", ">", "<=", "<"]
    bound: float
    value: float | None = Field(description="the point estimate; null where there is none")
    min: float | None = Field(description="the range that ties leave the value; null where not defined")
    max: float | None
    ci_low: float | None = Field(description="95 % interval of the value; null where not defined")
    ci_high: float | None
    decided_by: Literal["estimate", "confidence bound"]
    n: Count = Field(description="questions behind the value; of a latency, samples")
    passed: bool | None = Field(description="null where it could not be judged, which is invalid")
    flips: int | None = Field(
        description="how many questions would have to change, each as far as it can, for the other verdict; null where "
        "even all of them would not do"
    )
    best_possible: float | None = Field(description="the value of a perfect retriever; null for latencies")
    missed: list[str] = Field(description="ids of the questions below their best possible value, of a failed floor")
    reason: str | None = Field(description="why it could not be judged")


class PreflightProblem(Record):
    """Something that makes every score meaningless. Nothing is scored until it is mended."""

    check: str = Field(description="name of the check that found it, such as `missing-ids`")
    subject: str | None = Field(description="label of a subject; null for the golden set itself")
    corpus: str | None
    message: str
    fix: str
    examples: list[str] = Field(description="the first of the things it is about, one a line")


class CheckReport(Record):
    """A golden set held against one or more retrievers."""

    schema_version: int = Field(alias="schema")
    created: str = Field(description="UTC, ISO 8601")
    kind: Literal["check"]
    command: list[str] = Field(description="arguments that run the same check again")
    harness: HarnessInfo
    machine: MachineInfo
    packages: dict[str, str]
    settings: dict[str, Json | list[str]] = Field(description="the arguments, resolved: k, ties, backends, seed …")
    golden: GoldenInfo
    corpora: list[CorpusInfo]
    subjects: list[CheckSubject]
    requirements: list[RequirementResult]
    preflight: list[PreflightProblem]
    warnings: list[PreflightProblem] = Field(
        default_factory=list, description="what preflight found odd, and clean collections have too: it was scored"
    )
    verdict: Verdict = Field(
        description="`invalid`: a preflight problem, a failed backend, or a requirement that could not be judged"
    )
    notes: list[str]

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)
