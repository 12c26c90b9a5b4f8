"""Score a columnar run against judgments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from harness.data.ranking import TieRule
from harness.data.types import Float64Array, Ids, Qrels, Run
from harness.errors import MetricError, UsageError
from harness.metrics.functions import QueryFaultError
from harness.metrics.interval import extreme_placements
from harness.metrics.judged import NO_CUTOFF, Arguments, JudgedHits
from harness.metrics.kind import HIGHEST_LEVEL, Kind, Parameter
from harness.metrics.measure import Metric
from harness.metrics.placement import judge_hits
from harness.metrics.registry import kind_of, kinds
from harness.metrics.scores import QueryCounts, QuerySet, Scores

_ROUNDING = 1e-9


def score(
    run: Run,
    qrels: Qrels,
    measures: Sequence[Metric],
    *,
    ties: TieRule | str = TieRule.TREC_EVAL,
    queries: QuerySet | str = QuerySet.RELEVANT,
    relevance: int = 1,
    unjudged: bool = False,
) -> Scores:
    """Return every metric of every query of the chosen set, with the interval that ties allow.

    ``relevance`` is the lowest relevant grade for measures that do not state ``rel``. A judged query that the run does
    not answer has no hits, and gets each measure's value for that (0). Raises RankingError for scores that are not
    finite and duplicate documents, DataError for a run none of whose query or document ids is judged (with ``unjudged``
    only the former: no document is relevant then, and trec_eval prints zeros), UsageError for a measure without a
    closed form under ``average``, MetricError for a metric of another package that fails.
    """
    ties, queries = TieRule(ties), QuerySet(queries)
    if not 1 <= relevance <= HIGHEST_LEVEL:
        raise UsageError(f"the relevance level is {relevance}", fix=f"it must be from 1 to {HIGHEST_LEVEL:,}")
    resolved = tuple(dict.fromkeys(_apply_level(measure, relevance) for measure in measures))
    if ties is TieRule.AVERAGE:
        require_closed_form(resolved)
    _refuse_grades_beyond_scale(resolved, qrels)
    judged = judge_hits(run, qrels, ties, unjudged=unjudged)
    selected, counts = _choose(run, qrels, judged, queries, relevance)
    fill = partial(_values, measures=resolved, relevance=relevance, query_ids=qrels.query_ids)
    values = fill(judged, average=ties is TieRule.AVERAGE)
    tied = bool((judged.tied > 1).any())
    worst, best = map(fill, extreme_placements(judged)) if tied else (values, values)
    exact = np.array([kind_of(measure.name).bounded for measure in resolved])
    low, high = (np.where(exact, side(worst, best), np.nan) for side in (np.minimum, np.maximum))
    _require_within(values, low, high, resolved, qrels.query_ids)
    low, high = low[selected], high[selected]
    ids = Ids.of(qrels.query_ids.take(np.flatnonzero(selected)))
    return Scores(resolved, ids, values[selected], low, high, counts, ties, queries)


def _apply_level(measure: Metric, relevance: int) -> Metric:
    levelled = any(parameter.name == "rel" for parameter in kind_of(measure.name).parameters)
    stated = not levelled or measure.parameter("rel") is not None
    return measure if relevance == 1 or stated else measure.with_parameter("rel", relevance)


def require_closed_form(measures: Sequence[Metric]) -> None:
    """Raise UsageError naming the measures that the tie rule ``average`` has no closed form for."""
    lacking = [str(measure) for measure in measures if kind_of(measure.name).average is None]
    if lacking:
        able = ", ".join(kind.name for kind in kinds().values() if kind.average is not None)
        raise UsageError(
            f"no closed form over tie permutations for {', '.join(lacking)}",
            fix=f"leave them out, or use another tie rule; 'average' is offered for {able}",
        )


def _refuse_grades_beyond_scale(measures: Sequence[Metric], qrels: Qrels) -> None:
    highest = int(qrels.grades.max(initial=0))
    for measure in measures:
        limits = [parameter for parameter in kind_of(measure.name).parameters if parameter.name == "max"]
        if limits and highest > _value_of(limits[0], measure):
            raise UsageError(
                f"grade {highest} is beyond the scale of {measure}",
                fix=f"write it with {measure.name}(max={highest}), for example",
            )


def _choose(
    run: Run, qrels: Qrels, judged: JudgedHits, queries: QuerySet, relevance: int
) -> tuple[npt.NDArray[np.bool_], QueryCounts]:
    best = np.full(len(qrels.query_ids), np.iinfo(np.int32).min, dtype=np.int64)
    filled = np.diff(qrels.indptr) > 0
    best[filled] = judged.ideal[qrels.indptr[:-1][filled]]
    relevant, answered = best >= relevance, judged.retrieved > 0
    selected = {QuerySet.RELEVANT: relevant, QuerySet.JUDGED: filled, QuerySet.ANSWERED: answered & filled}[queries]
    unjudged = int((qrels.query_ids.rows_of(run.query_ids) < 0).sum())
    return selected, QueryCounts(
        int(filled.sum()), int(relevant.sum()), int((answered & filled).sum()), int(selected.sum()), unjudged
    )


def _values(
    judged: JudgedHits, measures: Sequence[Metric], relevance: int, query_ids: Ids, *, average: bool = False
) -> Float64Array:
    """Return the value of each query and metric; with ``average`` the expected ones over all orders of ties."""
    if not average:  # to kernels, a ranking without ties is one whose tie groups have one hit each
        judged = judged._replace(above=judged.ranks - 1, tied=np.ones_like(judged.tied))
    table = np.zeros((len(measures), len(judged.hit_counts)), dtype=np.float64)
    for row, measure in zip(table, measures, strict=True):
        kind = kind_of(measure.name)
        try:
            kernel = (kind.average if average else None) or kind.kernel
            kernel(judged, _arguments(measure, kind, relevance), row)
        except QueryFaultError as error:
            of_query = "" if error.query is None else f" of query '{query_ids[error.query]}'"
            raise MetricError(f"metric '{measure}'{of_query}: {error.problem}") from error
        broken = np.flatnonzero(~np.isfinite(row))
        if len(broken):
            query, value = query_ids[int(broken[0])], row[broken[0]]
            raise MetricError(f"metric '{measure}' of query '{query}': it gave {value:g}, expected a finite number")
    return np.ascontiguousarray(table.T)


def _require_within(
    values: Float64Array, low: Float64Array, high: Float64Array, measures: Sequence[Metric], query_ids: Ids
) -> None:
    """Refuse a metric whose value lies outside the range of its best and worst order: the range is then wrong."""
    slack = _ROUNDING * np.maximum(np.abs(values), 1.0)
    outside = (values < low - slack) | (values > high + slack)
    if outside.any():
        query, column = (int(indices[0]) for indices in np.nonzero(outside))
        value, least, most = (table[query, column] for table in (values, low, high))
        raise MetricError(
            f"metric '{measures[column]}' of query '{query_ids[query]}': {value:g} lies outside the range of the "
            f"best and the worst order of equal scores, {least:g} to {most:g}",
            fix="a metric that can fall when a higher grade moves up needs bounded=False",
        )


def _arguments(measure: Metric, kind: Kind, relevance: int) -> Arguments:
    level = measure.parameter("rel")
    cutoff = measure.cutoff if isinstance(measure.cutoff, int) else NO_CUTOFF
    return Arguments(cutoff, int(level) if level is not None else relevance, _extra(measure, kind))


def _extra(measure: Metric, kind: Kind) -> float:
    """Return the number that a kernel takes besides cutoff and level."""
    if kind.cutoff == "recall" and measure.cutoff is not None:
        return float(measure.cutoff)
    for parameter in kind.parameters:
        if parameter.name != "rel":
            return _value_of(parameter, measure)
    return kind.floor


def _value_of(parameter: Parameter, measure: Metric) -> float:
    stated = measure.parameter(parameter.name)
    value = parameter.default if stated is None else stated
    return parameter.choices[value] if isinstance(value, str) else float(value)
