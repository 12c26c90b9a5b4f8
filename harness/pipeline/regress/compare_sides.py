"""Compare two results: what is common, what changed, how sure that is, and which queries to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.data.types import Qrels
from harness.errors import ResultError, UsageError
from harness.pipeline.regress.cost_changes import cost_changes
from harness.pipeline.regress.dossier import make_dossier
from harness.pipeline.regress.labels import Labels, grades_of, relabelled, to_qrels, with_labels
from harness.pipeline.regress.pairing import (
    Common,
    Pair,
    changed_settings,
    common_queries,
    pair_backends,
    pairing_warnings,
)
from harness.pipeline.regress.verdicts import Rules, judge_pairs, metric_warnings, noise_warnings
from harness.results.regression_schema import BackendChange, Change, Dossier, MetricJudgement, SideInfo
from harness.results.snapshot import OVERLAP, ResultSnapshot

__all__ = ["CompareRules", "Compared", "compare_sides", "compared_again"]


@dataclass(frozen=True, slots=True)
class CompareRules:
    """How two sides are compared: the ``rules`` of the verdicts, and how much the dossier holds.

    ``pairs`` are given by the caller; the others are found (:mod:`harness.pipeline.regress.pairing`). ``labels`` are
    judgments that came later, None for none.
    """

    rules: Rules = field(default_factory=Rules)
    depth: int = 10
    queries: int = 50
    pairs: Sequence[Pair] = ()
    labels: Labels | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Compared:
    """A change with what it is about: both results, as they were scored, and the queries that both have, in order.

    ``qrels`` are the judgments of both, None where none are at hand.
    """

    change: Change
    before: ResultSnapshot
    after: ResultSnapshot
    queries: Sequence[str]
    qrels: Qrels | None


def compare_sides(before: ResultSnapshot, after: ResultSnapshot, how: CompareRules) -> Compared:
    """Compare two results; raises ResultError when they have no query or no backend in common, or are of two verbs."""
    if before.kind != after.kind:
        raise ResultError(
            f"'{before.source}' is a result of `harness {before.kind}`, and '{after.source}' of `harness {after.kind}`",
            fix="compare two of the same command",
        )
    pairing = pair_backends(before.report.trials, after.report.trials, how.pairs)
    common = common_queries(before, after, labels=len(how.labels) if how.labels is not None else 0)
    qrels = _judgments(before, after, common)
    pairs = list(pairing.pairs)
    settings = changed_settings(before, after, pairs)
    warnings = [*common.warnings, *pairing_warnings(pairing), *metric_warnings(before, after)]
    if how.labels is not None:
        before, after, qrels, lost = _with_labels(before, after, qrels, how.labels, common)
        warnings += lost
    good = [pair for pair in pairs if _error(before, after, pair) is None]
    ordered = [query for query in _order(before, after) if query in common.queries]
    judged = judge_pairs(before, after, good, ordered, how.rules)
    warnings += noise_warnings(before, after, good)
    backends, same = [], common.relation.judgments == "same" and how.labels is None
    for pair, paired_by in pairing.pairs.items():
        error = _error(before, after, pair)
        ok = error is None
        backends.append(
            BackendChange(
                before=pair.before,
                after=pair.after,
                paired_by=paired_by,
                status="ok" if ok else "failed",
                error=error,
                metrics=judged[pair] if ok else [],
                costs=cost_changes(before, after, pair, common.queries, how.rules.seed) if ok else [],
                dossier=_dossier(before, after, pair, ordered, qrels, judged[pair], how, same) if ok else None,
                search_seconds=_search_seconds(after, pair.after),
            )
        )
    change = Change(
        before=_info(before),
        after=_info(after),
        settings=settings,
        data=common.relation,
        tests=sum(one.p is not None and one.wins + one.losses > 0 for found in judged.values() for one in found),
        backends=backends,
        only_before=list(pairing.only_before),
        only_after=list(pairing.only_after),
        warnings=warnings,
        gate=_gate(backends, gated=how.rules.allowed_drop is not None or bool(how.rules.allowed)),
    )
    return Compared(change, before, after, ordered, qrels)


def compared_again(change: Change, before: ResultSnapshot, after: ResultSnapshot) -> Compared:
    """Return a stored change, to which no labels were added, with the results that it is about."""
    common = common_queries(before, after, labels=0)
    ordered = [query for query in _order(before, after) if query in common.queries]
    return Compared(change, before, after, ordered, _judgments(before, after, common))


def _dossier(
    before: ResultSnapshot,
    after: ResultSnapshot,
    pair: Pair,
    queries: Sequence[str],
    qrels: Qrels | None,
    judged: Sequence[MetricJudgement],
    how: CompareRules,
    same_judgments: bool,
) -> Dossier:
    """The dossier of a pair, by the first metric that failed the gate, else the first that is worse, else the first."""
    metrics = [one for one in judged if not one.metric.startswith(OVERLAP)]
    failed = [one.metric for one in metrics if one.gate == "failed"]
    worse = [one.metric for one in metrics if one.verdict == "worse"]
    metric = next(iter([*failed, *worse, *(one.metric for one in metrics)]), None)
    return make_dossier(
        before,
        after,
        pair,
        queries,
        qrels,
        metric=metric,
        depth=how.depth,
        limit=how.queries,
        same_judgments=same_judgments,
    )


def _order(before: ResultSnapshot, after: ResultSnapshot) -> Mapping[str, None]:
    """Every query in the order of its first mention."""
    known = dict.fromkeys([*before.digests, *after.digests])
    for side in (before, after):
        for figures in side.figures.values():
            for values in figures.values():
                known |= dict.fromkeys(values)
    return known


def _judgments(before: ResultSnapshot, after: ResultSnapshot, common: Common) -> Qrels | None:
    """The later judgments, or the earlier ones where those are at hand and the same.

    Of checks that match chunks, both: each side knows those that it found.
    """
    if before.qrels is not None and after.qrels is not None and not (before.rescorable and after.rescorable):
        found = grades_of(before.qrels)
        for query, grades in grades_of(after.qrels).items():
            found[query] = {**found.get(query, {}), **grades}
        return to_qrels(found)
    if after.qrels is not None:
        return after.qrels
    return before.qrels if common.relation.judgments == "same" else None


def _with_labels(
    before: ResultSnapshot, after: ResultSnapshot, qrels: Qrels | None, labels: Labels, common: Common
) -> tuple[ResultSnapshot, ResultSnapshot, Qrels, list[str]]:
    if qrels is None:
        raise UsageError(
            "--labels add to judgments, and neither side holds any", fix="compare a result folder with judgments"
        )
    if not (before.rescorable and after.rescorable):
        raise UsageError(
            "--labels with a check that matches chunks (--match): its hits cannot be scored again by documents",
            fix="add the labels to the golden set, and check again",
        )
    more = with_labels(qrels, labels)
    foreign = len({query for query, _ in labels} - common.queries)
    said = f"{foreign:,} of the labelled queries are not among those compared: labels without effect"
    sides, warnings = [], [said] if foreign else []
    for side in (before, after):
        scored, lost = relabelled(side, more)
        sides.append(scored)
        if lost:
            warnings.append(
                f"'{side.source}' holds the first {side.depth} documents of each ranking, too few to score "
                f"{', '.join(lost)} again with the labels: left out"
            )
    return sides[0], sides[1], more, warnings


def _error(before: ResultSnapshot, after: ResultSnapshot, pair: Pair) -> str | None:
    """Which side of a pair failed, and why; None where both have results."""
    for when, backend in (("before", before.trial(pair.before)), ("now", after.trial(pair.after))):
        if backend.status == "failed":
            return f"failed {when}: {backend.error.message if backend.error is not None else 'no reason is stored'}"
    return None


def _search_seconds(side: ResultSnapshot, label: str) -> float | None:
    passes = side.latencies.get(label)
    return sum(map(sum, passes.values())) / 1e9 if passes else None


def _gate(backends: Sequence[BackendChange], *, gated: bool) -> Literal["passed", "failed", "invalid"] | None:
    """A backend that failed, or that no metric is there of, was not judged, so nothing passed."""
    if not gated:
        return None
    if any(not backend.metrics for backend in backends):
        return "invalid"
    failed = any(metric.gate == "failed" for backend in backends for metric in backend.metrics)
    return "failed" if failed else "passed"


def _info(side: ResultSnapshot) -> SideInfo:
    report = side.report
    return SideInfo(
        source=side.source,
        created=report.created,
        command=report.command,
        harness=report.harness,
        machine=report.machine,
        dataset=report.dataset,
        backends=[backend.label for backend in report.trials],
        documents_kept=side.depth,
    )
