"""What ``harness judge`` finds: how two sets of labels agree, and how a model graded the documents of a result."""

from __future__ import annotations

from pydantic import Field

from harness.results.presenters import presenter
from harness.results.schema_base import Count, Record

ENOUGH_HUMAN = 50
"""Human judgments that a statement about a model's agreement needs."""


class KappaInterval(Record):
    """Cohen's kappa; null if it is not defined, because only one grade occurs."""

    weighting: str = Field(description="how disagreements count: none (all alike), linear, quadratic")
    value: float | None
    low: float | None = Field(description="end of the 95 % interval")
    high: float | None


class GradeDifference(Record):
    """A document to which two judges gave different grades for a query."""

    dataset: str | None
    query_id: str
    doc_id: str
    first: int
    second: int


class RankedBackend(Record):
    """The mean of one backend under each set of labels."""

    backend: str
    first: float
    second: float


class RankingAgreement(Record):
    """The order of the backends of one dataset under each set of labels, on the pairs that both have."""

    dataset: str
    metric: str
    queries: Count = Field(description="queries with a pair that both labelled")
    tau: float | None = Field(description="Kendall's tau-b; null for a single backend, and if all means are equal")
    backends: list[RankedBackend]


class JudgeResult(Record):
    """A record that prints itself."""

    def render(self, format: str = "table", *, verbose: bool = False) -> str:  # noqa: A002 - the name of the command line's option
        """Return it as ``table``, ``markdown``, ``latex``, ``csv`` or ``json``."""
        return presenter().text(self, format, verbose=verbose, sort=None)


class Agreement(JudgeResult):
    """How two sets of labels agree."""

    first: str = Field(description="name of the first set: its file, or human judgments")
    second: str
    pairs: Count = Field(description="pairs of query and document that both have")
    only_first: Count
    only_second: Count
    grades: list[int] = Field(description="the grades that occur, ascending")
    confusion: list[list[Count]] = Field(
        description="pairs by grade: a row for the first set's, a column for the second's"
    )
    agreed: float | None = Field(description="share of pairs with the same grade")
    kappa: list[KappaInterval]
    differences: list[GradeDifference] = Field(description="pairs with different grades, the largest difference first")
    rankings: list[RankingAgreement]


class UnjudgedPair(Record):
    """A document that the model left without a grade."""

    dataset: str
    query_id: str
    doc_id: str
    reason: str


class ModelLabels(JudgeResult):
    """The documents of a result that a model graded."""

    model: str
    endpoint: str
    prompt_digest: str = Field(description="first digits of the SHA-256 of everything sent besides the texts")
    time: str = Field(description="when, in UTC")
    file: str | None = Field(description="the file with the labels; null without a new label")
    pool: Count = Field(description="documents in the first hits of any backend, by query")
    chosen: Count = Field(description="those within the budget")
    graded: Count
    written: Count = Field(description="graded documents without a human judgment, which are in the file")
    earlier: Count = Field(description="labels of earlier runs with the same model and prompt that stay in the file")
    grades: dict[str, Count] = Field(description="graded documents by grade")
    unjudged: dict[str, Count] = Field(description="documents without a grade, by reason")
    unjudged_pairs: list[UnjudgedPair]
    calls: Count = Field(description="calls made now, including repeated ones")
    repeated_calls: Count
    calls_before: Count = Field(description="answers that were in the cache")
    tokens: Count = Field(description="tokens of the calls made now, as the endpoint counts them")
    missing_human: Count = Field(description="human judgments that the pool lacks for a reliable agreement")
    agreement: Agreement | None = Field(description="with human judgments; null without any")
    warnings: list[str] = Field(description="about labels that people gave (``--labels``)")

    @property
    def failure(self) -> str | None:
        """Why the model graded nothing; None if it graded a document."""
        if self.graded:
            return None
        reasons = "; ".join(f"{reason} ({number:,})" for reason, number in self.unjudged.items())
        return f"no document was graded: {reasons}"
