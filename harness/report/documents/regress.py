"""Build the document of one result against an earlier one: ``harness regress`` and ``harness diff``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from harness.document.cells import (
    ABSENT,
    BACKEND,
    FAILED,
    HUMAN,
    absent,
    flat_rows,
    interval,
    join_names,
    made_by,
    number,
    probability,
    sections_with_content,
    signed,
    size,
    text,
)
from harness.document.model import (
    Annotation,
    Block,
    Case,
    Cell,
    Column,
    Document,
    Facts,
    Figure,
    Notes,
    Outcome,
    Section,
    Suite,
    Table,
    Tone,
    Value,
    Verdict,
)
from harness.metrics import improvement
from harness.pipeline.regress.cost_changes import TOLERANCE
from harness.pipeline.regress.verdicts import beyond_tolerance
from harness.report.documents.query_changes import losers, query_tables
from harness.results.backend_info import abbreviations
from harness.results.comparison import lacks_measurement
from harness.results.regression_schema import BackendChange, Change, CostChange, MetricJudgement, SettingChange
from harness.results.schema import Result
from harness.results.schema_base import Json
from harness.stats import GateRule
from harness.wording import counted, few_for_interval

_BEFORE = {"regress": "the baseline", "check": "the baseline", "diff": "an earlier result"}
_MAX_NAMES = 4
_SHORT = 12
_FEWEST_DIGITS, _MOST_DIGITS = 4, 15
"""Significant digits of a number in a changed setting; numbers that need more are written in full."""
_DIGESTS = (40, 64)
"""Digits of a commit and of a SHA-256; the first few are shown."""
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
_MARKS: dict[str, tuple[str, Tone]] = {
    "better": ("▲", "good"),
    "worse": ("▼", "bad"),
    "same": ("=", "plain"),
    "undecided": ("~", "plain"),
}


_GATE_MARKS: dict[str, tuple[str, Tone]] = {
    "passed": ("✓", "plain"),
    "failed": ("✕", "bad"),
    "not judged": ("?", "unsure"),
}


def change_document(result: Result, figures: Sequence[Figure] = (), *, unknown: str = "") -> Document:
    """Return everything that is shown of two results.

    ``figures`` draw the differences query by query. ``unknown`` says why the rankings of all queries are unavailable
    for a page that would show them.
    """
    report = result.changes
    settings: list[Block] = [*_settings(report)] or [Notes(["no resolved setting differs"])]
    changed = [Notes([unknown])] if unknown else []
    sections = [
        Section("quality", "Quality", [*_quality(report), *figures]),
        Section("settings", "Changes", settings),
        Section("changed", "Queries that changed most", [*changed, *query_tables(report)]),
        Section("cost", "Cost", _cost_table(report)),
        Section("sure", "How sure", _power(report), detail=True),
        Section("notes", "Meaning of words and figures", [Notes(list(_notes(report)))], detail=True),
        Section("provenance", "Provenance", list(_provenance(report)), detail=True),
    ]
    datasets = [relation.dataset for relation in report.data]
    backends = join_names(list(dict.fromkeys(backend.after for backend in report.backends)), _MAX_NAMES)
    common = counted(report.common_queries, "common query")
    return Document(
        title=f"{join_names(datasets, _MAX_NAMES)}: {backends} against {_BEFORE[result.kind]}",
        subtitle="\n".join([f"{report.before.source} → {report.after.source} · {common}", *change_label_lines(report)]),
        verdicts=list(_verdicts(report)),
        sections=sections_with_content(sections),
        command=[shlex.join(result.command or report.after.command)],
        made_by=f"harness {result.harness.version} · {result.created}",
        kind=result.kind,
        name=", ".join(datasets),
        outcome=report.gate or "compared",
        labels=short_change_labels(report),
        values=list(_values(report)),
        suites=list(change_suites(result)),
        annotations=list(_annotations(report)),
    )


def change_label_lines(report: Change) -> list[str]:
    """Return a line on the labels by models that count, for each dataset that has any."""
    lines = []
    for relation in report.data:
        before, after = relation.model_labels_before, relation.model_labels_after
        if before or after:
            models = "; ".join(map(str, relation.label_models))
            name = f"{relation.dataset}: " if report.several else ""
            counts = counted(after, "label") if before == after else f"{before:,} labels before, and {after:,} after,"
            lines.append(f"{name}{counts} by a model, not by a person ({models})")
    return lines


def short_change_labels(report: Change) -> dict[str, str]:
    """Return a short label for each long label of either side, unique among all backends of both sides."""
    compared = (label for backend in report.backends for label in (backend.before, backend.after))
    return abbreviations([*compared, *report.only_before, *report.only_after])


def _judged(report: Change) -> Iterator[tuple[BackendChange, MetricJudgement]]:
    return ((backend, metric) for backend in report.backends for metric in backend.metrics)


def _verdicts(report: Change) -> Iterator[Verdict]:
    """Yield the answer, the notes to read first, then metrics that fell, rose, and did neither."""
    answer = _gate(report) if report.gate is not None else _name_unjudged(_without_gate(report), report)
    yield replace(answer, answers=True)
    for backend in report.backends:
        if backend.error:
            yield Verdict("bad", f"{backend.after}{report.on(backend)} was not judged", backend.error)
    yield from (Verdict("unsure", warning) for warning in report.warnings)
    yield from _not_judged(report)
    alike = list(_alike(report))
    for backend, metrics in alike:
        if metrics[0].gate == "failed" and metrics[0].verdict != "worse":  # by tolerance, and no test shows it
            yield Verdict("bad", _sentence(report, backend, metrics), _behind(backend, metrics))
    for verdict in ("worse", "better"):
        for backend, metrics in alike:
            if metrics[0].verdict == verdict:
                yield Verdict(_MARKS[verdict][1], _sentence(report, backend, metrics), _behind(backend, metrics))
    same = [
        _metric_and_backend(report, backend, metric) for backend, metric in _judged(report) if metric.verdict == "same"
    ]
    if same and (report.gate is not None or len(same) < sum(1 for _ in _judged(report))):
        yield Verdict("good", f"The same: {join_names(same, _MAX_NAMES)}")
    for backend, metrics in alike:
        if metrics[0].verdict == "undecided" and metrics[0].gate != "failed":
            yield Verdict("plain", _sentence(report, backend, metrics))


def _alike(report: Change) -> Iterator[tuple[BackendChange, list[MetricJudgement]]]:
    """Yield the metrics of each backend, metrics with equal figures together."""
    for backend in report.backends:
        groups: dict[str, list[MetricJudgement]] = {}
        for metric in backend.metrics:
            groups.setdefault(metric.model_dump_json(exclude={"metric", "sentence"}), []).append(metric)
        yield from ((backend, group) for group in groups.values())


def _names(metrics: Sequence[MetricJudgement]) -> str:
    return join_names([metric.metric for metric in metrics], len(metrics))


def _not_judged(report: Change) -> Iterator[Verdict]:
    """Yield each reason why gates could not have failed, with the metrics that it is about."""
    reasons: dict[str, list[str]] = {}
    for backend, metric in _judged(report):
        if metric.gate == "not judged":
            reasons.setdefault(metric.gate_reason, []).append(_metric_and_backend(report, backend, metric))
    for reason, names in reasons.items():
        yield Verdict("unsure", f"Not judged: {join_names(names, _MAX_NAMES)}", reason)


def _sentence(report: Change, backend: BackendChange, metrics: Sequence[MetricJudgement]) -> str:
    text = metrics[0].sentence.removeprefix(metrics[0].metric)
    return f"{backend.after}{report.on(backend)}: {_names(metrics)}{text}"


def _metric_and_backend(report: Change, backend: BackendChange, metric: MetricJudgement) -> str:
    return f"{metric.metric} of {backend.after}{report.on(backend)}"


def _behind(backend: BackendChange, metrics: Sequence[MetricJudgement]) -> str:
    """Return the reason for a verdict, and how many relevant documents were lost, if that is known."""
    dossier, why = backend.dossier, _why(metrics[0])
    if dossier is None or dossier.lost is None or dossier.gained is None:
        return why
    if dossier.metric not in [metric.metric for metric in metrics]:
        return why
    return f"{dossier.lost:,} relevant lost from the first {dossier.relevant_depth:,}, {dossier.gained:,} gained; {why}"


def _why(metric: MetricJudgement) -> str:
    """Return the reason of a verdict, marked as the test's if the gate failed without it."""
    failed = metric.gate == "failed" and metric.verdict == "undecided"
    return f"undecided by the test: {metric.reason}" if failed else metric.reason


