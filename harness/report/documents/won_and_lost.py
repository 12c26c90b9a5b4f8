"""Tabulate the questions of a check on which backends differ from the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.document.cells import ABSENT, number, text
from harness.document.model import Cell, Column, Table
from harness.metrics import improvement
from harness.report.documents.verdicts import compared_name, reference_of
from harness.results.schema import Result, TrialResult
from harness.stats.intervals import paired_differences
from harness.wording import counted, short_ids

_IN_SHORT = 5
_LONGEST = 60
_WON, _LOST = "↑", "↓"
"""Not the signs of significant differences: these are about one question."""


def won_and_lost(report: Result) -> list[Table]:
    """Tabulate each question on which a backend is better or worse than the reference, the largest change first.

    Its columns are the values of all backends on the first metric on which any question differs. No table without such
    a metric, or if every pair is compared: no backend is the reference then.
    """
    metric = next((row.metric for row in report.differences if row.wins + row.losses), None)
    if metric is None or not isinstance(report.plan.resolved.get("reference"), str):
        return []
    reference = str(reference_of(report, None))
    trials = {compared_name(report, trial): trial for trial in report.trials if trial.status == "ok"}
    values = {name: _values(trial, metric) for name, trial in trials.items()}
    compared = [name for name in values if name != reference]
    common = [question for question in values[reference] if all(question in values[name] for name in compared)]
    before = [values[reference][question] for question in common]
    moved = [paired_differences(before, [values[name][question] for question in common]) for name in compared]
    changes = {
        question: [improvement(metric, float(difference[row])) for difference in moved]
        for row, question in enumerate(common)
    }
    changed = [question for question, of_question in changes.items() if any(of_question)]
    changed.sort(key=lambda question: -max(map(abs, changes[question])))
    texts = {question.id: question.question for question in trials[reference].questions}
    names = short_ids(changed)
    rows = [
        [
            text(names[question]),
            text(_shortened(texts[question])),
            number(values[reference][question]),
            *map(_cell, [values[name][question] for name in compared], changes[question]),
        ]
        for question in changed
    ]
    columns = [
        Column("question", numeric=False),
        Column("text", numeric=False, priority=len(compared) + 1),
        Column(reference),
        *(Column(name, priority=position) for position, name in enumerate(compared)),
    ]
    title = f"{metric}: {counted(len(changed), 'question')} won or lost against {reference}"
    legend = [f"{_WON} better than {reference} on this question, {_LOST} worse"]
    return [Table(title, columns, rows, legend, most=_IN_SHORT)]


def _values(trial: TrialResult, metric: str) -> Mapping[str, float]:
    return {question.id: question.values[metric] for question in trial.questions if metric in question.values}


def _cell(value: float, change: float) -> Cell:
    if change == 0:
        return number(value)
    won = change > 0
    return replace(number(value), mark=_WON if won else _LOST, tone="good" if won else "bad")


def _shortened(question: str | None) -> str:
    if question is None:
        return ABSENT
    return question if len(question) <= _LONGEST else f"{question[:_LONGEST]} …"
