"""A check in Markdown: for a comment on a pull request, and for the summary of a step in GitHub's actions."""

from __future__ import annotations

from harness.report.cells import NOT_APPLICABLE, Table
from harness.report.check_cases import preflight_text
from harness.report.check_tables import check_tables, corpus_words, remarks, verdict_in_words, verdict_word
from harness.report.markdown_parts import (
    COMMENT_BYTES,
    Document,
    code,
    comment_marker,
    details,
    fenced,
    markdown_table,
)
from harness.results.check_schema import CheckReport, QuestionResult, RequirementResult
from harness.wording import counted

__all__ = ["check_markdown"]

_SHOWN = 20
_TEXT = 300
_SIGNS = {"passed": "✅", "failed": "❌", "invalid": "⚠️", "checked": "📋"}
_DATA = ("requirement", "subject")


def check_markdown(report: CheckReport, limit: int = COMMENT_BYTES) -> str:
    """The report in at most ``limit`` bytes of UTF-8: verdict, tables, then what is behind each failure."""
    document = Document(limit)
    document.add(comment_marker("check", report.golden.name))
    word = verdict_word(report)
    document.add(f"### {_SIGNS[word]} harness check: {code(report.golden.name)} {word}")
    document.add(_facts(report))
    for problem in report.preflight:
        document.add(fenced(f"invalid: {preflight_text(problem)}"))
    for subject in report.subjects:
        if subject.error is not None:
            document.add(fenced("\n".join([f"{subject.label} failed: {subject.error.message}", *subject.error.log])))
    for table in check_tables(report):
        document.add(markdown_table(table, _DATA))
    for one in report.requirements:
        if one.passed is not True:
            document.add(_behind(one, report))
    if found := remarks(report):
        document.add(details("notes", fenced("\n".join(found))))
    return document.text()


def _facts(report: CheckReport) -> str:
    golden, settings = report.golden, report.settings
    matched = (
        "exact ids" if golden.delimiter is None else f"ids matched by {golden.match} before {code(golden.delimiter)}"
    )
    parts = [
        f"{counted(golden.questions, 'question')}, {golden.expecting:,} with an expected document",
        *(said for corpus in report.corpora for said in corpus_words(corpus, code(corpus.name))),
        matched,
        f"k = {settings['k']}",
        f"ties: {settings['ties']}",
        f"harness {report.harness.version}",
    ]
    return " · ".join(parts)


def _behind(one: RequirementResult, report: CheckReport) -> str:
    """Why a requirement is not met, and the questions behind it, to be opened."""
    where = f"{one.text} ({one.subject})"
    if one.passed is None:
        return details(f"{where} could not be judged", fenced(str(one.reason)))
    subject = next(subject for subject in report.subjects if subject.label == one.subject)
    by_id = {question.id: question for question in subject.questions}
    missed = [by_id[name] for name in one.missed]
    blocks = [verdict_in_words(one)]
    if missed:
        columns = ("question", "line", "text", "expected", "found")
        table = Table("", columns, tuple(_row(question) for question in missed[:_SHOWN]))
        blocks.append(markdown_table(table, columns))
    if len(missed) > _SHOWN:
        blocks.append(f"… and {len(missed) - _SHOWN:,} more, in `report.json`")
    return details(f"{where} failed", *blocks)


def _row(question: QuestionResult) -> tuple[str, ...]:
    expected = (f"{one.id} ({'not found' if one.rank is None else f'rank {one.rank}'})" for one in question.expected)
    text = question.question if question.question is not None else NOT_APPLICABLE
    shown = text if len(text) <= _TEXT else f"{text[:_TEXT]} …"
    return question.id, str(question.line), shown, ", ".join(expected), ", ".join(question.top) or "nothing"