def _gate(report: Change) -> Verdict:
    failed = [
        _metric_and_backend(report, backend, metric) for backend, metric in _judged(report) if metric.gate == "failed"
    ]
    drops = sorted({metric.allowed_drop for _, metric in _judged(report) if metric.allowed_drop is not None})
    allowed = f"the allowed drop ({', '.join(f'{drop:g}' for drop in drops)})"
    detail = " ".join([*_changed(report), *_worse_without_gate(report)])
    if report.gate == "failed":
        clause = "the mean fell by more than" if report.rule == "tolerance" else "worse beyond"
        return Verdict("bad", f"Failed: {clause} {allowed}: {', '.join(failed)}", detail)
    if report.gate == "not judged":
        tone: Tone = "bad" if report.decision == "failed" else "unsure"
        counts_as = f"counts as {report.decision} (--when-not-judged {report.when_not_judged})"
        advice = "More queries or fewer metrics (--max-drop METRIC=DROP) help; --rule tolerance decides by the means."
        headline = f"Not judged: the gate would have passed even after the loss of everything; {counts_as}"
        return Verdict(tone, headline, f"{detail} {advice}".strip())
    if report.gate == "invalid":
        return Verdict("unsure", f"Invalid: {_invalid_because(report)}", detail)
    if report.gate == "passed" and report.rule == "tolerance":
        return Verdict("good", f"Passed: no mean fell by more than {allowed}", detail)
    fell = sum(  # beyond the allowed drop, without a test that shows it
        metric.verdict == "undecided" and -improvement(metric.metric, metric.difference) > (metric.allowed_drop or 0)
        for _, metric in _judged(report)
        if metric.gate == "passed"
    )
    chance = f"; {counted(fell, 'mean')} fell further, which may be chance" if fell else ""
    return Verdict("good", f"Passed: nothing is {'shown to be ' if fell else ''}worse beyond {allowed}{chance}", detail)


