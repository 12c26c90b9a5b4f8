"""Scores of one run: a value for every query and metric, and the range that ties allow it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.data.ranking import TieRule
from harness.data.types import Float64Array, Ids
from harness.metrics.measure import Metric
from harness.metrics.registry import kind_of

if TYPE_CHECKING:
    import pandas as pd


class QuerySet(StrEnum):
    """Set of queries that an average is taken over. Unjudged queries never count."""

    RELEVANT = "relevant"
    """Queries with at least one relevant document, answered or not: the default."""
    JUDGED = "judged"
    """All judged queries; one without relevant documents counts as 0 (trec_eval with -c)."""
    ANSWERED = "answered"
    """Judged queries that the run has hits for; one without relevant documents counts as 0 (trec_eval's own choice)."""


class QueryCounts(NamedTuple):
    """How many queries are judged, have a relevant document, are judged and answered, were averaged over.

    ``unjudged`` counts queries of the run that have no judgments; they are left out of everything.
    """

    judged: int
    relevant: int
    answered: int
    evaluated: int
    unjudged: int


class Summary(NamedTuple):
    """One measure over all queries: its value, and the lowest and highest value that ties allow (NaN: unknown)."""

    measure: Metric
    value: float
    low: float
    high: float

    @property
    def matters(self) -> bool:
        """Whether ties could change the printed value, to four decimals."""
        return round(self.low, 4) != round(self.high, 4) and not np.isnan(self.low)


class HumanMean(NamedTuple):
    """A metric by people's judgments alone: None if they judged nothing, and its queries: None without models."""

    human: float | None
    human_n: int | None


def undecided_by_ties(a: Summary, b: Summary) -> bool:
    """Return whether two runs differ by no more than ties allow: their ranges overlap, and one range is not a point."""
    widest = max(a.high - a.low, b.high - b.low)
    return bool(widest > 0.0 and a.low <= b.high and b.low <= a.high)


def is_mean(measure: Metric) -> bool:
    """Return whether a metric is the arithmetic mean over queries: counts are sums, gm_map is a geometric mean."""
    return kind_of(measure.name).aggregate == "mean"


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """Values of one run: Q evaluated queries (in the order of the judgments), M measures.

    ``values``, ``low`` and ``high`` are float64 (Q, M); ``low`` and ``high`` are the exact extremes over tie orders,
    NaN for a measure without them. ``measures`` are as scored: the relevance level filled in if it is not 1, and each
    measure once. ``if_relevant`` float64 (Q, M) are the values if every unjudged hit were relevant, NaN for metrics
    that it cannot change; None if they were not computed. ``human`` float64 (Q, M) are the values by people's judgments
    alone, NaN for a query that is not evaluated by these; None if no model gave a grade.
    """

    measures: tuple[Metric, ...]
    query_ids: Ids
    values: Float64Array
    low: Float64Array
    high: Float64Array
    counts: QueryCounts
    ties: TieRule
    queries: QuerySet
    if_relevant: Float64Array | None = None
    human: Float64Array | None = None

    def __repr__(self) -> str:
        """Name the number of queries, and each metric's value over them."""
        count = self.counts.evaluated
        means = ", ".join(f"{summary.measure}={summary.value:.4g}" for summary in self.means())
        return f"<Scores of {count:,} {'query' if count == 1 else 'queries'}: {means}>"

    def means(self) -> list[Summary]:
        """Return each metric over all evaluated queries: the mean, the sum of counts, the geometric mean for gm_map.

        Values are added one by one in the byte order of query ids, as trec_eval does, so that the last digit of a mean
        that lies between two printed values is the same. NaN if no query was evaluated (0 for counts).
        """
        by_id = np.argsort(self.query_ids.tie_rank)
        tables = [table[by_id] for table in (self.values, self.low, self.high)]
        return [
            Summary(measure, *(_aggregate(measure, table[:, column]) for table in tables))
            for column, measure in enumerate(self.measures)
        ]

    def means_if_relevant(self) -> dict[Metric, float]:
        """Return metrics over all evaluated queries if every unjudged hit were relevant; empty if not computed."""
        if self.if_relevant is None or not len(self.query_ids):
            return {}
        by_id = np.argsort(self.query_ids.tie_rank)
        columns = {measure: self.if_relevant[by_id, column] for column, measure in enumerate(self.measures)}
        return {measure: _aggregate(measure, column) for measure, column in columns.items() if not np.isnan(column[0])}

    def human_mean(self, column: int, rows: Sequence[int] | None = None) -> HumanMean:
        """Return a metric by people's judgments alone; ``rows`` are the queries that count, None for all."""
        if self.human is None:
            return HumanMean(None, None)
        by_id = np.argsort(self.query_ids.tie_rank) if rows is None else rows
        values = self.human[by_id, column]
        values = values[~np.isnan(values)]
        return HumanMean(_aggregate(self.measures[column], values) if len(values) else None, len(values))

    def per_query(self) -> Iterator[tuple[str, list[Summary]]]:
        """Yield each evaluated query with its measures."""
        for query, *values in zip(self.query_ids, self.values, self.low, self.high, strict=True):
            rows = zip(self.measures, *(row.tolist() for row in values), strict=True)
            yield query, [Summary(*row) for row in rows]

    def to_frame(self) -> pd.DataFrame:
        """Return one row a query, one column a metric (pandas, float64), indexed by query id."""
        import pandas as pd

        names = [str(measure) for measure in self.measures]
        return pd.DataFrame(self.values, index=pd.Index(self.query_ids.to_list(), name="query_id"), columns=names)

    def of(self, measure: Metric) -> Float64Array:
        """Return the values of a metric, one for each query (float64, (Q,)); raises ValueError if it was not scored."""
        values: Float64Array = self.values[:, self.measures.index(measure)]
        return values

    def column_of(self, measure: Metric, relevance: float) -> int:
        """Return the column of a measure, which is scored under its relevance level if it has one."""
        levelled = measure.with_parameter("rel", relevance)
        return self.measures.index(levelled if levelled in self.measures else measure)


def defined(value: float | None) -> float | None:
    """Return a value, None for NaN: a metric without a value is null in JSON, and empty in a table."""
    return None if value is None or math.isnan(value) else value


def added_in_order(values: Float64Array) -> float:
    """Return the sum of values (at least one) added one by one, as trec_eval does; NumPy's ``sum`` adds in pairs."""
    return float(np.cumsum(values)[-1])


def _aggregate(measure: Metric, values: Float64Array) -> float:
    aggregate = kind_of(measure.name).aggregate
    if len(values) == 0:
        return 0.0 if aggregate == "sum" else float("nan")
    total = added_in_order(np.log(values) if aggregate == "geometric" else values)
    if aggregate == "sum":
        return total
    return float(np.exp(total / len(values))) if aggregate == "geometric" else total / len(values)
