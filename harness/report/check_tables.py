"""The report of a check as a few plain tables of text, which every textual format prints."""

from __future__ import annotations

from harness.report.cells import FAILED, NOT_APPLICABLE, Table, figure, milliseconds
from harness.report.collection_words import empty_documents, identical_ids
from harness.results.check_schema import (
    CheckReport,
    CheckSubject,
    CorpusInfo,
    PreflightProblem,
    QuestionResult,
    RequirementResult,
)
from harness.results.schema_base import MetricValue
from harness.wording import counted, few_for_interval

__all__ = [
    "check_header",
    "check_notes",
    "check_tables",
    "corpus_words",
    "expected_and_found",
    "missed_lines",
    "remarks",
    "verdict_in_words",
    "verdict_word",
]

_INTERVAL = "95 % interval"
_SHOWN = 5
_LOG_LINES = 5
_ABSENT = {"ok": NOT_APPLICABLE, "failed": FAILED, "invalid": "invalid"}
_OUTCOMES = {True: "passed", False: "FAILED", None: "invalid"}


def check_header(report: CheckReport) -> str:
    """One line: the verdict, on what, how much and under which rules."""
    golden, settings = report.golden, report.settings
    matched = "exact ids" if golden.delimiter is None else f"ids matched by {golden.match}, '{golden.delimiter}'"
    parts = [
        f"{verdict_word(report).upper()}: {golden.name}",
        f"{counted(golden.questions, 'question')}, {golden.expecting:,} with an expected document",
        *(said for corpus in report.corpora for said in corpus_words(corpus, corpus.name)),
        matched,
        f"k={settings['k']}",
        f"ties={settings['ties']}",
    ]
    return " · ".join(parts)


def corpus_words(corpus: CorpusInfo, name: str) -> list[str]:
    """Return the size of a corpus that is shown as ``name``, and its rule for identical ids where that matters."""
    documents = f"{name}: {counted(corpus.documents, 'document')}"
    empty = empty_documents(corpus.empty_documents, corpus.empty_left_out)
    return [f"{documents}{empty}", *identical_ids(corpus.identical_ids, "question")]


def verdict_word(report: CheckReport) -> str:
    """The verdict; a check that passed because nothing is required of it is only ``checked``."""
    return "checked" if report.verdict == "passed" and not report.requirements else report.verdict


def check_tables(report: CheckReport) -> list[Table]:
    """Requirements, metrics, slices and speed; those without rows are left out."""
    made = [_requirements(report), _metrics(report), *_slices(report), _speed(report)]
    return [table for table in made if table.rows]


def check_notes(report: CheckReport) -> list[str]:
    """Preflight problems, failures, what was left out, and the questions that missed, one line each."""
    lines = []
    for problem in report.preflight:
        lines += _on_problem(problem, "invalid")
    for subject in report.subjects:
        if subject.error is not None:
            lines.append(f"{subject.label} failed: {subject.error.message}")
            lines += [f"    {line}" for line in subject.error.log[-_LOG_LINES:]]
    for one in report.requirements:
        lines += _on_requirement(one, report)
    return [*lines, *remarks(report)]


def remarks(report: CheckReport) -> list[str]:
    """What a reader of the figures must know besides, one line each."""
    lines = [line for warning in report.warnings for line in _on_problem(warning, "warning")]
    without = report.golden.without_expectation
    if without:
        named = ", ".join(without[:_SHOWN]) + (", …" if len(without) > _SHOWN else "")
        expects = f"{counted(len(without), 'question')} expect{'s' if len(without) == 1 else ''}"
        lines.append(f"{expects} nothing, and no mean counts {'it' if len(without) == 1 else 'them'}: {named}")
    if verdict_word(report) == "checked":
        lines.append("nothing is required, so nothing can fail: --require 'Hit@5>=0.9' makes a verdict of it")
    shared: dict[str, list[str]] = {}
    for subject in report.subjects:
        for note in subject.notes:
            shared.setdefault(note, []).append(subject.label)
    lines += [f"{', '.join(labels)}: {note}" for note, labels in shared.items()]
    if any(value.ci_low is not None for subject in report.subjects for value in subject.metrics.values()):
        lines += few_for_interval([report.golden.expecting])
    return [*lines, *report.golden.notes, *report.notes]


def _on_problem(problem: PreflightProblem, severity: str) -> list[str]:
    about = f"{problem.subject}: " if problem.subject is not None else ""
    examples = [f"    {line}" for example in problem.examples for line in example.splitlines()]
    return [f"{severity} ({problem.check}): {about}{problem.message}", *examples, f"  fix: {problem.fix}"]


def _on_requirement(one: RequirementResult, report: CheckReport) -> list[str]:
    """Why a requirement is not met, and the questions behind it."""
    where = f"{one.text} ({one.subject})"
    if one.passed is None:
        return [f"{where} could not be judged: {one.reason}"]
    if one.passed:
        return []
    lines = [f"{where} failed: {verdict_in_words(one)}"]
    subject = next(subject for subject in report.subjects if subject.label == one.subject)
    return [*lines, *(f"    {line}" for line in missed_lines(subject, one, _SHOWN))]


def verdict_in_words(one: RequirementResult) -> str:
    """The figure of a requirement that was judged, and what would have to change for it to pass."""
    text = f"it is {_number(one.value, one)}{_brackets(one)} over {one.n:,}"
    if one.decided_by != "estimate":
        text += ", and a bound of the interval decides"
    if one.flips is None:
        best = "" if one.best_possible is None else f": a perfect retriever would reach {one.best_possible:.4f}"
        return f"{text}; nothing can meet it{best}{_too_few(one)}"
    unit = "sample" if one.best_possible is None else "question"
    return f"{text}; {counted(one.flips, unit)} would have to change for it to pass"