def _name_unjudged(answer: Verdict, report: Change) -> Verdict:
    """Return an answer without a gate that also names backends that failed, and are part of no metric."""
    failed = list(dict.fromkeys(backend.after for backend in report.backends if backend.error))
    if not failed:
        return answer
    headline = f"{answer.headline}; not judged: {join_names(failed, _MAX_NAMES)}"
    return replace(answer, tone="unsure" if answer.tone == "good" else answer.tone, headline=headline)


def _without_gate(report: Change) -> Verdict:
    """Return whether the later result is worse, better or the same, by the tests of all metrics."""
    detail = " ".join([*_changed(report), "No gate decides (--max-drop makes one)."])
    judged = list(_judged(report))
    counts = sorted({metric.queries for _, metric in judged})
    over = f"over {f'{counts[0]:,} to ' if len(counts) > 1 else ''}{counted(max(counts, default=0), 'query')}"
    moved = {
        verdict: [
            f"{_metric_and_backend(report, backend, metric)} ({signed(metric.difference)})"
            for backend, metric in judged
            if metric.verdict == verdict
        ]
        for verdict in ("worse", "better", "undecided")
    }
    parts = [
        f"{verdict}: {join_names(moved[verdict], _MAX_NAMES)}" for verdict in ("worse", "better") if moved[verdict]
    ]
    if parts:
        safe = "nothing is shown to be worse" if moved["undecided"] else "nothing is worse"
        headline = "; ".join([f"{parts[0]} {over}", *parts[1:], *([] if moved["worse"] else [safe])])
        return Verdict("bad" if moved["worse"] else "good", headline[0].upper() + headline[1:], detail)
    if not judged:
        return Verdict("unsure", "Not judged: there is no metric to compare", detail)
    if not moved["undecided"]:
        changed = any(metric.wins or metric.losses for _, metric in judged)
        ending = "no metric changed by more than its margin" if changed else "every metric is equal on every query"
        return Verdict("good", f"The same: {ending}, {over}", detail)
    backend, metric = max(judged, key=lambda pair: (pair[1].verdict == "undecided", abs(pair[1].difference)))
    largest = f"{_metric_and_backend(report, backend, metric)}, {signed(metric.difference)}"
    test = f" (p {probability(metric.p_adjusted)})" if metric.p_adjusted is not None else ""
    headline = f"Not decided: nothing is shown to be worse or better {over}; the largest change is {largest}{test}"
    return Verdict("plain", headline, detail)


