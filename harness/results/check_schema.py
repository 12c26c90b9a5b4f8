"""The parts of a stored result that belong to a check, field by field. A field that does not apply is null, never 0."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.results.schema_base import Count, MetricValue, Record

Verdict = Literal["passed", "failed", "invalid"]


class MatchCount(Record):
    """How many of the expected texts, or of the expected values of a field, match documents."""

    by: Literal["text", "field"]
    dataset: str = Field(description="name of the corpus; for a backend with its own documents, of the golden set")
    backend: str | None = Field(description="label of a backend whose hits were compared; null for a corpus")
    expected: Count = Field(description="distinct expected texts or values")
    matched: Count = Field(description="those that a document matches; of a backend, a document that it returned")
    by_share: Count = Field(default=0, description="texts among them that match only by a share of their words")


class GoldenInfo(Record):
    """The golden set, and how its ids are matched."""

    name: str
    source: str
    sha256: str
    questions: Count
    evaluated: Count = Field(description="questions with expected documents, over which means are taken")
    without_expectation: list[str] = Field(
        description="ids of the questions that expect nothing; left out of all means"
    )
    match: str = Field(description="`exact`, `document`, `prefix`, `text`, `text:SHARE` or `field:NAME`")
    delimiter: str | None = Field(description="delimiter between a document's id and its chunk's; null for `exact`")
    relevance: int = Field(description="lowest grade that counts as relevant")
    notes: list[str]
    with_texts: Count = Field(default=0, description="questions whose expectations are texts, matched by text")
    matched: list[MatchCount] = Field(
        default=[], description="how many expected texts or values match a document; empty if ids are compared"
    )


class SliceResult(Record):
    """The questions that have one value of one field."""

    field: str
    value: str
    questions: Count
    metrics: dict[str, MetricValue] = Field(description="empty if no question of the slice expects anything")


class ExpectationResult(Record):
    """An expected id of a question, and the rank at which it was found."""

    id: str
    grade: int
    group: int | None = Field(
        default=None, description="expectations of a question with the same number are alternatives; null for none"
    )
    rank: int | None = Field(description="rank of the first hit, counted from 1; null if it is not among the k hits")
    hit: str | None = Field(
        description="the document at that rank: the id itself, a chunk of it, or a document matched"
    )
    matched_by: str | None = Field(
        default=None,
        description="how the document at that rank matches: `contains` or `part` of the expected text, `share 0.85` of "
        "its words, or `field`; null if ids are compared",
    )
    documents: list[str] = Field(
        default=[], description="the first documents that match a text or a value; empty if ids are compared"
    )
    reference_rank: Count | None = Field(
        description="rank in the exact reference, followed to rank 1,000; null if it is not among these, and "
        "without a reference",
    )
    by_model: bool = Field(default=False, description="true for a label that a model gave (`--labels`)")


class NoAnswerStats(Record):
    """How often a backend returns nothing above `--answer-threshold`."""

    threshold: float
    questions: Count = Field(description="questions that expect nothing")
    without_answer: Count = Field(description="of these, questions without a hit above the threshold")
    share: float | None = Field(description="`without_answer` of `questions`; null if it could not be judged")
    ci_low: float | None = Field(default=None, description="95 % interval of the share, Clopper-Pearson; null below 2")
    ci_high: float | None = None
    answered: list[str] = Field(default=[], description="ids of the questions that got a hit above the threshold")
    expecting: Count = Field(description="questions that expect a document")
    expecting_without_answer: Count = Field(description="of these, questions without a hit above the threshold")
    reason: str | None = Field(default=None, description="why it could not be judged")


class QuestionResult(Record):
    """One question put to one backend."""

    id: str
    line: Count = Field(description="line of the golden set's file, counted from 1")
    question: str | None = Field(description="null with `--no-text`")
    text_digest: str = Field(description="the beginning of the SHA-256 of the question")
    filter: dict[str, str] | None = Field(
        default=None,
        description="the value that each field has in the documents that the question asks for; null without a filter",
    )
    expected: list[ExpectationResult]
    values: dict[str, float] = Field(
        description="each metric of this question; those of expected documents are missing if it expects nothing, "
        "those of forbidden documents if it forbids nothing"
    )
    human: dict[str, float] = Field(
        default={}, description="the same by people's judgments alone; empty if models labelled no expected document"
    )
    forbidden: list[str] = Field(default=[], description="ids that no backend may return")
    forbidden_hits: list[str] = Field(default=[], description="hits that are forbidden, best first")
    top: list[str] = Field(description="ids of the hits, best first, as the backend ordered them")
    top_values: list[str | None] = Field(
        default=[],
        description="for each hit of `top` the value that is compared in place of its id, null for a hit without one; "
        "empty if ids or texts are compared",
    )
    failed: bool = Field(default=False, description="true if the backend gave no answer: an error")
    above_threshold: bool | None = Field(
        default=None, description="whether a hit has a score above `--answer-threshold`; null without it or scores"
    )
    milliseconds: float | None = Field(
        default=None, description="mean of the timed passes; null if no times were taken"
    )


class RequirementResult(Record):
    """A requirement as applied to a backend."""

    text: str
    backend: str = Field(description="its label")
    dataset: str
    slice: str | None = Field(description="`field=value`; null for all questions")
    quantity: str = Field(description="a metric, `p95_ms` and its like, or `parity`")
    operator: Literal[">=", ">", "<=", "<"]
    bound: float
    value: float | None = Field(default=None, description="the point estimate; null if there is none")
    min: float | None = Field(default=None, description="the range that ties leave the value; null if not defined")
    max: float | None = None
    ci_low: float | None = Field(default=None, description="95 % interval of the value; null if not defined")
    ci_high: float | None = None
    decided_by: Literal["estimate", "confidence bound"]
    n: Count = Field(description="questions behind the value; of a latency, samples")
    passed: bool | None = Field(default=None, description="null if it could not be judged, which is invalid")
    flips: int | None = Field(
        default=None,
        description="how many questions would have to change, each as far as possible, for the other verdict; null "
        "if even all of them would not suffice",
    )
    best_possible: float | None = Field(default=None, description="the value of a perfect ranking; null for latencies")
    questions_below_best: list[str] = Field(
        default=[],
        description="ids of the questions that are not at their best possible value, the worst first, of a failed "
        "requirement that a better backend would meet; among equal ones by the rank of an expected document, in the "
        "exact ranking if it is not among the hits",
    )
    reason: str | None = Field(default=None, description="why it could not be judged")


class PreflightProblem(Record):
    """A problem that makes every score meaningless. Nothing is scored until it is fixed."""

    check: str = Field(description="name of the check that found it, such as `missing-ids`")
    backend: str | None = Field(description="label of a backend; null for the golden set itself")
    dataset: str | None
    message: str
    fix: str
    examples: list[str] = Field(description="the first examples, one per line")
