"""Two results as tables: the headline, changed settings, verdicts and costs."""

from __future__ import annotations

from collections.abc import Iterator

from harness.pipeline.regress.cost_changes import TOLERANCE
from harness.report.cells import FAILED, NOT_APPLICABLE, Table, figure, size
from harness.results.regression_schema import (
    BackendChange,
    CostChange,
    MetricJudgement,
    RegressionReport,
    SettingChange,
    Value,
)
from harness.wording import counted, few_for_interval

__all__ = [
    "both_values",
    "cost_table",
    "first_of_all",
    "headline",
    "invalid_because",
    "power_table",
    "probability",
    "regression_tables",
    "remarks",
    "setting_table",
    "signed",
]

_PROBABLE = 0.001
_SHORT = 12
_DIGESTS = (40, 64)
"""Digits of a commit and of a SHA-256, of which the first few are shown."""
_UNITS = {"_ms": " ms", "_seconds": " s", "qps": "/s"}
_COSTS = {
    "p50_ms": "latency p50",
    "p95_ms": "latency p95",
    "mean_ms": "latency mean",
    "qps": "queries/s",
    "index_seconds": "time to index",
    "peak_anonymous_bytes": "peak memory",
    "index_bytes": "index size",
}


def headline(report: RegressionReport) -> str:
    """The verdict in one line, with what was compared."""
    worse = [f"{one.after} {metric.metric}" for one, metric in _judged(report) if metric.gate == "failed"]
    verdicts = [metric.verdict for _, metric in _judged(report)]
    counts = ", ".join(
        f"{verdicts.count(verdict)} {verdict}{_ungated(report) if verdict == 'worse' else ''}"
        for verdict in ("worse", "better", "same", "undecided")
        if verdict in verdicts
    )
    if report.gate == "failed":
        said = f"FAILED: worse beyond the allowed drop: {', '.join(worse)}"
    elif report.gate == "invalid":
        said = f"INVALID: {invalid_because(report)}"
    elif report.gate == "passed":
        said = "PASSED: nothing is worse beyond the allowed drop"
    else:
        said = "COMPARED"
    data = counted(report.data.common_queries, "common query")
    return f"{said} · {counts or 'no metrics'} · {report.before.source} → {report.after.source} · {data}"


def _ungated(report: RegressionReport) -> str:
    """What is worse and has no gate where others have one: with that a run can pass."""
    names = [f"{one.after} {metric.metric}" for one, metric in _judged(report) if _worse_without_gate(metric)]
    return f" (without a gate: {', '.join(names)})" if names and report.gate is not None else ""


def _worse_without_gate(metric: MetricJudgement) -> bool:
    return metric.verdict == "worse" and metric.gate is None


def invalid_because(report: RegressionReport) -> str:
    """Why an invalid gate is no other: who failed, or has no metric."""
    failed = [one.after for one in report.backends if one.status == "failed"]
    if failed:
        return f"{', '.join(failed)} failed, so nothing passed"
    return f"nothing was judged of {', '.join(one.after for one in report.backends if not one.metrics)}"


def first_of_all(report: RegressionReport) -> list[str]:
    """What a reader must know before any figure: warnings, and which backends failed."""
    warnings = [f"warning: {warning}" for warning in report.warnings]
    return [*warnings, *(f"{one.after}: {one.error}" for one in report.backends if one.error is not None)]


def regression_tables(report: RegressionReport) -> list[Table]:
    """What changed in the settings, the verdicts, and the costs; only tables with rows."""
    made = [setting_table(report), _verdicts(report), power_table(report), cost_table(report)]
    return [table for table in made if table.rows]


def remarks(report: RegressionReport) -> list[str]:
    """What the words and marks mean; only those that occur."""
    lines: list[str] = []
    reasons = {cost.reason: None for backend in report.backends for cost in backend.costs if cost.reason is not None}
    lines += [f"x: not comparable: {reason}" for reason in reasons]
    if not report.settings:
        lines.append("no resolved setting differs")
    found = {metric.verdict for _, metric in _judged(report)}
    if found:
        tested = f"p: two-sided paired test ({_tests(report)}), after Holm over {counted(report.tests, 'test')}; "
        lines.append(
            "difference: after − before, with its 95 % BCa bootstrap interval; "
            f"{tested if report.tests else ''}effect: Cohen's d; W/T/L: queries"
        )
        lines.append("shows from: the smallest difference that so many queries show with power 0.8")
    lines += few_for_interval(metric.queries for _, metric in _judged(report) if metric.wins + metric.losses > 0)
    if any(metric.gate is not None for _, metric in _judged(report)):
        lines.append("gate: p of a loss of at most the allowed drop, one-sided, after Holm over what is gated")
    if any(metric.noise_floor is not None for _, metric in _judged(report)):
        lines.append("noise floor: what two builds with the same settings exceed in one case of twenty")
    if any(cost.ci_low is not None for backend in report.backends for cost in backend.costs):
        lines.append(
            f"costs: same within a factor of {TOLERANCE}, and no gate; intervals are over queries, and know nothing of "
            "how busy the machine was"
        )
    return lines


