"""Measures of a run against judgments, with ties settled by one stated rule."""

from harness.metrics.measure import Measure
from harness.metrics.parse import official_measures, parse_measure, parse_measures
from harness.metrics.scores import QueryCounts, QuerySet, Scores, Summary, is_mean, undecided_by_ties
from harness.metrics.scoring import require_closed_form, score
from harness.ranking import TieRule

__all__ = [
    "Measure",
    "QueryCounts",
    "QuerySet",
    "Scores",
    "Summary",
    "TieRule",
    "is_mean",
    "official_measures",
    "parse_measure",
    "parse_measures",
    "require_closed_form",
    "score",
    "undecided_by_ties",
]
