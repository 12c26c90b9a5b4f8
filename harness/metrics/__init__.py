"""Measures of a run against judgments, with ties settled by one stated rule."""

from harness.data.ranking import TieRule
from harness.metrics.functions import metric
from harness.metrics.judged import NO_CUTOFF, Arguments, JudgedHits
from harness.metrics.kind import HIGHEST_LEVEL, Kind, Parameter
from harness.metrics.measure import Metric
from harness.metrics.parse import (
    improvement,
    lower_is_better,
    official_metrics,
    parse_metric,
    parse_metrics,
    reads_first,
    with_condensed,
)
from harness.metrics.registry import counts_forbidden
from harness.metrics.scores import (
    QueryCounts,
    QuerySet,
    Scores,
    Summary,
    is_mean,
    undecided_by_ties,
)
from harness.metrics.scoring import require_closed_form, require_judgments, score, score_forbidden

__all__ = [
    "HIGHEST_LEVEL",
    "NO_CUTOFF",
    "Arguments",
    "JudgedHits",
    "Kind",
    "Metric",
    "Parameter",
    "QueryCounts",
    "QuerySet",
    "Scores",
    "Summary",
    "TieRule",
    "counts_forbidden",
    "improvement",
    "is_mean",
    "lower_is_better",
    "metric",
    "official_metrics",
    "parse_metric",
    "parse_metrics",
    "reads_first",
    "require_closed_form",
    "require_judgments",
    "score",
    "score_forbidden",
    "undecided_by_ties",
    "with_condensed",
]