def signed(value: float | None, digits: int = 4) -> str:
    """A difference with its sign; 0 has none."""
    if value is None:
        return NOT_APPLICABLE
    return f"{value:+.{digits}f}".replace("-", "−") if value else "0"


def _judged(report: RegressionReport) -> Iterator[tuple[BackendChange, MetricJudgement]]:
    for backend in report.backends:
        for metric in backend.metrics:
            yield backend, metric


def _tests(report: RegressionReport) -> str:
    return ", ".join(dict.fromkeys(metric.test for _, metric in _judged(report)))


def setting_table(report: RegressionReport) -> Table:
    """Every resolved setting that differs, with both values."""
    rows = []
    for change in report.settings:
        name = f"{change.section}: {change.setting}"
        rows.append((change.backend or "all", name, *both_values(change)))
    return Table("Settings that changed", ("backend", "setting", "before", "after"), tuple(rows))


def both_values(change: SettingChange) -> tuple[str, str]:
    """The setting before and after, as cells show them."""
    return _setting(change.before), _setting(change.after)


def _setting(value: Value) -> str:
    """A value in a cell; a digest by its first digits."""
    if value is None:
        return NOT_APPLICABLE
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{text[:_SHORT]}…" if len(text) in _DIGESTS and text.isalnum() else text


def _verdicts(report: RegressionReport) -> Table:
    columns = ("backend", "metric", "before", "after", "difference", "95 % interval", "p", "W/T/L", "verdict", "gate")
    rows = []
    for backend in report.backends:
        label = _label(backend)
        if backend.status == "failed":
            rows.append((label, *([NOT_APPLICABLE] * (len(columns) - 3)), FAILED, NOT_APPLICABLE))
        rows += [(label, *_verdict(metric)) for metric in backend.metrics]
    return Table("Verdicts", columns, tuple(rows))


def _verdict(metric: MetricJudgement) -> tuple[str, ...]:
    return (
        metric.metric,
        f"{metric.before:.4f}",
        f"{metric.after:.4f}",
        signed(metric.difference),
        _interval(metric.ci_low, metric.ci_high),
        probability(metric.p_adjusted),
        f"{metric.wins}/{metric.ties}/{metric.losses}",
        metric.verdict,
        _gate(metric),
    )


def power_table(report: RegressionReport) -> Table:
    """What the verdicts rest on, for those that are not exactly the same."""
    noisy = any(metric.noise_floor is not None for _, metric in _judged(report))
    columns = ("backend", "metric", "why", "effect", "shows from", *(["noise floor"] if noisy else []), "decided by")
    rows = []
    for backend, metric in _judged(report):
        if metric.wins == metric.losses == 0:
            continue
        rows.append(
            (
                _label(backend),
                metric.metric,
                metric.reason,
                signed(metric.effect, 2),
                figure(metric.detectable, ".4f"),
                *([figure(metric.noise_floor, ".4f")] if noisy else []),
                f"{counted(metric.queries_needed, 'query')}" if metric.queries_needed is not None else NOT_APPLICABLE,
            )
        )
    return Table("How sure", columns, tuple(rows))


def cost_table(report: RegressionReport) -> Table:
    """Every cost before and after; ``x`` where it is not comparable."""
    columns = ("backend", "cost", "before", "after", "ratio", "95 % interval", "n", "verdict")
    rows = [(_label(backend), *_cost(cost)) for backend in report.backends for cost in backend.costs]
    return Table("Costs", columns, tuple(rows))


def _cost(cost: CostChange) -> tuple[str, ...]:
    return (
        _COSTS.get(cost.cost, cost.cost),
        _quantity(cost, cost.before),
        _quantity(cost, cost.after),
        figure(cost.ratio, ".2f"),
        _interval(cost.ci_low, cost.ci_high, 2),
        f"{cost.samples_before:,}/{cost.samples_after:,}",
        cost.verdict,
    )


def _quantity(cost: CostChange, value: float | None) -> str:
    if cost.cost.endswith("_bytes"):
        return size(int(value) if value is not None else None)
    unit = next((unit for ending, unit in _UNITS.items() if ending in cost.cost), "")
    return figure(value, ",.0f" if unit == "/s" else ",.3f", unit)


def _label(backend: BackendChange) -> str:
    return backend.after if backend.before == backend.after else f"{backend.before} → {backend.after}"


def _interval(low: float | None, high: float | None, digits: int = 4) -> str:
    if low is None or high is None:
        return NOT_APPLICABLE
    return f"[{low:.{digits}f}, {high:.{digits}f}]".replace("-", "−")


def probability(p: float | None) -> str:
    """A p-value in a cell."""
    if p is None:
        return NOT_APPLICABLE
    return f"<{_PROBABLE}" if p < _PROBABLE else f"{p:.3f}"


def _gate(metric: MetricJudgement) -> str:
    if metric.gate is None or metric.allowed_drop is None:
        return NOT_APPLICABLE
    return f"{metric.gate} (drop {metric.allowed_drop:g}, p {probability(metric.gate_p)})"
