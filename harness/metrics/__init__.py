"""Measures of a run against judgments, with ties settled by one stated rule."""

from harness.data.ranking import TieRule
from harness.metrics.functions import metric
from harness.metrics.judged import NO_CUTOFF, Arguments, JudgedHits
from harness.metrics.kind import HIGHEST_LEVEL, Kind, Parameter
from harness.metrics.measure import Metric
from harness.metrics.parse import official_metrics, parse_metric, parse_metrics
from harness.metrics.scores import QueryCounts, QuerySet, Scores, Summary, is_mean, undecided_by_ties
from harness.metrics.scoring import require_closed_form, score

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
    "is_mean",
    "metric",
    "official_metrics",
    "parse_metric",
    "parse_metrics",
    "require_closed_form",
    "score",
    "undecided_by_ties",
]
