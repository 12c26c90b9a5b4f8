"""A regression report as test cases: one for each backend and metric that the gate judged."""

from __future__ import annotations

from collections.abc import Iterator

from harness.report.junit import Case, Outcome, Suite
from harness.report.regression_tables import signed
from harness.results.regression_schema import BackendChange, MetricJudgement, QueryChange, RegressionReport
from harness.wording import counted

__all__ = ["losers", "regression_suites", "unjudged", "verdict_line"]

_SHOWN = 10


def regression_suites(report: RegressionReport) -> list[Suite]:
    """One suite for each backend. A metric without a gate passes: nothing was required of it.

    The time of a case is that of the timed searches of ``after``, which the metrics of a backend share.
    """
    facts = {
        "harness": report.after.harness.version,
        "before": report.before.source,
        "after": report.after.source,
        "dataset": report.after.dataset.name,
        "queries": str(report.data.common_queries),
        **{f"warning {number}": said for number, said in enumerate(report.warnings, 1)},
    }
    gated = report.gate is not None
    return [
        Suite(one.after, list(_cases(one, gated=gated)), report.created, facts, one.search_seconds)
        for one in report.backends
    ]


def verdict_line(metric: MetricJudgement) -> str:
    """The change of one metric on one line."""
    interval = ""
    if metric.ci_low is not None and metric.ci_high is not None:
        interval = f", 95 % interval [{signed(metric.ci_low)}, {signed(metric.ci_high)}]"
    means = f"{metric.before:.4f} → {metric.after:.4f} ({signed(metric.difference)}{interval})"
    return f"{metric.metric} is {metric.verdict}: {means} over {counted(metric.queries, 'query')}; {metric.reason}"


def losers(backend: BackendChange, metric: str) -> list[str]:
    """The queries that lost most of a metric, one line each."""
    lost: list[tuple[float, QueryChange]] = []
    for query in backend.dossier.queries if backend.dossier is not None else ():
        lost += [(one.difference, query) for one in query.values if one.metric == metric and one.difference < 0]
    lost.sort(key=lambda one: one[0])
    lines = [f"{query.query}{_text(query)}: {signed(difference)}{_gone(query)}" for difference, query in lost[:_SHOWN]]
    more = [f"… and {len(lost) - _SHOWN:,} more, in regression.json"] if len(lost) > _SHOWN else []
    return lines + more


def unjudged(backend: BackendChange, *, gated: bool) -> str | None:
    """Why nothing was judged of a backend: it failed, or there is a gate and no metric; None where something was."""
    if backend.error is None and gated and not backend.metrics:
        return "there is no metric that both results know"
    return backend.error


def _cases(backend: BackendChange, *, gated: bool) -> Iterator[Case]:
    reason, seconds = unjudged(backend, gated=gated), backend.search_seconds or 0.0
    if reason is not None:
        yield Case("is compared", backend.after, Outcome.ERROR, reason, reason)
    for metric in backend.metrics:
        if metric.gate == "failed":
            said = verdict_line(metric)
            text = "\n".join([said, *losers(backend, metric.metric)])
            yield Case(metric.metric, backend.after, Outcome.FAILURE, said, text, seconds)
        else:
            yield Case(metric.metric, backend.after, seconds=seconds)


def _text(query: QueryChange) -> str:
    return f" {query.text!r}" if query.text is not None else ""


def _gone(query: QueryChange) -> str:
    return f"; left: {', '.join(query.left)}" if query.left else ""
