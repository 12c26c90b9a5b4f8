"""Score a columnar run against judgments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.ranking import TieRule
from harness.data.types import Float64Array, Ids, Qrels, Run
from harness.errors import MetricError, UsageError
from harness.metrics.alternatives import CountedGroups, count_groups_once
from harness.metrics.condensed import condensed
from harness.metrics.functions import QueryFaultError
from harness.metrics.gains import parse_gains, require_gains, with_gains
from harness.metrics.interval import extreme_placements
from harness.metrics.judged import NO_CUTOFF, Arguments, JudgedHits
from harness.metrics.kind import HIGHEST_LEVEL, JUDGED_ONLY, Kernel, Kind, Parameter
from harness.metrics.measure import CUTOFFS, Metric
from harness.metrics.placement import judge_hits
from harness.metrics.registry import counts_forbidden, kind_of, kinds
from harness.metrics.scores import QueryCounts, QuerySet, Scores
from harness.metrics.unjudged import values_if_relevant

_ROUNDING = 1e-9


def score(
    run: Run,
    qrels: Qrels,
    measures: Sequence[Metric],
    *,
    ties: TieRule | str = TieRule.TREC_EVAL,
    queries: QuerySet | str = QuerySet.RELEVANT,
    relevance: float = 1,
    unjudged: bool = False,
    if_relevant: bool = False,
) -> Scores:
    """Return every metric of every query of the chosen set, with the interval that ties allow.

    ``relevance`` is the lowest relevant grade for measures that do not state ``rel``. A judged query that the run does
    not answer has no hits, and gets each measure's value for that (0). Raises RankingError for scores that are not
    finite and duplicate documents, DataError for a run none of whose query or document ids is judged (with ``unjudged``
    only the former: no document is relevant then, and trec_eval prints zeros), UsageError for a measure without a
    closed form under ``average`` and for one that counts documents which judgments cannot name (``Forbidden``),
    MetricError for a metric of another package that fails. Groups of alternatives count once, as
    :mod:`harness.metrics.alternatives` says. ``if_relevant`` also computes the values if every unjudged hit were
    relevant. If models gave some grades, the values by people's judgments alone are computed as well.
    """
    ties, queries = TieRule(ties), QuerySet(queries)
    if not 0 < relevance <= HIGHEST_LEVEL:
        raise UsageError(
            f"the relevance level is {relevance}", fix=f"it must be above 0, and at most {HIGHEST_LEVEL:,}"
        )
    levelled = measures if relevance == 1 else [_apply_level(measure, relevance) for measure in measures]
    resolved = tuple(dict.fromkeys(levelled))
    require_judgments(resolved)
    if ties is TieRule.AVERAGE:
        require_closed_form(resolved)
    _refuse_grades_beyond_scale(resolved, qrels)
    columns = _Columns(*(np.zeros((len(qrels.query_ids), len(resolved))) for _ in _Columns._fields))
    levels = np.array([_level(measure, relevance) for measure in resolved])
    # which document of a group counts depends on the lowest relevant grade
    for level in dict.fromkeys([relevance] if qrels.groups is None else [relevance, *levels.tolist()]):
        chosen = np.flatnonzero((levels == level) | (qrels.groups is None))
        counted = CountedGroups(qrels, np.zeros(len(qrels.query_ids), dtype=np.bool_))
        if qrels.groups is not None:
            counted = count_groups_once(run, qrels, ties, level)
        judged = judge_hits(run, counted.qrels, ties, unjudged=unjudged)
        if level == relevance:
            selected, counts = _choose(run, counted.qrels, judged, queries, relevance)
        of_level = [resolved[column] for column in chosen]
        part = _columns(judged, of_level, ties, relevance, counted, if_relevant=if_relevant)
        for table, of_part in zip(columns, part, strict=True):
            table[:, chosen] = of_part
    ids = Ids.of(qrels.query_ids.take(np.flatnonzero(selected)))
    values, low, high, relevant = (table[selected] for table in columns)
    scores = Scores(resolved, ids, values, low, high, counts, ties, queries, relevant if if_relevant else None)
    if qrels.human is None:
        return scores
    human = np.full_like(values, np.nan)
    if (qrels.human.query_ids.rows_of(run.query_ids) >= 0).any():
        of_people = score(run, qrels.human, resolved, ties=ties, queries=queries, relevance=relevance, unjudged=True)
        human[ids.rows_of(of_people.query_ids)] = of_people.values
    return replace(scores, human=human)


def score_forbidden(
    run: Run, forbidden: Qrels, measures: Sequence[Metric], *, ties: TieRule | str = TieRule.TREC_EVAL
) -> Scores:
    """Return metrics that count forbidden documents, over the queries of ``forbidden``.

    Args:
        run: The run; none of its documents need be forbidden.
        forbidden: The forbidden documents of each query, with grade 1.
        measures: Metrics whose kind counts forbidden documents.
        ties: As in :func:`score`.
    """
    ties = TieRule(ties)
    judged = judge_hits(run, forbidden, ties, unjudged=True)
    selected, counts = _choose(run, forbidden, judged, QuerySet.JUDGED, 1)
    columns = _columns(judged, measures, ties, 1, CountedGroups(forbidden, np.zeros_like(selected)))
    ids = Ids.of(forbidden.query_ids.take(np.flatnonzero(selected)))
    values, low, high, _ = (table[selected] for table in columns)
    return Scores(tuple(measures), ids, values, low, high, counts, ties, QuerySet.JUDGED)


class _Columns(NamedTuple):
    """Each query's values and their range over ties, float64 (Q, M) each; NaN for no range.

    ``if_relevant`` are the values if every unjudged hit were relevant, NaN for a metric without them.
    """

    values: Float64Array
    low: Float64Array
    high: Float64Array
    if_relevant: Float64Array


def _columns(
    judged: JudgedHits,
    measures: Sequence[Metric],
    ties: TieRule,
    relevance: float,
    counted: CountedGroups,
    *,
    if_relevant: bool = False,
) -> _Columns:
    query_ids = counted.qrels.query_ids
    fill = partial(_values, measures=measures, relevance=relevance, query_ids=query_ids)
    values = fill(judged, average=ties is TieRule.AVERAGE)
    tied = bool((judged.tied > 1).any())
    worst, best = map(fill, extreme_placements(judged)) if tied else (values, values)
    exact = (
        np.array([kind_of(measure.name).bounded for measure in measures], dtype=np.bool_) & ~counted.tied[:, np.newaxis]
    )
    low, high = (np.where(exact, side(worst, best), np.nan) for side in (np.minimum, np.maximum))
    if tied:
        _require_within(values, low, high, measures, query_ids)
    relevant = np.full_like(values, np.nan)
    for column, measure in enumerate(measures) if if_relevant and ties is not TieRule.AVERAGE else ():
        if _depends_on_unjudged(measure):
            relevant[:, column] = _value_if_relevant(judged, measure, relevance, query_ids)
    return _Columns(values, low, high, relevant)


def _depends_on_unjudged(measure: Metric) -> bool:
    """Return whether labels of unjudged hits can change a metric, which is no sum."""
    kind = kind_of(measure.name)
    return kind.condensable and kind.aggregate != "sum" and not measure.parameter(JUDGED_ONLY.name)


def _value_if_relevant(judged: JudgedHits, measure: Metric, relevance: float, query_ids: Ids) -> Float64Array:
    arguments = _arguments(measure, kind_of(measure.name), relevance)

    def fill(hits: JudgedHits, values: Float64Array) -> None:
        _fill(hits, measure, relevance, query_ids, values)

    level, gains = arguments.level, measure.parameter("gains")
    if gains is not None:  # the lowest relevant grade that has a gain
        level = min((grade for grade in parse_gains(str(gains)) if grade >= level), default=level)
    return values_if_relevant(judged, arguments.cutoff, level, fill)


def _apply_level(measure: Metric, relevance: float) -> Metric:
    levelled = any(parameter.name == "rel" for parameter in kind_of(measure.name).parameters)
    stated = not levelled or measure.parameter("rel") is not None
    return measure if relevance == 1 or stated else measure.with_parameter("rel", relevance)


def require_judgments(measures: Sequence[Metric]) -> None:
    """Raise UsageError naming the measures that count documents which judgments cannot name."""
    lacking = [str(measure) for measure in measures if counts_forbidden(measure)]
    if lacking:
        raise UsageError(
            f"{', '.join(lacking)}: judgments name no forbidden documents",
            fix="leave it out; `harness check` measures it, with a golden set whose questions have 'forbidden'",
        )


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
    highest = qrels.grades.max(initial=0)
    for measure in measures:
        if (gains := measure.parameter("gains")) is not None:
            require_gains(parse_gains(str(gains)), qrels.grades, str(measure))
        limits = [parameter for parameter in kind_of(measure.name).parameters if parameter.name == "max"]
        if limits and highest > _value_of(limits[0], measure):
            raise UsageError(
                f"grade {highest:g} is beyond the scale of {measure}",
                fix=f"write it with {measure.name}(max={int(np.ceil(highest))}), for example",
            )


def _choose(
    run: Run, qrels: Qrels, judged: JudgedHits, queries: QuerySet, relevance: float
) -> tuple[npt.NDArray[np.bool_], QueryCounts]:
    best = np.full(len(qrels.query_ids), -np.inf)
    filled = np.diff(qrels.indptr) > 0
    best[filled] = judged.ideal[qrels.indptr[:-1][filled]]
    relevant, answered = best >= relevance, judged.retrieved > 0
    selected = {QuerySet.RELEVANT: relevant, QuerySet.JUDGED: filled, QuerySet.ANSWERED: answered & filled}[queries]
    unjudged = int((qrels.query_ids.rows_of(run.query_ids) < 0).sum())
    return selected, QueryCounts(
        int(filled.sum()), int(relevant.sum()), int((answered & filled).sum()), int(selected.sum()), unjudged
    )


def _values(
    judged: JudgedHits, measures: Sequence[Metric], relevance: float, query_ids: Ids, *, average: bool = False
) -> Float64Array:
    """Return the value of each query and metric; with ``average`` the expected ones over all orders of ties."""
    if not average:  # to kernels, a ranking without ties is one whose tie groups have one hit each
        judged = judged._replace(above=judged.ranks - 1, tied=np.ones_like(judged.tied))
    table = np.zeros((len(measures), len(judged.hit_counts)), dtype=np.float64)
    only_judged = condensed(judged) if any(measure.parameter(JUDGED_ONLY.name) for measure in measures) else judged
    for row, measure in zip(table, measures, strict=True):
        hits = only_judged if measure.parameter(JUDGED_ONLY.name) else judged
        _fill(hits, measure, relevance, query_ids, row, average=average)
    return np.ascontiguousarray(table.T)


def _fill(
    hits: JudgedHits,
    measure: Metric,
    relevance: float,
    query_ids: Ids,
    values: Float64Array,
    *,
    average: bool = False,
) -> None:
    """Compute a metric; raises MetricError, which names the query, for one that fails."""
    kind = kind_of(measure.name)
    try:
        kernel = (kind.average if average else None) or kind.kernel
        gains = measure.parameter("gains")
        graded = hits if gains is None else with_gains(hits, parse_gains(str(gains)))
        arguments = _arguments(measure, kind, relevance)
        kernel(graded, arguments, values)
        if measure.parameter(CUTOFFS) is not None:
            _average_cutoffs(kernel, graded, arguments, measure.cutoffs, values)
    except QueryFaultError as error:
        of_query = "" if error.query is None else f" of query '{query_ids[error.query]}'"
        raise MetricError(f"metric '{measure}'{of_query}: {error.problem}") from error
    broken = np.flatnonzero(~np.isfinite(values))
    if len(broken):
        query, value = query_ids[int(broken[0])], values[broken[0]]
        raise MetricError(f"metric '{measure}' of query '{query}': it gave {value:g}, expected a finite number")


def _average_cutoffs(
    kernel: Kernel, hits: JudgedHits, arguments: Arguments, cutoffs: Sequence[int], values: Float64Array
) -> None:
    """Turn values at the highest cutoff into the mean over all."""
    for cutoff in cutoffs[:-1]:
        at_cutoff = np.zeros_like(values)
        kernel(hits, arguments._replace(cutoff=cutoff), at_cutoff)
        values += at_cutoff
    values /= len(cutoffs)


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


def _arguments(measure: Metric, kind: Kind, relevance: float) -> Arguments:
    """Return what a kernel takes: the cutoff, the lowest relevant grade, and a number of the metric's own."""
    cutoff = measure.cutoff if isinstance(measure.cutoff, int) else NO_CUTOFF
    extra, further = kind.floor, next((parameter for parameter in kind.parameters if parameter.name != "rel"), None)
    if kind.cutoff == "recall" and measure.cutoff is not None:
        extra = float(measure.cutoff)
    elif further is not None:
        extra = _value_of(further, measure)
    return Arguments(cutoff, _level(measure, relevance), extra)


def _level(measure: Metric, relevance: float) -> float:
    """Return the lowest grade that is relevant to a metric."""
    stated = measure.parameter("rel")
    level = relevance if stated is None else float(stated)
    return int(level) if float(level).is_integer() else level


def _value_of(parameter: Parameter, measure: Metric) -> float:
    stated = measure.parameter(parameter.name)
    value = parameter.default if stated is None else stated
    return parameter.choices[value] if isinstance(value, str) else float(value)