def _changed(report: Change) -> list[str]:
    """Return the settings of backends that changed, in a line."""
    lines = []
    for change in report.settings:
        if change.section in ("parameters", "engine", "encoder", "second stage"):
            location = f"{change.backend}{f' on {change.dataset}' if change.dataset is not None else ''}"
            before, after = _both_settings(change)
            lines.append(f"{change.setting} {before} → {after} ({location})")
    return [f"Changed: {join_names(lines, _MAX_NAMES)}."] if lines else []


def _worse_without_gate(report: Change) -> list[str]:
    """Name the worse metrics without a gate if others have one: with them a run can pass."""
    if report.gate is None:
        return []
    names = [
        _metric_and_backend(report, backend, metric)
        for backend, metric in _judged(report)
        if metric.verdict == "worse" and metric.gate is None
    ]
    return [f"Worse without a gate: {', '.join(names)}."] if names else []


def _invalid_because(report: Change) -> str:
    """Return why a gate is invalid: failed backends, or backends without a metric."""
    failed = [f"{backend.after}{report.on(backend)}" for backend in report.backends if backend.status == "failed"]
    if failed:
        return f"{', '.join(failed)} failed, so nothing passed"
    unjudged = [f"{backend.after}{report.on(backend)}" for backend in report.backends if not backend.metrics]
    if unjudged:
        return f"nothing was judged of {', '.join(unjudged)}"
    unloaded = [info.name for info in report.after.datasets if info.error is not None]
    return f"{', '.join(unloaded)} could not be loaded, so nothing passed"


def verdict_line(metrics: Sequence[MetricJudgement], rule: GateRule) -> str:
    """Return the change of metrics with the same figures on one line, with its basis; ``rule`` is the gate's."""
    metric, names = metrics[0], _names(metrics)
    interval_text = interval(metric.ci_low, metric.ci_high, "+.4f")
    difference = f"{signed(metric.difference)} {interval_text}".rstrip()
    means = f"{metric.before:.4f} → {metric.after:.4f} ({difference})"
    sentence = f"{names} {'is' if len(metrics) == 1 else 'are'} {metric.verdict}"
    if rule == "tolerance" and metric.gate == "failed":
        sentence = names + beyond_tolerance(metric, 4).removeprefix(metric.metric)
    return f"{sentence}: {means} over {counted(metric.queries, 'query')}; {_why(metric)}"


def _quality(report: Change) -> list[Block]:
    """Tabulate backends on datasets by metrics: both means, difference with interval, the test's p, and the verdict."""
    by_people = any(metric.human_after is not None for _, metric in _judged(report))
    columns = [
        *_dataset_column(report),
        BACKEND,
        Column("metric", numeric=False, names=True),
        Column("before", priority=1),
        Column("after", priority=1),
        *([replace(HUMAN, numeric=False, help="both means by people's judgments alone")] if by_people else []),
        Column("difference", below="95 % interval", below_priority=2, help="after minus before"),
        Column("p", priority=1, help="two-sided paired test, after Holm over the rows in which a query differs"),
        Column("W/T/L", priority=3, help="queries that are better, tied and worse"),
        Column("verdict", numeric=False),
        Column(
            "gate",
            numeric=False,
            help="passed, failed or not judged, with the allowed drop and the p of a loss of at most that",
        ),
    ]
    rows = []
    for backend in report.backends:
        rows += [[*_first_cells(report, backend), *_verdict(metric, by_people=by_people)] for metric in backend.metrics]
        if backend.status == "failed":
            rows.append(
                [*_first_cells(report, backend), *absent(6 + by_people), text(FAILED, "✕", tone="bad"), text(ABSENT)]
            )
    legend = ["▲ ▼ better or worse; = equal on every query, or proven within the margin; ~ not decided"]
    if any(metric.gate is not None for backend in report.backends for metric in backend.metrics):
        legend.append("p: of any difference, two-sided; gate p: of a loss of at most the allowed drop, one-sided")
    return [Table("Verdicts", columns, rows, legend)] if rows else []


