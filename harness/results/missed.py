"""Which questions of a check are missed: no expected document is among the first hits that a requirement looks at."""

from __future__ import annotations

from harness.errors import UsageError
from harness.metrics import parse_metric
from harness.results.check_schema import QuestionResult, RequirementResult
from harness.results.schema import Result


def required_depths(report: Result) -> dict[str, int]:
    """Return each metric that is required to be high, with the number of first hits it looks at.

    Metrics of failed requirements come first.
    """
    ordered = sorted(report.requirements, key=lambda required: required.passed is not False)
    depths = {required.quantity: required_depth(report, required) for required in ordered}
    return {name: depth for name, depth in depths.items() if depth is not None}


def required_depth(report: Result, required: RequirementResult) -> int | None:
    """Return how many first hits a requirement looks at; None if it does not ask for expected documents."""
    if not required.operator.startswith(">") or required.quantity not in _metrics(report):
        return None
    try:
        cutoff = parse_metric(required.quantity).cutoff
    except UsageError:  # of a plug-in that is no longer installed
        cutoff = None
    return cutoff if isinstance(cutoff, int) else _requested(report)


def missed_depth(report: Result) -> int:
    """Return the number of first hits among which a question that is not missed has an expected document.

    It is the depth of the first failed requirement, else of the first requirement, else of the search.
    """
    return next(iter(required_depths(report).values()), _requested(report))


def first_rank(question: QuestionResult, relevance: int) -> int | None:
    """Return the rank of the first hit that a question expects; None if no such document is among its hits."""
    ranks = [one.rank for one in question.expected if one.rank is not None and one.grade >= relevance]
    return min(ranks, default=None)


def is_missed(question: QuestionResult, relevance: int, depth: int) -> bool:
    """Return whether none of the documents that a question expects is among its first ``depth`` hits.

    A question that expects nothing, or got no answer, is not missed.
    """
    if question.failed or all(one.grade < relevance for one in question.expected):
        return False
    rank = first_rank(question, relevance)
    return rank is None or rank > depth


def _metrics(report: Result) -> set[str]:
    return {name for trial in report.trials for name in trial.metrics}


def _requested(report: Result) -> int:
    return int(str(report.plan.resolved["k"]))
