"""Compare results of different depth by what both hold: metrics at a depth that both rankings reach.

A metric that looks deeper than the shallower result is compared at the depth of that result: ``Hit@5`` for the
``Hit@10`` of one and the ``Hit@5`` of the other. A side without its values is scored from its stored rankings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.data import ranking
from harness.data.ranking import TieRule
from harness.data.types import Qrels, Run
from harness.errors import UsageError
from harness.metrics import Metric, QuerySet, Scores, counts_forbidden, is_mean, parse_metric, score_forbidden
from harness.pipeline.regress.rescoring import score_again
from harness.results.snapshot import OVERLAP, THIS_RUN, ResultSnapshot
from harness.wording import counted

_ROUNDING = 1e-9
_NOT_REPRODUCED = "its stored rankings do not give its stored figures"
_Values = dict[str, dict[str, float]]
"""Metric to query to value, of one backend."""


class CommonDepth(NamedTuple):
    """Both results as they are compared, warnings about depth, and the metrics that ``warnings`` explain as missing."""

    before: ResultSnapshot
    after: ResultSnapshot
    warnings: tuple[str, ...] = ()
    unscored: frozenset[str] = frozenset()


def at_common_depth(before: ResultSnapshot, after: ResultSnapshot, *, same_judgments: bool) -> CommonDepth:
    """Return both results with figures of the same depth; unchanged if both were searched to the same depth.

    Figures that look deeper than the shallower result are left out, and a warning names them. Metrics without a cutoff
    look at as many documents on either side. A side without judgments, such as a baseline, is scored by those of the
    other side if they are the same (``same_judgments``).
    """
    if before.k == after.k:
        return CommonDepth(before, after)
    limit, metrics = min(before.k, after.k), _metrics_at_depth(before, after)
    depth = min(before.deepest, after.deepest)
    sides = [
        _Side(side, other, limit, depth, same_judgments=same_judgments).scored(metrics)
        for side, other in ((before, after), (after, before))
    ]
    unscored = frozenset(name for side in sides for problem in side.problems for name in problem.metrics)
    warnings = tuple(_warnings((before, after), sides, metrics, limit))
    return CommonDepth(sides[0].snapshot, sides[1].snapshot, warnings, unscored)


def refuse_deeper(metrics: Iterable[str], depths: Mapping[str, int]) -> None:
    """Raise UsageError for a metric with an allowed drop that looks deeper than the shallower of two results.

    ``depths`` maps the source of each result to the documents that were requested for each query.
    """
    source = min(depths, key=depths.__getitem__)
    depth, deepest = depths[source], max(depths.values())
    result = source if source == THIS_RUN else f"'{source}'"
    for name in metrics if deepest > depth else ():
        metric = None if name.startswith(OVERLAP) else parse_metric(name)
        if metric is not None and isinstance(metric.cutoff, int) and metric.cutoff > depth:
            raise UsageError(
                f"--max-drop {name}: {result} has {counted(depth, 'document')} of each ranking, too few for {name}",
                fix=f"name {_cut_name(name, metric, depth)}, or make both results with --k {metric.cutoff}",
            )


def names_at(metrics: Iterable[str], depth: int) -> set[str]:
    """Return the names of metrics, and of those that look deeper than ``depth`` the names at that depth."""
    names = set(metrics)
    for name in metrics:
        metric = None if name.startswith(OVERLAP) else parse_metric(name)
        if metric is not None and isinstance(metric.cutoff, int) and metric.cutoff > depth:
            names.add(_cut_name(name, metric, depth))
    return names


def _cut_name(name: str, metric: Metric, depth: int) -> str:
    """Return the name of a metric cut to a depth."""
    return f"{name.removesuffix(metric.suffix)}{metric.cut(depth).suffix}"


def _metrics_at_depth(before: ResultSnapshot, after: ResultSnapshot) -> dict[str, Metric]:
    """Return the metrics to compare, by name: at their cutoff, or else as deep as both rankings reach.

    A result reaches the depth of its stored rankings, and every cutoff of which it has the values. Of metrics without a
    cutoff, those that both results have.
    """
    results, limit = (before, after), min(before.k, after.k)
    measures = [
        {name: metric for name, metric in one.measures.items() if is_mean(metric)} for one in results
    ]  # sums and geometric means are not judged
    names = {metric: name for of_result in measures for name, metric in of_result.items()}
    stored = min(one.deepest for one in results)
    metrics: dict[str, Metric] = {}
    for name, metric in [item for of_result in measures for item in of_result.items()]:
        if not isinstance(metric.cutoff, int):
            if all(name in of_result for of_result in measures):
                metrics[name] = metric
            continue
        for depth in (min(metric.cutoff, limit), min(metric.cutoff, stored)):
            cut = metric.cut(depth)
            if all(
                cut in of_result.values() or depth <= one.deepest
                for one, of_result in zip(results, measures, strict=True)
            ):
                metrics.setdefault(names.get(cut) or _cut_name(name, metric, depth), cut)
                break
    return metrics


class _Problem(NamedTuple):
    """The reason why metrics cannot be scored again."""

    metrics: Sequence[str]
    reason: str


class _ScoredSide(NamedTuple):
    """A side with figures of the common depth: ``names`` were scored from its rankings, others had ``problems``."""

    snapshot: ResultSnapshot
    names: Sequence[str]
    problems: Sequence[_Problem]


@dataclass(frozen=True, slots=True)
class _Side:
    """One of two results, which gets figures of at most ``limit`` documents of each ranking.

    ``depth`` is how many of them both results store: metrics without a cutoff look at these.
    """

    result: ResultSnapshot
    other: ResultSnapshot
    limit: int
    depth: int
    same_judgments: bool

    def scored(self, metrics: Mapping[str, Metric]) -> _ScoredSide:
        """Return the result with the values of ``metrics``, as far as it has them or they can be scored."""
        missing = {name: metric for name, metric in metrics.items() if not self._has(metric)}
        problems, names = list[_Problem](), list[str]()
        figures = {label: self._stored(values, metrics) for label, values in self.result.figures.items()}
        groups: dict[tuple[bool, bool], dict[str, Metric]] = {}
        for name, metric in missing.items():
            groups.setdefault((counts_forbidden(metric), _is_cut(metric)), {})[name] = metric
        for (forbidden, is_cut), group in groups.items():
            problem = self._problem(forbidden=forbidden, is_cut=is_cut)
            if problem:
                problems.append(_Problem(list(group), problem))
                continue
            names += group
            for label in figures:
                figures[label] |= self._values(label, group)
        human = {
            label: {name: of_metric for name, of_metric in of_label.items() if name not in names}
            for label, of_label in self.result.human.items()
        }
        return _ScoredSide(replace(self.result, figures=figures, human=human), names, problems)

    def _has(self, metric: Metric) -> bool:
        """Return whether the stored values of a metric are those of this depth."""
        return metric in self.result.measures.values() and (_is_cut(metric) or self.result.k == self.depth)

    def _stored(self, values: Mapping[str, Mapping[str, float]], metrics: Mapping[str, Metric]) -> _Values:
        """Return the stored values of a backend without metrics that look deeper, by the names of ``metrics``."""
        names = {metric: name for name, metric in metrics.items()}
        values_by_name: _Values = {}
        for name, by_query in values.items():
            metric = None if name.startswith(OVERLAP) else self.result.measures[name]
            if metric is None or (self._depth_of(metric) <= self.limit and (metric not in names or self._has(metric))):
                values_by_name[name if metric is None else names.get(metric, name)] = dict(by_query)
        return values_by_name

    def _problem(self, *, forbidden: bool, is_cut: bool) -> str:
        """Return why metrics of expected or ``forbidden`` documents cannot be scored again; empty if they can."""
        result = self.result
        if result.ties is TieRule.AVERAGE and (result.depth is not None or not is_cut):
            return "--ties average needs the scores of all hits" if is_cut else "--ties average has no first documents"
        if forbidden and self._forbidden_source is None:
            return "the forbidden documents are not in it"
        if not forbidden and self._qrels is None:
            if self.other.qrels is None:
                return "neither result holds the judgments; name the folder of a result instead of its baseline"
            return f"it holds no judgments, and those of '{self.other.source}' are others"
        missing = [label for label in result.figures if result.hits(label) is None]
        if missing:
            return f"it has no rankings of {', '.join(missing)}"
        is_uncertain = result.depth is not None or not result.rescorable
        return _NOT_REPRODUCED if is_uncertain and not self._gives_its_figures(forbidden=forbidden) else ""

    @property
    def _qrels(self) -> Qrels | None:
        return self.result.qrels if self.result.qrels is not None or not self.same_judgments else self.other.qrels

    @property
    def _forbidden_source(self) -> ResultSnapshot | None:
        """The result that knows which documents are forbidden: this one, or the other if it goes by ids alone."""
        if self.result.forbidden_of is not None:
            return self.result
        shared = self.same_judgments and self.other.rescorable and self.other.forbidden_of is not None
        return self.other if shared else None

    def _depth_of(self, metric: Metric) -> int:
        return metric.cutoff if isinstance(metric.cutoff, int) else self.depth

    def _gives_its_figures(self, *, forbidden: bool) -> bool:
        """Return whether the stored rankings give the stored values of a kind of metrics, as deep as they are stored.

        They do not if a document meets several expected texts of a question, of which a baseline keeps one, or if the
        forbidden documents are others now.
        """
        result = self.result
        stored = {
            name: metric
            for name, metric in result.measures.items()
            if counts_forbidden(metric) == forbidden and _is_cut(metric) and self._depth_of(metric) <= result.deepest
        }
        if not stored:
            return result.rescorable and not forbidden
        for label, figures in result.figures.items():
            again = self._values(label, {name: metric for name, metric in stored.items() if name in figures})
            for name, values in again.items():
                if any(abs(values.get(query, 0.0) - value) > _ROUNDING for query, value in figures[name].items()):
                    return False
        return True

    def _values(self, label: str, metrics: Mapping[str, Metric]) -> _Values:
        """Return the values of a backend by its stored ranking, cut to the depth of each metric."""
        by_depth: dict[tuple[int, bool], dict[str, Metric]] = {}
        for name, metric in metrics.items():
            by_depth.setdefault((self._depth_of(metric), counts_forbidden(metric)), {})[name] = metric
        values: _Values = {}
        for (depth, forbidden), of_depth in by_depth.items():
            run = self._cut(label, depth)
            values |= self._forbidden(run, of_depth) if forbidden else self._relevant(run, of_depth)
        return values

    def _cut(self, label: str, depth: int) -> Run:
        """Return the first documents of each ranking; all if equal scores have no order, as under ``average``."""
        result, run = self.result, self.result.hits(label)
        if run is None:
            raise AssertionError("a result without rankings")
        if result.ties is TieRule.AVERAGE:
            return run
        if result.depth is None and result.ties is not TieRule.ENGINE:
            run = ranking.order(run, wide=result.ties is TieRule.TREC_EVAL_10)
        return ranking.cut(run, depth)

    def _relevant(self, run: Run, metrics: Mapping[str, Metric]) -> _Values:
        judgments_of, qrels = self.result.judgments_of, self._qrels
        judged = judgments_of(run) if judgments_of is not None else qrels
        if judged is None:
            raise AssertionError("a result without judgments")
        rule = QuerySet(str(self.result.report.plan.resolved["queries"]))
        return score_again(self.result, run, judged, metrics, queries=rule)

    def _forbidden(self, run: Run, metrics: Mapping[str, Metric]) -> _Values:
        source = self._forbidden_source
        if source is None or source.forbidden_of is None:
            raise AssertionError("a result without forbidden documents")
        ties = TieRule.ENGINE if self.result.depth is not None else self.result.ties
        scores: Scores = score_forbidden(run, source.forbidden_of(run), list(metrics.values()), ties=ties)
        ids = scores.query_ids.to_list()
        return {name: dict(zip(ids, scores.of(metric).tolist(), strict=True)) for name, metric in metrics.items()}


def _is_cut(metric: Metric) -> bool:
    return isinstance(metric.cutoff, int)


def _warnings(
    results: tuple[ResultSnapshot, ResultSnapshot],
    sides: Sequence[_ScoredSide],
    metrics: Mapping[str, Metric],
    limit: int,
) -> list[str]:
    """Say how deep each result is, at which cutoffs they are compared, from which rankings, and what is left out."""
    both = [name for name in metrics if all(name in side.snapshot.measures for side in sides)]
    scored = [
        (result, [name for name in side.names if name in both])
        for result, side in zip(("earlier", "later"), sides, strict=True)
    ]
    sources = [result for result, names in scored if names]
    names = [name for name in both if any(name in of_result for _, of_result in scored)]
    left_out = dict.fromkeys(
        name
        for result in results
        for name, metric in result.measures.items()
        if isinstance(metric.cutoff, int) and metric.cutoff > limit
    )
    sentence, depth = f"k was {results[0].k}, and is {results[1].k}", min(one.deepest for one in results)
    for when, result in zip(("earlier", "later"), results, strict=True):
        if result.deepest < limit:
            sentence += f", and the {when} result stores the first {result.deepest} documents of each ranking"
    if names:
        cut = [name if _is_cut(metrics[name]) else f"{name} over the first {depth}" for name in names]
        rankings = f"the stored rankings of the {' and the '.join(sources)} result{'s' if len(sources) > 1 else ''}"
        sentence += f": compared by {', '.join(cut)}, scored from {rankings}"
    if left_out:
        sentence += f"; not judged, because a result has only {counted(limit, 'document')} of each ranking: "
        sentence += ", ".join(left_out)
    warnings = [sentence] if names or left_out else []
    for when, side in zip(("earlier", "later"), sides, strict=True):
        for unscored, reason in side.problems:
            metric_names = ", ".join(unscored)
            warnings.append(f"not judged, because the {when} result cannot be scored by {metric_names}: {reason}")
    return warnings