def _verdict(metric: MetricJudgement, *, by_people: bool) -> list[Cell]:
    mark, tone = _MARKS[metric.verdict]
    gate = text(ABSENT)
    if metric.gate is not None and metric.allowed_drop is not None:
        verdict = f"{metric.gate} (drop {metric.allowed_drop:g}, gate p {probability(metric.gate_p)})"
        gate_mark, gate_tone = _GATE_MARKS[metric.gate]
        gate = text(verdict, gate_mark, tone=gate_tone)
    interval_text = interval(metric.ci_low, metric.ci_high, "+.4f") if metric.wins + metric.losses else ""
    return [
        text(metric.metric),
        number(metric.before),
        number(metric.after),
        *([_human(metric)] if by_people else []),
        Cell(signed(metric.difference), below=interval_text, value=metric.difference),
        Cell(probability(metric.p_adjusted), value=metric.p_adjusted),
        Cell(f"{metric.wins:,}/{metric.ties:,}/{metric.losses:,}", value=metric.wins - metric.losses),
        text(metric.verdict, mark, tone=tone),
        gate,
    ]


def _human(metric: MetricJudgement) -> Cell:
    if metric.human_before is None or metric.human_after is None:
        return text(ABSENT)
    return text(f"{metric.human_before:.4f} → {metric.human_after:.4f}")


def _dataset_column(report: Change) -> list[Column]:
    """Return the column that distinguishes datasets; empty for a single dataset."""
    return [Column("dataset", numeric=False)] if report.several else []


def _first_cells(report: Change, backend: BackendChange) -> list[Cell]:
    return [*([text(backend.dataset)] if report.several else []), text(_label(backend))]


def _label(backend: BackendChange) -> str:
    return backend.after if backend.before == backend.after else f"{backend.before} → {backend.after}"


def _settings(report: Change) -> list[Table]:
    """Tabulate every resolved setting that differs, with both values."""
    of_all = all(change.dataset is None for change in report.settings)
    rows = []
    for change in report.settings:
        cells = (change.dataset or "all", change.backend or "all", f"{change.section}: {change.setting}")
        rows.append(list(map(text, (*cells[of_all:], *_both_settings(change)))))
    names = ("dataset", "backend", "setting", "before", "after")
    columns = [Column(name, numeric=False) for name in names[of_all:]]
    return [Table("Settings that changed", columns, rows)] if rows else []


def _both_settings(change: SettingChange) -> tuple[str, str]:
    """Return both values of a setting, numbers with the fewest digits, at least four, that distinguish them."""
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS + 1):
        before, after = _setting(change.before, digits), _setting(change.after, digits)
        if before != after:
            return before, after
    return str(change.before), str(change.after)


def _setting(value: Json, digits: int) -> str:
    """Return a value in a cell; a digest by its first digits, a fraction by its first significant ones."""
    if value is None:
        return ABSENT
    if isinstance(value, float):
        return str(round(value)) if value.is_integer() else f"{value:.{digits}g}"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{text[:_SHORT]}…" if len(text) in _DIGESTS and text.isalnum() else text


def _power(report: Change) -> list[Block]:
    """Tabulate the settings behind the verdicts, if they are not exactly the same."""
    noisy = any(metric.noise_floor is not None for _, metric in _judged(report))
    columns = [
        *_dataset_column(report),
        BACKEND,
        Column("metric", numeric=False, names=True),
        Column("why", numeric=False),
        Column("effect", help="Cohen's d of the differences query by query"),
        Column("shows from", help="smallest difference that this many queries detect with power 0.8"),
        *([Column("noise floor", help="exceeded by two equal builds in one case of twenty")] if noisy else []),
        Column("queries needed", help="queries that would decide it"),
    ]
    rows = []
    for backend, metric in _judged(report):
        if metric.wins or metric.losses:
            cells = [*_first_cells(report, backend), text(metric.metric), text(metric.reason)]
            cells += [Cell(signed(metric.effect, 2), value=metric.effect), number(metric.detectable)]
            cells += [number(metric.noise_floor)] if noisy else []
            rows.append([*cells, number(metric.queries_needed, ",")])
    return [Table("Basis of each verdict", columns, rows, detail=True)] if rows else []


def _cost_table(report: Change) -> list[Block]:
    """Tabulate every cost before and after; ``x`` if it is not comparable, with the reason below."""
    columns = [
        *_dataset_column(report),
        BACKEND,
        Column("cost", numeric=False, names=True),
        Column("before"),
        Column("after"),
        Column("ratio", below="95 % interval", below_priority=1),
        Column("n", numeric=False, priority=2),
        Column("verdict", numeric=False),
    ]
    rows = [[*_first_cells(report, backend), *_cost(cost)] for backend in report.backends for cost in backend.costs]
    reasons = dict.fromkeys(
        cost.reason for backend in report.backends for cost in backend.costs if cost.reason is not None
    )
    legend = [f"x: not comparable: {reason}" for reason in reasons]
    return [Table("Time, memory and size", columns, rows, legend, detail=True)] if rows else []