def _too_few(one: RequirementResult) -> str:
    """Where the estimate could be met, but no bound of an interval over so few questions."""
    if one.decided_by == "estimate":
        return ""
    if one.n < 2:
        return ", and an interval needs 2 values"
    shown = one.best_possible is not None and one.operator.startswith(">") and one.best_possible >= one.bound
    return ", but so few questions cannot show it" if shown else ""


def missed_lines(subject: CheckSubject, one: RequirementResult, most: int) -> list[str]:
    """The questions that a failed requirement is about, worst first: what each expected, and what was found."""
    by_id = {question.id: question for question in subject.questions}
    lines = [expected_and_found(by_id[name]) for name in one.missed[:most]]
    if len(one.missed) > most:
        lines.append(f"… and {len(one.missed) - most:,} more, in report.json")
    return lines


def expected_and_found(question: QuestionResult) -> str:
    """One line: the question, each id that it expects with its rank, and what came back."""
    expected = ", ".join(
        f"{one.id} ({'not found' if one.rank is None else f'rank {one.rank}'})" for one in question.expected
    )
    text = f" {question.question!r}" if question.question is not None else ""
    return f"{question.id}{text}: expected {expected}; found {', '.join(question.top) or 'nothing'}"


def _requirements(report: CheckReport) -> Table:
    columns = ("requirement", "subject", "verdict", "value", _INTERVAL, "range of ties", "n", "would flip")
    rows = []
    for one in report.requirements:
        flips = NOT_APPLICABLE if one.flips is None else f"{one.flips:,}"
        rows.append(
            (
                one.text,
                one.subject,
                _OUTCOMES[one.passed],
                _number(one.value, one),
                _pair(one.ci_low, one.ci_high, one),
                _pair(one.min, one.max, one),
                f"{one.n:,}",
                flips,
            )
        )
    return Table("Requirements", columns, tuple(rows))


def _number(value: float | None, one: RequirementResult) -> str:
    return figure(value, ",.3f" if one.quantity.endswith("_ms") else ".4f")


def _pair(low: float | None, high: float | None, one: RequirementResult) -> str:
    if low is None or high is None:
        return NOT_APPLICABLE
    return f"[{_number(low, one)}, {_number(high, one)}]"


def _brackets(one: RequirementResult) -> str:
    found = [f"95 % interval {_pair(one.ci_low, one.ci_high, one)}"] if one.ci_low is not None else []
    if one.min is not None and one.max is not None and f"{one.min:.4f}" != f"{one.max:.4f}":
        found.append(f"ties leave {_pair(one.min, one.max, one)}")
    return f" ({', '.join(found)})" if found else ""


def _metrics(report: CheckReport) -> Table:
    names = list(next((subject.metrics for subject in report.subjects if subject.metrics), {}))
    rows = []
    for subject in report.subjects:
        cells = _metric_cells(subject.metrics, names, _ABSENT[subject.status])
        rows.append((subject.label, *cells))
    return Table("Metrics", ("subject", *_metric_columns(names)), tuple(rows) if names else ())


def _metric_columns(names: list[str]) -> list[str]:
    return [*names[:1], *([_INTERVAL] if names else []), *names[1:]]


def _metric_cells(metrics: dict[str, MetricValue], names: list[str], absent: str) -> list[str]:
    cells = [_metric(metrics[name]) if name in metrics else absent for name in names]
    first = metrics.get(names[0]) if names else None
    interval = NOT_APPLICABLE
    if first is not None and first.ci_low is not None and first.ci_high is not None:
        interval = f"[{first.ci_low:.3f}, {first.ci_high:.3f}]"
    return [*cells[:1], interval, *cells[1:]]


def _metric(value: MetricValue) -> str:
    if value.min is None or value.max is None or f"{value.min:.4f}" == f"{value.max:.4f}":
        return f"{value.mean:.4f}"
    return f"{value.mean:.4f} [{value.min:.4f}–{value.max:.4f}]"


def _slices(report: CheckReport) -> list[Table]:
    """A table per field: one row a value and subject."""
    fields = dict.fromkeys(one.field for subject in report.subjects for one in subject.slices)
    return [_slice(report, field) for field in fields]


def _slice(report: CheckReport, field: str) -> Table:
    names = list(next((subject.metrics for subject in report.subjects if subject.metrics), {}))
    rows = []
    for subject in report.subjects:
        for one in subject.slices:
            if one.field == field:
                n = next((value.n for value in one.metrics.values()), 0)
                cells = _metric_cells(one.metrics, names, NOT_APPLICABLE)
                rows.append((one.value, subject.label, f"{n:,}", *cells))
    return Table(f"By {field}", (field, "subject", "n", *_metric_columns(names)), tuple(rows))


def _speed(report: CheckReport) -> Table:
    rows = []
    for subject in report.subjects:
        times, parity = subject.milliseconds, subject.parity
        if times is None and parity is None:
            continue
        cells = [milliseconds(getattr(times, name, None)) for name in ("p50", "p95", "p99")]
        exact = f"{parity.tie_equivalent:,} of {parity.queries:,}" if parity is not None else NOT_APPLICABLE
        rows.append((subject.label, *cells, f"{times.n:,}" if times is not None else NOT_APPLICABLE, exact))
    return Table("Speed and parity", ("subject", "p50 ms", "p95 ms", "p99 ms", "n", "exact up to ties"), tuple(rows))
