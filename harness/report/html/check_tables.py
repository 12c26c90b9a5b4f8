"""The blocks of a check's page: verdict, requirements, figures, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.check_tables import verdict_in_words
from harness.report.document import Block, Cell, Column, Facts, Figure, Table, Tone, Verdict
from harness.report.figures import Bar, Bars, Percentiles
from harness.report.html.parts import flat_rows, made_by
from harness.results.check_schema import CheckReport, CheckSubject, PreflightProblem, RequirementResult
from harness.results.schema_base import MetricValue
from harness.wording import counted

__all__ = [
    "latency_pictures",
    "metric_bars",
    "metrics_table",
    "preflight_blocks",
    "provenance",
    "requirements_table",
    "slice_tables",
    "speed_table",
    "verdicts",
]

_DRAWN = 4
_SHOWN = 3
_INTERVAL = "below each mean: 95 % interval over questions, BCa bootstrap, exact of 0/1 values"
_OUTCOMES: dict[bool | None, tuple[str, Tone, str]] = {
    True: ("passed", "good", "✓"),
    False: ("failed", "bad", "✕"),
    None: ("not judged", "unsure", "?"),
}


def verdicts(report: CheckReport) -> list[Verdict]:
    """The verdict, then what it rests on, the most pressing first."""
    problems = [Verdict("bad", _problem(one), one.fix) for one in report.preflight]
    errors = [Verdict("bad", f"{one.label} failed", one.error.message) for one in report.subjects if one.error]
    return [_overall(report), *problems, *errors, *_on_requirements(report)]


def _overall(report: CheckReport) -> Verdict:
    held = len(report.requirements)
    failed = sum(one.passed is False for one in report.requirements)
    if report.verdict == "invalid":
        what = "nothing was asked" if not report.subjects else "not everything could be judged"
        return Verdict("unsure", f"Invalid: {what}", "Mend what is named below, and run it again.")
    if report.verdict == "failed":
        return Verdict("bad", f"Failed: {failed} of {counted(held, 'requirement')} not met")
    if not held:
        return Verdict("plain", "Nothing was required", "Add --require 'Hit@5>=0.9' for a verdict.")
    means = f"{counted(held, 'requirement')} {'is' if held == 1 else 'are'} met"
    return Verdict("good", f"Passed: {means}", "; ".join(_in_short(one) for one in report.requirements[:_DRAWN]))


def _in_short(one: RequirementResult) -> str:
    return f"{one.subject}: {one.text} is {_number(one.value, one)}"


def _on_requirements(report: CheckReport) -> list[Verdict]:
    lines = []
    for one in report.requirements:
        if one.passed is False:
            lines.append(Verdict("bad", f"{one.text} failed on {one.subject}", _why(one)))
        elif one.passed is None and not report.preflight:
            lines.append(Verdict("unsure", f"{one.text} could not be judged on {one.subject}", one.reason or ""))
    return lines


def _why(one: RequirementResult) -> str:
    missed = f". Below their best: {', '.join(one.missed[:_SHOWN])}" if one.missed else ""
    more = f" and {len(one.missed) - _SHOWN:,} more" if len(one.missed) > _SHOWN else ""
    return f"{verdict_in_words(one)}{missed}{more}"


def _problem(one: PreflightProblem) -> str:
    return f"{one.subject}: {one.message}" if one.subject is not None else one.message


def preflight_blocks(report: CheckReport) -> list[Block]:
    """Each problem with what to do and the first of the things it is about."""
    made: list[Block] = []
    for one in report.preflight:
        rows = [("found by", one.check), ("what to do", one.fix)]
        rows += [("" if number else "examples", example) for number, example in enumerate(one.examples)]
        made.append(Facts(_problem(one), rows, open=True))
    return made


def requirements_table(report: CheckReport) -> list[Block]:
    """Every requirement on every subject: value, bound, interval, range of ties, and what would flip it."""
    if not report.requirements:
        return []
    columns = [
        Column("requirement", numeric=False),
        Column("retriever", numeric=False),
        Column("verdict", numeric=False),
        Column("value"),
        Column("bound"),
        Column("range of ties", help="the value for the worst and the best order of documents with equal scores"),
        Column("n", help="questions behind the value; of a latency, samples"),
        Column("would flip", help="questions that would have to change, each as far as it can, for the other verdict"),
    ]
    legend = ["below each value: its 95 % interval"]
    if any(one.decided_by != "estimate" for one in report.requirements):
        legend.append("a bound of the interval decides, not the value (--confidence)")
    return [Table("Requirements", columns, [_requirement(one) for one in report.requirements], legend)]


def _requirement(one: RequirementResult) -> list[Cell]:
    word, tone, sign = _OUTCOMES[one.passed]
    interval = _range(one.ci_low, one.ci_high, one)
    return [
        Cell(one.text),
        Cell(one.subject),
        Cell(word, sign, tone=tone),
        Cell(_number(one.value, one), below=interval),
        Cell(f"{one.operator} {one.bound:g}"),
        Cell(_range(one.min, one.max, one) or "–"),
        Cell(f"{one.n:,}"),
        Cell("–" if one.flips is None else f"{one.flips:,}"),
    ]


def _number(value: float | None, one: RequirementResult) -> str:
    if value is None:
        return "–"
    return f"{value:,.3f} ms" if one.quantity.endswith("_ms") else f"{value:.4f}"


def _range(low: float | None, high: float | None, one: RequirementResult) -> str:
    digits = 3 if one.quantity.endswith("_ms") else 4
    return f"{low:,.{digits}f} – {high:,.{digits}f}" if low is not None and high is not None else ""


def _metrics_of(report: CheckReport) -> list[str]:
    return list(next((one.metrics for one in report.subjects if one.metrics), {}))


def metrics_table(report: CheckReport) -> list[Block]:
    """Retrievers by metrics, with intervals; where MRR and its like are cut is in their names."""
    names = _metrics_of(report)
    if not names:
        return []
    rows = [
        [
            Cell(one.label, below=one.corpus or ""),
            *_means(one.metrics, names, "–" if one.status == "ok" else one.status),
        ]
        for one in report.subjects
    ]
    columns = [Column("retriever", numeric=False), *map(Column, names)]
    return [Table("Mean over questions that expect something", columns, rows, [_INTERVAL])]


def _means(metrics: dict[str, MetricValue], names: Sequence[str], absent: str = "–") -> list[Cell]:
    cells = []
    for name in names:
        value = metrics.get(name)
        if value is None:
            cells.append(Cell(absent))
            continue
        known = value.ci_low is not None and value.ci_high is not None
        cells.append(Cell(f"{value.mean:.4f}", below=f"{value.ci_low:.3f} – {value.ci_high:.3f}" if known else ""))
    return cells


def slice_tables(report: CheckReport) -> list[Block]:
    """One table a field: a row for each of its values and each retriever."""
    names = _metrics_of(report)
    fields = dict.fromkeys(one.field for subject in report.subjects for one in subject.slices)
    made: list[Block] = []
    for field in fields:
        rows = [
            [Cell(one.value), Cell(subject.label), Cell(f"{_behind(one.metrics):,}"), *_means(one.metrics, names)]
            for subject in report.subjects
            for one in subject.slices
            if one.field == field
        ]
        columns = [
            Column(field, numeric=False),
            Column("retriever", numeric=False),
            Column("n", help="questions that expect something"),
            *map(Column, names),
        ]
        made.append(Table(f"By {field}", columns, sorted(rows, key=lambda row: row[0].text), [_INTERVAL]))
    return made


def _behind(metrics: dict[str, MetricValue]) -> int:
    return next((value.n for value in metrics.values()), 0)


def metric_bars(report: CheckReport) -> list[Block]:
    """The first metrics as bars with their intervals."""
    made: list[Block] = []
    for name in _metrics_of(report)[:_DRAWN]:
        rows = []
        for number, one in enumerate(report.subjects):
            value = one.metrics.get(name)
            low, high = (value.ci_low, value.ci_high) if value is not None else (None, None)
            rows.append(Bar(one.label, value.mean if value is not None else None, low, high, number))
        made.append(Figure(f"{name}, with 95 % intervals", Bars(name, rows)))
    return made


def speed_table(report: CheckReport) -> list[Block]:
    """Latency of single questions, and how many rankings are exact up to ties."""
    timed = [one for one in report.subjects if one.milliseconds is not None or one.parity is not None]
    if not timed:
        return []
    columns = [
        Column("retriever", numeric=False),
        *(Column(f"{name}, ms") for name in ("p50", "p95", "p99")),
        Column("samples"),
        Column("exact up to ties", help="questions whose ranking is that of the exact reference, up to tied documents"),
    ]
    return [Table("Single questions, one client", columns, [_speed(one) for one in timed])]


def _speed(one: CheckSubject) -> list[Cell]:
    times, parity = one.milliseconds, one.parity
    shown = [f"{times.p50:,.3f}", f"{times.p95:,.3f}", f"{times.p99:,.3f}", f"{times.n:,}"] if times else ["–"] * 4
    exact = f"{parity.tie_equivalent:,} of {parity.queries:,}" if parity is not None else "–"
    return [Cell(one.label), *map(Cell, shown), Cell(exact)]


def latency_pictures(report: CheckReport) -> list[Block]:
    """Percentiles of the latency of each retriever that was timed."""
    rows, numbers = {}, {}
    for number, one in enumerate(report.subjects):
        times = one.milliseconds
        if times is not None:
            rows[one.label], numbers[one.label] = (times.p50, times.p90, times.p95, times.p99), number
    if not rows:
        return []
    note = (
        "The box runs from the median (marker) to the 95th percentile, its inner line is the 90th, the whisker ends at "
        "the 99th."
    )
    return [Figure("Latency of a question, one client", Percentiles(rows, numbers), note)]


def provenance(report: CheckReport) -> list[Block]:
    """Versions, parameters, machine, commit and content of the data."""
    golden = report.golden.model_dump(exclude={"without_expectation", "notes"})
    corpora: list[Block] = [
        Facts(f"Documents {one.name}", flat_rows(one.model_dump(exclude={"name"}))) for one in report.corpora
    ]
    return [
        made_by(report.harness, report.machine, report.created),
        Facts(f"Golden set {report.golden.name}", flat_rows(golden)),
        *corpora,
        *(Facts(f"Retriever {one.label}", _subject(one)) for one in report.subjects),
        Facts("Settings", flat_rows(report.settings)),
        Facts("Packages", list(report.packages.items())),
    ]


def _subject(one: CheckSubject) -> list[tuple[str, str]]:
    engine = {"engine": f"{one.engine.name} {one.engine.version}, {one.engine.mode}"} if one.engine is not None else {}
    return flat_rows({"backend": one.backend, "corpus": one.corpus, **engine, **one.parameters})