def _cost(cost: CostChange) -> list[Cell]:
    return [
        text(_COSTS.get(cost.cost, cost.cost)),
        _amount(cost, cost.before),
        _amount(cost, cost.after),
        number(cost.ratio, ".2f", below=interval(cost.ci_low, cost.ci_high, ".2f")),
        text(f"{cost.samples_before:,}/{cost.samples_after:,}"),
        text(cost.verdict),
    ]


def _amount(cost: CostChange, value: float | None) -> Cell:
    if cost.cost.endswith("_bytes"):
        return size(value)
    unit = next((unit for ending, unit in _UNITS.items() if ending in cost.cost), "")
    return number(value, ",.0f" if unit == "/s" else ",.3f", unit)


def _notes(report: Change) -> Iterator[str]:
    """Yield the meanings of the words and marks that occur."""
    metrics = [metric for _, metric in _judged(report)]
    if metrics:
        tests = ", ".join(dict.fromkeys(metric.test for metric in metrics))
        tested = f"p: two-sided paired test ({tests}), after Holm over {counted(report.tests, 'test')}; "
        yield (
            "difference: after − before, with its 95 % BCa bootstrap interval; "
            f"{tested if report.tests else ''}effect: Cohen's d; W/T/L: queries"
        )
        yield "shows from: the smallest difference that this many queries detect with power 0.8"
    by_text = sum(relation.paired_by_text for relation in report.data)
    if by_text:
        yield f"{counted(by_text, 'query has', 'queries have')} no id on either side: paired by their texts"
    yield from few_for_interval(metric.queries for metric in metrics if metric.wins + metric.losses > 0)
    if any(metric.gate is not None for metric in metrics):
        yield "gate p: of a loss of at most the allowed drop, one-sided, after Holm over all gated metrics"
    if report.rule == "tolerance":
        yield "gates decide by the means (--rule tolerance); verdicts and p are the tests'"
    if any(metric.gate == "not judged" for metric in metrics):
        yield "not judged: the gate would have passed even if every query had lost everything"
    if any(metric.noise_floor is not None for metric in metrics):
        yield "noise floor: difference that two builds with the same settings exceed in one case of twenty"
    if any(cost.ci_low is not None for backend in report.backends for cost in backend.costs):
        yield (
            f"costs: same within a factor of {TOLERANCE}, and no gate; intervals are over queries, and do not "
            "cover how quiet the machine was"
        )


def _provenance(report: Change) -> Iterator[Facts]:
    """Yield versions, machine and data of both sides."""
    for title, side in (("Before", report.before), ("After", report.after)):
        yield made_by(side.harness, side.machine, side.created, f"{title}: made by")
        for dataset in side.datasets:
            facts = {
                "dataset": dataset.name,
                "SHA-256 of documents, queries and judgments": dataset.sha256,
                "documents stored of each ranking": f"the first {side.ranking_depth}" if side.ranking_depth else "all",
                "backends": side.backends,
                **dataset.provenance,
            }
            title_and_dataset = f"{title}: data" if len(side.datasets) == 1 else f"{title}: data, {dataset.name}"
            yield Facts(title_and_dataset, flat_rows(facts))


def _values(report: Change) -> Iterator[Value]:
    """Yield both means of every metric, their difference, and every cost."""
    for backend, metric in _judged(report):
        value, name, queries = partial(Value, backend.dataset, backend.after), metric.metric, metric.queries
        yield value(f"before.{name}", metric.before, n=queries)
        yield value(f"after.{name}", metric.after, n=queries)
        if metric.human_after is not None:
            yield value(f"human_before.{name}", metric.human_before)
            yield value(f"human_after.{name}", metric.human_after)
        yield value(f"difference.{name}", metric.difference, metric.ci_low, metric.ci_high, queries)
        yield value(f"p.{name}", metric.p_adjusted, n=queries)
        if metric.gate in ("passed", "failed"):
            yield value(f"passed.{name}", float(metric.gate == "passed"), n=queries)
    for backend in report.backends:
        value = partial(Value, backend.dataset, backend.after)
        yield value("failed", float(backend.status == "failed"))
        for cost in backend.costs:
            yield value(f"before.{cost.cost}", cost.before, n=cost.samples_before)
            yield value(f"after.{cost.cost}", cost.after, n=cost.samples_after)
            yield value(f"ratio.{cost.cost}", cost.ratio, cost.ci_low, cost.ci_high, cost.samples_after)
        for query in backend.dossier.queries if backend.dossier is not None else ():
            for moved in query.values:
                yield value(f"difference.{moved.metric} of query {query.query}", moved.difference, n=1)


def change_suites(result: Result, suffix: str = "") -> Iterator[Suite]:
    """Yield a suite for each dataset and backend. A metric without a gate passes: nothing was required of it.

    ``suffix`` ends the names of the suites, if the result has other suites of these backends.

    The time of a case is the time of the timed searches of ``after``, which the metrics of a backend share. Other
    subjects of the exit code, a backend without a comparison or a failed measurement, are separate errors.
    """
    report = result.changes
    common = {relation.dataset: relation.common_queries for relation in report.data}
    facts = {
        "harness": report.after.harness.version,
        "before": report.before.source,
        "after": report.after.source,
        **{f"warning {number}": warning for number, warning in enumerate(report.warnings, 1)},
    }
    for backend in report.backends:
        name = f"{f'{backend.dataset}: ' if report.several else ''}{backend.after}{suffix}"
        properties = {"dataset": backend.dataset, "queries": str(common[backend.dataset])}
        yield Suite(
            name, list(_cases(report, backend, name)), result.created, facts | properties, backend.search_seconds
        )
    compared = {(backend.dataset, backend.after) for backend in report.backends}
    for trial in result.trials if result.kind != "check" else ():
        name = f"{trial.dataset}: {trial.label}" if report.several else trial.label
        cases = []
        if trial.status == "failed" and (trial.dataset, trial.label) not in compared:
            reason = trial.error.message if trial.error is not None else "no reason is stored"
            cases.append(Case("runs", name, Outcome.ERROR, reason, reason))
        if lacks_measurement(trial):
            reason = "a measurement under load, of a cold start or under a filter failed"
            cases.append(Case("is measured", name, Outcome.ERROR, reason, reason))
        if cases:
            yield Suite(name, cases, result.created, facts | {"dataset": trial.dataset})


def _cases(report: Change, backend: BackendChange, name: str) -> Iterator[Case]:
    gated, seconds = report.gate is not None, backend.search_seconds or 0.0
    reason = _unjudged(backend, gated=gated)
    if reason is not None:
        yield Case("is compared", name, Outcome.ERROR if gated else Outcome.SKIPPED, reason, reason)
    for metric in backend.metrics:
        if metric.gate == "failed":
            message = verdict_line([metric], report.rule)
            lines = "\n".join([message, *losers(backend, metric.metric)])
            yield Case(metric.metric, name, Outcome.FAILURE, message, lines, seconds)
        elif metric.gate == "not judged":
            message = f"not judged: {metric.gate_reason}"
            outcome = Outcome.FAILURE if report.when_not_judged == "fail" else Outcome.SKIPPED
            yield Case(metric.metric, name, outcome, message, message, seconds)
        else:
            yield Case(metric.metric, name, seconds=seconds)


def _unjudged(backend: BackendChange, *, gated: bool) -> str | None:
    """Return why nothing was judged: it failed, or there is a gate and no metric; None if something was judged."""
    if backend.error is None and gated and not backend.metrics:
        return "there is no metric that both results know"
    return backend.error


def _annotations(report: Change) -> Iterator[Annotation]:
    """Yield backends that failed or were not judged, and metrics that are worse beyond the allowed drop."""
    for backend in report.backends:
        reason = _unjudged(backend, gated=report.gate is not None)
        if reason is not None:
            outcome = "failed" if backend.error is not None else "was not judged"
            yield Annotation(f"{backend.after}{report.on(backend)} {outcome}", reason)
    for backend, metrics in _alike(report):
        metric, location = metrics[0], f"on {backend.after}{report.on(backend)}"
        if metric.gate == "failed":
            yield Annotation(f"{_names(metrics)} failed {location}", verdict_line(metrics, report.rule))
        elif metric.gate == "not judged" and report.when_not_judged != "pass":
            verb = "was" if len(metrics) == 1 else "were"
            yield Annotation(f"{_names(metrics)} {verb} not judged {location}", metric.gate_reason)
